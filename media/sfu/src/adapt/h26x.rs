//! Key frame detection in RTP payloads: H.264 (RFC 6184), H.265 (RFC 7798).

const SLICE_IDR: u8 = 5;
const SEQUENCE_PARAMETERS: u8 = 7;
const STAP_A: u8 = 24;
const FU_A: u8 = 28;
/// In a fragment's second byte: the NAL unit's first fragment.
const FU_START: u8 = 0x80;

/// Returns whether a payload starts a key frame: it contains a sequence parameter set, or an IDR slice's start.
pub fn starts_h264_key_frame(payload: &[u8]) -> bool {
    // Only the first fragment counts: a receiver cannot start inside a NAL unit.
    match payload.first().map(h264_type) {
        Some(STAP_A) => aggregated(payload.get(1..).unwrap_or_default())
            .any(|header| is_h264_key(h264_type(&header))),
        Some(FU_A) => payload
            .get(1)
            .is_some_and(|header| header & FU_START != 0 && is_h264_key(h264_type(header))),
        Some(unit) => is_h264_key(unit),
        None => false,
    }
}

const fn h264_type(header: &u8) -> u8 {
    *header & 0x1f
}

const fn is_h264_key(unit: u8) -> bool {
    // Encoders send parameter sets right before an IDR slice, often in separate packets.
    matches!(unit, SLICE_IDR | SEQUENCE_PARAMETERS)
}

/// Iterates over the first bytes of the NAL units in an aggregation packet of either codec. Each unit follows its size
/// in two bytes.
fn aggregated(mut units: &[u8]) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let [high, low, header, ..] = units else {
            return None;
        };
        // A size beyond the payload ends the iteration, so a forged one cannot read outside it.
        let size = usize::from(u16::from_be_bytes([*high, *low]));
        units = units.get(2 + size..).unwrap_or_default();
        Some(*header)
    })
}

/// First and last type for intra random access points, with which a decoder can start.
const RANDOM_ACCESS: std::ops::RangeInclusive<u8> = 16..=23;
/// Video and sequence parameter sets, which precede such a frame.
const PARAMETERS: std::ops::RangeInclusive<u8> = 32..=33;
const AGGREGATION: u8 = 48;
const FRAGMENT: u8 = 49;
/// In a fragment's third byte: the NAL unit's first fragment.
const FRAGMENT_START: u8 = 0x80;

/// Returns whether a payload starts a key frame: it contains a parameter set, or a random access point's start.
pub fn starts_h265_key_frame(payload: &[u8]) -> bool {
    let [header, _, units @ ..] = payload else {
        return false;
    };
    match h265_type(*header) {
        AGGREGATION => aggregated(units).any(|header| is_h265_key(h265_type(header))),
        FRAGMENT => units
            .first()
            .is_some_and(|header| header & FRAGMENT_START != 0 && is_h265_key(header & 0x3f)),
        unit => is_h265_key(unit),
    }
}

const fn h265_type(header: u8) -> u8 {
    (header >> 1) & 0x3f
}

fn is_h265_key(unit: u8) -> bool {
    RANDOM_ACCESS.contains(&unit) || PARAMETERS.contains(&unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_frame_of_h264_is_found_in_every_packetization() {
        for payload in [
            &[0x65, 1][..],
            &[0x67, 1],
            &[0x78, 0, 2, 0x41, 9, 0, 1, 0x65],
            &[0x7c, 0x85, 1],
        ] {
            assert!(starts_h264_key_frame(payload), "{payload:?}");
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
            assert!(!starts_h264_key_frame(payload), "{payload:?}");
        }
    }

    #[test]
    fn a_key_frame_of_h265_is_found_in_every_packetization() {
        let (idr, parameters, other) = (19 << 1, 33 << 1, 1 << 1);
        for payload in [
            &[idr, 1, 0][..],
            &[parameters, 1, 0],
            &[48 << 1, 1, 0, 3, other, 1, 9, 0, 3, idr, 1, 9],
            &[49 << 1, 1, 0x80 | 19, 7],
        ] {
            assert!(starts_h265_key_frame(payload), "{payload:?}");
        }
        for payload in [
            &[][..],
            &[idr],
            &[other, 1, 0],
            &[34 << 1, 1, 0],
            &[48 << 1, 1],
            &[48 << 1, 1, 0, 0],
            &[49 << 1, 1, 19, 7],
            &[49 << 1, 1, 0x81],
            &[49 << 1, 1],
        ] {
            assert!(!starts_h265_key_frame(payload), "{payload:?}");
        }
    }
}
