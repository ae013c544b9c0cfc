//! NAL units (H.264 and H.265) in RTP payloads and in containers.

use conclave_sfu::Bits;

/// Fragment header flags: first and last fragment.
const STARTS: u8 = 0x80;
const ENDS: u8 = 0x40;

/// Collects a frame's NAL units.
#[derive(Debug, Default)]
pub struct Units {
    units: Vec<Vec<u8>>,
    /// Whether the last unit is an incomplete fragment.
    is_open: bool,
}

impl Units {
    pub fn push(&mut self, unit: &[u8]) {
        self.units.push(unit.to_vec());
    }

    /// Adds units from an aggregation packet, where each is preceded by its size in two bytes.
    /// Returns whether they are well-formed.
    pub fn push_aggregated(&mut self, mut units: &[u8]) -> bool {
        while let [high, low, rest @ ..] = units {
            let size = usize::from(u16::from_be_bytes([*high, *low]));
            let Some((unit, after)) = rest.split_at_checked(size).filter(|_| size > 0) else {
                return false;
            };
            self.push(unit);
            units = after;
        }
        // A byte left over means that a size was wrong.
        units.is_empty()
    }

    /// Adds a fragment to the unit with this header. Returns whether it continues the previous one.
    pub fn push_fragment(&mut self, fragment_header: u8, unit_header: &[u8], data: &[u8]) -> bool {
        if fragment_header & STARTS != 0 {
            self.push(unit_header);
        } else if !self.is_open {
            return false;
        }
        self.is_open = fragment_header & ENDS == 0;
        self.units.last_mut().is_some_and(|unit| {
            unit.extend_from_slice(data);
            true
        })
    }

    /// Returns the bytes collected so far.
    pub fn bytes(&self) -> usize {
        self.units.iter().map(Vec::len).sum()
    }

    /// Returns the frame, each unit preceded by its size in four bytes, and starts the next one.
    pub fn take(&mut self) -> Vec<u8> {
        self.is_open = false;
        joined(&std::mem::take(&mut self.units))
    }
}

fn joined(units: &[Vec<u8>]) -> Vec<u8> {
    let mut frame = Vec::new();
    for unit in units {
        // A unit is bounded by the frame's limit, so the cast never fails.
        frame.extend_from_slice(&u32::try_from(unit.len()).unwrap_or(u32::MAX).to_be_bytes());
        frame.extend_from_slice(unit);
    }
    frame
}

/// Iterates over a frame's units.
pub fn units(mut frame: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (size, rest) = frame.split_first_chunk::<4>()?;
        let (unit, after) =
            rest.split_at_checked(usize::try_from(u32::from_be_bytes(*size)).ok()?)?;
        frame = after;
        Some(unit)
    })
}

/// Removes the emulation prevention bytes from a unit (ITU-T H.264, section 7.4.1.1).
pub fn unescaped(content: &[u8]) -> Vec<u8> {
    let (mut bytes, mut zeros) = (Vec::with_capacity(content.len()), 0);
    for byte in content {
        // Two zero bytes and a 3: without the 3, they could look like a start code.
        if zeros >= 2 && *byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if *byte == 0 { zeros + 1 } else { 0 };
        bytes.push(*byte);
    }
    bytes
}

/// Reads a sequence parameter set's cropping. Returns by how many pixels the frame is narrower and
/// lower than its blocks. `format` is `chroma_format_idc`; `fields` is 2 for interlaced video, else
/// 1.
pub fn read_cropping(bits: &mut Bits<'_>, format: u32, fields: u32) -> Option<(u32, u32)> {
    let [left, right, top, bottom] = [
        bits.exp_golomb()?,
        bits.exp_golomb()?,
        bits.exp_golomb()?,
        bits.exp_golomb()?,
    ];
    // Offsets count chroma samples (ITU-T H.264, equations 7-19 to 7-22).
    let across = if matches!(format, 1 | 2) { 2 } else { 1 };
    let down = if format == 1 { 2 * fields } else { fields };
    Some((
        left.checked_add(right)?.checked_mul(across)?,
        top.checked_add(bottom)?.checked_mul(down)?,
    ))
}
