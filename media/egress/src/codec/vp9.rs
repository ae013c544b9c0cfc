//! VP9 frames from RTP payloads (RFC 9628), and the frame header (VP9 specification, section 6.2).
//!
//! RFC 9628 calls the *frames* of all spatial layers at one time a `picture`. Containers store it
//! as a superframe.

use conclave_sfu::{Bits, Vp9Descriptor};

use super::{AnnouncedSize, Container, FrameAssembler, VideoFormat};

// The superframe index has three bits for the frame count.
const MAX_LAYERS: usize = 8;
// Marker bits around the superframe index.
const INDEX: u8 = 0xc0;
const SYNC_CODE: u32 = 0x49_8342;

/// Collects the frames of one `picture`.
#[derive(Debug, Default)]
pub struct Vp9Assembler {
    frames: Vec<Vec<u8>>,
}

impl FrameAssembler for Vp9Assembler {
    const FORMAT: VideoFormat = VideoFormat {
        matroska_id: "V_VP9",
        has_size: true,
        containers: &[Container::Webm, Container::Mp4],
        // ffmpeg's own decoder outputs every spatial layer's frames, libvpx only the best layer's.
        decoder: Some("libvpx-vp9"),
    };

    fn push(&mut self, payload: &[u8]) -> bool {
        let Some(descriptor) = Vp9Descriptor::parse(payload) else {
            return false;
        };
        if descriptor.layer.starts_frame {
            self.frames.push(Vec::new());
        }
        let has_room = self.frames.len() <= MAX_LAYERS;
        let Some(frame) = self.frames.last_mut().filter(|_| has_room) else {
            return false;
        };
        frame.extend_from_slice(&payload[descriptor.length..]);
        true
    }

    fn bytes(&self) -> usize {
        self.frames.iter().map(Vec::len).sum()
    }

    /// Returns the `picture`, with a superframe index if it has several frames (VP9 specification,
    /// annex B).
    fn take(&mut self) -> Vec<u8> {
        let frames = std::mem::take(&mut self.frames);
        let mut picture = frames.concat();
        if frames.len() < 2 {
            return picture;
        }
        let largest = frames.iter().map(Vec::len).max().unwrap_or_default();
        let size_bytes = (1..4_usize)
            .find(|bytes| largest >> (bytes * 8) == 0)
            .unwrap_or(4);
        // The fields have two and three bits; both values fit.
        let (size_field, count_field) = (
            (size_bytes - 1).to_le_bytes()[0],
            (frames.len() - 1).to_le_bytes()[0],
        );
        let marker = INDEX | size_field << 3 | count_field;
        picture.push(marker);
        frames
            .iter()
            .for_each(|frame| picture.extend_from_slice(&frame.len().to_le_bytes()[..size_bytes]));
        picture.push(marker);
        picture
    }

    fn announced(picture: &[u8]) -> AnnouncedSize {
        AnnouncedSize::largest(sizes(picture))
    }
}

/// Iterates over the frame sizes that a `picture` announces.
fn sizes(picture: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    frames(picture).into_iter().filter_map(size)
}

/// Splits a `picture` into frames by its superframe index, if it has one.
fn frames(picture: &[u8]) -> Vec<&[u8]> {
    let whole = vec![picture];
    let Some(marker) = picture
        .last()
        .copied()
        .filter(|marker| marker & 0xe0 == INDEX)
    else {
        return whole;
    };
    let (size_bytes, count) = (
        usize::from(marker >> 3 & 3) + 1,
        usize::from(marker & 7) + 1,
    );
    let Some(start) = picture.len().checked_sub(size_bytes * count + 2) else {
        return whole;
    };
    let (mut rest, index) = picture.split_at(start);
    // The marker stands at both ends. A frame may end with such a byte by chance.
    if index.first() != Some(&marker) {
        return whole;
    }
    let mut frames = Vec::new();
    for size in index[1..=size_bytes * count].chunks(size_bytes) {
        let size = size
            .iter()
            .rev()
            .fold(0, |size, byte| size << 8 | usize::from(*byte));
        let Some((frame, after)) = rest.split_at_checked(size) else {
            return whole;
        };
        frames.push(frame);
        rest = after;
    }
    frames
}

/// Returns the size that a profile 0 frame announces; `None` if it repeats a reference frame's
/// size.
fn size(frame: &[u8]) -> Option<(u32, u32)> {
    let mut bits = Bits::new(frame);
    let is_profile_0 = bits.number(4)? == 0b1000;
    let shows_existing = bits.flag()?;
    if !is_profile_0 || shows_existing {
        return None;
    }
    let (is_inter, is_shown, is_resilient) = (bits.flag()?, bits.flag()?, bits.flag()?);
    if !is_inter {
        skip_colours(&mut bits)?;
        return read_size(&mut bits);
    }
    let is_intra_only = !is_shown && bits.flag()?;
    bits.skip(if is_resilient { 0 } else { 2 })?;
    if is_intra_only {
        let has_sync_code = bits.number(24)? == SYNC_CODE;
        bits.skip(8)?;
        return read_size(&mut bits).filter(|_| has_sync_code);
    }
    // `refresh_frame_flags`, and three references with their sign bias.
    bits.skip(8 + 3 * 4)?;
    for _ in 0..3 {
        let has_size_of_reference = bits.flag()?;
        if has_size_of_reference {
            return None;
        }
    }
    read_size(&mut bits)
}

fn skip_colours(bits: &mut Bits<'_>) -> Option<()> {
    const RGB: u32 = 7;
    let has_sync_code = bits.number(24)? == SYNC_CODE;
    let space = bits.number(3)?;
    bits.skip(1)?;
    // Profile 0 does not allow RGB.
    (has_sync_code && space != RGB).then_some(())
}

fn read_size(bits: &mut Bits<'_>) -> Option<(u32, u32)> {
    Some((bits.number(16)? + 1, bits.number(16)? + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First bytes that libvpx writes for a 320x180 key frame.
    const KEY: [u8; 10] = [0x82, 0x49, 0x83, 0x42, 0x00, 0x13, 0xf0, 0x0b, 0x36, 0x00];

    #[test]
    fn a_superframe_has_an_index_and_announces_its_largest_frame() {
        let mut assembler = Vp9Assembler::default();
        assert!(
            !assembler.push(&[0x20, 0x00, 0, 1]),
            "it does not begin a frame"
        );
        assert!(assembler.push(&[&[0x28, 0x00, 0][..], &KEY[..4]].concat()));
        assert!(assembler.push(&[&[0x24, 0x00, 0][..], &KEY[4..]].concat()));
        // A 640x360 inter frame that refers to the key frame.
        let inter: Vec<u8> =
            "10000111 00000001 000000000000 000 0000001001111111 0000000101100111 0"
                .bytes()
                .filter(|bit| *bit != b' ')
                .collect::<Vec<_>>()
                .chunks(8)
                .map(|bits| {
                    bits.iter().fold(0, |byte, bit| byte << 1 | (bit - b'0')) << (8 - bits.len())
                })
                .collect();
        assert!(assembler.push(&[&[0x6c, 0x02, 0][..], &inter].concat()));
        let bytes = assembler.bytes();
        let whole = assembler.take();
        assert_eq!(
            (whole.len(), whole[bytes], whole[bytes + 1]),
            (bytes + 4, 0xc1, 10)
        );
        assert_eq!(sizes(&whole).collect::<Vec<_>>(), [(320, 180), (640, 360)]);
        assert_eq!(frames(&whole), [&KEY[..], &inter]);
        assert!(assembler.take().is_empty());
    }

    #[test]
    fn a_single_frame_has_no_superframe_index() {
        let mut assembler = Vp9Assembler::default();
        assert!(assembler.push(&[&[0x0c][..], &KEY].concat()));
        assert_eq!(assembler.take(), KEY);
    }

    proptest::proptest! {
        #[test]
        fn any_payloads_and_frames_are_read(
            payloads in proptest::collection::vec(proptest::collection::vec(proptest::prelude::any::<u8>(), 0..30), 0..12),
        ) {
            let mut assembler = Vp9Assembler::default();
            for payload in &payloads {
                assembler.push(payload);
                sizes(payload).for_each(drop);
            }
            sizes(&assembler.take()).for_each(drop);
        }
    }
}
