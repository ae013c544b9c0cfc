//! RTP payloads for H.264 (RFC 6184) from NAL units.

use std::sync::Arc;

/// Maximum payload size in bytes: with RTP, SRTP, UDP and IP headers, packets fit into every network.
const MAX_PAYLOAD: usize = 1_180;

const TYPE_MASK: u8 = 0x1f;
const IMPORTANCE_MASK: u8 = 0x60;
const FORBIDDEN_AND_IMPORTANCE_MASK: u8 = 0xe0;
const ACCESS_UNIT_DELIMITER: u8 = 9;
const FILLER: u8 = 12;
const STAP_A: u8 = 24;
const FU_A: u8 = 28;
const FU_START: u8 = 0x80;
const FU_END: u8 = 0x40;

/// Returns a frame's payloads. Consecutive small units share a packet, large ones are fragmented; access unit
/// delimiters and filler are left out.
pub fn h264<'a>(units: impl IntoIterator<Item = &'a [u8]>) -> Vec<Arc<[u8]>> {
    let mut payloads = Vec::new();
    let mut small: Vec<&[u8]> = Vec::new();
    let mut bytes = 1;
    for unit in units.into_iter().filter(|unit| is_sent(unit)) {
        // Each aggregated unit follows its size in two bytes.
        let fits = bytes + 2 + unit.len() <= MAX_PAYLOAD;
        if !fits {
            payloads.extend(aggregate(&small));
            (small, bytes) = (Vec::new(), 1);
        }
        // The units before it have been flushed, so the order is kept.
        if unit.len() > MAX_PAYLOAD {
            payloads.extend(fragment(unit));
        } else {
            bytes += 2 + unit.len();
            small.push(unit);
        }
    }
    payloads.extend(aggregate(&small));
    payloads
}

fn is_sent(unit: &[u8]) -> bool {
    unit.first().is_some_and(|header| {
        let kind = header & TYPE_MASK;
        // Types from 24 on exist only in RTP.
        (1..STAP_A).contains(&kind) && kind != ACCESS_UNIT_DELIMITER && kind != FILLER
    })
}

/// Aggregates units into one packet (STAP-A). A single unit is its own payload.
fn aggregate(units: &[&[u8]]) -> Option<Arc<[u8]>> {
    let [first, rest @ ..] = units else {
        return None;
    };
    if rest.is_empty() {
        return Some(Arc::from(*first));
    }
    let importance = units
        .iter()
        .filter_map(|unit| unit.first())
        .map(|header| header & IMPORTANCE_MASK)
        // The aggregate has its most important unit's priority (RFC 6184, section 5.7).
        .max();
    let mut payload = vec![importance.unwrap_or_default() | STAP_A];
    for unit in units {
        // Cannot fail: units in a packet are shorter than the packet.
        payload.extend(u16::try_from(unit.len()).unwrap_or_default().to_be_bytes());
        payload.extend(*unit);
    }
    Some(payload.into())
}

/// Splits a unit into fragments (FU-A).
fn fragment(unit: &[u8]) -> Vec<Arc<[u8]>> {
    let Some((header, body)) = unit.split_first() else {
        return Vec::new();
    };
    let parts: Vec<_> = body.chunks(MAX_PAYLOAD - 2).collect();
    let last = parts.len() - 1;
    let payload = |(index, part): (usize, &&[u8])| {
        let start = if index == 0 { FU_START } else { 0 };
        let end = if index == last { FU_END } else { 0 };
        let indicator = (header & FORBIDDEN_AND_IMPORTANCE_MASK) | FU_A;
        [&[indicator, start | end | (header & TYPE_MASK)], *part]
            .concat()
            .into()
    };
    parts.iter().enumerate().map(payload).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reassembles the units, as a receiver does.
    fn receive(payloads: &[Arc<[u8]>]) -> Vec<Vec<u8>> {
        let mut units: Vec<Vec<u8>> = Vec::new();
        for payload in payloads {
            match payload[0] & TYPE_MASK {
                STAP_A => {
                    let mut rest = &payload[1..];
                    while let [high, low, behind @ ..] = rest {
                        let (unit, behind) =
                            behind.split_at(usize::from(u16::from_be_bytes([*high, *low])));
                        units.push(unit.to_vec());
                        rest = behind;
                    }
                }
                FU_A if payload[1] & FU_START != 0 => {
                    let header =
                        (payload[0] & FORBIDDEN_AND_IMPORTANCE_MASK) | (payload[1] & TYPE_MASK);
                    units.push([&[header], &payload[2..]].concat());
                }
                FU_A => units
                    .last_mut()
                    .expect("a fragment has a start")
                    .extend(&payload[2..]),
                _ => units.push(payload.to_vec()),
            }
        }
        units
    }

    fn unit() -> impl Strategy<Value = Vec<u8>> {
        let header = (0_u8..4, 1_u8..STAP_A).prop_map(|(importance, kind)| importance << 5 | kind);
        (header, prop::collection::vec(any::<u8>(), 0..4_000))
            .prop_map(|(header, body)| [vec![header], body].concat())
    }

    #[test]
    fn parameters_and_a_key_frame_share_packets_if_they_fit() {
        let payloads = h264([&[0x67, 1][..], &[0x68, 2], &[0x65, 3], &[0x09, 0xf0]]);
        assert_eq!(
            *payloads,
            [Arc::from([
                0x78, 0, 2, 0x67, 1, 0, 2, 0x68, 2, 0, 2, 0x65, 3
            ])]
        );
        assert!(h264([&[][..], &[0x0c, 0xff]]).is_empty());
    }

    proptest! {
        #[test]
        fn a_receiver_gets_the_units_that_were_sent(units in prop::collection::vec(unit(), 0..8)) {
            let payloads = h264(units.iter().map(Vec::as_slice));
            prop_assert!(payloads.iter().all(|payload| (1..=MAX_PAYLOAD).contains(&payload.len())));
            let sent: Vec<_> = units.into_iter().filter(|unit| is_sent(unit)).collect();
            prop_assert_eq!(receive(&payloads), sent);
        }

        #[test]
        fn any_bytes_make_payloads_that_fit(units in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3_000), 0..5)) {
            let payloads = h264(units.iter().map(Vec::as_slice));
            prop_assert!(payloads.iter().all(|payload| payload.len() <= MAX_PAYLOAD));
        }
    }
}
