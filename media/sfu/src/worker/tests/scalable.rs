//! Several layers in one stream: a receiver's layers, and changes between them.

use std::time::Duration;

use str0m::format::Codec;

use super::fixture::{Fixture, Publication};
use super::recorders::{Queue, recorder};
use super::support::{Abilities, RawDescriptor, Received};
use super::{MODES, modes_with};
use crate::adapt::{descriptor_of, independent_descriptor_of};
use crate::command::{ConnectionMode, PeerCommand, TrackSettings};
use crate::event::PeerEvent;
use crate::track::{LayerInfo, Quality};

/// Layers of a stream with three spatial and two temporal ones.
const LAYERS: [(u8, u8); 6] = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)];

/// Templates of a stream whose layers depend on others at key frames only: for each, the template for key frames.
const INDEPENDENT_LAYERS: [(u8, u8); 9] = [
    (0, 0),
    (0, 0),
    (0, 1),
    (1, 0),
    (1, 0),
    (1, 1),
    (2, 0),
    (2, 0),
    (2, 1),
];

/// Codecs under test.
const CODECS: [Codec; 2] = [Codec::Vp9, Codec::Av1];

/// Frame sizes: higher layers have larger frames, of two packets each.
const BYTES: [usize; 3] = [150, 450, 575];

/// Publisher with a layered stream, and a receiver.
struct Call {
    fixture: Fixture,
    alice: usize,
    bob: usize,
    camera: Publication,
    pictures: u16,
    /// Whether layers depend on others at key frames only.
    is_independent: bool,
    /// In that case, whether VP9 packets also have dependency descriptors.
    has_descriptors: bool,
}

impl Call {
    fn new(mode: ConnectionMode, codec: Codec) -> Self {
        Self::of_streams(mode, codec, &[])
    }

    /// Creates the pair, with an offer of several streams.
    fn of_streams(mode: ConnectionMode, codec: Codec, rids: &[&str]) -> Self {
        let mut fixture = Fixture::new();
        fixture.abilities = Abilities {
            all_codecs: true,
            ..Abilities::default()
        };
        let (alice, bob) = (
            fixture.join_connected("PA_alice", mode),
            fixture.join_connected("PA_bob", mode),
        );
        let layer = |(quality, width)| LayerInfo {
            quality,
            width,
            height: width / 2,
            bitrate: 0,
        };
        fixture.layers = Quality::ALL
            .into_iter()
            .zip([320, 640, 1280])
            .map(layer)
            .collect();
        let camera = fixture.publish(alice, "TR_camera", codec, rids);
        fixture.subscribe(bob, &camera);
        Self {
            fixture,
            alice,
            bob,
            camera,
            pictures: 0,
            is_independent: false,
            has_descriptors: false,
        }
    }

    /// Sends frames with this many spatial layers, 40 ms apart, with key frames on request.
    fn stream(&mut self, pictures: usize, layers: u8) {
        for _ in 0..pictures {
            let requests = std::mem::take(
                &mut self.fixture.clients[self.alice]
                    .publisher
                    .key_frame_requests,
            );
            self.send_picture(layers, !requests.is_empty());
            self.fixture.run(Duration::from_millis(40));
        }
    }

    fn send_picture(&mut self, layers: u8, is_key: bool) {
        self.pictures += 1;
        self.camera.timestamp += 3600;
        let temporal = if is_key {
            0
        } else {
            u8::from(self.pictures % 2 == 1)
        };
        for spatial in 0..layers {
            for is_first in [true, false] {
                let (payload, descriptor) = match self.camera.codec {
                    Codec::Vp9 => (self.vp9((spatial, temporal), is_first, is_key), None),
                    _ => self.av1((spatial, temporal), is_first, is_key),
                };
                let has_descriptor =
                    self.is_independent && (self.has_descriptors || descriptor.is_some());
                let independent =
                    has_descriptor.then(|| independent((spatial, temporal), is_first, is_key));
                let descriptor = independent.or(descriptor);
                let is_last = spatial + 1 == layers && !is_first;
                self.fixture
                    .send_part(&mut self.camera, &payload, (is_last, descriptor));
            }
        }
    }

    /// Returns a VP9 packet in flexible mode. Its layers are behind the descriptor.
    fn vp9(&self, (spatial, temporal): (u8, u8), is_first: bool, is_key: bool) -> Vec<u8> {
        let [high, low] = (self.pictures | 0x8000).to_be_bytes();
        let place = if is_first { 0x08 } else { 0x04 };
        let has_structure = self.camera.rid.is_some() && is_key && is_first && spatial == 0;
        let flags = place | if is_key { 0 } else { 0x40 } | if has_structure { 0x02 } else { 0 };
        let mut payload = vec![0xb0 | flags, high, low];
        let uses_lower_layer = spatial > 0 && (is_key || !self.is_independent);
        payload.push(
            temporal << 5
                | if temporal == 0 { 0x10 } else { 0 }
                | spatial << 1
                | u8::from(uses_lower_layer),
        );
        payload.extend((!is_key).then_some(2));
        // Two layers, without sizes.
        payload.extend(has_structure.then_some(1 << 5));
        payload.extend([spatial, temporal]);
        payload.resize(BYTES[usize::from(spatial)], 0);
        payload
    }

    /// Returns an AV1 packet with its dependency descriptor. Its layers are behind the first byte.
    fn av1(
        &self,
        (spatial, temporal): (u8, u8),
        is_first: bool,
        is_key: bool,
    ) -> (Vec<u8>, Option<RawDescriptor>) {
        let begins = is_key && is_first && spatial == 0;
        let mut payload = vec![if begins { 0x18 } else { 0x10 }, spatial, temporal];
        payload.resize(BYTES[usize::from(spatial)], 0);
        let layer = usize::from(spatial) * 2 + usize::from(temporal);
        let descriptor = descriptor_of(&LAYERS, layer, [is_first, !is_first], begins);
        (payload, Some(RawDescriptor(descriptor)))
    }

    fn set(&mut self, settings: TrackSettings) {
        let (peer, track) = ("PA_bob".parse().unwrap(), "TR_camera".parse().unwrap());
        self.fixture
            .command(PeerCommand::SetTrackSettings { track, settings }.for_peer(peer));
    }

    /// Returns the qualities that the publisher was last requested to send.
    fn enabled(&self) -> [bool; 3] {
        let events = self.fixture.clients[self.alice].events.iter().rev();
        let mut reported = events.filter_map(|event| match event {
            PeerEvent::SubscribedQuality { codecs, .. } => Some(codecs[0].enabled),
            _ => None,
        });
        reported.next().expect("a report")
    }

    /// Returns the packets since the last call.
    fn take_received(&mut self) -> Vec<Received> {
        std::mem::take(&mut self.fixture.receiver(self.bob).received)
    }
}

/// Returns the dependency descriptor for a stream whose layers depend on others at key frames only.
fn independent((spatial, temporal): (u8, u8), is_first: bool, is_key: bool) -> RawDescriptor {
    let template = usize::from(spatial) * 3 + if is_key { 0 } else { 1 + usize::from(temporal) };
    let begins = is_key && is_first && spatial == 0;
    RawDescriptor(independent_descriptor_of(
        &INDEPENDENT_LAYERS,
        template,
        [is_first, !is_first],
        begins,
    ))
}

/// Returns a received packet's spatial layer.
fn spatial(packet: &Received) -> u8 {
    match packet.payload[0] {
        // AV1, at the start of a key frame and elsewhere.
        0x18 | 0x10 => packet.payload[1],
        flags => packet.payload[if flags & 0x42 != 0 { 5 } else { 4 }],
    }
}

/// Returns the received frames: their number of packets and their highest layer.
fn pictures(received: &[Received]) -> Vec<(usize, u8)> {
    let pictures = received.chunk_by(|before, after| before.timestamp == after.timestamp);
    pictures
        .map(|packets| (packets.len(), packets.iter().map(spatial).max().unwrap()))
        .collect()
}

fn quality(quality: Quality) -> TrackSettings {
    TrackSettings {
        quality,
        ..TrackSettings::default()
    }
}

#[test]
fn a_receiver_gets_the_layers_up_to_the_one_that_it_asks_for() {
    for (mode, codec) in modes_with(CODECS) {
        let mut call = Call::new(mode, codec);
        call.stream(30, 3);
        assert_eq!(
            pictures(&call.take_received()).last(),
            Some(&(6, 2)),
            "{mode:?} {codec}: all without a request"
        );
        for (settings, layer) in [
            (quality(Quality::Low), 0),
            (quality(Quality::High), 2),
            (
                TrackSettings {
                    width: 500,
                    height: 250,
                    ..TrackSettings::default()
                },
                1,
            ),
        ] {
            call.set(settings);
            call.stream(40, 3);
            let received = pictures(&call.take_received());
            let expected = (usize::from(layer) * 2 + 2, layer);
            assert_eq!(
                received.last(),
                Some(&expected),
                "{mode:?} {codec}: {settings:?}"
            );
        }
    }
}

#[test]
fn twenty_switches_make_one_stream_without_gaps_whose_pictures_end_with_their_last_packet() {
    for (mode, codec) in modes_with(CODECS) {
        let mut call = Call::new(mode, codec);
        for switch in 0..20 {
            call.set(quality(Quality::ALL[switch % 3]));
            call.stream(30, 3);
        }
        let received = call.take_received();
        assert!(
            received
                .windows(2)
                .all(|pair| pair[1].sequence == pair[0].sequence + 1),
            "{mode:?} {codec}"
        );
        assert!(
            received
                .iter()
                .all(|packet| packet.descriptor.is_some() == (codec == Codec::Av1))
        );
        let mut switches = 0;
        let all: Vec<_> = received
            .chunk_by(|before, after| before.timestamp == after.timestamp)
            .collect();
        for (picture, before) in all.iter().zip(std::iter::once(&all[0]).chain(&all)) {
            let (last, others) = picture.split_last().unwrap();
            assert!(
                last.is_last && others.iter().all(|packet| !packet.is_last),
                "{mode:?} {codec}"
            );
            assert!(picture.iter().map(spatial).is_sorted());
            switches += usize::from(picture.len() != before.len());
        }
        assert!(switches >= 19, "{mode:?} {codec}: {switches}");
    }
}

#[test]
fn a_lost_packet_of_a_layer_that_a_receiver_does_not_get_leaves_no_gap() {
    for (mode, codec) in modes_with(CODECS) {
        let mut call = Call::new(mode, codec);
        call.stream(30, 3);
        call.set(quality(Quality::Low));
        call.stream(10, 3);
        call.take_received();
        let mut is_lost = false;
        let larger = BYTES[1];
        call.fixture.loses = Box::new(move |is_to_server, bytes, _| {
            is_to_server && bytes > larger && !std::mem::replace(&mut is_lost, true)
        });
        call.stream(1, 3);
        let mut received = call.take_received();
        assert!(
            received.iter().any(|packet| packet.payload.is_empty()),
            "{mode:?} {codec}: before the next picture"
        );
        call.stream(29, 3);
        received.extend(call.take_received());
        received.sort_unstable_by_key(|packet| packet.sequence);
        assert!(
            received
                .windows(2)
                .all(|pair| pair[1].sequence == pair[0].sequence + 1),
            "{mode:?} {codec}"
        );
        let (sent, empty): (Vec<_>, Vec<_>) = received
            .iter()
            .partition(|packet| !packet.payload.is_empty());
        assert!(
            sent.len() == 60 && sent.iter().all(|packet| spatial(packet) == 0),
            "{mode:?} {codec}: {}",
            sent.len()
        );
        assert!(
            matches!(&empty[..], [only] if !only.is_last),
            "{mode:?} {codec}: {}",
            empty.len()
        );
    }
}

#[test]
fn fewer_layers_need_no_key_picture_and_more_need_one() {
    for codec in CODECS {
        let mut call = Call::new(ConnectionMode::Single, codec);
        call.stream(30, 3);
        call.set(quality(Quality::Low));
        call.take_received();
        call.stream(30, 3);
        assert_eq!(
            pictures(&call.take_received()),
            [(2, 0); 30],
            "{codec}: from the next picture on"
        );
        assert!(
            call.fixture.clients[call.alice]
                .publisher
                .key_frame_requests
                .is_empty(),
            "{codec}"
        );
        call.set(quality(Quality::High));
        call.send_picture(3, false);
        assert_eq!(pictures(&call.take_received()), [(2, 0)], "{codec}");
        call.send_picture(3, true);
        call.send_picture(3, false);
        assert_eq!(pictures(&call.take_received()), [(6, 2); 2], "{codec}");
    }
}

#[test]
fn of_layers_that_refer_to_others_in_key_pictures_only_a_receiver_gets_its_own() {
    let streams = [(Codec::Av1, true), (Codec::Vp9, true), (Codec::Vp9, false)];
    for (mode, (codec, has_descriptors)) in modes_with(streams) {
        let mut call = Call::new(mode, codec);
        (call.is_independent, call.has_descriptors) = (true, has_descriptors);
        call.stream(30, 3);
        let received = call.take_received();
        assert!(
            received
                .windows(2)
                .all(|pair| pair[1].sequence == pair[0].sequence + 1),
            "{mode:?} {codec}"
        );
        assert_eq!(
            pictures(&received).last(),
            Some(&(2, 2)),
            "{mode:?} {codec}"
        );
        for layer in [0, 2, 1] {
            call.set(quality(Quality::ALL[usize::from(layer)]));
            call.stream(30, 3);
            let received = call.take_received();
            let found = pictures(&received);
            let from = found
                .iter()
                .position(|picture| *picture == (usize::from(layer) * 2 + 2, layer))
                .unwrap();
            assert!(from < 25, "{mode:?} {codec}: a key picture is requested");
            assert_eq!(
                found[from + 1..],
                vec![(2, layer); found.len() - from - 1],
                "{mode:?} {codec}"
            );
            let all: Vec<_> = received
                .chunk_by(|before, after| before.timestamp == after.timestamp)
                .collect();
            assert!(
                all.iter()
                    .all(|picture| picture.iter().filter(|packet| packet.is_last).count() == 1)
            );
            assert!(
                all.iter().all(|picture| picture.last().unwrap().is_last),
                "{mode:?} {codec}"
            );
        }
        assert!(
            call.fixture.clients[call.alice]
                .publisher
                .key_frame_requests
                .is_empty(),
            "nobody waits any more"
        );
    }
}

#[test]
fn layers_in_one_of_several_streams_are_chosen_as_those_of_a_single_one() {
    for mode in MODES {
        let mut call = Call::of_streams(mode, Codec::Vp9, &["q", "h"]);
        (call.is_independent, call.camera.rid) = (true, Some("h"));
        call.send_picture(2, true);
        call.stream(30, 2);
        assert_eq!(
            pictures(&call.take_received()).last(),
            Some(&(2, 1)),
            "{mode:?}"
        );
        for layer in [0, 1] {
            call.set(quality(Quality::ALL[usize::from(layer)]));
            call.stream(30, 2);
            let received = call.take_received();
            assert!(
                received
                    .windows(2)
                    .all(|pair| pair[1].sequence == pair[0].sequence + 1),
                "{mode:?}"
            );
            assert_eq!(pictures(&received).last(), Some(&(2, layer)), "{mode:?}");
        }
        assert!(
            call.fixture.clients[call.alice]
                .publisher
                .key_frame_requests
                .is_empty(),
            "nobody waits any more"
        );
    }
}

#[test]
fn a_receiver_of_an_independent_layer_has_no_need_of_bandwidth_for_those_below_it() {
    let mut call = Call::new(ConnectionMode::Dual, Codec::Av1);
    call.is_independent = true;
    // At 25 frames a second, the lowest layer has 60 kbit/s, the next one 180, the highest 230.
    let mut permissions = super::commands::new_peer("PA_bob", ConnectionMode::Dual).permissions;
    permissions.subscribe_max_kbps = Some(400);
    call.fixture
        .command(PeerCommand::SetPermissions(permissions).for_peer("PA_bob".parse().unwrap()));
    call.stream(100, 3);
    assert_eq!(pictures(&call.take_received()).last(), Some(&(2, 2)));
}

#[test]
fn a_layer_that_stops_is_not_missed_and_the_limit_of_the_role_holds() {
    for codec in CODECS {
        let mut call = Call::new(ConnectionMode::Dual, codec);
        call.stream(50, 3);
        call.stream(50, 2);
        let received = call.take_received();
        assert!(
            received
                .windows(2)
                .all(|pair| pair[1].sequence == pair[0].sequence + 1),
            "{codec}"
        );
        assert_eq!(pictures(&received).last(), Some(&(4, 1)), "{codec}");
        call.stream(50, 3);
        assert_eq!(
            pictures(&call.take_received()).last(),
            Some(&(6, 2)),
            "{codec}"
        );
        // At 25 frames a second, the lowest layer has 60 kbit/s, the next one 180, the highest 230.
        let mut permissions = super::commands::new_peer("PA_bob", ConnectionMode::Dual).permissions;
        permissions.subscribe_max_kbps = Some(400);
        call.fixture
            .command(PeerCommand::SetPermissions(permissions).for_peer("PA_bob".parse().unwrap()));
        call.stream(100, 3);
        assert_eq!(
            pictures(&call.take_received()).last(),
            Some(&(4, 1)),
            "{codec}: the layers below count as well"
        );
    }
}

#[test]
fn a_publisher_that_has_stopped_all_layers_sends_all_again_for_a_new_receiver() {
    for (mode, codec) in modes_with(CODECS) {
        let mut call = Call::new(mode, codec);
        // On another worker, Bob's mirror of the track gets no packet while nobody there receives it.
        call.fixture.unsubscribe(call.bob, &call.camera);
        call.send_picture(3, true);
        call.stream(10, 3);
        call.fixture.run(Duration::from_secs(12));
        assert_eq!(call.enabled(), [false; 3], "{mode:?} {codec}");
        call.fixture.subscribe(call.bob, &call.camera);
        for _ in 0..100 {
            let layers = call.enabled().into_iter().filter(|enabled| *enabled);
            let layers = u8::try_from(layers.count()).unwrap();
            call.stream(1, layers);
        }
        assert_eq!(call.enabled(), [true; 3], "{mode:?} {codec}");
    }
}

#[test]
fn a_recorder_gets_one_stream_without_gaps_of_the_layers_that_it_wants() {
    for codec in CODECS {
        let mut call = Call::new(ConnectionMode::Single, codec);
        let queue = std::sync::Arc::new(Queue::default());
        let mut recorder = recorder(&queue);
        recorder.settings = quality(Quality::Medium);
        let (peer, track) = ("PA_alice".parse().unwrap(), "TR_camera".parse().unwrap());
        call.fixture
            .command(PeerCommand::AttachRecorder { track, recorder }.for_peer(peer));
        call.stream(60, 3);
        let packets = queue.take();
        let from = packets
            .iter()
            .rposition(|packet| packet.is_entry_point)
            .unwrap();
        let packets = &packets[from..];
        assert!(packets.len() > 40, "{codec}: {}", packets.len());
        assert!(
            packets
                .windows(2)
                .all(|pair| pair[1].sequence == pair[0].sequence + 1),
            "{codec}"
        );
        assert!(
            packets
                .chunks(4)
                .all(|picture| picture.last().unwrap().is_marked && !picture[0].is_marked),
            "{codec}"
        );
        assert!(packets.iter().all(|packet| packet.layer == 0), "{codec}");
    }
}

#[test]
fn a_recorder_of_layers_gets_no_padding_and_no_gap_in_its_place() {
    for codec in CODECS {
        let mut call = Call::new(ConnectionMode::Single, codec);
        let queue = std::sync::Arc::new(Queue::default());
        let recorder = recorder(&queue);
        let (peer, track) = ("PA_alice".parse().unwrap(), "TR_camera".parse().unwrap());
        call.fixture
            .command(PeerCommand::AttachRecorder { track, recorder }.for_peer(peer));
        call.stream(10, 3);
        queue.take();
        for _ in 0..20 {
            call.stream(1, 3);
            call.fixture.send_part(&mut call.camera, &[], (false, None));
        }
        let packets = queue.take();
        assert!(packets.len() > 40, "{codec}: {}", packets.len());
        assert!(
            packets.iter().all(|packet| !packet.payload.is_empty()),
            "{codec}"
        );
        assert!(
            packets
                .windows(2)
                .all(|pair| pair[1].sequence == pair[0].sequence + 1),
            "{codec}"
        );
    }
}

#[test]
fn a_receiver_without_the_codec_of_a_track_is_told_so() {
    for (mode, codec) in modes_with([Codec::Vp9, Codec::Av1, Codec::H265]) {
        let mut fixture = Fixture::new();
        let bob = fixture.join_connected("PA_bob", mode);
        fixture.abilities = Abilities {
            all_codecs: true,
            ..Abilities::default()
        };
        let (alice, carol) = (
            fixture.join_connected("PA_alice", mode),
            fixture.join_connected("PA_carol", mode),
        );
        let mut camera = fixture.publish(alice, "TR_camera", codec, &[]);
        let (mut voice, track) = (
            fixture.publish(alice, "TR_voice", Codec::Opus, &[]),
            "TR_camera".parse().unwrap(),
        );
        for receiver in [bob, carol] {
            fixture.subscribe(receiver, &camera);
            fixture.subscribe(receiver, &voice);
        }
        fixture.run(Duration::from_millis(400));
        let unsupported = PeerEvent::CodecUnsupported(track);
        assert_eq!(
            fixture.clients[bob]
                .events
                .iter()
                .filter(|event| **event == unsupported)
                .count(),
            1,
            "{mode:?} {codec}"
        );
        assert!(
            !fixture.clients[carol].events.contains(&unsupported),
            "{mode:?} {codec}"
        );
        let key: &[u8] = match codec {
            Codec::Vp9 => &[0x8c, 1, 7],
            Codec::Av1 => &[0x18, 7],
            _ => &[19 << 1, 1, 7],
        };
        fixture.send(&mut camera, None, key);
        fixture.send(&mut voice, None, &[7]);
        assert_eq!(
            (
                fixture.received(bob, &camera).len(),
                fixture.received(carol, &camera).len()
            ),
            (0, 1),
            "{mode:?} {codec}"
        );
        assert_eq!(
            fixture.received(bob, &voice).len(),
            1,
            "{mode:?} {codec}: the others of its tracks arrive"
        );
    }
}
