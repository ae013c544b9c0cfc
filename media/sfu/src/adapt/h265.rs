//! Key frames in RTP payloads of H.265 (RFC 7798).

use super::h264::aggregated;

/// The first and the last type of pictures with which a decoder can start.
const RANDOM_ACCESS: std::ops::RangeInclusive<u8> = 16..=23;
/// Parameter sets of the video and of the sequence, which come before such a picture.
const PARAMETERS: std::ops::RangeInclusive<u8> = 32..=33;
const AGGREGATION: u8 = 48;
const FRAGMENT: u8 = 49;
/// In the third byte of a fragment: this is the first one of its NAL unit.
const FRAGMENT_START: u8 = 0x80;

/// Returns whether a payload begins a key frame: it holds parameter sets, or the start of a picture for random access.
pub fn starts_key_frame(payload: &[u8]) -> bool {
    let [header, _, units @ ..] = payload else {
        return false;
    };
    match nal_type(*header) {
        AGGREGATION => aggregated(units).any(|header| is_key(nal_type(header))),
        FRAGMENT => units
            .first()
            .is_some_and(|header| header & FRAGMENT_START != 0 && is_key(header & 0x3f)),
        unit => is_key(unit),
    }
}

const fn nal_type(header: u8) -> u8 {
    (header >> 1) & 0x3f
}

fn is_key(unit: u8) -> bool {
    RANDOM_ACCESS.contains(&unit) || PARAMETERS.contains(&unit)
}

#[cfg(test)]
mod tests {
    use super::starts_key_frame;

    #[test]
    fn a_key_frame_is_found_in_every_packetization() {
        let (idr, parameters, other) = (19 << 1, 33 << 1, 1 << 1);
        for payload in [
            &[idr, 1, 0][..],
            &[parameters, 1, 0],
            &[48 << 1, 1, 0, 3, other, 1, 9, 0, 3, idr, 1, 9],
            &[49 << 1, 1, 0x80 | 19, 7],
        ] {
            assert!(starts_key_frame(payload), "{payload:?}");
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
            assert!(!starts_key_frame(payload), "{payload:?}");
        }
    }
}
