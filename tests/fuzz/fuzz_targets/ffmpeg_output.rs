//! The output of ffmpeg: its format, the size of its pieces, and its bytes.
//!
//! The parsed output does not depend on the pieces, and is not longer than the input.

#![no_main]

use std::fmt::Debug;
use std::time::{Duration, Instant};

use conclave_egress::fuzzing::{
    FILE_HEADER_BYTES, FlvSplitter, MatroskaReader, MatroskaTrack, MatroskaTrackKind,
    MatroskaWriter,
};
use conclave_fuzz::seeds;
use conclave_media::embedded::encoders::rtmp::{
    FileReader, Medium, OggPackets, Timeline, VideoTag, file_header, file_tag, packets, read_video,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: write_seeds(), |data: &[u8]| {
    let [format, piece, stream @ ..] = data else { return };
    let piece = usize::from(*piece) + 1;
    match format % 4 {
        0 => {
            let blocks = same(stream, piece, MatroskaReader::default, MatroskaReader::push);
            assert!(blocks.iter().map(|block| block.data.len()).sum::<usize>() <= stream.len());
        }
        1 => {
            let tags = same(stream, piece, FlvSplitter::default, FlvSplitter::push);
            let tags: Vec<_> = tags.into_iter().flat_map(|tag| tag.bytes).collect();
            assert!(stream.get(FILE_HEADER_BYTES..).unwrap_or_default().starts_with(&tags));
        }
        2 => forward(&same(stream, piece, FileReader::default, FileReader::read)),
        _ => {
            let packets = same(stream, piece, OggPackets::default, OggPackets::read);
            assert!(packets.iter().map(Vec::len).sum::<usize>() <= stream.len());
        }
    }
});

/// Reads a stream as a whole and in pieces, with equal results.
fn same<R, T: Debug + PartialEq>(
    stream: &[u8],
    piece: usize,
    new: impl Fn() -> R,
    read: impl Fn(&mut R, &[u8]) -> Vec<T>,
) -> Vec<T> {
    let whole = read(&mut new(), stream);
    let mut reader = new();
    let pieces: Vec<_> = stream
        .chunks(piece)
        .flat_map(|piece| read(&mut reader, piece))
        .collect();
    assert_eq!(whole, pieces);
    whole
}

/// Packetizes ffmpeg's video.
fn forward(messages: &[(u32, Vec<u8>)]) {
    let (mut timeline, mut parameters) = (Timeline::new(), None);
    let now = Instant::now();
    for (time, body) in messages {
        if let Some(VideoTag::Parameters(read)) = read_video(body) {
            parameters = Some(read);
        } else if let Some(parameters) = &parameters {
            let time = timeline.at(Duration::from_millis((*time).into()), now);
            let packets = packets(parameters, time, body);
            assert!(
                packets
                    .iter()
                    .map(|packet| packet.payload.len())
                    .sum::<usize>()
                    <= 2 * body.len() + 70_000
            );
        }
    }
}

fn write_seeds() {
    let kinds = [
        MatroskaTrackKind::Pcm,
        MatroskaTrackKind::RawVideo {
            width: 4,
            height: 2,
            rate: 30,
        },
    ];
    let matroska = kinds.map(|kind| {
        let frame = MatroskaWriter::frame(1, Duration::from_millis(40), true, &[7; 12]);
        [
            &[0, 16][..],
            &MatroskaWriter::header(&[MatroskaTrack {
                kind,
                private: Vec::new(),
            }]),
            &frame,
        ]
        .concat()
    });
    let parameters = [
        0x17, 0, 0, 0, 0, 1, 0x42, 0xc0, 0x1f, 0xff, 0xe1, 0, 3, 0x67, 0x42, 9, 1, 0, 1, 0x68,
    ];
    let frame = [0x17, 1, 0, 0, 0, 0, 0, 0, 3, 0x65, 0x88, 1];
    let bodies: [&[u8]; 2] = [&parameters, &frame];
    let tags = bodies
        .map(|body| file_tag(Medium::Video, 40, body).unwrap())
        .concat();
    let flv = [1, 2].map(|format| [&[format, 16][..], &file_header(Medium::Video), &tags].concat());
    // One page with one packet each for the Opus header, its tags, and audio.
    let page = |number: u8, packet: &[u8]| {
        let before = [b"OggS\0\0", &[0; 8][..], &[7, 0, 0, 0, number, 0, 0, 0]].concat();
        let behind = [&[1, u8::try_from(packet.len()).unwrap()], packet].concat();
        let sum = checksum(&[&before, &[0; 4][..], &behind].concat());
        [before, sum.to_le_bytes().to_vec(), behind].concat()
    };
    let ogg = [
        &[3, 16][..],
        &page(0, b"OpusHead"),
        &page(1, b"OpusTags"),
        &page(2, &[0xfc, 1, 2]),
    ]
    .concat();
    seeds::write(
        "ffmpeg_output",
        matroska.into_iter().chain(flv).chain([ogg]),
    );
}

/// Returns the checksum of an Ogg page (RFC 3533, section 6).
fn checksum(page: &[u8]) -> u32 {
    let shift = |sum: u32, _| {
        if sum >> 31 == 1 {
            sum << 1 ^ 0x04c1_1db7
        } else {
            sum << 1
        }
    };
    page.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte) << 24, shift)
    })
}
