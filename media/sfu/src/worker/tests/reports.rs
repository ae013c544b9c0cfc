//! Speakers, connection qualities, bitrates, snapshots.

use std::time::Duration;

use conclave_model::{ParticipantSid, TrackSid};
use str0m::format::Codec;

use super::fixture::{BETWEEN_OFFERS, Fixture};
use super::{MODES, alice_and_bob};
use crate::command::{ConnectionMode, PeerCommand};
use crate::event::{ConnectionQuality, PeerEvent, RoomEvent};

#[test]
fn a_participant_that_speaks_and_falls_silent_is_reported_once_each() {
    let mut fixture = Fixture::new();
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Single);
    let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
    for _ in 0..100 {
        fixture.send(&mut voice, None, &[1, 2, 3]);
        fixture.run(Duration::from_millis(20));
    }
    fixture.run(Duration::from_secs(3));
    let changes = fixture.room_events.iter().filter_map(|event| match event {
        RoomEvent::SpeakersChanged(speakers) => Some(speakers[0].is_active),
        _ => None,
    });
    let mut changes: Vec<_> = changes.collect();
    changes.dedup();
    assert_eq!(changes, [true, false]);
}

#[test]
fn the_bitrate_of_a_publisher_is_measured_from_its_packets() {
    let mut fixture = Fixture::new();
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Dual);
    let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
    for _ in 0..250 {
        fixture.send(&mut voice, None, &[0; 125]);
        fixture.run(Duration::from_millis(20));
    }
    let rates = fixture.room_events.iter().filter_map(|event| match event {
        RoomEvent::PublishRates(rates) => Some(rates[0].kbps),
        _ => None,
    });
    let rates: Vec<_> = rates.collect();
    assert!(
        (48..=52).contains(&rates[rates.len() - 2]),
        "50 packets of 1000 bits a second: {rates:?}"
    );
}

#[test]
fn loss_lowers_the_quality_of_a_connection() {
    let mut fixture = Fixture::new();
    fixture.abilities.estimates = true;
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Single);
    let mut camera = fixture.publish(alice, "TR_camera", Codec::Vp8, &[]);
    let stream = |fixture: &mut Fixture, camera: &mut _| {
        for _ in 0..300 {
            fixture.send_vp8(camera, None, true);
            fixture.run(Duration::from_millis(40));
        }
    };
    stream(&mut fixture, &mut camera);
    let mut count = 0;
    fixture.loses = Box::new(move |is_to_server, _, _| {
        count += u32::from(is_to_server);
        is_to_server && count % 3 == 0
    });
    stream(&mut fixture, &mut camera);
    let qualities = fixture.room_events.iter().filter_map(|event| match event {
        RoomEvent::ConnectionQuality(peers) => Some(peers[0].quality),
        _ => None,
    });
    let qualities: Vec<_> = qualities.collect();
    assert_eq!(qualities.first(), Some(&ConnectionQuality::Excellent));
    assert!(
        qualities.contains(&ConnectionQuality::Poor)
            || qualities.contains(&ConnectionQuality::Good),
        "{qualities:?}"
    );
    assert!(!qualities.contains(&ConnectionQuality::Lost));
    let counted = fixture.worker.counters();
    assert!(
        (200_000..450_000).contains(&counted.received_loss),
        "a third is lost: {counted:?}"
    );
    assert!(counted.sent_loss < 10_000, "nothing is lost: {counted:?}");
}

#[test]
fn the_first_frame_of_a_video_is_reported_once_with_the_time_that_its_receiver_waited() {
    for mode in MODES {
        let (mut fixture, alice, bob) = alice_and_bob(mode);
        let (mut camera, mut voice) = (
            fixture.publish(alice, "TR_camera", Codec::Vp8, &[]),
            fixture.publish(alice, "TR_voice", Codec::Opus, &[]),
        );
        // The next change is offered soon then.
        fixture.run(BETWEEN_OFFERS);
        for track in [&camera, &voice] {
            let subscribe = PeerCommand::Subscribe(track.sid.parse().unwrap());
            fixture.command(subscribe.for_peer("PA_bob".parse().unwrap()));
        }
        for at in 0..20 {
            fixture.run(Duration::from_millis(50));
            fixture.send(&mut voice, None, &[1, 2, 3]);
            fixture.send_vp8(&mut camera, None, at % 10 == 9);
        }
        let waited: Vec<_> = fixture.clients[bob]
            .events
            .iter()
            .filter_map(first_frame)
            .collect();
        let [waited] = waited.as_slice() else {
            panic!("{mode:?}: {waited:?}")
        };
        assert!(
            (450..=600).contains(&waited.as_millis()),
            "a key frame is the tenth frame: {waited:?}"
        );
    }
}

#[test]
fn the_wait_for_a_muted_video_is_not_measured() {
    let mut fixture = Fixture::new();
    let mode = ConnectionMode::Single;
    let (alice, bob) = (
        fixture.join_connected("PA_alice", mode),
        fixture.join_connected("PA_bob", mode),
    );
    let mut camera = fixture.publish(alice, "TR_camera", Codec::Vp8, &[]);
    fixture.subscribe(bob, &camera);
    let (peer, track): (ParticipantSid, TrackSid) =
        ("PA_alice".parse().unwrap(), "TR_camera".parse().unwrap());
    for muted in [true, false] {
        fixture.command(
            PeerCommand::SetMuted {
                track: track.clone(),
                muted,
            }
            .for_peer(peer.clone()),
        );
    }
    fixture.send_vp8(&mut camera, None, true);
    fixture.run(Duration::from_millis(50));
    assert_eq!(fixture.received(bob, &camera).len(), 1);
    assert!(
        fixture.clients[bob]
            .events
            .iter()
            .filter_map(first_frame)
            .next()
            .is_none()
    );
}

fn first_frame(event: &PeerEvent) -> Option<Duration> {
    if let PeerEvent::FirstFrame { after } = event {
        Some(*after)
    } else {
        None
    }
}

#[test]
fn a_snapshot_shows_connections_and_tracks() {
    for mode in MODES {
        let (mut fixture, alice, bob) = alice_and_bob(mode);
        let mut camera = fixture.publish(alice, "TR_camera", Codec::Vp8, &[]);
        let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
        fixture.subscribe(bob, &camera);
        for _ in 0..60 {
            fixture.send_vp8(&mut camera, None, true);
            fixture.send(&mut voice, None, &[1, 2, 3]);
            fixture.run(Duration::from_millis(40));
        }
        let snapshot = fixture.snapshot(&["PA_alice", "PA_stranger", "PA_bob"]);
        let [alice, bob] = snapshot.as_slice() else {
            panic!("two participants: {snapshot:?}")
        };
        assert_eq!(alice.published[0].layers[0].packets, 60, "{mode:?}");
        assert_eq!(
            (alice.published[0].subscribers, bob.subscribed[0].packets),
            (1, 60),
            "{mode:?}"
        );
        assert!(alice.published[0].layers[0].kbps > 0, "{mode:?}: {alice:?}");
        assert_eq!(
            alice.published[0].layers[0].kbps, bob.subscribed[0].kbps,
            "{mode:?}"
        );
        let of_key_frames = alice
            .published
            .iter()
            .map(|track| track.layers[0].last_key_frame.is_some());
        assert_eq!(
            of_key_frames.collect::<Vec<_>>(),
            [true, false],
            "{mode:?}: sound has none"
        );
        let transport = bob.transports.last().unwrap();
        assert_eq!(
            (transport.estimate_kbps, transport.wanted_kbps),
            (None, None),
            "{mode:?}: all is sent"
        );
        assert!(
            transport.is_connected && transport.candidate_pair.is_some_and(|pair| !pair.is_tcp),
            "{transport:?}"
        );
    }
}
