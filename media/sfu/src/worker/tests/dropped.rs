//! Each dropped packet is counted with its reason.

use std::sync::Arc;
use std::time::Duration;

use str0m::format::Codec;
use str0m::media::MediaKind;

use super::alice_and_bob;
use super::fixture::{Fixture, Publication};
use super::support::NewSection;
use crate::command::{ConnectionMode, NewRecorder, PeerCommand, TrackSettings};
use crate::dropped::DropReason;
use crate::recorder::{PacketSink, RecordedPacket};
use crate::track::Quality;

/// Creates a room in which Bob has received some of Alice's audio.
fn voice() -> (Fixture, Publication) {
    let (mut fixture, alice, bob) = alice_and_bob(ConnectionMode::Single);
    let mut voice = fixture.publish(alice, "TR_track", Codec::Opus, &[]);
    fixture.subscribe(bob, &voice);
    fixture.send(&mut voice, None, &[1]);
    (fixture, voice)
}

/// Creates a room in which Bob receives Alice's video, without any packet yet.
fn camera(rids: &[&str]) -> (Fixture, Publication) {
    let (mut fixture, alice, bob) = alice_and_bob(ConnectionMode::Single);
    let camera = fixture.publish(alice, "TR_track", Codec::Vp8, rids);
    fixture.subscribe(bob, &camera);
    (fixture, camera)
}

/// Checks that one packet is dropped for this reason.
#[track_caller]
fn assert_dropped(fixture: &mut Fixture, reason: DropReason, act: impl FnOnce(&mut Fixture)) {
    let before = fixture.worker.counters().dropped;
    act(fixture);
    let after = fixture.worker.counters().dropped;
    for other in DropReason::ALL {
        assert_eq!(
            after.count_for(other) - before.count_for(other),
            u64::from(other == reason),
            "{other:?}"
        );
    }
}

fn settings(fixture: &mut Fixture, settings: TrackSettings) {
    let (peer, track) = ("PA_bob".parse().unwrap(), "TR_track".parse().unwrap());
    fixture.command(PeerCommand::SetTrackSettings { track, settings }.for_peer(peer));
}

fn set_muted(fixture: &mut Fixture, muted: bool) {
    let (peer, track) = ("PA_alice".parse().unwrap(), "TR_track".parse().unwrap());
    fixture.command(PeerCommand::SetMuted { track, muted }.for_peer(peer));
}

#[test]
fn datagrams_of_strangers_and_such_of_no_protocol() {
    let (mut fixture, _) = voice();
    let (stranger, alice) = (
        "203.0.113.9:4000".parse().unwrap(),
        fixture.clients[0].publisher.address,
    );
    assert_dropped(&mut fixture, DropReason::Stranger, |fixture| {
        fixture.receive_from(stranger, &[0x80; 20]);
    });
    assert_dropped(&mut fixture, DropReason::Malformed, |fixture| {
        fixture.receive_from(alice, &[]);
    });
}

#[test]
fn packets_that_are_too_large_of_another_codec_or_of_no_track() {
    let (mut fixture, mut voice) = voice();
    assert_dropped(&mut fixture, DropReason::TooLarge, |fixture| {
        fixture.send(&mut voice, None, &[0; 1_401]);
    });
    let section = NewSection {
        kind: MediaKind::Audio,
        cid: "other",
        rids: &[],
    };
    let mid = fixture.offer(0, Some(section), [0, 0], false).unwrap();
    let mut unclaimed = Publication::new(0, "TR_other", mid, Codec::Opus);
    assert_dropped(&mut fixture, DropReason::Unclaimed, |fixture| {
        fixture.send(&mut unclaimed, None, &[1]);
    });
    let (mut fixture, mut camera) = camera(&[]);
    camera.codec = Codec::H264;
    assert_dropped(&mut fixture, DropReason::OtherCodec, |fixture| {
        fixture.send(&mut camera, None, &[0x65, 1]);
    });
    let of_alice = fixture.snapshot(&["PA_alice"])[0].transports[0].dropped;
    assert_eq!(
        of_alice.iter().collect::<Vec<_>>(),
        [(DropReason::OtherCodec, 1)]
    );
}

#[test]
fn packets_of_a_muted_track_and_late_ones() {
    let (mut fixture, mut voice) = voice();
    set_muted(&mut fixture, true);
    assert_dropped(&mut fixture, DropReason::Muted, |fixture| {
        fixture.send(&mut voice, None, &[1]);
    });
    set_muted(&mut fixture, false);
    voice.sequence += 10;
    fixture.send(&mut voice, None, &[2]);
    voice.sequence -= 5;
    assert_dropped(&mut fixture, DropReason::Late, |fixture| {
        fixture.send(&mut voice, None, &[3]);
    });
}

#[test]
fn packets_for_a_receiver_who_is_silent_has_not_negotiated_the_codec_or_has_no_source() {
    let (mut fixture, mut voice) = voice();
    let track = fixture.worker.tracks.values_mut().next().unwrap();
    let subscription = &mut track.subscriptions[0];
    let (receiver, mid, payload) = (
        subscription.transport,
        subscription.mid,
        subscription.payload.unwrap(),
    );
    subscription.payload = Some((payload.0, None));
    assert_dropped(&mut fixture, DropReason::NotNegotiated, |fixture| {
        fixture.send(&mut voice, None, &[1]);
    });
    fixture
        .worker
        .tracks
        .values_mut()
        .next()
        .unwrap()
        .subscriptions[0]
        .payload = Some(payload);
    fixture
        .worker
        .connections
        .get_mut(receiver)
        .unwrap()
        .set_silent(true);
    assert_dropped(&mut fixture, DropReason::NotConnected, |fixture| {
        fixture.send(&mut voice, None, &[1]);
    });
    fixture
        .worker
        .connections
        .get_mut(receiver)
        .unwrap()
        .set_silent(false);
    fixture
        .worker
        .connections
        .get_mut(receiver)
        .unwrap()
        .remove_sources(mid);
    let forwarded = fixture.worker.counters().forwarded_packets;
    assert_dropped(&mut fixture, DropReason::NoSource, |fixture| {
        fixture.send(&mut voice, None, &[1]);
    });
    assert_eq!(fixture.worker.counters().forwarded_packets, forwarded);
    let of_bob = fixture.snapshot(&["PA_bob"])[0].transports[0].dropped;
    let reasons = [
        DropReason::NotConnected,
        DropReason::NotNegotiated,
        DropReason::NoSource,
    ];
    assert_eq!(
        of_bob.iter().collect::<Vec<_>>(),
        reasons.map(|reason| (reason, 1))
    );
}

#[test]
fn packets_of_layers_that_a_receiver_does_not_get() {
    let (mut fixture, mut video) = camera(&["q", "h", "f"]);
    settings(
        &mut fixture,
        TrackSettings {
            quality: Quality::Low,
            ..TrackSettings::default()
        },
    );
    assert_dropped(&mut fixture, DropReason::AwaitsKeyFrame, |fixture| {
        fixture.send_layer(&mut video, 0, false);
    });
    fixture.send_layer(&mut video, 0, true);
    assert_dropped(&mut fixture, DropReason::OtherLayer, |fixture| {
        fixture.send_layer(&mut video, 2, true);
    });
    settings(
        &mut fixture,
        TrackSettings {
            is_disabled: true,
            ..TrackSettings::default()
        },
    );
    assert_dropped(&mut fixture, DropReason::NotWanted, |fixture| {
        fixture.send_layer(&mut video, 0, true);
    });
}

#[test]
fn redundancy_that_cannot_be_taken_out() {
    let mut fixture = Fixture::new();
    fixture.join_connected("PA_bob", ConnectionMode::Single);
    fixture.abilities.red = true;
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Single);
    let mut voice = fixture.publish(alice, "TR_track", Codec::Opus, &[]);
    voice.is_red = true;
    fixture.subscribe(0, &voice);
    assert_dropped(&mut fixture, DropReason::MalformedRedundancy, |fixture| {
        fixture.send(&mut voice, None, &[0xff]);
    });
}

/// Full queue.
struct Full;

impl PacketSink for Full {
    fn try_send(&self, _: RecordedPacket) -> bool {
        false
    }
}

#[test]
fn packets_for_which_a_recorder_has_no_room() {
    let (mut fixture, mut voice) = voice();
    let (peer, track) = ("PA_alice".parse().unwrap(), "TR_track".parse().unwrap());
    let settings = TrackSettings::default();
    let recorder = NewRecorder {
        egress: "EG_1".parse().unwrap(),
        settings,
        sink: Arc::new(Full),
    };
    fixture.command(PeerCommand::AttachRecorder { track, recorder }.for_peer(peer));
    fixture.run(Duration::from_millis(20));
    assert_dropped(&mut fixture, DropReason::RecorderFull, |fixture| {
        fixture.send(&mut voice, None, &[1]);
    });
}
