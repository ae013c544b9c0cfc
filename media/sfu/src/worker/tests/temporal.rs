//! VP8's temporal layers: a receiver with little bandwidth gets fewer frames.

use std::time::Duration;

use str0m::format::Codec;

use super::MODES;
use super::fixture::{Fixture, Publication};
use super::support::Received;
use crate::command::{ConnectionMode, PeerCommand};

/// Frame sizes per temporal layer: at 12.5 frames a second each, the lower one has 30 kbit/s, the upper one 110.
const BYTES: [usize; 2] = [300, 1_100];

struct Call {
    fixture: Fixture,
    alice: usize,
    bob: usize,
    camera: Publication,
    frames: u8,
}

impl Call {
    fn new(mode: ConnectionMode) -> Self {
        let mut fixture = Fixture::new();
        let (alice, bob) = (
            fixture.join_connected("PA_alice", mode),
            fixture.join_connected("PA_bob", mode),
        );
        let camera = fixture.publish(alice, "TR_camera", Codec::Vp8, &[]);
        fixture.subscribe(bob, &camera);
        Self {
            fixture,
            alice,
            bob,
            camera,
            frames: 0,
        }
    }

    /// Sends frames that alternate between two temporal layers. Each fourth upper frame depends on the lower layer
    /// only.
    fn stream(&mut self, frames: usize) {
        for _ in 0..frames {
            let requests = std::mem::take(
                &mut self.fixture.clients[self.alice]
                    .publisher
                    .key_frame_requests,
            );
            let is_key = !requests.is_empty();
            self.frames = if is_key {
                0
            } else {
                self.frames.wrapping_add(1)
            };
            let temporal = self.frames % 2;
            let syncs = self.frames % 8 == 1;
            let mut frame = self.camera.next_vp8_header(is_key).to_vec();
            frame[5] = temporal << 6 | u8::from(syncs) << 5;
            frame.resize(BYTES[usize::from(temporal)], 0);
            self.fixture.send(&mut self.camera, None, &frame);
            self.fixture.run(Duration::from_millis(40));
        }
    }

    fn set_limit(&mut self, subscribe_max_kbps: Option<u32>) {
        let mut permissions = super::commands::new_peer("PA_bob", ConnectionMode::Dual).permissions;
        permissions.subscribe_max_kbps = subscribe_max_kbps;
        self.fixture
            .command(PeerCommand::SetPermissions(permissions).for_peer("PA_bob".parse().unwrap()));
    }

    fn take_received(&mut self) -> Vec<Received> {
        std::mem::take(&mut self.fixture.receiver(self.bob).received)
    }
}

fn temporal(packet: &Received) -> u8 {
    packet.payload[5] >> 6
}

fn picture_id(packet: &Received) -> u16 {
    u16::from_be_bytes([packet.payload[2], packet.payload[3]]) & 0x7fff
}

#[test]
fn fewer_pictures_are_sent_where_not_all_fit_and_nothing_is_missing_in_the_stream() {
    for mode in MODES {
        let mut call = Call::new(mode);
        call.stream(100);
        let mut all = call.take_received();
        assert!(
            all.iter()
                .rev()
                .take(10)
                .any(|packet| temporal(packet) == 1),
            "{mode:?}: all while they fit"
        );
        call.set_limit(Some(64));
        call.stream(100);
        let received = call.take_received();
        assert!(
            received
                .iter()
                .rev()
                .take(30)
                .all(|packet| temporal(packet) == 0),
            "{mode:?}: the lowest ones"
        );
        assert!(received.len() > 45, "{mode:?}: {}", received.len());
        all.extend(received);
        call.set_limit(None);
        call.stream(50);
        let received = call.take_received();
        let begins = received
            .iter()
            .find(|packet| temporal(packet) == 1)
            .expect("all of them again");
        assert_eq!(
            begins.payload[5] & 0x20,
            0x20,
            "{mode:?}: from one on that needs only the lowest"
        );
        all.extend(received);
        for pair in all.windows(2) {
            assert_eq!(pair[1].sequence, pair[0].sequence + 1, "{mode:?}");
            assert_eq!(
                picture_id(&pair[1]),
                (picture_id(&pair[0]) + 1) & 0x7fff,
                "{mode:?}"
            );
        }
        let requests = &call.fixture.clients[call.alice]
            .publisher
            .key_frame_requests;
        assert!(requests.is_empty(), "{mode:?}: no key frame is needed");
    }
}

#[test]
fn an_encoder_may_begin_to_name_layers_between_two_key_frames() {
    for mode in MODES {
        let mut call = Call::new(mode);
        for is_key in [true, false, false] {
            call.fixture.send(
                &mut call.camera,
                None,
                &[0x10, u8::from(!is_key), 0, 0, 0, 0, 0],
            );
        }
        call.fixture.clients[call.alice]
            .publisher
            .key_frame_requests
            .clear();
        call.stream(20);
        let received = call.take_received();
        assert_eq!(received.len(), 23, "{mode:?}");
        assert!(
            call.fixture.clients[call.alice]
                .publisher
                .key_frame_requests
                .is_empty(),
            "{mode:?}"
        );
    }
}
