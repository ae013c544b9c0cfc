//! A round's record.

use std::time::{Duration, Instant};

/// A fault, and the time until the cluster was whole again.
#[derive(Debug, Clone)]
pub struct Round {
    /// From 1.
    pub number: u32,
    /// The affected nodes: a client that calls such a node gets no response.
    pub failed: Vec<usize>,
    /// Right before the fault.
    pub began: Instant,
    /// When all nodes were back.
    pub ended: Instant,
    /// Time after the fault until a change sent after it was acknowledged; `None` if none was.
    pub writes_after: Option<Duration>,
    /// The epochs before and after it.
    pub epochs: (i64, i64),
    /// The node whose process exits once more than the scenario expects.
    pub ends_again: Option<usize>,
    /// Process exits per node since the previous round.
    pub exits: Vec<usize>,
    /// Violations.
    pub violations: Vec<String>,
}

impl Round {
    /// Returns whether the time from `from` to `to` overlaps the round.
    pub fn overlaps(&self, from: Instant, to: Instant) -> bool {
        from <= self.ended && to >= self.began
    }
}

/// Returns the median of sorted durations; zero without any.
#[must_use]
pub fn median(sorted: &[Duration]) -> Duration {
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
