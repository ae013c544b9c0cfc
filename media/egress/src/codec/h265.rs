//! H.265 frames from RTP payloads (RFC 7798), parameter sets, and the decoder configuration for
//! containers (ISO/IEC 14496-15).

use conclave_sfu::Bits;

use super::nal_units::{Units, read_cropping, unescaped, units};
use super::{AnnouncedSize, Container, FrameAssembler, VideoFormat};

const VIDEO_PARAMETERS: u8 = 32;
const SEQUENCE_PARAMETERS: u8 = 33;
const PICTURE_PARAMETERS: u8 = 34;
const AGGREGATION: u8 = 48;
const FRAGMENT: u8 = 49;

#[derive(Debug, Default)]
pub struct H265Assembler(Units);

impl FrameAssembler for H265Assembler {
    const FORMAT: VideoFormat = VideoFormat {
        matroska_id: "V_MPEGH/ISO/HEVC",
        has_size: false,
        containers: &[Container::Mp4],
        decoder: None,
    };

    fn push(&mut self, payload: &[u8]) -> bool {
        let [first, second, rest @ ..] = payload else {
            return false;
        };
        match nal_type(*first) {
            AGGREGATION => self.0.push_aggregated(rest),
            FRAGMENT => {
                let [header, data @ ..] = rest else {
                    return false;
                };
                // A fragment moves the NAL unit's type to its own header; layer and temporal id
                // stay.
                let unit_header = [(first & 0x81) | (header & 0x3f) << 1, *second];
                self.0.push_fragment(*header, &unit_header, data)
            }
            0..AGGREGATION => {
                self.0.push(payload);
                true
            }
            _ => false,
        }
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn take(&mut self) -> Vec<u8> {
        self.0.take()
    }

    fn announced(frame: &[u8]) -> AnnouncedSize {
        AnnouncedSize::largest(units(frame).filter_map(size))
    }

    fn configuration(frame: &[u8]) -> Option<Vec<u8>> {
        decoder_configuration(frame)
    }
}

const fn nal_type(header: u8) -> u8 {
    (header >> 1) & 0x3f
}

/// Bytes for profile, tier and level in a sequence parameter set; the configuration repeats them.
const PROFILE_BYTES: usize = 12;

/// Sequence parameter set fields.
struct Sequence {
    profile: Vec<u8>,
    layers: u32,
    is_nested: bool,
    format: u32,
    size: (u32, u32),
}

/// Returns the frame size announced by a sequence parameter set; `None` for other units. A
/// malformed set counts as too large.
fn size(unit: &[u8]) -> Option<(u32, u32)> {
    let is_set = unit
        .first()
        .is_some_and(|header| nal_type(*header) == SEQUENCE_PARAMETERS);
    is_set.then(|| read_set(unit).map_or((u32::MAX, u32::MAX), |sequence| sequence.size))
}

/// Reads a sequence parameter set (ITU-T H.265, section 7.3.2.2.1) up to the size.
fn read_set(unit: &[u8]) -> Option<Sequence> {
    let content = unescaped(unit.get(2..)?);
    let mut bits = Bits::new(&content);
    // `sps_video_parameter_set_id`.
    bits.skip(4)?;
    let (sub_layers, is_nested) = (bits.number(3)?, bits.flag()?);
    let mut profile = Vec::with_capacity(PROFILE_BYTES);
    for _ in 0..PROFILE_BYTES {
        profile.push(u8::try_from(bits.number(8)?).ok()?);
    }
    skip_sub_layers(&mut bits, sub_layers)?;
    bits.exp_golomb()?;
    let format = bits.exp_golomb()?;
    bits.skip(usize::from(format == 3))?;
    let (width, height) = (bits.exp_golomb()?, bits.exp_golomb()?);
    let (across, down) = if bits.flag()? {
        read_cropping(&mut bits, format, 1)?
    } else {
        (0, 0)
    };
    let size = (width.checked_sub(across)?, height.checked_sub(down)?);
    Some(Sequence {
        profile,
        layers: sub_layers + 1,
        is_nested,
        format,
        size,
    })
}

fn skip_sub_layers(bits: &mut Bits<'_>, count: u32) -> Option<()> {
    if count == 0 {
        return Some(());
    }
    let mut present = 0;
    for _ in 0..count {
        // A sub-layer's profile has 88 bits, its level 8.
        present += if bits.flag()? { 88 } else { 0 };
        present += if bits.flag()? { 8 } else { 0 };
    }
    // `reserved_zero_2bits`, present up to 8 sub-layers.
    bits.skip((8 - usize::try_from(count).ok()?) * 2)?;
    bits.skip(present)
}

/// Returns the decoder configuration record for a frame's parameter sets; `None` if it lacks one.
fn decoder_configuration(frame: &[u8]) -> Option<Vec<u8>> {
    const KINDS: [u8; 3] = [VIDEO_PARAMETERS, SEQUENCE_PARAMETERS, PICTURE_PARAMETERS];
    let set = |kind: u8| {
        units(frame).find(|unit| unit.first().is_some_and(|header| nal_type(*header) == kind))
    };
    let sequence = read_set(set(SEQUENCE_PARAMETERS)?)?;
    let mut record = vec![1];
    record.extend_from_slice(&sequence.profile);
    let low = |number: u32| number.to_le_bytes()[0];
    // No spatial segmentation or parallelism, 8 bits per sample, unknown frame rate, four-byte NAL
    // unit sizes.
    let nested = u8::from(sequence.is_nested) << 2;
    record.extend_from_slice(&[
        0xf0,
        0,
        0xfc,
        0xfc | low(sequence.format & 3),
        0xf8,
        0xf8,
        0,
        0,
    ]);
    record.push((low(sequence.layers) & 7) << 3 | nested | 3);
    record.push(3);
    for kind in KINDS {
        let set = set(kind)?;
        record.extend_from_slice(&[0x80 | kind, 0, 1]);
        record.extend_from_slice(&u16::try_from(set.len()).ok()?.to_be_bytes());
        record.extend_from_slice(set);
    }
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As x265 writes it for 320x180.
    const VIDEO: [u8; 24] = [
        0x40, 0x01, 0x0c, 0x01, 0xff, 0xff, 0x01, 0x60, 0x00, 0x00, 0x03, 0x00, 0x90, 0x00, 0x00,
        0x03, 0x00, 0x00, 0x03, 0x00, 0x3c, 0x95, 0x98, 0x09,
    ];
    const SEQUENCE: [u8; 26] = [
        0x42, 0x01, 0x01, 0x01, 0x60, 0x00, 0x00, 0x03, 0x00, 0x90, 0x00, 0x00, 0x03, 0x00, 0x00,
        0x03, 0x00, 0x3c, 0xa0, 0x0a, 0x08, 0x0b, 0x9f, 0x79, 0x65, 0x66,
    ];
    const PICTURE: [u8; 7] = [0x44, 0x01, 0xc1, 0x72, 0xb4, 0x62, 0x40];

    #[test]
    fn units_are_put_together_from_every_packetization() {
        let mut assembler = H265Assembler::default();
        let sized = |unit: &[u8]| [&[0, unit.len().to_le_bytes()[0]][..], unit].concat();
        let sets = [sized(&VIDEO), sized(&SEQUENCE), sized(&PICTURE)].concat();
        let mut push = |payload: &[u8]| assembler.push(payload);
        assert!(push(&[&[48 << 1, 1][..], &sets].concat()));
        assert!(push(&[49 << 1, 1, 0x80 | 19, 1, 2]) && push(&[49 << 1, 1, 19, 3]));
        assert!(push(&[49 << 1, 1, 0x40 | 19, 4]) && push(&[1 << 1, 1, 5]));
        let frame = assembler.take();
        let expected: [&[u8]; 5] = [
            &VIDEO,
            &SEQUENCE,
            &PICTURE,
            &[19 << 1, 1, 1, 2, 3, 4],
            &[1 << 1, 1, 5],
        ];
        assert_eq!(units(&frame).collect::<Vec<_>>(), expected);
        assert_eq!(units(&frame).find_map(size), Some((320, 180)));
        let record = decoder_configuration(&frame).unwrap();
        assert_eq!(
            record[..13],
            [1, 0x01, 0x60, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 0x3c]
        );
        assert_eq!((record[16], record[21], record[22]), (0xfd, 0x0f, 3));
        assert!(record.ends_with(&PICTURE));
        assert_eq!(decoder_configuration(&[0, 0, 0, 2, 0x26, 1]), None);
    }

    #[test]
    fn a_fragment_without_its_start_and_malformed_payloads_are_refused() {
        for payload in [
            &[][..],
            &[1],
            &[49 << 1, 1],
            &[49 << 1, 1, 19, 1],
            &[48 << 1, 1, 0, 9, 1],
            &[50 << 1, 1],
        ] {
            assert!(!H265Assembler::default().push(payload), "{payload:?}");
        }
        assert_eq!(size(&SEQUENCE[..10]), Some((u32::MAX, u32::MAX)), "refused");
    }

    proptest::proptest! {
        #[test]
        fn any_payloads_and_frames_are_read(
            payloads in proptest::collection::vec(proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40), 0..8),
        ) {
            let mut assembler = H265Assembler::default();
            for payload in &payloads {
                assembler.push(payload);
                decoder_configuration(payload);
                size(&[&[0x42][..], payload].concat());
            }
            decoder_configuration(&assembler.take());
        }
    }
}
