//! Rooms on several workers.

use std::time::Duration;

use proptest::prelude::*;
use str0m::format::Codec;
use str0m::media::MediaKind;

use super::MODES;
use super::fixture::{Fixture, Publication};
use super::layers::{RIDS, layers_of, three_layers};
use crate::codec::Codec as TrackCodec;
use crate::command::{Command, ConnectionMode, PeerCommand, TrackSettings};
use crate::config::Limits;
use crate::dropped::DropReason;
use crate::event::{FailureReason, PeerEvent};
use crate::track::Quality;
use crate::worker::Worker;

/// Alice is on the first worker, Bob and Carol on the second.
pub struct Call {
    pub fixture: Fixture,
    pub alice: usize,
    pub bob: usize,
    pub carol: usize,
}

impl Call {
    pub fn new(mode: ConnectionMode) -> Self {
        let mut fixture = Fixture::with_workers(2, Limits::default());
        let mut join = |name, home| {
            fixture.home = Some(home);
            fixture.join_connected(name, mode)
        };
        let (alice, bob, carol) = (join("PA_alice", 0), join("PA_bob", 1), join("PA_carol", 1));
        Self {
            fixture,
            alice,
            bob,
            carol,
        }
    }

    fn publish(&mut self, sid: &str, codec: Codec) -> Publication {
        self.fixture.publish(self.alice, sid, codec, &[])
    }

    pub fn command(&mut self, peer: &str, command: PeerCommand) {
        self.fixture
            .command(command.for_peer(peer.parse().unwrap()));
    }

    fn set_muted(&mut self, track: &Publication, muted: bool) {
        let track = track.sid.parse().unwrap();
        self.command("PA_alice", PeerCommand::SetMuted { track, muted });
    }

    pub fn stall(&mut self, worker: usize, is_stalled: bool) {
        self.fixture.waiting[worker].is_stalled = is_stalled;
        self.fixture.settle();
    }

    /// Returns the first bytes of a client's packets for a track, without empty packets.
    fn heard(&self, client: usize, track: &Publication) -> Vec<u8> {
        let received = self.fixture.received(client, track);
        received
            .iter()
            .filter_map(|packet| packet.payload.first().copied())
            .collect()
    }

    pub fn second(&self) -> &Worker {
        &self.fixture.further[0]
    }

    /// Returns the number of packets that full rings have lost.
    fn losses(&self) -> u64 {
        let counters = self.fixture.worker.counters();
        counters.dropped.count_for(DropReason::MirrorFull)
    }

    /// Returns the number of key frames requested from Alice since the last call.
    fn take_requests(&mut self) -> usize {
        let publisher = &mut self.fixture.clients[self.alice].publisher;
        std::mem::take(&mut publisher.key_frame_requests).len()
    }

    /// Sends video frames for this long, with key frames on request. Returns the number of key frames.
    fn film(&mut self, camera: &mut Publication, frames: usize) -> usize {
        let mut keys = 0;
        for _ in 0..frames {
            let is_key = self.take_requests() > 0;
            keys += usize::from(is_key);
            self.fixture.send_vp8(camera, None, is_key);
            self.fixture.run(Duration::from_millis(40));
        }
        keys
    }
}

#[test]
fn a_packet_crosses_once_to_another_worker_and_reaches_all_its_receivers_there() {
    for mode in MODES {
        let mut call = Call::new(mode);
        let mut voice = call.publish("TR_voice", Codec::Opus);
        call.fixture.send(&mut voice, None, &[0]);
        let mirrored = |call: &Call| call.fixture.worker.counters().mirrored_packets;
        assert_eq!(mirrored(&call), 0, "nobody receives it");
        for client in [call.bob, call.carol] {
            call.fixture.subscribe(client, &voice);
        }
        for number in 1..=20 {
            call.fixture.send(&mut voice, None, &[number]);
            call.fixture.run(Duration::from_millis(20));
        }
        for client in [call.bob, call.carol] {
            assert_eq!(
                call.heard(client, &voice),
                Vec::from_iter(1..=20),
                "{mode:?}"
            );
            let received = call.fixture.received(client, &voice);
            assert!(
                received
                    .iter()
                    .all(|packet| packet.audio_level == Some(-20))
            );
        }
        assert_eq!(mirrored(&call), 20, "{mode:?}");
        let counters = call.second().counters();
        assert_eq!(
            (counters.published_packets, counters.forwarded_packets),
            (0, 40)
        );
        let subscribers = call.fixture.snapshot(&["PA_alice"])[0].published[0].subscribers;
        assert_eq!(subscribers, 2, "{mode:?}");
        let told = PeerEvent::TrackSubscribed("TR_voice".parse().unwrap());
        let events = call.fixture.clients[call.alice].events.iter();
        assert_eq!(
            events.filter(|event| **event == told).count(),
            1,
            "{mode:?}"
        );
        for client in [call.bob, call.carol] {
            call.fixture.unsubscribe(client, &voice);
        }
        call.fixture.send(&mut voice, None, &[21]);
        assert_eq!(mirrored(&call), 20, "{mode:?}: nobody receives it any more");
    }
}

#[test]
fn a_video_begins_with_a_key_frame_that_its_publisher_is_asked_for() {
    for mode in MODES {
        let mut call = Call::new(mode);
        let mut camera = call.publish("TR_camera", Codec::Vp8);
        call.fixture.send_vp8(&mut camera, None, true);
        call.take_requests();
        call.fixture.subscribe(call.bob, &camera);
        assert_eq!(call.film(&mut camera, 10), 1, "{mode:?}");
        let received = call.fixture.received(call.bob, &camera);
        assert!(received.len() >= 9, "{mode:?}: {}", received.len());
        assert_eq!(received[0].payload[6], 0, "{mode:?}: it begins a key frame");
        assert!(
            received
                .windows(2)
                .all(|pair| pair[1].sequence == pair[0].sequence + 1)
        );
        call.film(&mut camera, 100);
        let (mid, now) = (received[0].mid, call.fixture.now);
        call.fixture.receiver(call.bob).request_key_frame(mid, now);
        call.fixture.run(Duration::from_millis(200));
        assert_eq!(call.take_requests(), 1, "{mode:?}: it cannot decode");
        let snapshot = call.fixture.snapshot(&["PA_alice", "PA_bob"]);
        let sids: Vec<_> = snapshot.iter().map(|peer| peer.sid.as_str()).collect();
        assert_eq!(sids, ["PA_alice", "PA_bob"]);
        assert_eq!(snapshot[1].subscribed[0].current, Some(Quality::Low));
    }
}

#[test]
fn a_publisher_learns_which_qualities_are_used_on_other_workers() {
    let mut call = Call::new(ConnectionMode::Single);
    call.fixture.layers = three_layers();
    let camera = call
        .fixture
        .publish(call.alice, "TR_camera", Codec::Vp8, &RIDS);
    let mut layers = layers_of(&camera);
    for client in [call.bob, call.carol] {
        call.fixture.subscribe(client, &camera);
    }
    let ask = |call: &mut Call, peer: &str, quality, is_disabled| {
        let (track, settings) = (
            "TR_camera".parse().unwrap(),
            TrackSettings {
                quality,
                is_disabled,
                ..TrackSettings::default()
            },
        );
        call.command(peer, PeerCommand::SetTrackSettings { track, settings });
    };
    let mut used = |call: &mut Call, seconds: usize| {
        for _ in 0..25 * seconds {
            let is_key = call.take_requests() > 0;
            for (layer, track) in layers.iter_mut().enumerate() {
                call.fixture.send_layer(track, layer, is_key);
            }
            call.fixture.run(Duration::from_millis(40));
        }
        let events = call.fixture.clients[call.alice].events.iter().rev();
        let mut told = events.filter_map(|event| match event {
            PeerEvent::SubscribedQuality { codecs, .. } => Some(codecs[0].enabled),
            _ => None,
        });
        told.next()
    };
    ask(&mut call, "PA_bob", Quality::Low, false);
    ask(&mut call, "PA_carol", Quality::Low, false);
    assert_eq!(used(&mut call, 12), Some([true, false, false]));
    ask(&mut call, "PA_carol", Quality::Medium, false);
    assert_eq!(used(&mut call, 1), Some([true, true, false]));
    ask(&mut call, "PA_bob", Quality::Low, true);
    call.fixture.leave(call.carol);
    assert_eq!(used(&mut call, 8), Some([false, false, false]));
}

#[test]
fn a_mute_applies_on_every_worker_at_once_even_if_one_of_them_is_late() {
    for late in [0, 1] {
        let mut call = Call::new(ConnectionMode::Single);
        let mut voice = call.publish("TR_voice", Codec::Opus);
        call.fixture.subscribe(call.bob, &voice);
        call.fixture.send(&mut voice, None, &[1]);
        // If the second worker is late, the packet waits in the ring. If the first one is late, the ring does not get
        // it.
        call.stall(late, true);
        call.fixture.send(&mut voice, None, &[2]);
        call.set_muted(&voice, true);
        call.fixture.send(&mut voice, None, &[3]);
        call.stall(late, false);
        call.fixture.send(&mut voice, None, &[4]);
        assert_eq!(call.heard(call.bob, &voice), [1], "{late}");
        call.set_muted(&voice, false);
        call.fixture.send(&mut voice, None, &[5]);
        assert_eq!(call.heard(call.bob, &voice), [1, 5], "{late}");
    }
}

#[test]
fn what_happened_before_a_worker_joins_the_room_is_known_there_and_what_happens_meanwhile_is_kept()
{
    for (is_muted, is_muted_meanwhile) in [(false, true), (true, false), (false, false)] {
        let mut fixture = Fixture::with_workers(2, Limits::default());
        fixture.home = Some(0);
        let alice = fixture.join_connected("PA_alice", ConnectionMode::Single);
        let (bob, carol) = (alice, alice);
        let mut call = Call {
            fixture,
            alice,
            bob,
            carol,
        };
        let mut voice = call.publish("TR_voice", Codec::Opus);
        let ended = call.publish("TR_ended", Codec::Opus);
        call.set_muted(&voice, is_muted);
        call.fixture.waiting[0].is_stalled = true;
        call.fixture.home = Some(1);
        call.bob = call
            .fixture
            .join_connected("PA_bob", ConnectionMode::Single);
        call.set_muted(&voice, is_muted_meanwhile);
        call.command(
            "PA_alice",
            PeerCommand::UnpublishTrack(ended.sid.parse().unwrap()),
        );
        call.stall(0, false);
        for track in [&voice, &ended] {
            call.fixture.subscribe(call.bob, track);
        }
        call.fixture.run(Duration::from_secs(1));
        call.fixture.send(&mut voice, None, &[1]);
        let heard = if is_muted_meanwhile { vec![] } else { vec![1] };
        assert_eq!(call.heard(call.bob, &voice), heard);
        let subscribed = &call.fixture.snapshot(&["PA_bob"])[0].subscribed;
        assert_eq!(subscribed.len(), 1, "one has ended");
        call.set_muted(&voice, false);
        call.fixture.send(&mut voice, None, &[2]);
        assert_eq!(call.heard(call.bob, &voice).last(), Some(&2));
    }
}

#[test]
fn who_is_removed_or_fails_is_gone_from_every_worker_and_nothing_is_left_of_a_closed_room() {
    for is_removed in [true, false] {
        let mut call = Call::new(ConnectionMode::Single);
        let mut voice = call.publish("TR_voice", Codec::Opus);
        for client in [call.bob, call.carol] {
            call.fixture.subscribe(client, &voice);
        }
        call.fixture.send(&mut voice, None, &[1]);
        call.stall(1, true);
        call.fixture.send(&mut voice, None, &[2]);
        if is_removed {
            call.fixture.leave(call.alice);
        } else {
            call.command(
                "PA_alice",
                PeerCommand::Fail(FailureReason::TooManyCommands),
            );
        }
        call.stall(1, false);
        call.fixture.run(Duration::from_secs(1));
        let bob = call.fixture.snapshot(&["PA_bob"]);
        assert!(bob[0].subscribed.is_empty(), "{is_removed}");
        if is_removed {
            assert_eq!(call.heard(call.bob, &voice), [1]);
        }
        assert_eq!(call.second().peers(), 2);
        assert_eq!(call.fixture.worker.peers(), usize::from(!is_removed));
        call.fixture.command(Command::CloseRoom);
        assert!(call.second().is_empty() && call.fixture.worker.is_empty());
    }
}

#[test]
fn a_client_that_causes_too_many_commands_for_mirrors_fails() {
    let mut call = Call::new(ConnectionMode::Single);
    let refused = PeerCommand::Fail(FailureReason::TooManyCommands);
    let command = refused.for_peer("PA_alice".parse().unwrap());
    let (room, now) = (call.fixture.room.clone(), call.fixture.now);
    call.fixture.further[0].handle_command(&room, command, now);
    call.fixture.settle();
    let failed = PeerEvent::Failed(FailureReason::TooManyCommands);
    assert!(call.fixture.clients[call.alice].events.contains(&failed));
}

#[test]
fn a_track_that_its_client_ends_is_gone_from_every_worker() {
    let mut call = Call::new(ConnectionMode::Single);
    let voice = call.publish("TR_voice", Codec::Opus);
    call.fixture.subscribe(call.bob, &voice);
    assert_eq!(call.fixture.snapshot(&["PA_bob"])[0].subscribed.len(), 1);
    call.fixture.stop_publishing(&voice);
    call.fixture.run(Duration::from_secs(1));
    assert!(call.fixture.snapshot(&["PA_bob"])[0].subscribed.is_empty());
    assert!(call.second().tracks.is_empty());
}

#[test]
fn a_video_that_does_not_fit_into_the_ring_goes_on_with_a_key_frame_that_is_requested() {
    let mut call = Call::new(ConnectionMode::Single);
    let mut camera = call.publish("TR_camera", Codec::Vp8);
    call.fixture.subscribe(call.bob, &camera);
    call.film(&mut camera, 100);
    let before = call.fixture.received(call.bob, &camera).len();
    call.fixture.waiting[1].is_stalled = true;
    for _ in 0..600 {
        call.fixture.send_vp8(&mut camera, None, false);
    }
    let lost = call.losses();
    assert!((80..100).contains(&lost), "{lost}");
    call.fixture.run(Duration::from_millis(200));
    assert_eq!(call.take_requests(), 1);
    call.stall(1, false);
    call.fixture.send_vp8(&mut camera, None, false);
    assert_eq!(call.losses(), lost + 1, "it cannot be shown");
    call.fixture.send_vp8(&mut camera, None, true);
    call.fixture.send_vp8(&mut camera, None, false);
    call.fixture.run(Duration::from_millis(100));
    let received = call.fixture.received(call.bob, &camera);
    assert_eq!(received.len() as u64, before as u64 + 600 - lost + 2);
    assert_eq!(received[received.len() - 2].payload[6], 0, "a key frame");
    assert!(
        received
            .windows(2)
            .all(|pair| pair[1].sequence == pair[0].sequence + 1),
        "packets that were never sent do not count as missed"
    );
}

#[test]
fn audio_that_does_not_fit_into_the_ring_loses_the_oldest_packets() {
    let mut call = Call::new(ConnectionMode::Single);
    let mut voice = call.publish("TR_voice", Codec::Opus);
    call.fixture.subscribe(call.bob, &voice);
    call.fixture.waiting[1].is_stalled = true;
    for number in 0..100 {
        call.fixture.send(&mut voice, None, &[number]);
    }
    assert_eq!(call.losses(), 36);
    call.stall(1, false);
    assert_eq!(call.heard(call.bob, &voice), Vec::from_iter(36..100));
}

#[test]
fn a_packet_crosses_to_each_of_several_workers() {
    let mut fixture = Fixture::with_workers(3, Limits::default());
    let clients = ["PA_alice", "PA_bob", "PA_carol"]
        .map(|name| fixture.join_connected(name, ConnectionMode::Single));
    let mut tracks = clients.map(|client| {
        let sid = format!("TR_{client}");
        fixture.publish(client, &sid, Codec::Opus, &[])
    });
    for client in clients {
        for track in tracks.iter().filter(|track| track.client != client) {
            fixture.subscribe(client, track);
        }
    }
    for track in &mut tracks {
        fixture.send(track, None, &[1, 2, 3]);
    }
    for client in clients {
        let others = tracks.iter().filter(|track| track.client != client);
        let received: Vec<_> = others
            .map(|track| fixture.received(client, track).len())
            .collect();
        assert_eq!(received, [1, 1]);
        assert_eq!(fixture.worker_of(client).counters().mirrored_packets, 2);
    }
    fixture.leave(clients[0]);
    fixture.command(Command::CloseRoom);
    assert!(
        clients
            .iter()
            .all(|client| fixture.worker_of(*client).is_empty())
    );
}

#[test]
fn a_data_track_can_be_subscribed_to_before_its_publisher_is_known() {
    let mut fixture = Fixture::with_workers(2, Limits::default());
    let peer = |name: &str| name.parse().unwrap();
    let (track, publisher) = ("DTR_1".parse().unwrap(), peer("PA_alice"));
    fixture.join_connected("PA_alice", ConnectionMode::Single);
    let published = PeerCommand::PublishDataTrack { track, handle: 7 };
    fixture.command(published.for_peer(peer("PA_alice")));
    fixture.waiting[0].is_stalled = true;
    fixture.join("PA_bob", ConnectionMode::Single);
    let subscribed = PeerCommand::SubscribeDataTrack {
        publisher,
        track: "DTR_1".parse().unwrap(),
        handle: 300,
    };
    fixture.command(subscribed.for_peer(peer("PA_bob")));
    fixture.waiting[0].is_stalled = false;
    fixture.settle();
    let roster = &mut fixture.further[0].roster;
    let [alice, bob] = ["PA_alice", "PA_bob"].map(|name| roster.by_sid(&peer(name)).unwrap());
    let mirror = roster.get_mut(alice).unwrap();
    let subscribers = mirror.data_tracks.take_subscribers(7);
    assert_eq!(subscribers, Some(vec![(bob, 300)]));
}

#[test]
fn a_worker_that_joins_the_room_knows_no_backup_codec_that_was_withdrawn() {
    let mut fixture = Fixture::with_workers(2, Limits::default());
    let alice = super::commands::new_peer("PA_alice", ConnectionMode::Source);
    let sid = alice.sid.clone();
    fixture.command(Command::AddPeer(alice));
    let mut camera = super::commands::new_track("TR_camera", "cid", MediaKind::Video);
    camera.codec = Some(TrackCodec::Vp9);
    camera.backup_codecs = vec![TrackCodec::H264, TrackCodec::Vp8];
    let (track, codec) = (camera.sid.clone(), TrackCodec::H264);
    fixture.command(PeerCommand::PublishTrack(camera).for_peer(sid.clone()));
    fixture.command(PeerCommand::UnpublishBackup { track, codec }.for_peer(sid));
    fixture.home = Some(1);
    fixture.join("PA_bob", ConnectionMode::Single);
    for worker in [&fixture.worker, &fixture.further[0]] {
        let backups = worker.tracks.values().flat_map(|track| &track.backups);
        let codecs: Vec<_> = backups.map(|backup| backup.codec).collect();
        assert_eq!(codecs, [TrackCodec::Vp8]);
    }
}

/// Step of the property test.
#[derive(Debug, Clone, Copy)]
enum CallStep {
    /// Alice sends audio.
    Speak,
    /// Alice sends more than a ring's capacity.
    Burst,
    Mute(bool),
    /// Bob or Carol subscribes or unsubscribes.
    Hear(bool, bool),
    /// A worker stops or resumes handling its queue.
    Stall(usize, bool),
    /// A stopped worker handles its next instruction, or the packets announced to it.
    Handle(usize, bool),
    Wait,
    Leave,
}

fn steps() -> impl Strategy<Value = Vec<CallStep>> {
    let step = prop_oneof![
        6 => Just(CallStep::Speak),
        1 => Just(CallStep::Burst),
        3 => any::<bool>().prop_map(CallStep::Mute),
        2 => any::<(bool, bool)>().prop_map(|(bob, wants)| CallStep::Hear(bob, wants)),
        3 => (0..2_usize, any::<bool>()).prop_map(|(worker, stalls)| CallStep::Stall(worker, stalls)),
        4 => (0..2_usize, any::<bool>()).prop_map(|(worker, packets)| CallStep::Handle(worker, packets)),
        2 => Just(CallStep::Wait),
        1 => Just(CallStep::Leave),
    ];
    prop::collection::vec(step, 1..60)
}

/// Call of the property test, with the expected state.
struct Course {
    call: Call,
    voice: Publication,
    is_muted: bool,
    has_left: bool,
    hears: [bool; 2],
    /// Last sequence number, and the numbers sent while the track was muted.
    number: u16,
    silenced: Vec<u16>,
}

impl Course {
    fn new() -> Self {
        let mut call = Call::new(ConnectionMode::Single);
        let voice = call.publish("TR_voice", Codec::Opus);
        Self {
            call,
            voice,
            is_muted: false,
            has_left: false,
            hears: [false; 2],
            number: 0,
            silenced: Vec::new(),
        }
    }

    fn take(&mut self, step: CallStep) {
        match step {
            CallStep::Speak => self.speak(),
            CallStep::Burst => (0..70).for_each(|_| self.speak()),
            CallStep::Mute(is_muted) => {
                self.is_muted = is_muted;
                self.call.set_muted(&self.voice, is_muted);
            }
            CallStep::Hear(is_bob, wants) => {
                self.hears[usize::from(!is_bob)] = wants;
                let track = self.voice.sid.parse().unwrap();
                let command = if wants {
                    PeerCommand::Subscribe(track)
                } else {
                    PeerCommand::Unsubscribe(track)
                };
                self.call
                    .command(if is_bob { "PA_bob" } else { "PA_carol" }, command);
            }
            CallStep::Stall(worker, is_stalled) => self.call.stall(worker, is_stalled),
            CallStep::Handle(worker, is_packets) => {
                self.call.fixture.handle_next(worker, is_packets);
            }
            CallStep::Wait => self.call.fixture.run(Duration::from_millis(30)),
            CallStep::Leave => {
                self.has_left = true;
                self.call.command("PA_alice", PeerCommand::Remove);
            }
        }
    }

    fn speak(&mut self) {
        self.number += 1;
        if self.is_muted || self.has_left {
            self.silenced.push(self.number);
        }
        let payload = self.number.to_be_bytes();
        self.call.fixture.send(&mut self.voice, None, &payload);
    }

    /// Returns the sequence numbers of a client's packets, without empty packets.
    fn heard(&self, client: usize) -> Vec<u16> {
        let received = self.call.fixture.received(client, &self.voice);
        let number = |payload: &[u8]| Some(u16::from_be_bytes(payload.try_into().ok()?));
        received
            .iter()
            .filter_map(|packet| number(&packet.payload))
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_order_nothing_of_a_muted_track_is_heard_and_at_last_all_who_may_hear_do(
        steps in steps()
    ) {
        let mut course = Course::new();
        for step in steps {
            course.take(step);
        }
        for worker in 0..2 {
            course.call.stall(worker, false);
        }
        course.call.fixture.run(Duration::from_secs(1));
        course.speak();
        course.call.fixture.run(Duration::from_millis(100));
        for (client, wants) in [(course.call.bob, course.hears[0]), (course.call.carol, course.hears[1])] {
            let heard = course.heard(client);
            prop_assert!(heard.is_sorted(), "{heard:?}");
            prop_assert!(!heard.iter().any(|number| course.silenced.contains(number)), "{heard:?}");
            let hears_last = wants && !course.is_muted && !course.has_left;
            prop_assert_eq!(heard.last() == Some(&course.number), hears_last, "{:?}", heard);
        }
        course.call.fixture.command(Command::CloseRoom);
        prop_assert!(course.call.second().is_empty() && course.call.fixture.worker.is_empty());
    }
}
