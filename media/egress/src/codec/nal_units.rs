//! NAL units of H.264 and H.265: those of a frame out of RTP payloads, and in the frames of containers.

use conclave_sfu::Bits;

/// In the header of a fragment: it is the first or the last one of its unit.
const STARTS: u8 = 0x80;
const ENDS: u8 = 0x40;

/// Collects the NAL units of a frame.
#[derive(Debug, Default)]
pub struct Units {
    units: Vec<Vec<u8>>,
    /// Whether the last unit is a fragment that goes on.
    is_open: bool,
}

impl Units {
    /// Adds a unit.
    pub fn push(&mut self, unit: &[u8]) {
        self.units.push(unit.to_vec());
    }

    /// Adds units that are each behind its size in two bytes. Returns whether they are well-formed.
    pub fn push_aggregated(&mut self, mut units: &[u8]) -> bool {
        while let [high, low, rest @ ..] = units {
            let size = usize::from(u16::from_be_bytes([*high, *low]));
            let Some((unit, after)) = rest.split_at_checked(size).filter(|_| size > 0) else {
                return false;
            };
            self.push(unit);
            units = after;
        }
        units.is_empty()
    }

    /// Adds a fragment of a unit, whose header is `unit_header`. Returns whether it fits to what came before.
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
fn joined(units: &[Vec<u8>]) -> Vec<u8> {
    let mut frame = Vec::new();
    for unit in units {
        // A unit of a frame is far smaller.
        frame.extend_from_slice(&u32::try_from(unit.len()).unwrap_or(u32::MAX).to_be_bytes());
        frame.extend_from_slice(unit);
    }
    frame
}

/// Iterates over the units of a frame.
pub fn units(mut frame: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (size, rest) = frame.split_first_chunk::<4>()?;
        let (unit, after) =
            rest.split_at_checked(usize::try_from(u32::from_be_bytes(*size)).ok()?)?;
        frame = after;
        Some(unit)
    })
}

/// Returns the content of a unit without the bytes that prevent it from looking like the beginning of another one.
pub fn unescaped(content: &[u8]) -> Vec<u8> {
    let (mut bytes, mut zeros) = (Vec::with_capacity(content.len()), 0);
    for byte in content {
        if zeros >= 2 && *byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if *byte == 0 { zeros + 1 } else { 0 };
        bytes.push(*byte);
    }
    bytes
}

/// Reads by how much the pictures of a sequence parameter set are less wide and high than their blocks. `format` is that of the colours
/// (`chroma_format_idc`), and `fields` the number of rows that one row of the set stands for.
pub fn read_cropping(bits: &mut Bits<'_>, format: u32, fields: u32) -> Option<(u32, u32)> {
    let [left, right, top, bottom] = [
        bits.exp_golomb()?,
        bits.exp_golomb()?,
        bits.exp_golomb()?,
        bits.exp_golomb()?,
    ];
    let across = if matches!(format, 1 | 2) { 2 } else { 1 };
    let down = if format == 1 { 2 * fields } else { fields };
    Some((
        left.checked_add(right)?.checked_mul(across)?,
        top.checked_add(bottom)?.checked_mul(down)?,
    ))
}
