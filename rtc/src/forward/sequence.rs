//! Sequence numbers that go on across changes of the source.

/// Maps the sequence numbers of changing sources to one series without gaps at the changes.
#[derive(Debug, Clone)]
pub struct SequenceNumbers {
    /// One above the highest number handed out.
    next: u64,
    /// The source's first accepted number, and the number it was mapped to.
    anchor: Option<(u64, u64)>,
}

impl SequenceNumbers {
    /// Starts a series with this number.
    pub const fn new(first: u16) -> Self {
        Self { next: first as u64, anchor: None }
    }

    /// Continues the series with a source whose first packet has this number.
    pub fn switch(&mut self, first: u64) {
        self.anchor = Some((first, self.next));
    }

    /// Returns the number of a packet that is of no source. After it, the series goes on with the next change of the source.
    pub const fn insert(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.anchor = None;
        number
    }

    /// Returns the number of a packet of the source in the series; `None` for one from before the source was chosen.
    pub fn rewrite(&mut self, sequence: u64) -> Option<u64> {
        let (first, mapped) = self.anchor?;
        let number = mapped + sequence.checked_sub(first)?;
        self.next = self.next.max(number + 1);
        Some(number)
    }
}
