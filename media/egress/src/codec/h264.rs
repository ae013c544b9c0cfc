//! H.264 frames from RTP payloads (RFC 6184), sequence parameter sets (ITU-T H.264, section
//! 7.3.2.1.1), and the decoder configuration for containers (ISO/IEC 14496-15).

use conclave_sfu::Bits;

use super::nal_units::{Units, read_cropping, unescaped, units};
use super::{AnnouncedSize, Container, FrameAssembler, MAX_PIXELS, VideoFormat};

// Level 5.2: 5 frames at the largest size, or 16 at 1920x1088.
const MAX_REFERENCE_MACROBLOCKS: u64 = 184_320;
// The standard allows no more at any size.
const MAX_REFERENCES: u32 = 16;
// Profiles whose parameter sets have a chroma format and scaling matrices.
const WITH_FORMAT: [u32; 11] = [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 144];

const SEQUENCE_PARAMETERS: u8 = 7;
const PICTURE_PARAMETERS: u8 = 8;
const STAP_A: u8 = 24;
const FU_A: u8 = 28;

#[derive(Debug, Default)]
pub struct H264Assembler(Units);

impl FrameAssembler for H264Assembler {
    const FORMAT: VideoFormat = VideoFormat {
        matroska_id: "V_MPEG4/ISO/AVC",
        has_size: false,
        containers: &[Container::Mp4],
        decoder: None,
    };

    fn push(&mut self, payload: &[u8]) -> bool {
        match payload.first().map(|header| header & 0x1f) {
            Some(STAP_A) => self.0.push_aggregated(&payload[1..]),
            Some(FU_A) => {
                let [indicator, header, data @ ..] = payload else {
                    return false;
                };
                // A fragment replaces the NAL unit header: the importance is in the indicator, the
                // type in the header.
                let unit_header = (indicator & 0xe0) | (header & 0x1f);
                self.0.push_fragment(*header, &[unit_header], data)
            }
            Some(1..STAP_A) => {
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
        announced_by_nal_units(units(frame))
    }

    fn configuration(frame: &[u8]) -> Option<Vec<u8>> {
        decoder_configuration(frame)
    }
}

/// Returns the decoder configuration record for a frame's parameter sets; `None` if it lacks one.
fn decoder_configuration(frame: &[u8]) -> Option<Vec<u8>> {
    let (mut sequence, mut picture) = (None, None);
    for unit in units(frame) {
        match unit.first().map(|header| header & 0x1f) {
            Some(SEQUENCE_PARAMETERS) => sequence = Some(unit),
            Some(PICTURE_PARAMETERS) => picture = Some(unit),
            _ => {}
        }
    }
    let (sequence, picture) = (sequence?, picture?);
    let [_, profile, compatibility, level, ..] = sequence else {
        return None;
    };
    // Version 1, four-byte NAL unit sizes, one parameter set per kind.
    let mut record = vec![1, *profile, *compatibility, *level, 0xff, 0xe1];
    record.extend_from_slice(&u16::try_from(sequence.len()).ok()?.to_be_bytes());
    record.extend_from_slice(sequence);
    record.push(1);
    record.extend_from_slice(&u16::try_from(picture.len()).ok()?.to_be_bytes());
    record.extend_from_slice(picture);
    Some(record)
}

/// Returns the frame size announced by the sequence parameter sets among these NAL units.
pub fn announced_by_nal_units<'a>(units: impl Iterator<Item = &'a [u8]>) -> AnnouncedSize {
    let sets = units.filter(|unit| {
        unit.first()
            .is_some_and(|header| header & 0x1f == SEQUENCE_PARAMETERS)
    });
    sets.fold(AnnouncedSize::Unspecified, |before, set| {
        match (before, read_set(set)) {
            // One oversized set is enough: a decoder may activate any set.
            (AnnouncedSize::Refused, _) | (_, None) => AnnouncedSize::Refused,
            (_, Some((width, height))) => AnnouncedSize::Size(width, height),
        }
    })
}

/// Reads a sequence parameter set; `None` if it is malformed or would need too much memory to
/// decode.
fn read_set(unit: &[u8]) -> Option<(u32, u32)> {
    let content = unescaped(unit.get(1..)?);
    let mut bits = Bits::new(&content);
    // Then constraint flags and level, and the set's id.
    let profile = bits.number(8)?;
    bits.number(16)?;
    bits.exp_golomb()?;
    let mut format = 1;
    if WITH_FORMAT.contains(&profile) {
        format = bits.exp_golomb()?;
        skip_format(&mut bits, format)?;
    }
    bits.exp_golomb()?;
    skip_order(&mut bits)?;
    let references = bits.exp_golomb()?;
    bits.number(1)?;
    let (columns, rows) = (
        bits.exp_golomb()?.checked_add(1)?,
        bits.exp_golomb()?.checked_add(1)?,
    );
    // Interlaced video (`frame_mbs_only_flag` 0) counts one field's rows.
    let fields = if bits.number(1)? == 1 { 1 } else { 2 };
    if fields == 2 {
        bits.number(1)?;
    }
    bits.number(1)?;
    let (width, height) = (columns.checked_mul(16)?, rows.checked_mul(16 * fields)?);
    let macroblocks = u64::from(width / 16) * u64::from(height / 16);
    // A decoder holds all reference frames in memory, so their number matters as much as their size.
    let is_too_much = macroblocks * 256 > MAX_PIXELS.into()
        || references > MAX_REFERENCES
        || macroblocks * u64::from(references) > MAX_REFERENCE_MACROBLOCKS;
    if is_too_much {
        return None;
    }
    let (across, down) = if bits.number(1)? == 1 {
        read_cropping(&mut bits, format, fields)?
    } else {
        (0, 0)
    };
    Some((width.checked_sub(across)?, height.checked_sub(down)?))
        .filter(|size| size.0 > 0 && size.1 > 0)
}

fn skip_format(bits: &mut Bits<'_>, format: u32) -> Option<()> {
    if format == 3 {
        bits.number(1)?;
    }
    bits.exp_golomb()?;
    bits.exp_golomb()?;
    bits.number(1)?;
    if bits.number(1)? == 1 {
        // 4:4:4 has twelve matrices; the first six have 4x4 entries.
        for matrix in 0..if format == 3 { 12 } else { 8 } {
            if bits.number(1)? == 1 {
                skip_matrix(bits, if matrix < 6 { 16 } else { 64 })?;
            }
        }
    }
    Some(())
}

fn skip_matrix(bits: &mut Bits<'_>, size: u32) -> Option<()> {
    let (mut last, mut next) = (8_i64, 8_i64);
    for _ in 0..size {
        if next != 0 {
            next = (last + bits.signed_exp_golomb()?).rem_euclid(256);
        }
        last = if next == 0 { last } else { next };
    }
    Some(())
}

/// Skips `pic_order_cnt_type` and its fields.
fn skip_order(bits: &mut Bits<'_>) -> Option<()> {
    match bits.exp_golomb()? {
        0 => bits.exp_golomb().map(drop),
        1 => {
            bits.number(1)?;
            bits.exp_golomb()?;
            bits.exp_golomb()?;
            let cycle = bits.exp_golomb().filter(|cycle| *cycle <= 255)?;
            (0..cycle).try_for_each(|_| bits.exp_golomb().map(drop))
        }
        2 => Some(()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use conclave_sfu::Codec;
    use proptest::prelude::*;

    use super::*;
    use crate::codec::announced;

    #[test]
    fn units_are_put_together_from_every_packetization() {
        let mut assembler = H264Assembler::default();
        let mut push = |payload: &[u8]| assembler.push(payload);
        assert!(push(&[0x78, 0, 4, 0x67, 66, 0, 31, 0, 2, 0x68, 9]));
        assert!(push(&[0x7c, 0x85, 1, 2]) && push(&[0x7c, 0x05, 3]) && push(&[0x7c, 0x45, 4]));
        assert!(push(&[0x41, 5]));
        let frame = assembler.take();
        let expected: [&[u8]; 4] = [
            &[0x67, 66, 0, 31],
            &[0x68, 9],
            &[0x65, 1, 2, 3, 4],
            &[0x41, 5],
        ];
        assert_eq!(units(&frame).collect::<Vec<_>>(), expected);
        let record = [
            1, 66, 0, 31, 0xff, 0xe1, 0, 4, 0x67, 66, 0, 31, 1, 0, 2, 0x68, 9,
        ];
        assert_eq!(decoder_configuration(&frame).as_deref(), Some(&record[..]));
        assert_eq!(decoder_configuration(&[0, 0, 0, 1, 0x65]), None);
        assert!(assembler.take().is_empty());
    }

    #[test]
    fn a_fragment_without_its_start_and_malformed_payloads_are_refused() {
        for payload in [
            &[][..],
            &[0x7c],
            &[0x7c, 0x05, 1],
            &[0x78, 0, 9, 1],
            &[0x78, 0, 0],
            &[0x7f],
        ] {
            assert!(!H264Assembler::default().push(payload), "{payload:?}");
        }
    }

    /// Writes a baseline sequence parameter set.
    fn set(columns: u32, rows: u32, references: u32, cropping: Option<[u32; 4]>) -> Vec<u8> {
        let mut bits = String::new();
        let number = |bits: &mut String, value: u32| {
            let code = format!("{:b}", value + 1);
            bits.push_str(&"0".repeat(code.len() - 1));
            bits.push_str(&code);
        };
        for value in [0, 0, 2, references] {
            number(&mut bits, value);
        }
        bits.push('0');
        number(&mut bits, columns - 1);
        number(&mut bits, rows - 1);
        bits.push_str("11");
        bits.push(if cropping.is_some() { '1' } else { '0' });
        cropping
            .into_iter()
            .flatten()
            .for_each(|value| number(&mut bits, value));
        bits.push_str("01");
        while !bits.len().is_multiple_of(8) {
            bits.push('0');
        }
        let bytes = bits
            .as_bytes()
            .chunks(8)
            .map(|byte| u8::from_str_radix(std::str::from_utf8(byte).unwrap(), 2).unwrap());
        [0x67, 66, 0xc0, 31].into_iter().chain(bytes).collect()
    }

    fn read(set: &[u8]) -> AnnouncedSize {
        announced_by_nal_units([set].into_iter())
    }

    #[test]
    fn the_size_of_h264_is_that_of_its_parameters() {
        assert_eq!(
            read(&set(120, 68, 4, Some([0, 0, 0, 4]))),
            AnnouncedSize::Size(1920, 1080)
        );
        assert_eq!(
            read(&set(256, 144, 5, None)),
            AnnouncedSize::Size(4096, 2304)
        );
        // As x264 writes it for 640x360 in the high profile, with an emulation prevention byte.
        let x264 = [
            0x67, 0x64, 0x00, 0x1e, 0xac, 0xd9, 0x40, 0xa0, 0x2f, 0xf9, 0x70, 0x11, 0x00, 0x00,
            0x03, 0x00, 0x01, 0x00, 0x00, 0x03, 0x00, 0x32, 0x0f, 0x16, 0x2d, 0x96,
        ];
        assert_eq!(read(&x264), AnnouncedSize::Size(640, 360));
        assert_eq!(
            announced_by_nal_units([&[0x65, 1][..], &[]].into_iter()),
            AnnouncedSize::Unspecified
        );
    }

    /// Proves S-80.
    #[test]
    fn a_frame_that_would_take_too_much_memory_is_refused_wherever_it_announces_its_size() {
        for (columns, rows, references) in [
            (512, 512, 16),
            (512, 512, 1),
            (257, 144, 1),
            (256, 144, 6),
            (8, 8, 17),
            (1, 60_000, 1),
        ] {
            assert_eq!(
                read(&set(columns, rows, references, None)),
                AnnouncedSize::Refused,
                "{columns} {rows} {references}"
            );
        }
        let (small, large) = (set(40, 23, 1, None), set(512, 512, 1, None));
        for sets in [[&small[..], &large], [&large, &small]] {
            assert_eq!(
                announced_by_nal_units(sets.into_iter()),
                AnnouncedSize::Refused
            );
        }
        let key_frame = |width: u16, height: u16| {
            let ([a, b], [c, d]) = (width.to_le_bytes(), height.to_le_bytes());
            announced(Codec::Vp8, &[0x10, 2, 0, 0x9d, 0x01, 0x2a, a, b, c, d, 0])
        };
        assert_eq!(key_frame(8_192, 8_192), AnnouncedSize::Refused);
        assert_eq!(key_frame(1_280, 720), AnnouncedSize::Size(1_280, 720));
        let frame = [
            &u32::try_from(large.len()).unwrap().to_be_bytes()[..],
            &large,
        ]
        .concat();
        assert_eq!(announced(Codec::H264, &frame), AnnouncedSize::Refused);
    }

    proptest! {
        #[test]
        fn any_parameters_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let set = [&[0x67][..], &bytes].concat();
            if let AnnouncedSize::Size(width, height) = read(&set) {
                prop_assert!(u64::from(width) * u64::from(height) <= u64::from(MAX_PIXELS));
            }
        }
    }
}
