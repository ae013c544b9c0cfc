//! Published media arrives at its receivers.

use std::time::Duration;

use str0m::format::Codec;
use str0m::media::MediaKind;
use str0m::rtp::{RedEncoder, RedundantBlock};

use super::commands::new_track;
use super::fixture::{Fixture, Publication};
use super::support::NewSection;
use super::{MODES, alice_and_bob};
use crate::command::{ConnectionMode, PeerCommand};
use crate::worker::OUTBOX;

#[test]
fn audio_of_a_publisher_reaches_a_subscriber_in_both_modes() {
    for mode in MODES {
        let (mut fixture, alice, bob) = alice_and_bob(mode);
        let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
        fixture.subscribe(bob, &voice);
        for number in 0..50 {
            fixture.send(&mut voice, None, &[number, 1, 2, 3]);
            fixture.run(Duration::from_millis(20));
        }
        let heard = fixture.received(bob, &voice);
        assert_eq!(
            heard
                .iter()
                .map(|packet| packet.payload[0])
                .collect::<Vec<_>>(),
            (0..50).collect::<Vec<_>>(),
            "{mode:?}"
        );
        assert!(
            heard
                .windows(2)
                .all(|pair| pair[1].sequence == pair[0].sequence + 1),
            "{mode:?}"
        );
        assert!(
            heard
                .windows(2)
                .all(|pair| pair[1].timestamp.wrapping_sub(pair[0].timestamp) == 960),
            "{mode:?}"
        );
        assert_eq!(heard[7].audio_level, Some(-20), "{mode:?}");
    }
}

#[test]
fn packets_that_arrive_together_are_sent_on_together() {
    for mode in MODES {
        let (mut fixture, alice, bob) = alice_and_bob(mode);
        let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
        fixture.subscribe(bob, &voice);
        fixture.send(&mut voice, None, &[0]);
        fixture.run(Duration::from_secs(1));
        for number in 1..=5 {
            fixture.write(&mut voice, None, &[number]);
            fixture.now += Duration::from_micros(10);
            fixture.clients[alice].publisher.advance(fixture.now);
        }
        // No time passes for the worker except by packets.
        fixture.settle();
        let heard: Vec<_> = fixture
            .received(bob, &voice)
            .iter()
            .map(|packet| packet.payload[0])
            .collect();
        assert_eq!(heard, [0, 1, 2, 3, 4, 5], "{mode:?}");
    }
}

#[test]
fn packets_to_many_receivers_are_handed_out_in_parts() {
    const PACKETS: u8 = 20;
    const RECEIVERS: [&str; 6] = [
        "PA_bob", "PA_carol", "PA_dave", "PA_erin", "PA_frank", "PA_grace",
    ];
    let mut fixture = Fixture::new();
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Dual);
    let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
    let receivers = RECEIVERS.map(|name| fixture.join_connected(name, ConnectionMode::Dual));
    receivers
        .iter()
        .for_each(|receiver| fixture.subscribe(*receiver, &voice));
    fixture.run(Duration::from_secs(1));
    for number in 0..PACKETS {
        fixture.write(&mut voice, None, &[number]);
        fixture.now += Duration::from_micros(10);
        fixture.clients[alice].publisher.advance(fixture.now);
    }
    fixture.settle();
    for receiver in receivers {
        let heard: Vec<_> = fixture
            .received(receiver, &voice)
            .iter()
            .map(|packet| packet.payload[0])
            .collect();
        assert_eq!(heard, Vec::from_iter(0..PACKETS));
    }
    // The connection that is driven last outputs all of its packets.
    assert!(
        fixture.largest_outbox < OUTBOX + usize::from(PACKETS),
        "{} packets",
        fixture.largest_outbox
    );
}

#[test]
fn a_muted_or_unsubscribed_track_stops_with_the_next_packet() {
    for mode in MODES {
        let (mut fixture, alice, bob) = alice_and_bob(mode);
        let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
        fixture.subscribe(bob, &voice);
        fixture.send(&mut voice, None, &[1]);
        let mute = |muted| {
            PeerCommand::SetMuted {
                track: "TR_voice".parse().unwrap(),
                muted,
            }
            .for_peer("PA_alice".parse().unwrap())
        };
        fixture.command(mute(true));
        fixture.send(&mut voice, None, &[2]);
        fixture.command(mute(false));
        fixture.send(&mut voice, None, &[3]);
        fixture.unsubscribe(bob, &voice);
        fixture.send(&mut voice, None, &[4]);
        fixture.run(Duration::from_secs(1));
        let connection = fixture.receiver(bob);
        let heard: Vec<_> = connection
            .received
            .iter()
            .map(|packet| packet.payload[0])
            .collect();
        assert_eq!(heard, [1, 3], "{mode:?}");
        assert_eq!(
            connection.received[1].sequence,
            connection.received[0].sequence + 1,
            "the pause is no loss"
        );
    }
}

#[test]
fn video_begins_with_a_key_frame_that_is_requested_and_goes_on_from_there() {
    for mode in MODES {
        for codec in [Codec::Vp8, Codec::H264] {
            let (mut fixture, alice, bob) = alice_and_bob(mode);
            let mut camera = fixture.publish(alice, "TR_camera", codec, &[]);
            let send = |fixture: &mut Fixture, camera: &mut Publication, is_key| match codec {
                Codec::Vp8 => fixture.send_vp8(camera, None, is_key),
                _ => fixture.send(camera, None, &[if is_key { 0x65 } else { 0x41 }, 1, 2, 3]),
            };
            send(&mut fixture, &mut camera, true);
            fixture.subscribe(bob, &camera);
            send(&mut fixture, &mut camera, false);
            assert!(
                fixture.received(bob, &camera).is_empty(),
                "nothing before a key frame"
            );
            fixture.run(Duration::from_millis(50));
            let requests = std::mem::take(&mut fixture.clients[alice].publisher.key_frame_requests);
            assert_eq!(requests.len(), 1, "{mode:?} {codec:?}");
            send(&mut fixture, &mut camera, true);
            for _ in 0..20 {
                send(&mut fixture, &mut camera, false);
                fixture.run(Duration::from_millis(30));
            }
            let seen = fixture.received(bob, &camera);
            assert_eq!(seen.len(), 21, "{mode:?} {codec:?}");
            assert!(
                seen.windows(2)
                    .all(|pair| pair[1].sequence == pair[0].sequence + 1)
            );
            assert!(
                fixture.clients[alice]
                    .publisher
                    .key_frame_requests
                    .is_empty(),
                "no request without need"
            );

            let (mid, now) = (seen[0].mid, fixture.now);
            fixture.receiver(bob).request_key_frame(mid, now);
            fixture.run(Duration::from_millis(50));
            assert_eq!(
                fixture.clients[alice].publisher.key_frame_requests.len(),
                1,
                "{mode:?} {codec:?}"
            );
        }
    }
}

#[test]
fn packets_that_come_at_once_are_passed_on_at_once_however_many_they_are() {
    let (mut fixture, alice, bob) = alice_and_bob(MODES[0]);
    let mut camera = fixture.publish(alice, "TR_camera", Codec::Vp8, &[]);
    fixture.subscribe(bob, &camera);
    fixture.send_vp8(&mut camera, None, true);
    // Half a second at a new connection's initial bitrate.
    for _ in 0..100 {
        let mut frame = camera.next_vp8_header(false).to_vec();
        frame.resize(1150, 0);
        fixture.send(&mut camera, None, &frame);
    }
    assert_eq!(fixture.received(bob, &camera).len(), 101);
}

#[test]
fn redundancy_goes_to_those_who_can_use_it_and_is_taken_out_for_others() {
    for mode in MODES {
        let mut fixture = Fixture::new();
        let carol = fixture.join_connected("PA_carol", mode);
        fixture.abilities.red = true;
        let (alice, bob) = (
            fixture.join_connected("PA_alice", mode),
            fixture.join_connected("PA_bob", mode),
        );
        let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
        voice.is_red = true;
        fixture.subscribe(bob, &voice);
        fixture.subscribe(carol, &voice);
        let opus = 111;
        let payload = RedEncoder::encode(
            opus,
            &[7, 7, 7],
            &[RedundantBlock {
                pt: opus,
                timestamp_offset: 960,
                payload: vec![6, 6],
            }],
        );
        fixture.send(&mut voice, None, &payload);
        assert_eq!(
            fixture.received(bob, &voice)[0].payload,
            payload,
            "{mode:?}"
        );
        let plain = &fixture.received(carol, &voice)[0];
        assert_eq!(
            (plain.payload.as_slice(), plain.payload_type),
            (&[7, 7, 7][..], opus),
            "{mode:?}"
        );
    }
}

#[test]
fn a_track_that_is_announced_after_its_offer_is_found() {
    for mode in MODES {
        let (mut fixture, alice, bob) = alice_and_bob(mode);
        let section = NewSection {
            kind: MediaKind::Audio,
            cid: "cid-late",
            rids: &[],
        };
        let mid = fixture.offer(alice, Some(section), [0, 0], false).unwrap();
        fixture.run_until("the publisher is connected", |fixture| {
            fixture.clients[alice].publisher.is_connected
        });
        let track = new_track("TR_late", "cid-late", MediaKind::Audio);
        fixture.command(PeerCommand::PublishTrack(track).for_peer("PA_alice".parse().unwrap()));
        let mut voice = Publication::new(alice, "TR_late", mid, Codec::Opus);
        fixture.subscribe(bob, &voice);
        fixture.send(&mut voice, None, &[1]);
        assert_eq!(fixture.received(bob, &voice).len(), 1, "{mode:?}");
    }
}
