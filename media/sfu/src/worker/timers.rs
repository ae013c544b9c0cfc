//! The deadlines of all transports of a worker.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::transport::TransportKey;

/// The deadlines of transports. A deadline that moves further away stays where it is, and is put off when it is reached:
/// most packets move one, and few are ever reached.
#[derive(Debug, Default)]
pub struct Timers {
    queue: BinaryHeap<Reverse<(Instant, TransportKey)>>,
}

impl Timers {
    /// Adds a deadline.
    pub fn arm(&mut self, at: Instant, transport: TransportKey) {
        self.queue.push(Reverse((at, transport)));
    }

    /// Returns when [`Timers::take_due`] has something to return.
    pub fn next(&self) -> Option<Instant> {
        self.queue.peek().map(|Reverse((at, _))| *at)
    }

    /// Removes and returns the transports whose deadline was reached. A deadline may have moved since it was added.
    pub fn take_due(&mut self, now: Instant) -> Vec<TransportKey> {
        let mut due = Vec::new();
        while let Some(Reverse((_, transport))) = self
            .queue
            .peek()
            .copied()
            .filter(|Reverse((at, _))| *at <= now)
        {
            self.queue.pop();
            due.push(transport);
        }
        due
    }
}
