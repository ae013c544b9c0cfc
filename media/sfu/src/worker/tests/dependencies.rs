//! Dependency descriptors for codecs without frame numbers in the payload, in streams without layers.

use std::time::Duration;

use str0m::format::Codec;

use super::fixture::{Fixture, Publication};
use super::modes_with;
use super::support::{Abilities, RawDescriptor, Received};
use crate::adapt::descriptor_of;
use crate::command::{ConnectionMode, PeerCommand, TrackSettings};
use crate::dropped::DropReason;
use crate::track::{LayerInfo, Quality};

const RIDS: [&str; 2] = ["q", "h"];

/// Publisher of several streams, and a receiver.
struct Call {
    fixture: Fixture,
    alice: usize,
    bob: usize,
    streams: Vec<Publication>,
    /// Last frame number of each stream.
    frames: [u16; 2],
}

impl Call {
    fn new(mode: ConnectionMode, codec: Codec, rids: &[&'static str]) -> Self {
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
            .zip([320, 640])
            .map(layer)
            .collect();
        let camera = fixture.publish(alice, "TR_camera", codec, rids);
        fixture.subscribe(bob, &camera);
        let rids = if rids.is_empty() {
            vec![None]
        } else {
            rids.iter().copied().map(Some).collect()
        };
        let streams = rids.into_iter().zip([1000, 7000]);
        let streams = streams
            .map(|(rid, sequence)| Publication {
                rid,
                sequence,
                ..camera.clone()
            })
            .collect();
        Self {
            fixture,
            alice,
            bob,
            streams,
            frames: [500, 61_000],
        }
    }

    /// Sends frames in each stream, 40 ms apart, with key frames on request.
    fn stream(&mut self, pictures: usize) {
        for _ in 0..pictures {
            let requests = std::mem::take(
                &mut self.fixture.clients[self.alice]
                    .publisher
                    .key_frame_requests,
            );
            for stream in 0..self.streams.len() {
                let rid = self.streams[stream].rid;
                self.send_frame(stream, requests.iter().any(|(_, of)| of.as_deref() == rid));
            }
            self.fixture.run(Duration::from_millis(40));
        }
    }

    /// Sends a frame in one packet. The stream is behind its first byte.
    fn send_frame(&mut self, stream: usize, is_key: bool) {
        self.frames[stream] = self.frames[stream].wrapping_add(3);
        let track = &mut self.streams[stream];
        track.timestamp += 3600;
        let first = match (track.codec, is_key) {
            (Codec::Av1, true) => 0x18,
            (Codec::Av1, false) => 0x10,
            (_, true) => 0x65,
            (_, false) => 0x41,
        };
        let mut descriptor = descriptor_of(&[(0, 0)], 0, [true, true], is_key);
        descriptor[1..3].copy_from_slice(&self.frames[stream].to_be_bytes());
        let payload = [first, stream.to_le_bytes()[0], 0, 0];
        self.fixture
            .send_part(track, &payload, (true, Some(RawDescriptor(descriptor))));
    }

    /// Sends padding, with the previous frame's timestamp.
    fn send_padding(&mut self) {
        self.fixture
            .send_part(&mut self.streams[0], &[], (false, None));
    }

    fn set(&mut self, quality: Quality) {
        let (peer, track) = ("PA_bob".parse().unwrap(), "TR_camera".parse().unwrap());
        let settings = TrackSettings {
            quality,
            ..TrackSettings::default()
        };
        self.fixture
            .command(PeerCommand::SetTrackSettings { track, settings }.for_peer(peer));
    }

    /// Returns the packets since the last call.
    fn take_received(&mut self) -> Vec<Received> {
        std::mem::take(&mut self.fixture.receiver(self.bob).received)
    }
}

fn frame_number(packet: &Received) -> u16 {
    let RawDescriptor(descriptor) = packet.descriptor.as_ref().expect("a descriptor");
    u16::from_be_bytes([descriptor[1], descriptor[2]])
}

#[test]
fn the_frames_of_changing_streams_are_numbered_on() {
    for (mode, codec) in modes_with([Codec::Av1, Codec::H264]) {
        let mut call = Call::new(mode, codec, &RIDS);
        for switch in 0..10 {
            call.set(Quality::ALL[switch % 2]);
            call.stream(30);
        }
        let received = call.take_received();
        let mut switches = 0;
        for pair in received.windows(2) {
            let ahead = frame_number(&pair[1]).wrapping_sub(frame_number(&pair[0]));
            let is_switch = pair[0].payload[1] != pair[1].payload[1];
            assert!(
                if is_switch {
                    (1..0x8000).contains(&ahead)
                } else {
                    ahead == 3
                },
                "{mode:?} {codec}: {ahead}"
            );
            switches += usize::from(is_switch);
        }
        assert!(switches >= 9, "{mode:?} {codec}: {switches}");
    }
}

#[test]
fn vp8_numbers_its_pictures_itself() {
    let mut call = Call::new(ConnectionMode::Dual, Codec::Vp8, &[]);
    call.fixture.send_part(
        &mut call.streams[0],
        &[0x10, 0, 0, 0],
        (true, Some(RawDescriptor(vec![0xc0, 0, 1]))),
    );
    assert!(matches!(&call.take_received()[..], [only] if only.descriptor.is_none()));
}

#[test]
fn padding_is_not_sent_and_leaves_no_gap() {
    for (mode, codec) in modes_with([Codec::Av1, Codec::H264]) {
        let mut call = Call::new(mode, codec, &[]);
        for picture in 0..50 {
            call.send_frame(0, picture == 0);
            (0..picture % 4).for_each(|_| call.send_padding());
        }
        let received = call.take_received();
        assert_eq!(received.len(), 50, "{mode:?} {codec}");
        assert!(
            received
                .windows(2)
                .all(|pair| pair[1].sequence == pair[0].sequence + 1),
            "{mode:?} {codec}"
        );
        assert_eq!(
            call.fixture
                .worker_of(call.bob)
                .counters()
                .dropped
                .count_for(DropReason::Padding),
            73,
            "{mode:?} {codec}"
        );
    }
}
