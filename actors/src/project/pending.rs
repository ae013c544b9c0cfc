//! Children that are being created in spawned tasks, and the reports about them that wait until their records are written.

/// The children of one kind that are being created.
pub(super) struct PendingSpawns<K, M> {
    expected: usize,
    held: Vec<(K, M)>,
}

impl<K, M> Default for PendingSpawns<K, M> {
    fn default() -> Self {
        Self {
            expected: 0,
            held: Vec::new(),
        }
    }
}

impl<K, M> PendingSpawns<K, M> {
    /// Returns the number of children that are being created.
    pub fn len(&self) -> usize {
        self.expected
    }

    /// Counts a child that is being created. The media plane has not named it yet.
    pub fn expect(&mut self) {
        self.expected += 1;
    }

    /// Holds a message to an unknown child while any child is being created; gives it back otherwise.
    pub fn hold(&mut self, name: K, message: M) -> Option<(K, M)> {
        if self.expected == 0 {
            return Some((name, message));
        }
        self.held.push((name, message));
        None
    }

    /// Counts a child whose creation has ended. Returns the held messages, which may know their child now.
    pub fn finish(&mut self) -> Vec<(K, M)> {
        self.expected -= 1;
        std::mem::take(&mut self.held)
    }
}
