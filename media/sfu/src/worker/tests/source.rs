//! Participants without a connection, whose packets come from the control side.

use std::sync::Arc;
use std::time::Duration;

use str0m::format::Codec as RtcCodec;
use str0m::media::{MediaKind, Mid};

use super::MODES;
use super::commands::{new_peer, new_track};
use super::fixture::{Fixture, Publication};
use crate::codec::Codec;
use crate::command::{Command, ConnectionMode, PeerCommand, SourcePacket};
use crate::event::PeerEvent;
use crate::track::Quality;

const NAME: &str = "PA_encoder";

/// Publishes a source's video. Returns its name for clients.
fn publish(fixture: &mut Fixture) -> Publication {
    fixture.command(Command::AddPeer(new_peer(NAME, ConnectionMode::Source)));
    let mut track = new_track("TR_program", "program", MediaKind::Video);
    track.codec = Some(Codec::H264);
    fixture.command(PeerCommand::PublishTrack(track).for_peer(NAME.parse().unwrap()));
    Publication::new(0, "TR_program", Mid::from(""), RtcCodec::H264)
}

fn send(fixture: &mut Fixture, timestamp: u32, payload: &[u8]) {
    let packets = vec![SourcePacket {
        timestamp,
        captured: fixture.now,
        payload: Arc::from(payload),
        is_last: true,
    }];
    fixture.command(
        PeerCommand::Packets {
            track: "TR_program".parse().unwrap(),
            packets,
        }
        .for_peer(NAME.parse().unwrap()),
    );
}

#[test]
fn a_source_is_connected_at_once_and_its_packets_reach_subscribers_from_a_key_frame_on() {
    for mode in MODES {
        let mut fixture = Fixture::new();
        let bob = fixture.join_connected("PA_bob", mode);
        let program = publish(&mut fixture);
        let events: Vec<_> = fixture
            .others
            .iter()
            .map(|(_, event)| event.clone())
            .collect();
        let published = PeerEvent::TrackPublished {
            track: "TR_program".parse().unwrap(),
            mid: String::new(),
            codec: Codec::H264,
            layers: vec![Quality::Low],
        };
        assert_eq!(events, [PeerEvent::Connected, published]);
        fixture.subscribe(bob, &program);
        fixture.run(Duration::from_millis(500));
        send(&mut fixture, 0, &[0x41, 1]);
        for number in 1..=20 {
            send(
                &mut fixture,
                u32::from(number) * 3_000,
                &[if number == 1 { 0x65 } else { 0x41 }, number],
            );
            fixture.run(Duration::from_millis(33));
        }
        let seen = fixture.received(bob, &program);
        assert_eq!(
            seen.iter()
                .map(|packet| packet.payload[1])
                .collect::<Vec<_>>(),
            (1..=20).collect::<Vec<_>>()
        );
        assert!(
            seen.windows(2)
                .all(|pair| pair[1].timestamp.wrapping_sub(pair[0].timestamp) == 3_000),
            "{mode:?}"
        );
        // There is no client to request a key frame from.
        let mid = seen[0].mid;
        let now = fixture.now;
        fixture.receiver(bob).request_key_frame(mid, now);
        fixture.run(Duration::from_secs(20));
        assert!(
            fixture.failures(NAME).is_empty(),
            "silence is no failure of a source"
        );
    }
}

#[test]
fn a_source_that_is_muted_or_gone_sends_nothing() {
    let mut fixture = Fixture::new();
    let bob = fixture.join_connected("PA_bob", ConnectionMode::Single);
    let program = publish(&mut fixture);
    fixture.subscribe(bob, &program);
    fixture.run(Duration::from_millis(500));
    let mute = |muted| {
        PeerCommand::SetMuted {
            track: "TR_program".parse().unwrap(),
            muted,
        }
        .for_peer(NAME.parse().unwrap())
    };
    fixture.command(mute(true));
    send(&mut fixture, 0, &[0x65, 1]);
    fixture.command(mute(false));
    send(&mut fixture, 3_000, &[0x65, 2]);
    send(&mut fixture, 6_000, &[0x41; 1_401]);
    fixture.command(PeerCommand::Remove.for_peer(NAME.parse().unwrap()));
    send(&mut fixture, 9_000, &[0x65, 3]);
    fixture.run(Duration::from_millis(500));
    assert_eq!(
        fixture
            .received(bob, &program)
            .iter()
            .map(|packet| packet.payload[1])
            .collect::<Vec<_>>(),
        [2]
    );
}
