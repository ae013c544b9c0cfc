//! Simulcast: a receiver's layer, and changes between layers.

use std::time::{Duration, Instant};

use str0m::bwe::{Bitrate, BweKind};
use str0m::format::Codec;
use str0m::media::{Mid, Rid};

use super::MODES;
use super::fixture::{Fixture, Publication};
use super::support::{Abilities, Received};
use crate::command::{ConnectionMode, PeerCommand, TrackSettings};
use crate::event::PeerEvent;
use crate::measure::kilobits;
use crate::track::{LayerInfo, Quality};

pub const RIDS: [&str; 3] = ["q", "h", "f"];

/// The camera's announced layers.
pub fn three_layers() -> Vec<LayerInfo> {
    let sizes = [
        (320, 180, 150_000),
        (640, 360, 500_000),
        (1280, 720, 1_700_000),
    ]
    .into_iter()
    .zip(Quality::ALL);
    sizes
        .map(|((width, height, bitrate), quality)| LayerInfo {
            quality,
            width,
            height,
            bitrate,
        })
        .collect()
}

/// The camera's three layers, with separate sequence numbers.
pub fn layers_of(camera: &Publication) -> [Publication; 3] {
    [0, 1, 2].map(|layer: u16| Publication {
        sequence: 1000 * u64::from(layer + 1),
        timestamp: 50_000 * u32::from(layer),
        picture: 500 * layer,
        ..camera.clone()
    })
}

/// Publisher with three layers, and a receiver.
struct Simulcast {
    fixture: Fixture,
    bob: usize,
    alice: usize,
    layers: [Publication; 3],
}

impl Simulcast {
    fn new(mode: ConnectionMode) -> Self {
        Self::with_abilities(mode, Abilities::default())
    }

    fn with_abilities(mode: ConnectionMode, abilities: Abilities) -> Self {
        let mut fixture = Fixture::new();
        fixture.abilities = abilities;
        let (alice, bob) = (
            fixture.join_connected("PA_alice", mode),
            fixture.join_connected("PA_bob", mode),
        );
        fixture.layers = three_layers();
        let camera = fixture.publish(alice, "TR_camera", Codec::Vp8, &RIDS);
        fixture.subscribe(bob, &camera);
        Self {
            fixture,
            bob,
            alice,
            layers: layers_of(&camera),
        }
    }

    /// Sends the live layers' frames for this many steps of 40 ms, with key frames on request.
    fn stream(&mut self, steps: usize, live: &[usize]) {
        self.stream_at(Duration::from_millis(40), steps, live);
    }

    fn stream_at(&mut self, interval: Duration, steps: usize, live: &[usize]) {
        for _ in 0..steps {
            let requests = std::mem::take(
                &mut self.fixture.clients[self.alice]
                    .publisher
                    .key_frame_requests,
            );
            for layer in live {
                let is_key = requests
                    .iter()
                    .any(|(_, rid)| rid.is_some_and(|rid| &*rid == RIDS[*layer]));
                self.fixture
                    .send_layer(&mut self.layers[*layer], *layer, is_key);
            }
            self.fixture.run(interval);
        }
    }

    fn set(&mut self, settings: TrackSettings) {
        let (peer, track) = ("PA_bob".parse().unwrap(), "TR_camera".parse().unwrap());
        self.fixture
            .command(PeerCommand::SetTrackSettings { track, settings }.for_peer(peer));
    }

    /// Returns the packets since the last call.
    fn take_received(&mut self) -> Vec<Received> {
        std::mem::take(&mut self.fixture.receiver(self.bob).received)
    }

    /// Returns the last packet's layer.
    fn last_layer(&mut self) -> Option<u8> {
        self.take_received().last().map(|packet| packet.payload[7])
    }
}

fn quality(quality: Quality) -> TrackSettings {
    TrackSettings {
        quality,
        ..TrackSettings::default()
    }
}

#[test]
fn a_receiver_gets_the_quality_that_it_asks_for() {
    for mode in MODES {
        let mut call = Simulcast::new(mode);
        call.stream(20, &[0, 1, 2]);
        assert_eq!(
            call.last_layer(),
            Some(2),
            "{mode:?}: the best without a request"
        );
        for (settings, layer) in [
            (quality(Quality::Low), 0),
            (quality(Quality::Medium), 1),
            (
                TrackSettings {
                    width: 1280,
                    height: 720,
                    ..quality(Quality::Low)
                },
                2,
            ),
            (
                TrackSettings {
                    width: 300,
                    height: 190,
                    ..TrackSettings::default()
                },
                0,
            ),
            (
                TrackSettings {
                    width: 500,
                    height: 300,
                    ..TrackSettings::default()
                },
                1,
            ),
        ] {
            call.set(settings);
            call.stream(60, &[0, 1, 2]);
            assert_eq!(call.last_layer(), Some(layer), "{mode:?} {settings:?}");
        }
        call.set(TrackSettings {
            is_disabled: true,
            ..TrackSettings::default()
        });
        call.take_received();
        call.stream(10, &[0, 1, 2]);
        assert_eq!(call.last_layer(), None, "{mode:?}: nothing while disabled");
    }
}

#[test]
fn twenty_switches_make_one_stream_without_gaps_each_beginning_with_a_key_frame() {
    for mode in MODES {
        let mut call = Simulcast::new(mode);
        for switch in 0..20 {
            call.set(quality(Quality::ALL[switch % 3]));
            call.stream(40, &[0, 1, 2]);
        }
        let received = call.take_received();
        let mut switches = 0;
        for pair in received.windows(2) {
            let (before, after) = (&pair[0], &pair[1]);
            assert_eq!(after.sequence, before.sequence + 1, "{mode:?}");
            assert_eq!(after.ssrc, before.ssrc, "{mode:?}");
            let ticks = after.timestamp.wrapping_sub(before.timestamp);
            assert!((1..=9000).contains(&ticks), "{mode:?}: {ticks}");
            assert_eq!(
                picture_id(after),
                (picture_id(before) + 1) & 0x7fff,
                "{mode:?}"
            );
            if after.payload[7] != before.payload[7] {
                assert_eq!(
                    after.payload[6] & 1,
                    0,
                    "{mode:?}: a switch begins with a key frame"
                );
                switches += 1;
            }
        }
        assert!(switches >= 19, "{mode:?}: {switches}");
    }
}

#[test]
fn who_joins_after_many_others_starts_with_the_lowest_layer_instead_of_waiting() {
    let mut call = Simulcast::new(ConnectionMode::Dual);
    let carol = call
        .fixture
        .join_connected("PA_carol", ConnectionMode::Dual);
    call.stream(20, &[0, 1, 2]);
    // Bob loses all key frames, until the highest layer's requests are used up. One has just arrived.
    let mid = call.take_received()[0].mid;
    let is_best = |(_, rid): &(Mid, Option<Rid>)| rid.is_some_and(|rid| &*rid == RIDS[2]);
    for step in 0.. {
        assert!(step < 200, "key frame requests have stopped");
        let now = call.fixture.now;
        call.fixture.receiver(call.bob).request_key_frame(mid, now);
        let is_requested = call.fixture.clients[call.alice]
            .publisher
            .key_frame_requests
            .iter()
            .any(is_best);
        call.stream(1, &[0, 1, 2]);
        if step > 100 && is_requested {
            break;
        }
    }
    let camera = call.layers[0].clone();
    call.fixture.subscribe(carol, &camera);
    call.stream(8, &[0, 1, 2]);
    let first = call
        .fixture
        .receiver(carol)
        .received
        .first()
        .map(|packet| packet.payload[7]);
    assert_eq!(first, Some(0), "a frame within 320 ms");
    call.stream(40, &[0, 1, 2]);
    let last = call
        .fixture
        .receiver(carol)
        .received
        .last()
        .map(|packet| packet.payload[7]);
    assert_eq!(last, Some(2), "the best layer follows");
}

fn picture_id(packet: &Received) -> u16 {
    u16::from_be_bytes([packet.payload[2] & 0x7f, packet.payload[3]])
}

#[test]
fn a_layer_that_stops_is_replaced_by_one_that_is_live() {
    let mut call = Simulcast::new(ConnectionMode::Single);
    call.stream(20, &[0, 1, 2]);
    assert_eq!(call.last_layer(), Some(2));
    call.stream(75, &[0]);
    assert_eq!(call.last_layer(), Some(0));
    call.stream(75, &[0, 1, 2]);
    assert_eq!(call.last_layer(), Some(2));
}

#[test]
fn the_limit_of_the_role_holds_for_what_is_sent() {
    let mut call = Simulcast::new(ConnectionMode::Dual);
    call.stream(20, &[0, 1, 2]);
    call.set_subscribe_limit(Some(215));
    call.stream(60, &[0, 1, 2]);
    assert_eq!(call.last_layer(), Some(1));
    call.set_subscribe_limit(None);
    call.stream(60, &[0, 1, 2]);
    assert_eq!(call.last_layer(), Some(2));
}

impl Simulcast {
    fn set_subscribe_limit(&mut self, subscribe_max_kbps: Option<u32>) {
        let mut permissions = super::commands::new_peer("PA_bob", ConnectionMode::Dual).permissions;
        permissions.subscribe_max_kbps = subscribe_max_kbps;
        self.fixture
            .command(PeerCommand::SetPermissions(permissions).for_peer("PA_bob".parse().unwrap()));
    }
}

#[test]
fn the_publisher_hears_which_qualities_are_used() {
    let mut call = Simulcast::new(ConnectionMode::Single);
    let told = |call: &Simulcast| {
        let events = call.fixture.clients[call.alice].events.iter();
        events
            .filter_map(|event| match event {
                PeerEvent::SubscribedQuality { codecs, .. } => Some(codecs[0].enabled),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    call.fixture.run(Duration::from_secs(8));
    assert!(told(&call).is_empty());
    call.fixture.run(Duration::from_secs(4));
    assert_eq!(told(&call), [[true; 3]]);
    call.set(quality(Quality::Low));
    call.fixture.run(Duration::from_secs(4));
    assert_eq!(told(&call).len(), 1, "a decrease is reported after a delay");
    call.fixture.run(Duration::from_secs(3));
    assert_eq!(told(&call), [[true; 3], [true, false, false]]);
    call.set(quality(Quality::Medium));
    assert_eq!(
        told(&call).last(),
        Some(&[true, true, false]),
        "an increase is reported at once"
    );
    let is_told = |event: &PeerEvent| matches!(event, PeerEvent::SubscribedQuality { .. });
    let others = call
        .fixture
        .clients
        .iter()
        .enumerate()
        .filter(|(client, _)| *client != call.alice);
    assert!(
        others
            .flat_map(|(_, client)| &client.events)
            .all(|event| !is_told(event)),
        "only the publisher gets a report"
    );
}

/// Drops packets to clients beyond this bitrate, like a short queue.
fn narrow(bits_per_second: f64) -> Box<dyn FnMut(bool, usize, Instant) -> bool> {
    const QUEUE_BITS: f64 = 30_000.0;
    let (mut room, mut last) = (QUEUE_BITS, None::<Instant>);
    Box::new(move |is_to_server, bytes, now| {
        if is_to_server {
            return false;
        }
        let elapsed = last.replace(now).map_or(0.0, |last| {
            now.saturating_duration_since(last).as_secs_f64()
        });
        room = (room + elapsed * bits_per_second).min(QUEUE_BITS);
        let bits = f64::from(u32::try_from(bytes * 8).unwrap());
        let is_lost = bits > room;
        room -= if is_lost { 0.0 } else { bits };
        is_lost
    })
}

#[test]
fn a_narrow_network_lowers_the_layer_and_a_wide_one_raises_it_again() {
    let mut call = Simulcast::with_abilities(
        ConnectionMode::Single,
        Abilities {
            estimates: true,
            ..Abilities::default()
        },
    );
    // Frequent enough for several packets in each receiver report: str0m reports no loss otherwise. The layers have
    // about 250, 730 and 930 kbit/s.
    let stream = |call: &mut Simulcast, seconds: usize| {
        call.stream_at(Duration::from_millis(10), seconds * 100, &[0, 1, 2]);
    };
    stream(&mut call, 4);
    call.fixture.loses = narrow(520_000.0);
    stream(&mut call, 10);
    call.take_received();
    stream(&mut call, 10);
    let received = call.take_received();
    let lowest = received
        .iter()
        .filter(|packet| packet.payload[7] == 0)
        .count();
    // From time to time, a higher layer is tried.
    assert!(
        lowest * 10 > received.len() * 6,
        "{lowest} of {} packets are of the lowest layer",
        received.len()
    );
    call.fixture.loses = Box::new(|_, _, _| false);
    stream(&mut call, 20);
    assert_eq!(call.last_layer(), Some(2));
}

#[test]
fn repaired_packets_have_the_numbers_and_counters_of_the_stream_that_the_receiver_knows() {
    for mode in MODES {
        let mut call = Simulcast::new(mode);
        // The second layer's numbers and counters are rewritten to continue the first one's.
        for wanted in [Quality::Low, Quality::Medium] {
            call.set(quality(wanted));
            call.stream(60, &[0, 1]);
        }
        call.take_received();
        let mut sent = 0;
        call.fixture.loses = Box::new(move |is_to_server, bytes, _| {
            let is_video = !is_to_server && bytes > 800;
            sent += i32::from(is_video);
            is_video && sent % 4 == 0
        });
        call.stream(40, &[0, 1]);
        call.fixture.loses = Box::new(|_, _, _| false);
        call.stream(20, &[0, 1]);
        let mut received = call.take_received();
        assert_eq!(received.len(), 60, "{mode:?}");
        let is_in_order = received.is_sorted_by_key(|packet| packet.sequence);
        assert!(!is_in_order, "{mode:?}: some packets come late");
        received.sort_by_key(|packet| packet.sequence);
        for pair in received.windows(2) {
            let (before, after) = (&pair[0], &pair[1]);
            assert_eq!(after.sequence, before.sequence + 1, "{mode:?}");
            assert_eq!(after.ssrc, before.ssrc, "{mode:?}");
            assert_eq!(
                after.timestamp.wrapping_sub(before.timestamp),
                3000,
                "{mode:?}"
            );
            let expected = (picture_id(before) + 1) & 0x7fff;
            assert_eq!(picture_id(after), expected, "{mode:?}");
            let contents = (after.payload[7], after.payload.len(), after.is_last);
            assert_eq!(contents, (1, 900, true), "{mode:?}");
        }
    }
}

#[test]
fn bursts_of_losses_in_a_small_layer_are_repaired() {
    let mut call = Simulcast::new(ConnectionMode::Single);
    call.set(quality(Quality::Low));
    call.stream(50, &[0]);
    call.take_received();
    for _ in 0..3 {
        let mut left = 5;
        call.fixture.loses = Box::new(move |is_to_server, bytes, _| {
            let is_lost = !is_to_server && bytes > 200 && left > 0;
            left -= usize::from(is_lost);
            is_lost
        });
        call.stream(10, &[0]);
    }
    call.stream(50, &[0]);
    let mut sequences: Vec<_> = call
        .take_received()
        .iter()
        .map(|packet| packet.sequence)
        .collect();
    sequences.sort_unstable();
    assert_eq!(sequences.len(), 80, "{sequences:?}");
    assert!(
        sequences.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{sequences:?}"
    );
}

impl Simulcast {
    /// Sets the estimated bandwidth to the receiver, in bit/s. Returns the bitrate that the estimation should reach
    /// next; 0 if no higher layer is needed.
    fn estimate(&mut self, bits_per_second: u64) -> u64 {
        let worker = self.fixture.worker_of_mut(self.bob);
        let bob = worker.roster.by_sid(&"PA_bob".parse().unwrap()).unwrap();
        let subscriber = worker.roster.get(bob).unwrap().subscriber;
        let estimate = BweKind::Twcc {
            estimate: Bitrate::from(bits_per_second),
            can_probe: true,
        };
        worker.handle_estimate(subscriber, &estimate);
        worker
            .connections
            .get(subscriber)
            .unwrap()
            .estimation()
            .next_step()
    }

    /// Returns the target layer.
    fn target(&self) -> Option<usize> {
        let worker = self.fixture.worker_of(self.bob);
        let track = worker
            .tracks
            .values()
            .find(|track| track.layers.len() == RIDS.len())
            .unwrap();
        track.subscriptions[0].choice.target
    }
}

#[test]
fn an_estimate_that_reaches_what_is_tried_is_enough_for_the_next_layer() {
    for mode in MODES {
        let mut call = Simulcast::new(mode);
        let voice = call
            .fixture
            .publish(call.alice, "TR_voice", Codec::Opus, &[]);
        call.fixture.subscribe(call.bob, &voice);
        call.stream(100, &[0, 1, 2]);
        let mut wanted = call.estimate(1000);
        let snapshot = call.fixture.snapshot(&["PA_bob"]);
        let shown = snapshot[0]
            .transports
            .last()
            .map(|transport| (transport.estimate_kbps, transport.wanted_kbps));
        assert_eq!(shown, Some((Some(1), Some(kilobits(wanted)))), "{mode:?}");
        for layer in 0..2 {
            assert_eq!(call.target(), Some(layer), "{mode:?}");
            wanted = call.estimate(wanted);
        }
        assert_eq!((call.target(), wanted), (Some(2), 0), "{mode:?}");
    }
}

#[test]
fn a_disturbance_of_a_small_layer_does_not_keep_the_large_one_away() {
    let mut call = Simulcast::with_abilities(
        ConnectionMode::Single,
        Abilities {
            estimates: true,
            ..Abilities::default()
        },
    );
    call.stream(100, &[0, 1, 2]);
    call.set(quality(Quality::Low));
    call.stream(50, &[0, 1, 2]);
    call.fixture.loses = narrow(40_000.0);
    call.stream(25, &[0, 1, 2]);
    call.fixture.loses = Box::new(|_, _, _| false);
    call.stream(25, &[0, 1, 2]);
    assert_eq!(call.last_layer(), Some(0));
    call.set(quality(Quality::High));
    call.stream(10, &[0, 1, 2]);
    assert_eq!(call.last_layer(), Some(2));
}

#[test]
fn a_worker_that_has_too_much_to_do_sends_the_lowest_layer_until_it_has_time_again() {
    for mode in MODES {
        let mut call = Simulcast::new(mode);
        call.stream(20, &[0, 1, 2]);
        assert_eq!(call.last_layer(), Some(2), "{mode:?}");
        for _ in 0..150 {
            call.fixture
                .worker_of_mut(call.bob)
                .record_work(Duration::from_millis(40), Duration::ZERO);
            call.stream(1, &[0, 1, 2]);
        }
        assert_eq!(
            (
                call.last_layer(),
                call.fixture.worker_of(call.bob).reduced_percent()
            ),
            (Some(0), 100),
            "{mode:?}"
        );
        call.stream(150, &[0, 1, 2]);
        assert_eq!(
            (
                call.last_layer(),
                call.fixture.worker_of(call.bob).reduced_percent()
            ),
            (Some(2), 0),
            "{mode:?}"
        );
    }
}
