//! Packets of a recorded track: its codec, and a header and a payload for each packet.
//!
//! Frame times never decrease, and ffmpeg's input can be parsed again.

#![no_main]

use std::sync::LazyLock;
use std::time::{Duration, Instant, UNIX_EPOCH};

use conclave_egress::fuzzing::{
    EncodedFrame, MatroskaReader, MatroskaWriter, PublisherClock, TrackReader, header,
    opus_duration,
};
use conclave_fuzz::{records, seeds};
use conclave_sfu::{Codec, RecordedPacket, SenderReport};
use libfuzzer_sys::fuzz_target;

/// Codecs, selected by an input's first byte.
const CODECS: [Codec; 6] = [
    Codec::Opus,
    Codec::Vp8,
    Codec::H264,
    Codec::Vp9,
    Codec::Av1,
    Codec::H265,
];

/// Number of header bytes in a record.
const HEADER: usize = 8;

static START: LazyLock<Instant> = LazyLock::new(|| Instant::now() + Duration::from_secs(1));

fuzz_target!(init: write_seeds(), |data: &[u8]| {
    let Some((codec, rest)) = data.split_first() else { return };
    let codec = CODECS[usize::from(*codec) % CODECS.len()];
    let mut track = Track {
        codec,
        reader: TrackReader::new(codec, *START),
        clock: PublisherClock::default(),
        sequence: 1_000,
        now: *START,
    };
    let frames: Vec<_> = records::read(rest).filter_map(|record| track.packet(record)).collect();
    let frames: Vec<_> = frames.into_iter().flat_map(|packet| track.reader.push(packet, &mut track.clock)).collect();
    check(codec, &frames);
});

/// A track, and the state for its next packet.
struct Track {
    codec: Codec,
    reader: TrackReader,
    clock: PublisherClock,
    sequence: u64,
    now: Instant,
}

impl Track {
    /// Parses a record into a packet: flags, the steps of the sequence number and the arrival time, and two timestamps, the packet's and the
    /// sender report's.
    fn packet(&mut self, record: &[u8]) -> Option<RecordedPacket> {
        let ([flags, step, wait, report, timestamp @ ..], payload) =
            record.split_first_chunk::<HEADER>()?;
        self.sequence = self
            .sequence
            .saturating_add_signed(i64::from(step.cast_signed()));
        self.now += Duration::from_millis((*wait).into());
        // Any time that a sender report can contain, including times before 1970.
        let seconds = u64::from(*report) << 24;
        let report = SenderReport {
            timestamp: seconds as u32,
            at: UNIX_EPOCH + Duration::from_secs(seconds),
        };
        Some(RecordedPacket {
            track: "TR_1".parse().unwrap(),
            layer: usize::from(flags >> 3 & 3),
            codec: self.codec,
            sequence: self.sequence,
            timestamp: u32::from_be_bytes(*timestamp),
            is_marked: flags & 1 != 0,
            is_entry_point: flags & 2 != 0,
            payload: payload.into(),
            arrived: self.now,
            report: (flags & 4 != 0).then_some(report),
        })
    }
}

fn check(codec: Codec, frames: &[EncodedFrame]) {
    assert!(frames.iter().all(|frame| !frame.data.is_empty()));
    assert!(frames.is_sorted_by_key(|frame| frame.at));
    for frame in frames {
        let _ = opus_duration(&frame.data);
    }
    let Some(track) = frames.iter().find_map(|frame| header(codec, frame)) else {
        return;
    };
    let written = frames
        .iter()
        .flat_map(|frame| MatroskaWriter::frame(1, frame.at, frame.is_key, &frame.data));
    let stream: Vec<u8> = MatroskaWriter::header(&[track])
        .into_iter()
        .chain(written)
        .collect();
    let read = MatroskaReader::default().push(&stream);
    let read: Vec<_> = read
        .iter()
        .map(|block| (block.at, block.data.as_slice()))
        .collect();
    assert_eq!(
        read,
        frames
            .iter()
            .map(|frame| (frame.at, frame.data.as_slice()))
            .collect::<Vec<_>>()
    );
}

fn write_seeds() {
    const NEXT: [u8; HEADER] = [0b011, 1, 20, 0, 0, 0, 0, 0];
    const FIRST: [u8; HEADER] = [0b010, 1, 20, 0, 0, 0, 0, 0];
    const LAST: [u8; HEADER] = [0b001, 1, 20, 0, 0, 0, 0, 0];
    const REPORTED: [u8; HEADER] = [0b111, 1, 20, 9, 9, 0, 0, 0];
    let packet = |header: [u8; HEADER], payload: &[u8]| [&header[..], payload].concat();
    let opus = [packet(NEXT, &[0x78, 1, 2]), packet(REPORTED, &[0xfb, 2, 3])];
    let vp8 = [
        packet(
            FIRST,
            &[0x90, 0x80, 1, 0x10, 2, 0, 0x9d, 1, 0x2a, 0, 5, 0xd0, 2],
        ),
        packet(LAST, &[0x80, 0x80, 1, 7]),
        packet(LAST, &[0x10, 1, 2, 3]),
    ];
    let h264 = [
        packet(FIRST, &[0x78, 0, 4, 0x67, 66, 0, 31, 0, 2, 0x68, 9]),
        packet(FIRST, &[0x7c, 0x85, 1]),
        packet(LAST, &[0x7c, 0x45, 2]),
    ];
    let vp9 = [
        packet(
            FIRST,
            &[
                0x28, 0x00, 0, 0x82, 0x49, 0x83, 0x42, 0x00, 0x13, 0xf0, 0x0b, 0x36, 0,
            ],
        ),
        packet(LAST, &[0x2c, 0x02, 0, 0x86, 0x00, 0x40]),
    ];
    let av1 = [
        packet(
            FIRST,
            &[
                0x68, 13, 0x08, 0, 0, 0, 4, 0x3c, 0xfe, 0xcc, 0xda, 0xf9, 0, 0x40, 0, 0x30, 1,
            ],
        ),
        packet(LAST, &[0x90, 2, 3]),
    ];
    let h265 = [
        packet(
            FIRST,
            &[
                0x42, 1, 1, 1, 0x60, 0, 0, 3, 0, 0x90, 0, 0, 3, 0, 0, 3, 0, 0x3c, 0xa0, 0x0a, 8,
                0x0b, 0x9f, 0x79,
            ],
        ),
        packet(FIRST, &[0x62, 1, 0x93, 1]),
        packet(LAST, &[0x62, 1, 0x53, 2]),
    ];
    let seed = |codec: u8, packets: &[Vec<u8>]| [vec![codec], records::write(packets)].concat();
    let of_video = [
        seed(1, &vp8),
        seed(2, &h264),
        seed(3, &vp9),
        seed(4, &av1),
        seed(5, &h265),
    ];
    seeds::write("recording", of_video.into_iter().chain([seed(0, &opus)]));
}
