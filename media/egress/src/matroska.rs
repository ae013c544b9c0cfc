//! Writing a stream: a header, then a cluster for each frame.

use std::time::Duration;

use super::id;

/// A track of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// Whether the track has audio or video.
    pub kind: TrackKind,
    /// What the decoder has to know beforehand.
    pub private: Vec<u8>,
}

/// The content of a track.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TrackKind {
    /// Encoded video, with its codec id and its size in pixels, if that is known.
    Video {
        /// Such as `V_VP8` or `V_MPEG4/ISO/AVC`.
        codec: &'static str,
        /// Width and height in pixels.
        size: Option<(u32, u32)>,
    },
    /// Opus, decoded as two channels.
    Opus,
    /// Pictures of planes of Y, U and V, the latter two at half the width and height.
    Pictures {
        /// The width in pixels.
        width: u32,
        /// The height in pixels.
        height: u32,
        /// Pictures per second.
        rate: u32,
    },
    /// Samples of two channels, 48,000 a second, each of 16 bits, least significant byte first.
    Samples,
}

/// Writes the header and the frames of a stream.
#[derive(Debug, Clone, Copy)]
pub struct Writer;

/// The unit of timestamps, in nanoseconds.
const SCALE: u64 = 1_000;

impl Writer {
    /// Returns the beginning of a stream. The tracks are numbered from 1.
    pub fn header(tracks: &[Track]) -> Vec<u8> {
        let mut ebml = Vec::new();
        for (id, value) in [(0x4286, 1), (0x42f7, 1), (0x42f2, 4), (0x42f3, 8)] {
            unsigned(&mut ebml, id, value);
        }
        element(&mut ebml, 0x4282, b"matroska");
        unsigned(&mut ebml, 0x4287, 4);
        unsigned(&mut ebml, 0x4285, 2);
        let mut info = Vec::new();
        unsigned(&mut info, id::TIMESTAMP_SCALE, SCALE);
        element(&mut info, 0x4d80, b"conclave");
        element(&mut info, 0x5741, b"conclave");
        let mut entries = Vec::new();
        for (track, number) in tracks.iter().zip(1..) {
            element(&mut entries, id::TRACK_ENTRY, &entry(track, number));
        }
        let mut header = Vec::new();
        element(&mut header, id::EBML, &ebml);
        put_id(&mut header, id::SEGMENT);
        // The size of a stream is not known.
        header.extend_from_slice(&[0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        element(&mut header, id::INFO, &info);
        element(&mut header, id::TRACKS, &entries);
        header
    }

    /// Returns what comes before the data of a frame of a track, which has this many bytes.
    pub fn frame_header(track: u8, at: Duration, is_key: bool, bytes: usize) -> Vec<u8> {
        let timestamp = timestamp(at);
        let mut block = Vec::new();
        put_id(&mut block, id::SIMPLE_BLOCK);
        put_size(&mut block, bytes + 4);
        // The number of the track, the time after the cluster's, and the flags.
        block.extend_from_slice(&[0x80 | track, 0, 0, if is_key { 0x80 } else { 0 }]);
        let mut cluster = Vec::new();
        put_id(&mut cluster, id::CLUSTER);
        put_size(&mut cluster, timestamp.len() + block.len() + bytes);
        cluster.extend_from_slice(&timestamp);
        cluster.extend_from_slice(&block);
        cluster
    }

    /// Returns a frame of a track.
    pub fn frame(track: u8, at: Duration, is_key: bool, data: &[u8]) -> Vec<u8> {
        let mut frame = Self::frame_header(track, at, is_key, data.len());
        frame.extend_from_slice(data);
        frame
    }

    /// Returns the last frame of a track, which nothing else gives a duration.
    pub fn last_frame(
        track: u8,
        at: Duration,
        duration: Duration,
        is_key: bool,
        data: &[u8],
    ) -> Vec<u8> {
        let mut block = vec![0x80 | track, 0, 0, 0];
        block.extend_from_slice(data);
        let mut group = Vec::new();
        element(&mut group, 0xa1, &block);
        unsigned(&mut group, 0x9b, micros(duration));
        if !is_key {
            // The frame before.
            element(&mut group, 0xfb, &[0xff]);
        }
        let mut content = timestamp(at);
        element(&mut content, 0xa0, &group);
        let mut cluster = Vec::new();
        element(&mut cluster, id::CLUSTER, &content);
        cluster
    }
}

fn timestamp(at: Duration) -> Vec<u8> {
    let mut timestamp = Vec::new();
    unsigned(&mut timestamp, id::TIMESTAMP, micros(at));
    timestamp
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn entry(track: &Track, number: u64) -> Vec<u8> {
    let mut entry = Vec::new();
    unsigned(&mut entry, 0xd7, number);
    unsigned(&mut entry, 0x73c5, number);
    let is_video = matches!(
        track.kind,
        TrackKind::Video { .. } | TrackKind::Pictures { .. }
    );
    unsigned(&mut entry, 0x83, if is_video { 1 } else { 2 });
    // Frames are not put together into blocks.
    unsigned(&mut entry, 0x9c, 0);
    let (codec, settings) = match track.kind {
        TrackKind::Video { codec, size } => (codec, video(size)),
        TrackKind::Opus => ("A_OPUS", audio(None)),
        TrackKind::Samples => ("A_PCM/INT/LIT", audio(Some(16))),
        TrackKind::Pictures {
            width,
            height,
            rate,
        } => {
            unsigned(
                &mut entry,
                0x23_e383,
                1_000_000_000 / u64::from(rate.max(1)),
            );
            let mut settings = video(Some((width, height)));
            element(&mut settings, 0x2e_b524, b"I420");
            ("V_UNCOMPRESSED", settings)
        }
    };
    element(&mut entry, 0x86, codec.as_bytes());
    if !track.private.is_empty() {
        element(&mut entry, 0x63a2, &track.private);
    }
    element(&mut entry, if is_video { 0xe0 } else { 0xe1 }, &settings);
    entry
}

fn video(size: Option<(u32, u32)>) -> Vec<u8> {
    let mut settings = Vec::new();
    if let Some((width, height)) = size {
        unsigned(&mut settings, 0xb0, width.into());
        unsigned(&mut settings, 0xba, height.into());
    }
    settings
}

fn audio(bits: Option<u64>) -> Vec<u8> {
    let mut settings = Vec::new();
    element(&mut settings, 0xb5, &48_000_f32.to_be_bytes());
    unsigned(&mut settings, 0x9f, 2);
    bits.into_iter()
        .for_each(|bits| unsigned(&mut settings, 0x6264, bits));
    settings
}

fn unsigned(out: &mut Vec<u8>, id: u32, value: u64) {
    let bytes = value.to_be_bytes();
    let leading = bytes.iter().take_while(|byte| **byte == 0).count().min(7);
    element(out, id, &bytes[leading..]);
}

fn element(out: &mut Vec<u8>, id: u32, content: &[u8]) {
    put_id(out, id);
    put_size(out, content.len());
    out.extend_from_slice(content);
}

fn put_id(out: &mut Vec<u8>, id: u32) {
    let bytes = id.to_be_bytes();
    let leading = bytes.iter().take_while(|byte| **byte == 0).count();
    out.extend_from_slice(&bytes[leading..]);
}

/// Writes a size in eight bytes, of which the first bit that is set says so.
fn put_size(out: &mut Vec<u8>, size: usize) {
    let size = u64::try_from(size).unwrap_or(u64::MAX) & 0x00ff_ffff_ffff_ffff;
    out.extend_from_slice(&(size | 1 << 56).to_be_bytes());
}
