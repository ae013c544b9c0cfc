//! Bit fields in media headers, most significant bit first.

/// Reads bit fields. Each read returns `None` if too few bits are left.
#[derive(Debug)]
pub struct Bits<'a> {
    bytes: &'a [u8],
    /// Bits read so far.
    position: usize,
}

impl<'a> Bits<'a> {
    /// Starts at the first bit.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Reads one bit.
    pub fn flag(&mut self) -> Option<bool> {
        let byte = self.bytes.get(self.position / 8)?;
        let bit = byte >> (7 - self.position % 8) & 1;
        self.position += 1;
        Some(bit == 1)
    }

    /// Reads a number with at most 32 bits.
    pub fn number(&mut self, bits: u32) -> Option<u32> {
        (0..bits).try_fold(0, |number, _| Some(number << 1 | u32::from(self.flag()?)))
    }

    /// Reads a number below `values`; low numbers may take one bit less (AV1's ns(n) code).
    pub fn number_below(&mut self, values: u32) -> Option<u32> {
        let bits = values.checked_ilog2()? + 1;
        // That many low numbers need one bit less.
        let shorter = (1 << bits) - values;
        let number = self.number(bits - 1)?;
        if number < shorter {
            return Some(number);
        }
        Some((number << 1 | u32::from(self.flag()?)) - shorter)
    }

    /// Reads an unsigned Exp-Golomb code (ITU-T H.264, section 9.1) with at most 30 bits after the prefix.
    pub fn exp_golomb(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while !self.flag()? {
            zeros += 1;
            // Malformed or malicious: the number would not fit.
            if zeros > 30 {
                return None;
            }
        }
        Some((1_u32 << zeros) - 1 + self.number(zeros)?)
    }

    /// Reads a signed Exp-Golomb code.
    pub fn signed_exp_golomb(&mut self) -> Option<i64> {
        let number = i64::from(self.exp_golomb()?);
        Some(if number % 2 == 1 {
            number / 2 + 1
        } else {
            -(number / 2)
        })
    }

    /// Skips bits, which must exist.
    pub fn skip(&mut self, bits: usize) -> Option<()> {
        let end = self.position.checked_add(bits)?;
        self.position = end;
        // The position may pass the end; later reads then return `None`.
        (end <= self.bytes.len() * 8).then_some(())
    }
}

/// Writes bit fields, for descriptors in tests.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct BitWriter(Vec<bool>);

#[cfg(test)]
impl BitWriter {
    pub fn write(&mut self, bits: u32, number: u64) {
        self.0
            .extend((0..bits).rev().map(|bit| number >> bit & 1 == 1));
    }

    pub fn write_below(&mut self, values: u64, number: u64) {
        let bits = values.ilog2() + 1;
        let shorter = (1 << bits) - values;
        if number < shorter {
            self.write(bits - 1, number);
        } else {
            self.write(bits, number + shorter);
        }
    }

    pub fn bytes(self) -> Vec<u8> {
        let byte = |bits: &[bool]| {
            (0..8).fold(0, |byte, at| {
                byte << 1 | u8::from(bits.get(at) == Some(&true))
            })
        };
        self.0.chunks(8).map(byte).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(
            numbers in prop::collection::vec((1..33_u32, any::<u32>(), 1..40_u32, any::<u32>()), 0..20),
        ) {
            let mut writer = BitWriter::default();
            for (bits, number, values, below) in &numbers {
                writer.write(*bits, (u64::from(*number)) & ((1 << bits) - 1));
                writer.write_below((*values).into(), (below % values).into());
            }
            let bytes = writer.bytes();
            let mut bits = Bits::new(&bytes);
            for (size, number, values, below) in numbers {
                prop_assert_eq!(bits.number(size), Some(u32::try_from(u64::from(number) & ((1 << size) - 1)).unwrap()));
                prop_assert_eq!(bits.number_below(values), Some(below % values));
            }
            prop_assert_eq!(bits.number(8), None, "less than a byte is left");
        }
    }
}
