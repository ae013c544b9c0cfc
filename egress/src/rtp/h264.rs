//! NAL units out of RTP payloads (RFC 6184), and the configuration that containers need (ISO/IEC 14496-15).

const SEQUENCE_PARAMETERS: u8 = 7;
const PICTURE_PARAMETERS: u8 = 8;
const STAP_A: u8 = 24;
const FU_A: u8 = 28;

/// Collects the NAL units of a frame.
#[derive(Debug, Default)]
pub struct Units {
    units: Vec<Vec<u8>>,
    /// Whether the last unit is a fragment that goes on.
    is_open: bool,
}

impl Units {
    /// Adds the units of a payload. Returns whether it was understood and fits to what came before.
    pub fn push(&mut self, payload: &[u8]) -> bool {
        match payload.first().map(|header| header & 0x1f) {
            Some(STAP_A) => self.push_aggregated(&payload[1..]),
            Some(FU_A) => self.push_fragment(payload),
            Some(1..STAP_A) => {
                self.units.push(payload.to_vec());
                true
            }
            _ => false,
        }
    }

    /// Each unit is behind its size in two bytes.
    fn push_aggregated(&mut self, mut units: &[u8]) -> bool {
        while let [high, low, rest @ ..] = units {
            let size = usize::from(u16::from_be_bytes([*high, *low]));
            let Some((unit, after)) = rest.split_at_checked(size).filter(|_| size > 0) else { return false };
            self.units.push(unit.to_vec());
            units = after;
        }
        units.is_empty()
    }

    fn push_fragment(&mut self, payload: &[u8]) -> bool {
        let [indicator, header, data @ ..] = payload else { return false };
        let (is_first, is_last) = (header & 0x80 != 0, header & 0x40 != 0);
        if is_first {
            self.units.push(vec![(indicator & 0xe0) | (header & 0x1f)]);
        } else if !self.is_open {
            return false;
        }
        self.is_open = !is_last;
        self.units.last_mut().is_some_and(|unit| {
            unit.extend_from_slice(data);
            true
        })
    }

    /// Returns the bytes of the units until now.
    pub fn bytes(&self) -> usize {
        self.units.iter().map(Vec::len).sum()
    }

    /// Returns the frame, each unit behind its size in four bytes; empty if there is none. The next frame begins.
    pub fn take(&mut self) -> Vec<u8> {
        self.is_open = false;
        joined(&std::mem::take(&mut self.units))
    }
}

/// Returns units as a frame, each behind its size in four bytes.
pub fn joined(units: &[Vec<u8>]) -> Vec<u8> {
    let mut frame = Vec::new();
    for unit in units {
        // A unit of a frame is far smaller.
        frame.extend_from_slice(&u32::try_from(unit.len()).unwrap_or(u32::MAX).to_be_bytes());
        frame.extend_from_slice(unit);
    }
    frame
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
    let [_, profile, compatibility, level, ..] = sequence else { return None };
    // Version 1, sizes of four bytes, one set of each.
    let mut record = vec![1, *profile, *compatibility, *level, 0xff, 0xe1];
    record.extend_from_slice(&u16::try_from(sequence.len()).ok()?.to_be_bytes());
    record.extend_from_slice(sequence);
    record.push(1);
    record.extend_from_slice(&u16::try_from(picture.len()).ok()?.to_be_bytes());
    record.extend_from_slice(picture);
    Some(record)
}

/// Iterates over the units of a frame.
pub fn units(mut frame: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (size, rest) = frame.split_first_chunk::<4>()?;
        let (unit, after) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*size)).ok()?)?;
        frame = after;
        Some(unit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_put_together_from_every_packetization() {
        let mut units = Units::default();
        assert!(units.push(&[0x78, 0, 4, 0x67, 66, 0, 31, 0, 2, 0x68, 9]));
        assert!(units.push(&[0x7c, 0x85, 1, 2]) && units.push(&[0x7c, 0x05, 3]) && units.push(&[0x7c, 0x45, 4]));
        assert!(units.push(&[0x41, 5]));
        let frame = units.take();
        let expected: [&[u8]; 4] = [&[0x67, 66, 0, 31], &[0x68, 9], &[0x65, 1, 2, 3, 4], &[0x41, 5]];
        assert_eq!(super::units(&frame).collect::<Vec<_>>(), expected);
        let record = [1, 66, 0, 31, 0xff, 0xe1, 0, 4, 0x67, 66, 0, 31, 1, 0, 2, 0x68, 9];
        assert_eq!(decoder_configuration(&frame).as_deref(), Some(&record[..]));
        assert_eq!(decoder_configuration(&[0, 0, 0, 1, 0x65]), None);
        assert!(units.take().is_empty());
    }

    #[test]
    fn a_fragment_without_its_beginning_and_malformed_payloads_are_refused() {
        for payload in [&[][..], &[0x7c], &[0x7c, 0x05, 1], &[0x78, 0, 9, 1], &[0x78, 0, 0], &[0x7f]] {
            assert!(!Units::default().push(payload), "{payload:?}");
        }
    }
}
