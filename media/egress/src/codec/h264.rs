//! RTP payloads of H.264 (RFC 6184), and the configuration that containers need (ISO/IEC 14496-15).

use super::nal_units::{Units, units};

const SEQUENCE_PARAMETERS: u8 = 7;
const PICTURE_PARAMETERS: u8 = 8;
const STAP_A: u8 = 24;
const FU_A: u8 = 28;

/// Adds the units of a payload to those of a frame. Returns whether it was understood and fits to what came before.
pub fn push(frame: &mut Units, payload: &[u8]) -> bool {
    match payload.first().map(|header| header & 0x1f) {
        Some(STAP_A) => frame.push_aggregated(&payload[1..]),
        Some(FU_A) => {
            let [indicator, header, data @ ..] = payload else {
                return false;
            };
            frame.push_fragment(*header, &[(indicator & 0xe0) | (header & 0x1f)], data)
        }
        Some(1..STAP_A) => {
            frame.push(payload);
            true
        }
        _ => false,
    }
}

/// Returns the decoder configuration record that a frame's parameter sets make; `None` if it has none.
pub fn decoder_configuration(frame: &[u8]) -> Option<Vec<u8>> {
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
    // Version 1, sizes of four bytes, one set of each.
    let mut record = vec![1, *profile, *compatibility, *level, 0xff, 0xe1];
    record.extend_from_slice(&u16::try_from(sequence.len()).ok()?.to_be_bytes());
    record.extend_from_slice(sequence);
    record.push(1);
    record.extend_from_slice(&u16::try_from(picture.len()).ok()?.to_be_bytes());
    record.extend_from_slice(picture);
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_put_together_from_every_packetization() {
        let mut units = Units::default();
        let mut push = |payload: &[u8]| push(&mut units, payload);
        assert!(push(&[0x78, 0, 4, 0x67, 66, 0, 31, 0, 2, 0x68, 9]));
        assert!(push(&[0x7c, 0x85, 1, 2]) && push(&[0x7c, 0x05, 3]) && push(&[0x7c, 0x45, 4]));
        assert!(push(&[0x41, 5]));
        let frame = units.take();
        let expected: [&[u8]; 4] = [
            &[0x67, 66, 0, 31],
            &[0x68, 9],
            &[0x65, 1, 2, 3, 4],
            &[0x41, 5],
        ];
        assert_eq!(super::units(&frame).collect::<Vec<_>>(), expected);
        let record = [
            1, 66, 0, 31, 0xff, 0xe1, 0, 4, 0x67, 66, 0, 31, 1, 0, 2, 0x68, 9,
        ];
        assert_eq!(decoder_configuration(&frame).as_deref(), Some(&record[..]));
        assert_eq!(decoder_configuration(&[0, 0, 0, 1, 0x65]), None);
        assert!(units.take().is_empty());
    }

    #[test]
    fn a_fragment_without_its_beginning_and_malformed_payloads_are_refused() {
        for payload in [
            &[][..],
            &[0x7c],
            &[0x7c, 0x05, 1],
            &[0x78, 0, 9, 1],
            &[0x78, 0, 0],
            &[0x7f],
        ] {
            assert!(!push(&mut Units::default(), payload), "{payload:?}");
        }
    }
}
