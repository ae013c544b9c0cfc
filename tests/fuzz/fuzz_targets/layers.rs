//! Packets of streams with layers: each record is a packet of VP9, or of AV1 with its dependency descriptor, that a participant encrypts
//! correctly. Two others talk in the same room, and one of them receives the stream, with the requested number of layers.
//!
//! Nothing panics, the received sequence numbers are distinct, and the others hear each other.

#![no_main]

use std::cell::RefCell;
use std::collections::HashSet;

use conclave_fuzz::rtc::Call;
use conclave_fuzz::rtc::fixture::Publication;
use conclave_fuzz::rtc::support::{Abilities, RawDescriptor};
use conclave_fuzz::{records, seeds};
use conclave_sfu::{ConnectionMode, PeerCommand, Quality, TrackSettings};
use libfuzzer_sys::fuzz_target;
use str0m::format::Codec;

/// Largest number of records in an input.
const RECORDS: usize = 64;
/// Largest size of a payload in bytes.
const PAYLOAD: usize = 1_200;
const NAMES: [&str; 2] = ["TR_m1", "TR_m2"];

thread_local! {
    static TARGET: RefCell<Target> = RefCell::new(Target::new());
}

fuzz_target!(init: write_seeds(), |data: &[u8]| TARGET.with_borrow_mut(|target| {
    records::read(data).take(RECORDS).for_each(|record| target.handle(record));
    for track in &target.tracks {
        let received = target.call.fixture.received(target.call.bob, track);
        let numbers: HashSet<_> = received.iter().map(|packet| packet.sequence).collect();
        assert_eq!(numbers.len(), received.len(), "a number is given twice");
    }
    target.call.assert_audible();
}));

/// A call, and a participant that sends the input.
struct Target {
    call: Call,
    tracks: [Publication; 2],
}

impl Target {
    fn new() -> Self {
        let mut call = Call::with_abilities(Abilities {
            all_codecs: true,
            ..Abilities::default()
        });
        let mallory = call
            .fixture
            .join_connected("PA_mallory", ConnectionMode::Single);
        let codecs = NAMES.into_iter().zip([Codec::Vp9, Codec::Av1]);
        let tracks: Vec<_> = codecs
            .map(|(sid, codec)| call.fixture.publish(mallory, sid, codec, &[]))
            .collect();
        let tracks: [Publication; 2] = tracks.try_into().expect("two codecs");
        tracks
            .iter()
            .for_each(|track| call.fixture.subscribe(call.bob, track));
        Self { call, tracks }
    }

    /// Handles a record: the action, the step of the sequence number, the length of the descriptor, the descriptor, and the payload.
    fn handle(&mut self, record: &[u8]) {
        let Some(([flags, step, length], rest)) = record.split_first_chunk::<3>() else {
            return;
        };
        let fixture = &mut self.call.fixture;
        let which = usize::from(flags & 1);
        if flags & 0x80 != 0 {
            let quality = Quality::ALL[usize::from(flags >> 5 & 3) % 3];
            let settings = TrackSettings {
                quality,
                is_disabled: flags & 0x10 != 0,
                ..TrackSettings::default()
            };
            let track = NAMES[which].parse().unwrap();
            fixture.command(
                PeerCommand::SetTrackSettings { track, settings }
                    .for_peer("PA_bob".parse().unwrap()),
            );
            return;
        }
        let (descriptor, payload) = rest.split_at(usize::from(*length).min(rest.len()));
        // A client sends no larger packet.
        let payload = &payload[..payload.len().min(PAYLOAD)];
        let descriptor = (!descriptor.is_empty()).then(|| RawDescriptor(descriptor.to_vec()));
        let track = &mut self.tracks[which];
        // The sender's own numbers never decrease: its replay protection would drop such packets.
        track.sequence += u64::from(step % 4);
        track.timestamp = track
            .timestamp
            .wrapping_add(if flags & 2 != 0 { 3000 } else { 0 });
        fixture.send_part(track, payload, (flags & 4 != 0, descriptor));
    }
}

fn write_seeds() {
    // Key frames and delta frames of one and of two layers.
    let vp9: [&[u8]; 5] = [
        &[0b010, 0, 0, 0xba, 0x80, 1, 0x00, 0x20, 0, 7],
        &[0b100, 0, 0, 0xac, 0x80, 1, 0x02, 0, 7],
        &[0b010, 0, 0, 0xec, 0x80, 2, 0x00, 0, 7],
        &[0b010, 0, 0, 0x8c, 1, 7],
        &[0x80, 0, 0],
    ];
    // The structure of two temporal layers, and frames of both.
    let av1: [&[u8]; 4] = [
        &[
            0b111, 0, 10, 0xc0, 0, 1, 0x80, 0x00, 0x4e, 0xaa, 0x82, 0x80, 0, 0x18, 7, 7,
        ],
        &[0b111, 0, 3, 0xc1, 0, 2, 0x10, 7, 7],
        &[0b111, 0, 0, 0x18, 7, 7],
        &[0xe1, 0, 0],
    ];
    let [vp9, av1] = [&vp9[..], &av1].map(|records| {
        records
            .iter()
            .map(|record| record.to_vec())
            .collect::<Vec<_>>()
    });
    let both = [vp9.clone(), av1.clone()].concat();
    seeds::write(
        "layers",
        [
            records::write(&vp9),
            records::write(&av1),
            records::write(&both),
        ],
    );
}
