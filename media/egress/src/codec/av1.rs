//! AV1 frames from RTP payloads (AV1 RTP specification, version 1.0), and OBU headers (AV1
//! specification, section 5).

use conclave_sfu::Bits;

use super::{AnnouncedSize, Container, FrameAssembler, VideoFormat};

const SEQUENCE_HEADER: u8 = 1;
const TEMPORAL_DELIMITER: u8 = 2;
/// OBU header flags: a second byte follows; a size follows.
const HAS_EXTENSION: u8 = 0x04;
const HAS_SIZE: u8 = 0x02;

/// Collects a frame's OBUs.
#[derive(Debug, Default)]
pub struct Av1Assembler {
    units: Vec<Vec<u8>>,
    /// Whether the last OBU continues in the next packet.
    is_open: bool,
}

impl FrameAssembler for Av1Assembler {
    const FORMAT: VideoFormat = VideoFormat {
        matroska_id: "V_AV1",
        has_size: true,
        containers: &[Container::Webm, Container::Mp4],
        decoder: None,
    };

    fn push(&mut self, payload: &[u8]) -> bool {
        let Some((header, mut rest)) = payload.split_first() else {
            return false;
        };
        let (continues, goes_on, count) = (header & 0x80 != 0, header & 0x40 != 0, header >> 4 & 3);
        // `Z` must match the previous packet's `Y`, or a packet in between was lost.
        if continues != self.is_open {
            return false;
        }
        let mut number = 0;
        while !rest.is_empty() {
            number += 1;
            // `W` in the aggregation header counts the OBUs, and the last one has no size.
            // Otherwise, all have one.
            let size = if number == count {
                Some((rest.len(), rest))
            } else {
                read_size(rest)
            };
            let Some((unit, after)) = size.and_then(|(size, rest)| rest.split_at_checked(size))
            else {
                return false;
            };
            match self.units.last_mut().filter(|_| number == 1 && continues) {
                Some(open) => open.extend_from_slice(unit),
                None => self.units.push(unit.to_vec()),
            }
            rest = after;
        }
        self.is_open = goes_on;
        number > 0
    }

    fn bytes(&self) -> usize {
        self.units.iter().map(Vec::len).sum()
    }

    /// Returns the OBUs, each with its size, as containers need them.
    fn take(&mut self) -> Vec<u8> {
        self.is_open = false;
        let mut frame = Vec::new();
        for unit in std::mem::take(&mut self.units) {
            if let Some((
                Unit {
                    kind,
                    header,
                    content,
                },
                _,
            )) = split(&unit)
                // Containers delimit frames themselves and should not have them (AV1 in Matroska, AV1
                // in ISOBMFF).
                && kind != TEMPORAL_DELIMITER
            {
                frame.push(header[0] | HAS_SIZE);
                frame.extend_from_slice(&header[1..]);
                put_size(&mut frame, content.len());
                frame.extend_from_slice(content);
            }
        }
        frame
    }

    fn announced(frame: &[u8]) -> AnnouncedSize {
        AnnouncedSize::largest(sequence_headers(frame).filter_map(size))
    }

    fn configuration(frame: &[u8]) -> Option<Vec<u8>> {
        decoder_configuration(frame)
    }
}

/// Open bitstream unit.
struct Unit<'a> {
    kind: u8,
    /// Header without the size.
    header: &'a [u8],
    content: &'a [u8],
}

/// Splits off the first OBU. An OBU without a size takes all that is left.
fn split(units: &[u8]) -> Option<(Unit<'_>, &[u8])> {
    let first = units.first()?;
    let (header, rest) = units.split_at_checked(if first & HAS_EXTENSION == 0 { 1 } else { 2 })?;
    let (content, after) = if first & HAS_SIZE == 0 {
        (rest, &[][..])
    } else {
        let (size, rest) = read_size(rest)?;
        rest.split_at_checked(size)?
    };
    Some((
        Unit {
            kind: first >> 3 & 0x0f,
            header,
            content,
        },
        after,
    ))
}

/// Reads a LEB128 number of up to four bytes. Returns it with the rest.
fn read_size(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut size = 0;
    // Four bytes hold 28 bits, more than any packet.
    for (index, byte) in bytes.iter().take(4).enumerate() {
        size |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((size, &bytes[index + 1..]));
        }
    }
    None
}

fn put_size(out: &mut Vec<u8>, mut size: usize) {
    loop {
        let low = size.to_le_bytes()[0] & 0x7f;
        size >>= 7;
        out.push(if size == 0 { low } else { low | 0x80 });
        if size == 0 {
            return;
        }
    }
}

/// Iterates over a frame's sequence headers, including their OBU headers.
fn sequence_headers(mut frame: &[u8]) -> impl Iterator<Item = &[u8]> {
    let units = std::iter::from_fn(move || {
        let (Unit { kind, .. }, after) = split(frame)?;
        let unit = &frame[..frame.len() - after.len()];
        frame = after;
        Some((kind, unit))
    });
    units
        .filter(|(kind, _)| *kind == SEQUENCE_HEADER)
        .map(|(_, unit)| unit)
}

/// Sequence header fields.
struct Sequence {
    profile: u32,
    level: u32,
    tier: u32,
    size: (u32, u32),
}

/// Returns the maximum frame size that a sequence header announces.
fn size(unit: &[u8]) -> Option<(u32, u32)> {
    read_sequence(unit).map(|sequence| sequence.size)
}

/// Returns the decoder configuration record for a frame's sequence header (AV1 in ISOBMFF, section
/// 2.3); `None` without one.
fn decoder_configuration(frame: &[u8]) -> Option<Vec<u8>> {
    let unit = sequence_headers(frame).next()?;
    let Sequence {
        profile,
        level,
        tier,
        ..
    } = read_sequence(unit)?;
    let [profile, level, tier] = [profile, level, tier].map(|number| number.to_le_bytes()[0]);
    // Marker and version 1; 8 bits per sample and 4:2:0, as WebRTC senders use.
    let mut record = vec![0x81, profile << 5 | level, tier << 7 | 0x0c, 0];
    record.extend_from_slice(unit);
    Some(record)
}

/// Reads a sequence header (section 5.5.1) up to the frame size.
fn read_sequence(unit: &[u8]) -> Option<Sequence> {
    let (Unit { content, .. }, _) = split(unit)?;
    let mut bits = Bits::new(content);
    let profile = bits.number(3)?;
    bits.skip(1)?;
    let is_still = bits.flag()?;
    let (level, tier) = if is_still {
        (bits.number(5)?, 0)
    } else {
        read_operating_points(&mut bits)?
    };
    let (width_bits, height_bits) = (bits.number(4)? + 1, bits.number(4)? + 1);
    let size = (bits.number(width_bits)? + 1, bits.number(height_bits)? + 1);
    Some(Sequence {
        profile,
        level,
        tier,
        size,
    })
}

/// Reads timing info and operating points. Returns the first point's level and tier.
fn read_operating_points(bits: &mut Bits<'_>) -> Option<(u32, u32)> {
    let mut delay_bits = None;
    if bits.flag()? {
        bits.skip(64)?;
        let has_equal_intervals = bits.flag()?;
        if has_equal_intervals {
            bits.exp_golomb()?;
        }
        let has_model = bits.flag()?;
        if has_model {
            delay_bits = Some(bits.number(5)? + 1);
            bits.skip(32 + 5 + 5)?;
        }
    }
    let has_display_delay = bits.flag()?;
    let count = bits.number(5)? + 1;
    let mut first = None;
    for _ in 0..count {
        bits.skip(12)?;
        let level = bits.number(5)?;
        // Levels up to 3.3 have no tiers.
        let tier = if level > 7 { bits.number(1)? } else { 0 };
        if let Some(delay_bits) = delay_bits
            && bits.flag()?
        {
            bits.skip(2 * usize::try_from(delay_bits).ok()? + 1)?;
        }
        if has_display_delay && bits.flag()? {
            bits.skip(4)?;
        }
        first.get_or_insert((level, tier));
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sequence header that libaom writes for 320x180, with its size.
    const SEQUENCE: [u8; 13] = [
        0x0a, 0x0b, 0x00, 0x00, 0x00, 0x04, 0x3c, 0xfe, 0xcc, 0xda, 0xf9, 0x00, 0x40,
    ];

    #[test]
    fn units_are_put_together_from_packets_and_get_sizes() {
        let mut assembler = Av1Assembler::default();
        let long = vec![7; 300];
        // A temporal delimiter, a small OBU, and a large one's first part.
        assert!(
            assembler.push(&[&[0x78, 1, 0x10, 3, 0x08, 1, 2, 0x30][..], &long[..100]].concat())
        );
        assert!(assembler.push(&[&[0xd0][..], &long[..100]].concat()));
        assert!(!assembler.push(&[0x10, 0x30, 1]), "the unit continues");
        assert!(assembler.push(&[&[0x90][..], &long[..100]].concat()));
        let mut expected = vec![0x0a, 2, 1, 2, 0x32, 0xac, 0x02];
        expected.extend(long);
        assert_eq!(assembler.take(), expected);
        for malformed in [&[][..], &[0x10], &[0x90, 1], &[0x20, 9, 1], &[0x00, 0x80]] {
            assert!(!Av1Assembler::default().push(malformed), "{malformed:?}");
        }
    }

    #[test]
    fn a_sequence_header_says_the_size_and_makes_the_configuration() {
        let frame = [&SEQUENCE[..], &[0x32, 1, 0]].concat();
        assert_eq!(
            sequence_headers(&frame).collect::<Vec<_>>(),
            [&SEQUENCE[..]]
        );
        assert_eq!(size(&SEQUENCE), Some((320, 180)));
        let record = decoder_configuration(&frame).unwrap();
        assert_eq!(
            (&record[..4], &record[4..]),
            (&[0x81, 0, 0x0c, 0][..], &SEQUENCE[..])
        );
        assert_eq!(decoder_configuration(&[0x32, 1, 0]), None);
    }

    proptest::proptest! {
        #[test]
        fn any_payloads_and_frames_are_read(
            payloads in proptest::collection::vec(proptest::collection::vec(proptest::prelude::any::<u8>(), 0..30), 0..12),
        ) {
            let mut assembler = Av1Assembler::default();
            for payload in &payloads {
                assembler.push(payload);
                decoder_configuration(payload);
                size(payload);
            }
            let frame = assembler.take();
            sequence_headers(&frame).filter_map(size).for_each(drop);
        }
    }
}
