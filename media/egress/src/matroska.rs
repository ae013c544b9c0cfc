//! Matroska (RFC 9559) between this process and ffmpeg: it keeps timestamps, and can be written and read as a stream.
//!
//! A stream that is written ([`Writer`]) is a header, then a cluster for each frame. One that is read ([`Reader`]) comes in pieces of any
//! size.

use std::ops::ControlFlow;
use std::time::Duration;

/// Ids of elements.
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

/// A frame of a stream with one track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// When the frame is shown, from the start of the file.
    pub at: Duration,
    /// The encoded frame.
    pub data: Vec<u8>,
}

/// Finds the frames of a stream with one track, in pieces of any size.
#[derive(Debug)]
pub struct Reader {
    buffer: Vec<u8>,
    /// Bytes at the beginning of the buffer that have been read.
    read: usize,
    /// Bytes that are skipped before the next element.
    skipped: u64,
    /// The unit of timestamps in nanoseconds.
    scale: u64,
    /// The timestamp of the cluster, in units.
    cluster: u64,
}

/// The header of an element.
struct ElementHeader {
    id: u32,
    /// The bytes of the content; `None` if it is not known.
    size: Option<u64>,
    /// The bytes of the header itself.
    length: usize,
}

/// The most bytes of an element that is kept: more than the largest picture has.
const LARGEST: u64 = 64 * 1024 * 1024;

impl Default for Reader {
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

impl Reader {
    /// Takes the next bytes of the stream, and returns the frames that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Block> {
        self.buffer.extend_from_slice(bytes);
        let mut blocks = Vec::new();
        while self.read_element(&mut blocks).is_continue() {}
        self.buffer.drain(..self.read);
        self.read = 0;
        blocks
    }

    /// Reads an element, or the header of one whose children are read. Breaks if none is complete.
    fn read_element(&mut self, blocks: &mut Vec<Block>) -> ControlFlow<()> {
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
            (id::SEGMENT | id::INFO | id::CLUSTER | id::BLOCK_GROUP, _) | (_, None) => {
                self.read += length;
            }
            (id::TIMESTAMP_SCALE | id::TIMESTAMP | id::SIMPLE_BLOCK | id::BLOCK, Some(size))
                if size <= LARGEST =>
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

fn read_block(content: &[u8], cluster: u64, scale: u64) -> Option<Block> {
    // The number of the track in one byte, the time after the cluster's, and the flags.
    let [_, high, low, _, data @ ..] = content else {
        return None;
    };
    let units = cluster.saturating_add_signed(i16::from_be_bytes([*high, *low]).into());
    Some(Block {
        at: Duration::from_nanos(units.saturating_mul(scale)),
        data: data.to_vec(),
    })
}

/// Reads the header of an element; `None` if it is not complete.
fn read_header(bytes: &[u8]) -> Option<ElementHeader> {
    let id_length = usize::try_from(bytes.first()?.leading_zeros()).ok()? + 1;
    let id = read_number(bytes.get(..id_length.min(4))?);
    let rest = bytes.get(id_length.min(4)..)?;
    let size_length = (usize::try_from(rest.first()?.leading_zeros()).ok()? + 1).min(8);
    let size = read_number(rest.get(..size_length)?);
    let mask = (1_u64 << (7 * size_length)) - 1;
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
        let kind = TrackKind::Pictures {
            width: 64,
            height: 36,
            rate: 30,
        };
        let mut stream = Writer::header(&[Track {
            kind,
            private: vec![1, 2, 3],
        }]);
        for (micros, data) in frames {
            stream.extend(Writer::frame(1, Duration::from_micros(*micros), true, data));
        }
        stream
    }

    #[test]
    fn the_last_frame_is_read_like_any_other() {
        for is_key in [true, false] {
            let last = Writer::last_frame(
                1,
                Duration::from_millis(5),
                Duration::from_secs(1),
                is_key,
                b"last",
            );
            let stream = [
                stream(&[(1_000, b"first".to_vec())]),
                last,
                Writer::frame(1, Duration::from_millis(7), true, b"x"),
            ];
            let read: Vec<_> = Reader::default()
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
        fn what_is_written_is_read_in_pieces_of_any_size(
            frames in prop::collection::vec((0u64..10_000_000_000, prop::collection::vec(any::<u8>(), 0..200)), 0..8),
            piece in 1usize..300,
        ) {
            let mut reader = Reader::default();
            let read: Vec<_> = stream(&frames).chunks(piece).flat_map(|piece| reader.push(piece)).collect();
            let read: Vec<_> = read.into_iter().map(|block| (block.at.as_micros() as u64, block.data)).collect();
            prop_assert_eq!(read, frames);
        }

        #[test]
        fn nonsense_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut reader = Reader::default();
            bytes.chunks(7).for_each(|piece| drop(reader.push(piece)));
        }
    }
}
