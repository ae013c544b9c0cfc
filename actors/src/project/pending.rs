//! Children that are being made beside their project. What is reported of one before its record is written waits here.

use std::fmt::Display;
use std::hash::Hash;

use super::child_set::ChildSet;
use crate::inspection::InspectMessage;

/// Children of one kind that are being made.
pub(super) struct PendingSpawns<K, M> {
    expected: usize,
    held: Vec<(K, M)>,
}

impl<K, M> Default for PendingSpawns<K, M> {
    fn default() -> Self {
        Self { expected: 0, held: Vec::new() }
    }
}

impl<K: Clone + Eq + Hash + Display, M: InspectMessage> PendingSpawns<K, M> {
    /// How many are being made.
    pub fn len(&self) -> usize {
        self.expected
    }

    /// Notes that one is being made; what it will be called is the media plane's to say.
    pub fn expect(&mut self) {
        self.expected += 1;
    }

    /// Passes on what was reported of a child. Of one that nobody knows it waits while any is being made, and is given
    /// back when none is.
    pub fn pass(&mut self, children: &mut ChildSet<K, M>, name: K, message: M) -> Option<M> {
        if children.contains(&name) {
            children.send(&name, message);
        } else if self.expected > 0 {
            self.held.push((name, message));
        } else {
            return Some(message);
        }
        None
    }

    /// Notes that one was made, and is among the children now, or was not. Passes on what waited for it, and gives back what
    /// is known to be nobody's.
    pub fn made(&mut self, children: &mut ChildSet<K, M>) -> Vec<(K, M)> {
        self.expected -= 1;
        let held = std::mem::take(&mut self.held);
        held.into_iter()
            .filter_map(|(name, message)| Some((name.clone(), self.pass(children, name, message)?)))
            .collect()
    }
}
