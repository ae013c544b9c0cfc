//! Reading a stream as it arrives.

use std::ops::ControlFlow;
use std::time::Duration;

use super::id;

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
struct Header {
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
        let Some(Header { id, size, length }) = header(rest) else {
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
                    id::TIMESTAMP_SCALE => self.scale = unsigned(content),
                    id::TIMESTAMP => self.cluster = unsigned(content),
                    _ => blocks.extend(block(content, self.cluster, self.scale)),
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

fn block(content: &[u8], cluster: u64, scale: u64) -> Option<Block> {
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
fn header(bytes: &[u8]) -> Option<Header> {
    let id_length = usize::try_from(bytes.first()?.leading_zeros()).ok()? + 1;
    let id = unsigned(bytes.get(..id_length.min(4))?);
    let rest = bytes.get(id_length.min(4)..)?;
    let size_length = (usize::try_from(rest.first()?.leading_zeros()).ok()? + 1).min(8);
    let size = unsigned(rest.get(..size_length)?);
    let mask = (1_u64 << (7 * size_length)) - 1;
    let size = (size & mask != mask).then_some(size & mask);
    Some(Header {
        id: u32::try_from(id).unwrap_or_default(),
        size,
        length: id_length.min(4) + size_length,
    })
}

fn unsigned(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::matroska::{Track, TrackKind, Writer};

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
