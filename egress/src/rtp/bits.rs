//! Numbers of some bits, the highest bit first.

/// The bits of a header.
pub struct Bits<'a> {
    bytes: &'a [u8],
    /// Whether bytes are left out that prevent a NAL unit from looking like the beginning of another one.
    is_unit: bool,
    zeros: u8,
    byte: u8,
    left: u8,
}

impl<'a> Bits<'a> {
    /// The bits as they are.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, is_unit: false, zeros: 0, byte: 0, left: 0 }
    }

    /// The bits of a NAL unit.
    pub const fn of_unit(bytes: &'a [u8]) -> Self {
        Self { is_unit: true, ..Self::new(bytes) }
    }

    fn next_byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        if self.is_unit && self.zeros >= 2 && *byte == 3 {
            self.zeros = 0;
            return self.next_byte();
        }
        self.zeros = if *byte == 0 { self.zeros.saturating_add(1) } else { 0 };
        Some(*byte)
    }

    fn bit(&mut self) -> Option<u32> {
        if self.left == 0 {
            (self.byte, self.left) = (self.next_byte()?, 8);
        }
        self.left -= 1;
        Some(u32::from(self.byte >> self.left & 1))
    }

    /// Reads a number of some bits, at most 32.
    pub fn fixed(&mut self, count: u32) -> Option<u32> {
        (0..count).try_fold(0, |value, _| Some(value << 1 | self.bit()?))
    }

    /// Reads a bit.
    pub fn flag(&mut self) -> Option<bool> {
        Some(self.bit()? == 1)
    }

    /// Skips some bits.
    pub fn skip(&mut self, count: u32) -> Option<()> {
        (0..count).try_for_each(|_| self.bit().map(drop))
    }

    /// Reads a number in the code of Exp-Golomb.
    pub fn number(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while self.bit()? == 0 {
            zeros += 1;
            if zeros > 30 {
                return None;
            }
        }
        Some((1_u32 << zeros) - 1 + self.fixed(zeros)?)
    }

    /// Reads such a number with a sign.
    pub fn signed(&mut self) -> Option<i64> {
        let number = i64::from(self.number()?);
        Some(if number % 2 == 1 { number / 2 + 1 } else { -(number / 2) })
    }
}
