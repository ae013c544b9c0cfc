//! A counter of some bits that goes on across changes of its source.

/// Maps the values of changing sources to one series.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counter {
    /// What is added to the source's values.
    offset: u16,
    /// The newest value handed out.
    last: u16,
}

impl Counter {
    /// Starts with the values of a source as they are, of which this is the first.
    pub const fn at(value: u16) -> Self {
        Self {
            offset: 0,
            last: value,
        }
    }

    /// Continues behind the last value with a source whose first value this is.
    pub const fn switch(&mut self, value: u16) {
        self.offset = self.last.wrapping_add(1).wrapping_sub(value);
    }

    /// Returns whether a value of the source comes behind all that were handed out, within `mask`, which is one less than a power of two.
    pub const fn is_newest(self, value: u16, mask: u16) -> bool {
        let ahead = value.wrapping_add(self.offset).wrapping_sub(self.last) & mask;
        ahead != 0 && ahead <= mask / 2
    }

    /// Returns the value in the series, within `mask`.
    pub const fn rewrite(&mut self, value: u16, mask: u16) -> u16 {
        let mapped = value.wrapping_add(self.offset) & mask;
        if self.is_newest(value, mask) {
            self.last = mapped;
        }
        mapped
    }
}
