//! Reuse of media sections.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use conclave_model::ParticipantSid;
use str0m::format::Codec;
use str0m::media::MediaKind;

use super::commands::new_track;
use super::fixture::{BETWEEN_OFFERS, Fixture};
use super::support::{NewSection, Received};
use super::{MODES, alice_and_bob};
use crate::command::{ConnectionMode, PeerCommand};
use crate::event::PeerEvent;

/// Returns the media sections in the server's last description for a client.
fn sections(fixture: &Fixture, client: usize) -> usize {
    let mut texts = fixture.clients[client]
        .events
        .iter()
        .filter_map(|event| match event {
            PeerEvent::Offered { sdp, .. } | PeerEvent::Answered { sdp, .. } => Some(sdp),
            _ => None,
        });
    texts
        .next_back()
        .expect("a description")
        .matches("m=")
        .count()
}

#[test]
fn fifty_joins_do_not_add_sections_and_each_track_has_a_source_of_its_own() {
    for mode in MODES {
        let mut fixture = Fixture::new();
        let bob = fixture.join_connected("PA_bob", mode);
        for cycle in 0..50 {
            let alice = fixture.join_connected("PA_alice", ConnectionMode::Single);
            let mut voice = fixture.publish(alice, &format!("TR_voice{cycle}"), Codec::Opus, &[]);
            let mut camera = fixture.publish(alice, &format!("TR_camera{cycle}"), Codec::Vp8, &[]);
            fixture.subscribe(bob, &voice);
            fixture.subscribe(bob, &camera);
            for _ in 0..5 {
                fixture.send(&mut voice, None, &[1, 2]);
                fixture.send_vp8(&mut camera, None, true);
                fixture.run(Duration::from_millis(10));
            }
            assert_eq!(fixture.received(bob, &voice).len(), 5, "{mode:?} {cycle}");
            assert_eq!(fixture.received(bob, &camera).len(), 5, "{mode:?} {cycle}");
            fixture.leave(alice);
            fixture.run(BETWEEN_OFFERS);
        }
        let expected = if mode == ConnectionMode::Dual { 3 } else { 7 };
        assert_eq!(sections(&fixture, bob), expected, "{mode:?}");
        assert_sources_are_new(&mut fixture, bob);
    }
}

fn assert_sources_are_new(fixture: &mut Fixture, client: usize) {
    let mut last: HashMap<u32, Received> = HashMap::new();
    let received = &fixture.receiver(client).received;
    assert_eq!(received.len(), 500);
    assert_eq!(
        received
            .iter()
            .map(|packet| packet.mid)
            .collect::<HashSet<_>>()
            .len(),
        2,
        "one section for each medium"
    );
    for packet in received {
        if let Some(before) = last.insert(packet.ssrc, packet.clone()) {
            assert_eq!(packet.sequence, before.sequence + 1, "{}", packet.track);
            assert_eq!(packet.track, before.track, "a source that was used before");
        }
    }
    assert_eq!(last.len(), 100, "one source for each track");
}

#[test]
fn the_seventh_track_gets_a_section_that_the_client_is_asked_for() {
    let mut fixture = Fixture::new();
    let bob = fixture.join_connected("PA_bob", ConnectionMode::Single);
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Single);
    let mut voices: Vec<_> = (0..5)
        .map(|number| fixture.publish(alice, &format!("TR_voice{number}"), Codec::Opus, &[]))
        .collect();
    for voice in &voices {
        fixture.subscribe(bob, voice);
    }
    for voice in &mut voices {
        fixture.send(voice, None, &[7]);
        assert_eq!(fixture.received(bob, voice).len(), 1, "{}", voice.sid);
    }
}

#[test]
fn a_track_that_its_publisher_ends_is_reported_and_gone() {
    for mode in MODES {
        let (mut fixture, alice, bob) = alice_and_bob(mode);
        let voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
        fixture.subscribe(bob, &voice);
        fixture.stop_publishing(&voice);
        fixture.run(BETWEEN_OFFERS);
        let ended = PeerEvent::TrackEnded(voice.sid.parse().unwrap());
        assert!(fixture.clients[alice].events.contains(&ended), "{mode:?}");
        assert!(
            fixture.receiver(bob).tracks.is_empty(),
            "{mode:?}: the subscriber is told"
        );
    }
}

#[test]
fn a_track_that_is_offered_only_with_codecs_that_are_not_forwarded_is_refused_once() {
    for is_announced_first in [true, false] {
        let (mut fixture, alice, _) = alice_and_bob(ConnectionMode::Single);
        let section = NewSection {
            kind: MediaKind::Video,
            cid: "camera",
            rids: &[],
        };
        let (sdp, _) = fixture.clients[alice]
            .publisher
            .offer(Some(section), [0, 0], false);
        let sdp = sdp
            .replace("VP8/90000", "H263/90000")
            .replace("H264/90000", "H266/90000");
        let peer: ParticipantSid = "PA_alice".parse().unwrap();
        let announcement =
            PeerCommand::PublishTrack(new_track("TR_camera", "camera", MediaKind::Video))
                .for_peer(peer.clone());
        let offer = |offer_id| {
            PeerCommand::Offer {
                offer_id,
                sdp: sdp.clone(),
            }
            .for_peer(peer.clone())
        };
        let (first, second) = if is_announced_first {
            (announcement, offer(8))
        } else {
            (offer(8), announcement)
        };
        for command in [first, second, offer(9)] {
            fixture.command(command);
        }
        let events = &fixture.clients[alice].events;
        let refused = PeerEvent::TrackRefused("TR_camera".parse().unwrap());
        assert_eq!(
            events.iter().filter(|event| **event == refused).count(),
            1,
            "{events:?}"
        );
        assert!(
            !events
                .iter()
                .any(|event| matches!(event, PeerEvent::TrackPublished { .. })),
            "{events:?}"
        );
    }
}

#[test]
fn media_without_an_admitted_track_is_dropped() {
    for mode in MODES {
        let (mut fixture, alice, bob) = alice_and_bob(mode);
        let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
        fixture.subscribe(bob, &voice);
        let (peer, track) = ("PA_alice".parse().unwrap(), "TR_voice".parse().unwrap());
        fixture.command(PeerCommand::UnpublishTrack(track).for_peer(peer));
        for _ in 0..10 {
            fixture.send(&mut voice, None, &[1]);
        }
        assert!(fixture.receiver(bob).received.is_empty(), "{mode:?}");
    }
}
