//! VP8 frames from RTP payloads (RFC 7741, section 4.2), and the frame header (RFC 6386, section
//! 9.1).

use super::{AnnouncedSize, Container, FrameAssembler, VideoFormat};

/// Frame collected so far.
#[derive(Debug, Default)]
pub struct Vp8Assembler(Vec<u8>);

impl FrameAssembler for Vp8Assembler {
    const FORMAT: VideoFormat = VideoFormat {
        matroska_id: "V_VP8",
        has_size: true,
        containers: &[Container::Webm],
        decoder: None,
    };

    fn push(&mut self, payload: &[u8]) -> bool {
        // Without its first packet, a frame cannot be decoded.
        let Some(part) = parse(payload).filter(|part| part.is_first || !self.0.is_empty()) else {
            return false;
        };
        self.0.extend_from_slice(part.data);
        true
    }

    fn bytes(&self) -> usize {
        self.0.len()
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }

    fn announced(frame: &[u8]) -> AnnouncedSize {
        AnnouncedSize::largest(dimensions(frame).into_iter())
    }
}

/// Payload without its descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Payload<'a> {
    /// Whether it starts a frame.
    is_first: bool,
    /// Payload data.
    data: &'a [u8],
}

const EXTENDED: u8 = 0x80;
const START_OF_PARTITION: u8 = 0x10;
const PARTITION: u8 = 0x07;

/// Splits off the payload descriptor; `None` if it is malformed.
fn parse(payload: &[u8]) -> Option<Payload<'_>> {
    let (first, mut rest) = payload.split_first()?;
    if first & EXTENDED != 0 {
        let (extensions, after) = rest.split_first()?;
        rest = after;
        if extensions & 0x80 != 0 {
            // PictureID, one or two bytes long.
            let length = if rest.first()? & 0x80 != 0 { 2 } else { 1 };
            rest = rest.get(length..)?;
        }
        // TL0PICIDX, and one byte for TID and KEYIDX.
        let bytes = usize::from(extensions & 0x40 != 0) + usize::from(extensions & 0x30 != 0);
        rest = rest.get(bytes..)?;
    }
    let is_first = first & START_OF_PARTITION != 0 && first & PARTITION == 0;
    (!rest.is_empty()).then_some(Payload {
        is_first,
        data: rest,
    })
}

/// Returns the size in pixels that a key frame announces; `None` for other frames.
fn dimensions(frame: &[u8]) -> Option<(u32, u32)> {
    let [
        tag,
        _,
        _,
        0x9d,
        0x01,
        0x2a,
        width_low,
        width_high,
        height_low,
        height_high,
        ..,
    ] = frame
    else {
        return None;
    };
    // 14 bits for the size, two for a scaling hint.
    let size = |low: &u8, high: &u8| u32::from(u16::from_le_bytes([*low, *high]) & 0x3fff);
    (tag & 1 == 0).then(|| (size(width_low, width_high), size(height_low, height_high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptor_is_taken_off_in_all_its_lengths() {
        for (payload, is_first) in [
            (&[0x10, 7, 8][..], true),
            (&[0x00, 7, 8], false),
            (&[0x90, 0x80, 0x05, 7, 8], true),
            (&[0x90, 0x80, 0x85, 0x06, 7, 8], true),
            (&[0x90, 0xf0, 0x85, 0x06, 9, 9, 7, 8], true),
            (&[0x11, 7, 8], false),
        ] {
            assert_eq!(
                parse(payload),
                Some(Payload {
                    is_first,
                    data: &[7, 8]
                }),
                "{payload:?}"
            );
        }
        for malformed in [
            &[][..],
            &[0x10],
            &[0x90],
            &[0x90, 0x80],
            &[0x90, 0xf0, 0x85],
        ] {
            assert_eq!(parse(malformed), None, "{malformed:?}");
        }
    }

    #[test]
    fn a_key_frame_says_its_size() {
        let frame = [0x10, 2, 0, 0x9d, 0x01, 0x2a, 0x00, 0x45, 0xd0, 0x02, 0];
        assert_eq!(dimensions(&frame), Some((1280, 720)));
        assert_eq!(
            dimensions(&[0x11, 2, 0, 0x9d, 0x01, 0x2a, 0, 5, 0xd0, 2]),
            None,
            "no key frame"
        );
    }
}
