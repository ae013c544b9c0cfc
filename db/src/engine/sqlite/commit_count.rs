//! The number of commits of this process, by which readers notice that their snapshot is old.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that the writer and the readers share.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommitCount(Arc<AtomicU64>);

impl CommitCount {
    /// Counts a commit. The writer does so before it tells anybody of it.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of commits. A snapshot that is taken afterwards has all of them.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
