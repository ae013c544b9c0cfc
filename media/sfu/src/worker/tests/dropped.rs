//! Each dropped packet is counted with its reason.

use std::sync::Arc;
use std::time::Duration;

use str0m::format::Codec;
use str0m::media::MediaKind;

use super::alice_and_bob;
use super::support::NewSection;
use super::world::{Publication, World};
use crate::command::{ConnectionMode, NewRecorder, PeerCommand, TrackSettings};
use crate::dropped::DropReason;
use crate::recorder::{PacketSink, RecordedPacket};
use crate::track::Quality;

/// Creates a room in which Bob has received some of Alice's audio.
fn voice() -> (World, Publication) {
    let (mut world, alice, bob) = alice_and_bob(ConnectionMode::Single);
    let mut voice = world.publish(alice, "TR_track", Codec::Opus, &[]);
    world.subscribe(bob, &voice);
    world.send(&mut voice, None, &[1]);
    (world, voice)
}

/// Creates a room in which Bob receives Alice's video, without any packet yet.
fn camera(rids: &[&str]) -> (World, Publication) {
    let (mut world, alice, bob) = alice_and_bob(ConnectionMode::Single);
    let camera = world.publish(alice, "TR_track", Codec::Vp8, rids);
    world.subscribe(bob, &camera);
    (world, camera)
}

/// Checks that one packet is dropped for this reason.
#[track_caller]
fn assert_dropped(world: &mut World, reason: DropReason, act: impl FnOnce(&mut World)) {
    let before = world.worker.counters().dropped;
    act(world);
    let after = world.worker.counters().dropped;
    for other in DropReason::ALL {
        assert_eq!(
            after.count_for(other) - before.count_for(other),
            u64::from(other == reason),
            "{other:?}"
        );
    }
}

fn settings(world: &mut World, settings: TrackSettings) {
    let (peer, track) = ("PA_bob".parse().unwrap(), "TR_track".parse().unwrap());
    world.command(PeerCommand::SetTrackSettings { track, settings }.for_peer(peer));
}

fn set_muted(world: &mut World, muted: bool) {
    let (peer, track) = ("PA_alice".parse().unwrap(), "TR_track".parse().unwrap());
    world.command(PeerCommand::SetMuted { track, muted }.for_peer(peer));
}

#[test]
fn datagrams_of_strangers_and_such_of_no_protocol() {
    let (mut world, _) = voice();
    let (stranger, alice) = (
        "203.0.113.9:4000".parse().unwrap(),
        world.clients[0].publisher.address,
    );
    assert_dropped(&mut world, DropReason::Stranger, |world| {
        world.receive_from(stranger, &[0x80; 20]);
    });
    assert_dropped(&mut world, DropReason::Malformed, |world| {
        world.receive_from(alice, &[]);
    });
}

#[test]
fn packets_that_are_too_large_of_another_codec_or_of_no_track() {
    let (mut world, mut voice) = voice();
    assert_dropped(&mut world, DropReason::TooLarge, |world| {
        world.send(&mut voice, None, &[0; 1_401]);
    });
    let section = NewSection {
        kind: MediaKind::Audio,
        cid: "other",
        rids: &[],
    };
    let mid = world.offer(0, Some(section), [0, 0], false).unwrap();
    let mut unclaimed = Publication::new(0, "TR_other", mid, Codec::Opus);
    assert_dropped(&mut world, DropReason::Unclaimed, |world| {
        world.send(&mut unclaimed, None, &[1]);
    });
    let (mut world, mut camera) = camera(&[]);
    camera.codec = Codec::H264;
    assert_dropped(&mut world, DropReason::OtherCodec, |world| {
        world.send(&mut camera, None, &[0x65, 1]);
    });
    let of_alice = world.snapshot(&["PA_alice"])[0].transports[0].dropped;
    assert_eq!(
        of_alice.iter().collect::<Vec<_>>(),
        [(DropReason::OtherCodec, 1)]
    );
}

#[test]
fn packets_of_a_muted_track_and_late_ones() {
    let (mut world, mut voice) = voice();
    set_muted(&mut world, true);
    assert_dropped(&mut world, DropReason::Muted, |world| {
        world.send(&mut voice, None, &[1]);
    });
    set_muted(&mut world, false);
    voice.sequence += 10;
    world.send(&mut voice, None, &[2]);
    voice.sequence -= 5;
    assert_dropped(&mut world, DropReason::Late, |world| {
        world.send(&mut voice, None, &[3]);
    });
}

#[test]
fn packets_for_a_receiver_who_is_silent_has_not_negotiated_the_codec_or_has_no_source() {
    let (mut world, mut voice) = voice();
    let track = world.worker.tracks.values_mut().next().unwrap();
    let subscription = &mut track.subscriptions[0];
    let (receiver, mid, payload) = (
        subscription.transport,
        subscription.mid,
        subscription.payload.unwrap(),
    );
    subscription.payload = Some((payload.0, None));
    assert_dropped(&mut world, DropReason::NotNegotiated, |world| {
        world.send(&mut voice, None, &[1]);
    });
    world
        .worker
        .tracks
        .values_mut()
        .next()
        .unwrap()
        .subscriptions[0]
        .payload = Some(payload);
    world
        .worker
        .connections
        .get_mut(receiver)
        .unwrap()
        .set_silent(true);
    assert_dropped(&mut world, DropReason::NotConnected, |world| {
        world.send(&mut voice, None, &[1]);
    });
    world
        .worker
        .connections
        .get_mut(receiver)
        .unwrap()
        .set_silent(false);
    world
        .worker
        .connections
        .get_mut(receiver)
        .unwrap()
        .remove_sources(mid);
    let forwarded = world.worker.counters().forwarded_packets;
    assert_dropped(&mut world, DropReason::NoSource, |world| {
        world.send(&mut voice, None, &[1]);
    });
    assert_eq!(world.worker.counters().forwarded_packets, forwarded);
    let of_bob = world.snapshot(&["PA_bob"])[0].transports[0].dropped;
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
    let (mut world, mut video) = camera(&["q", "h", "f"]);
    settings(
        &mut world,
        TrackSettings {
            quality: Quality::Low,
            ..TrackSettings::default()
        },
    );
    assert_dropped(&mut world, DropReason::AwaitsKeyFrame, |world| {
        world.send_layer(&mut video, 0, false);
    });
    world.send_layer(&mut video, 0, true);
    assert_dropped(&mut world, DropReason::OtherLayer, |world| {
        world.send_layer(&mut video, 2, true);
    });
    settings(
        &mut world,
        TrackSettings {
            is_disabled: true,
            ..TrackSettings::default()
        },
    );
    assert_dropped(&mut world, DropReason::NotWanted, |world| {
        world.send_layer(&mut video, 0, true);
    });
}

#[test]
fn redundancy_that_cannot_be_taken_out() {
    let mut world = World::new();
    world.join_connected("PA_bob", ConnectionMode::Single);
    world.abilities.red = true;
    let alice = world.join_connected("PA_alice", ConnectionMode::Single);
    let mut voice = world.publish(alice, "TR_track", Codec::Opus, &[]);
    voice.is_red = true;
    world.subscribe(0, &voice);
    assert_dropped(&mut world, DropReason::MalformedRedundancy, |world| {
        world.send(&mut voice, None, &[0xff]);
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
    let (mut world, mut voice) = voice();
    let (peer, track) = ("PA_alice".parse().unwrap(), "TR_track".parse().unwrap());
    let settings = TrackSettings::default();
    let recorder = NewRecorder {
        egress: "EG_1".parse().unwrap(),
        settings,
        sink: Arc::new(Full),
    };
    world.command(PeerCommand::AttachRecorder { track, recorder }.for_peer(peer));
    world.run(Duration::from_millis(20));
    assert_dropped(&mut world, DropReason::RecorderFull, |world| {
        world.send(&mut voice, None, &[1]);
    });
}
