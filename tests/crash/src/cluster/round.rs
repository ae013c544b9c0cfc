//! What has happened in a round.

use std::time::{Duration, Instant};

/// A fault and what followed, until the cluster was whole again.
#[derive(Debug, Clone)]
pub struct Round {
    /// From 1.
    pub number: u32,
    /// The nodes that the fault was for: a client that calls one of them gets no answer.
    pub failed: Vec<usize>,
    /// Right before the fault.
    pub began: Instant,
    /// When all nodes were back.
    pub ended: Instant,
    /// How long after the fault a change was acknowledged that was sent after it; `None` if none was.
    pub writes_after: Option<Duration>,
    /// The epochs before and after it.
    pub epochs: (i64, i64),
    /// The node whose process ends once more than the scenario says.
    pub ends_again: Option<usize>,
    /// How many processes of each node have ended since the round before.
    pub exits: Vec<usize>,
    /// What was seen that should not have happened.
    pub violations: Vec<String>,
}

impl Round {
    /// Whether something that lasted from `from` to `to` was within the round in part.
    pub fn overlaps(&self, from: Instant, to: Instant) -> bool {
        from <= self.ended && to >= self.began
    }
}

/// Returns the median of durations in order; zero without any.
#[must_use]
pub fn median(sorted: &[Duration]) -> Duration {
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
