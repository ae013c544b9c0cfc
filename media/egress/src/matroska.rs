//! Matroska (RFC 9559) between this process and ffmpeg.
//!
//! It keeps arbitrary timestamps, takes all codecs and raw media, and needs no seeking, so it works
//! over pipes. Pipes without a container would need a fixed frame rate, and a raw frame could not
//! be late or missing.
//!
//! # Writing
//!
//! [`MatroskaWriter`] writes a header and then one cluster per frame:
//!
//! ```text
//! EBML     version and document type
//! Segment  unknown size: the stream ends with the pipe
//!   Info     timestamp scale: microseconds
//!   Tracks   one entry per track, numbered from 1
//!   Cluster  Timestamp, SimpleBlock
//!   Cluster  …
//! ```
//!
//! A cluster per frame costs some 30 bytes. In return, each frame has a full timestamp, although
//! blocks have only 16 bits relative to their cluster's, and a reader that lost a chunk resumes at
//! the next one. The order of clusters is the order of writing; ffmpeg accepts tracks whose times
//! overlap.
//!
//! # Reading
//!
//! [`MatroskaReader`] reads decoded frames from ffmpeg, in pieces of any size. It knows as little
//! as possible: it descends into the segment, its clusters and block groups, reads timestamps and
//! blocks, and skips everything else by its size. Its input comes from a process that decodes
//! untrusted media, so no element may be larger than 64 MiB, and malformed input yields no frames rather than an error: a composition does not wait for a decoder without progress.

use std::ops::ControlFlow;
use std::time::Duration;

/// Element ids.
mod id {
    pub const EBML: u32 = 0x1a45_dfa3;
    pub const SEGMENT: u32 = 0x1853_8067;
    pub const INFO: u32 = 0x1549_a966;
    pub const TIMESTAMP_SCALE: u32 = 0x2a_d7b1;
    pub const TRACKS: u32 = 0x1654_ae6b;
    pub const TRACK_ENTRY: u32 = 0xae;
    pub const CLUSTER: u32 = 0x1f43_b675;
    pub const TIMESTAMP: u32 = 0xe7;
    pub const SIMPLE_BLOCK: u32 = 0xa3;
    pub const BLOCK_GROUP: u32 = 0xa0;
    pub const BLOCK: u32 = 0xa1;
}

/// Stream track.
#[derive(Debug, Clone, PartialEq)]
pub struct MatroskaTrack {
    /// Track media.
    pub kind: MatroskaTrackKind,
    /// Decoder configuration (`CodecPrivate`).
    pub private: Vec<u8>,
}

/// Track media.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MatroskaTrackKind {
    /// Encoded video.
    Video {
        /// Codec id, such as `V_VP8` or `V_MPEG4/ISO/AVC`.
        codec: &'static str,
        /// Width and height in pixels, if known.
        size: Option<(u32, u32)>,
    },
    /// Opus, decoded to two channels.
    Opus,
    /// Raw frames in I420.
    RawVideo {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
        /// Frames per second.
        rate: u32,
    },
    /// Raw audio: stereo at 48,000 samples per second, 16 bits, little-endian.
    Pcm,
}

/// Stream writer.
#[derive(Debug, Clone, Copy)]
pub struct MatroskaWriter;

// Microseconds: the usual milliseconds would round frame times unevenly.
const TIMESTAMP_SCALE_NANOS: u64 = 1_000;

impl MatroskaWriter {
    /// Returns the stream header. Tracks are numbered from 1.
    pub fn header(tracks: &[MatroskaTrack]) -> Vec<u8> {
        let mut ebml = Vec::new();
        // EBMLVersion, EBMLReadVersion, EBMLMaxIDLength, EBMLMaxSizeLength.
        for (id, value) in [(0x4286, 1), (0x42f7, 1), (0x42f2, 4), (0x42f3, 8)] {
            unsigned(&mut ebml, id, value);
        }
        // DocType, then DocTypeVersion and DocTypeReadVersion.
        element(&mut ebml, 0x4282, b"matroska");
        unsigned(&mut ebml, 0x4287, 4);
        unsigned(&mut ebml, 0x4285, 2);
        let mut info = Vec::new();
        unsigned(&mut info, id::TIMESTAMP_SCALE, TIMESTAMP_SCALE_NANOS);
        // MuxingApp and WritingApp, which are mandatory.
        element(&mut info, 0x4d80, b"conclave");
        element(&mut info, 0x5741, b"conclave");
        let mut entries = Vec::new();
        for (track, number) in tracks.iter().zip(1..) {
            element(&mut entries, id::TRACK_ENTRY, &entry(track, number));
        }
        let mut header = Vec::new();
        element(&mut header, id::EBML, &ebml);
        put_id(&mut header, id::SEGMENT);
        // Unknown size, for a live stream.
        header.extend_from_slice(&[0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        element(&mut header, id::INFO, &info);
        element(&mut header, id::TRACKS, &entries);
        header
    }

    /// Returns a frame without its data, which has this many bytes.
    pub fn frame_header(track: u8, at: Duration, is_key: bool, bytes: usize) -> Vec<u8> {
        let timestamp = timestamp(at);
        let mut block = Vec::new();
        put_id(&mut block, id::SIMPLE_BLOCK);
        put_size(&mut block, bytes + 4);
        // Track number, time relative to the cluster, flags.
        block.extend_from_slice(&[0x80 | track, 0, 0, if is_key { 0x80 } else { 0 }]);
        let mut cluster = Vec::new();
        put_id(&mut cluster, id::CLUSTER);
        put_size(&mut cluster, timestamp.len() + block.len() + bytes);
        cluster.extend_from_slice(&timestamp);
        cluster.extend_from_slice(&block);
        cluster
    }

    /// Returns a frame.
    pub fn frame(track: u8, at: Duration, is_key: bool, data: &[u8]) -> Vec<u8> {
        let mut frame = Self::frame_header(track, at, is_key, data.len());
        frame.extend_from_slice(data);
        frame
    }

    /// Returns a track's last frame with a duration, as no later frame ends it.
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
        // BlockDuration.
        unsigned(&mut group, 0x9b, micros(duration));
        if !is_key {
            // A reference to the previous frame marks this one as no key frame.
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

fn entry(track: &MatroskaTrack, number: u64) -> Vec<u8> {
    let mut entry = Vec::new();
    // TrackNumber, TrackUID, TrackType.
    unsigned(&mut entry, 0xd7, number);
    unsigned(&mut entry, 0x73c5, number);
    let is_video = matches!(
        track.kind,
        MatroskaTrackKind::Video { .. } | MatroskaTrackKind::RawVideo { .. }
    );
    unsigned(&mut entry, 0x83, if is_video { 1 } else { 2 });
    // No lacing: each block has one frame.
    unsigned(&mut entry, 0x9c, 0);
    let (codec, settings) = match track.kind {
        MatroskaTrackKind::Video { codec, size } => (codec, video(size)),
        MatroskaTrackKind::Opus => ("A_OPUS", audio(None)),
        MatroskaTrackKind::Pcm => ("A_PCM/INT/LIT", audio(Some(16))),
        MatroskaTrackKind::RawVideo {
            width,
            height,
            rate,
        } => {
            unsigned(
                &mut entry,
                // DefaultDuration, in nanoseconds: ffmpeg takes the frame rate from it.
                0x23_e383,
                1_000_000_000 / u64::from(rate.max(1)),
            );
            let mut settings = video(Some((width, height)));
            // UncompressedFourCC.
            element(&mut settings, 0x2e_b524, b"I420");
            ("V_UNCOMPRESSED", settings)
        }
    };
    // CodecID, then CodecPrivate.
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
        // PixelWidth, PixelHeight.
        unsigned(&mut settings, 0xb0, width.into());
        unsigned(&mut settings, 0xba, height.into());
    }
    settings
}

fn audio(bits: Option<u64>) -> Vec<u8> {
    let mut settings = Vec::new();
    // SamplingFrequency, Channels, BitDepth.
    element(&mut settings, 0xb5, &48_000_f32.to_be_bytes());
    unsigned(&mut settings, 0x9f, 2);
    bits.into_iter()
        .for_each(|bits| unsigned(&mut settings, 0x6264, bits));
    settings
}

fn unsigned(out: &mut Vec<u8>, id: u32, value: u64) {
    let bytes = value.to_be_bytes();
    // At least one byte, for the value 0.
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

/// Writes a size in eight bytes. The first set bit encodes that length.
fn put_size(out: &mut Vec<u8>, size: usize) {
    let size = u64::try_from(size).unwrap_or(u64::MAX) & 0x00ff_ffff_ffff_ffff;
    out.extend_from_slice(&(size | 1 << 56).to_be_bytes());
}

/// Frame in a stream with one track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatroskaBlock {
    /// Presentation time since the stream's start.
    pub at: Duration,
    /// Encoded frame.
    pub data: Vec<u8>,
}

/// Parser for a stream with one track.
#[derive(Debug)]
pub struct MatroskaReader {
    buffer: Vec<u8>,
    /// Parsed bytes at the start of the buffer.
    read: usize,
    /// Bytes to skip before the next element.
    skipped: u64,
    /// Nanoseconds per timestamp unit.
    scale: u64,
    /// Current cluster's timestamp, in units.
    cluster: u64,
}

/// Element header.
struct ElementHeader {
    id: u32,
    /// Content length in bytes; `None` if unknown.
    size: Option<u64>,
    /// Header length in bytes.
    length: usize,
}

// More than the largest raw frame has. Larger elements are skipped, so that a broken stream cannot
// fill the memory.
const MAX_ELEMENT_BYTES: u64 = 64 * 1024 * 1024;

impl Default for MatroskaReader {
    fn default() -> Self {
        Self {
            buffer: Vec::new(),
            read: 0,
            skipped: 0,
            scale: 1_000_000,
            cluster: 0,
        }
    }
}

impl MatroskaReader {
    /// Adds the next bytes, and returns the frames that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<MatroskaBlock> {
        self.buffer.extend_from_slice(bytes);
        let mut blocks = Vec::new();
        while self.read_element(&mut blocks).is_continue() {}
        self.buffer.drain(..self.read);
        self.read = 0;
        blocks
    }

    /// Parses an element, or only the header if its children are parsed, too. Breaks if it is
    /// incomplete.
    fn read_element(&mut self, blocks: &mut Vec<MatroskaBlock>) -> ControlFlow<()> {
        let rest = &self.buffer[self.read..];
        if self.skipped > 0 {
            let skipped = usize::try_from(self.skipped)
                .unwrap_or(usize::MAX)
                .min(rest.len());
            self.read += skipped;
            self.skipped -= u64::try_from(skipped).unwrap_or_default();
            return if self.skipped == 0 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            };
        }
        let Some(ElementHeader { id, size, length }) = read_header(rest) else {
            return ControlFlow::Break(());
        };
        match (id, size) {
            // Only the header: the children follow. Elements with an unknown size are parsed through their children, too.
            (id::SEGMENT | id::INFO | id::CLUSTER | id::BLOCK_GROUP, _) | (_, None) => {
                self.read += length;
            }
            (id::TIMESTAMP_SCALE | id::TIMESTAMP | id::SIMPLE_BLOCK | id::BLOCK, Some(size))
                if size <= MAX_ELEMENT_BYTES =>
            {
                let end = length + usize::try_from(size).unwrap_or_default();
                let Some(content) = rest.get(length..end) else {
                    return ControlFlow::Break(());
                };
                match id {
                    id::TIMESTAMP_SCALE => self.scale = read_number(content),
                    id::TIMESTAMP => self.cluster = read_number(content),
                    _ => blocks.extend(read_block(content, self.cluster, self.scale)),
                }
                self.read += end;
            }
            (_, Some(size)) => {
                self.read += length;
                self.skipped = size;
            }
        }
        ControlFlow::Continue(())
    }
}

fn read_block(content: &[u8], cluster: u64, scale: u64) -> Option<MatroskaBlock> {
    // Track number in one byte, time relative to the cluster, flags.
    let [_, high, low, _, data @ ..] = content else {
        return None;
    };
    let units = cluster.saturating_add_signed(i16::from_be_bytes([*high, *low]).into());
    Some(MatroskaBlock {
        at: Duration::from_nanos(units.saturating_mul(scale)),
        data: data.to_vec(),
    })
}

/// Parses an element's header; `None` if it is incomplete.
fn read_header(bytes: &[u8]) -> Option<ElementHeader> {
    let id_length = usize::try_from(bytes.first()?.leading_zeros()).ok()? + 1;
    let id = read_number(bytes.get(..id_length.min(4))?);
    let rest = bytes.get(id_length.min(4)..)?;
    let size_length = (usize::try_from(rest.first()?.leading_zeros()).ok()? + 1).min(8);
    let size = read_number(rest.get(..size_length)?);
    let mask = (1_u64 << (7 * size_length)) - 1;
    // All ones mean an unknown size (RFC 8794, section 6.2).
    let size = (size & mask != mask).then_some(size & mask);
    Some(ElementHeader {
        id: u32::try_from(id).unwrap_or_default(),
        size,
        length: id_length.min(4) + size_length,
    })
}

fn read_number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream(frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let kind = MatroskaTrackKind::RawVideo {
            width: 64,
            height: 36,
            rate: 30,
        };
        let mut stream = MatroskaWriter::header(&[MatroskaTrack {
            kind,
            private: vec![1, 2, 3],
        }]);
        for (micros, data) in frames {
            stream.extend(MatroskaWriter::frame(
                1,
                Duration::from_micros(*micros),
                true,
                data,
            ));
        }
        stream
    }

    #[test]
    fn the_last_frame_is_read_like_any_other() {
        for is_key in [true, false] {
            let last = MatroskaWriter::last_frame(
                1,
                Duration::from_millis(5),
                Duration::from_secs(1),
                is_key,
                b"last",
            );
            let stream = [
                stream(&[(1_000, b"first".to_vec())]),
                last,
                MatroskaWriter::frame(1, Duration::from_millis(7), true, b"x"),
            ];
            let read: Vec<_> = MatroskaReader::default()
                .push(&stream.concat())
                .into_iter()
                .map(|block| (block.at, block.data))
                .collect();
            let expected = [(1, &b"first"[..]), (5, b"last"), (7, b"x")];
            assert_eq!(
                read,
                expected.map(|(at, data)| (Duration::from_millis(at), data.to_vec()))
            );
        }
    }

    proptest! {
        #[test]
        fn frames_are_read_back_from_pieces_of_any_size(
            frames in prop::collection::vec((0u64..10_000_000_000, prop::collection::vec(any::<u8>(), 0..200)), 0..8),
            piece in 1usize..300,
        ) {
            let mut reader = MatroskaReader::default();
            let read: Vec<_> = stream(&frames).chunks(piece).flat_map(|piece| reader.push(piece)).collect();
            let read: Vec<_> = read.into_iter().map(|block| (block.at.as_micros() as u64, block.data)).collect();
            prop_assert_eq!(read, frames);
        }

        #[test]
        fn nonsense_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut reader = MatroskaReader::default();
            bytes.chunks(7).for_each(|piece| drop(reader.push(piece)));
        }
    }
}
