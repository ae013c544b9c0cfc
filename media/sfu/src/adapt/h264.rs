//! Key frames in RTP payloads of H.264 (RFC 6184).

const SLICE_IDR: u8 = 5;
const SEQUENCE_PARAMETERS: u8 = 7;
const STAP_A: u8 = 24;
const FU_A: u8 = 28;
/// In the second byte of a fragment: this is the first one of its NAL unit.
const FU_START: u8 = 0x80;

/// Returns whether a payload begins a key frame: it holds sequence parameters, or the start of an IDR slice.
pub fn starts_key_frame(payload: &[u8]) -> bool {
    match payload.first().map(nal_type) {
        Some(STAP_A) => {
            aggregated(payload.get(1..).unwrap_or_default()).any(|header| is_key(nal_type(&header)))
        }
        Some(FU_A) => payload
            .get(1)
            .is_some_and(|header| header & FU_START != 0 && is_key(nal_type(header))),
        Some(unit) => is_key(unit),
        None => false,
    }
}

const fn nal_type(header: &u8) -> u8 {
    *header & 0x1f
}

const fn is_key(unit: u8) -> bool {
    matches!(unit, SLICE_IDR | SEQUENCE_PARAMETERS)
}

/// Iterates over the first bytes of the NAL units of an aggregation packet, also of H.265, each unit behind its size in two bytes.
pub fn aggregated(mut units: &[u8]) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let [high, low, header, ..] = units else {
            return None;
        };
        let size = usize::from(u16::from_be_bytes([*high, *low]));
        units = units.get(2 + size..).unwrap_or_default();
        Some(*header)
    })
}

#[cfg(test)]
mod tests {
    use super::starts_key_frame;

    #[test]
    fn a_key_frame_is_found_in_every_packetization() {
        for payload in [
            &[0x65, 1][..],
            &[0x67, 1],
            &[0x78, 0, 2, 0x41, 9, 0, 1, 0x65],
            &[0x7c, 0x85, 1],
        ] {
            assert!(starts_key_frame(payload), "{payload:?}");
        }
        for payload in [
            &[][..],
            &[0x41, 1],
            &[0x78],
            &[0x78, 0, 0],
            &[0x7c, 0x05],
            &[0x7c, 0x81],
            &[0x7c],
        ] {
            assert!(!starts_key_frame(payload), "{payload:?}");
        }
    }
}
