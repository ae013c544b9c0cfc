//! A read transaction that point reads share until the next commit, for a moment at most.
//!
//! To begin and end one takes several system calls and a lock that all connections share: more than most of these reads take.
//! Shared by the reads of [`SNAPSHOT_AGE`], it gave a third more `get_room` requests in the benchmark.

use std::time::{Duration, Instant};

use super::connection::Pooled;
use crate::error::StoreError;
use crate::snapshot::Snapshot;
use crate::sqlite::commit_count::CommitCount;

/// How old the snapshot of a point read can be. Commits of this process end it at once; those of another process are read after
/// this time.
pub const SNAPSHOT_AGE: Duration = Duration::from_millis(1);

/// An open read transaction. Dropping it ends it.
pub(super) struct HeldSnapshot {
    connection: Pooled,
    begun: Instant,
    /// The number of commits that it has seen, or fewer.
    commits: u64,
}

impl HeldSnapshot {
    /// Begins a transaction.
    pub(super) fn begin(connection: Pooled, commits: &CommitCount) -> Result<Self, StoreError> {
        // Read before the first query, which fixes the snapshot.
        let mut held = Self { connection, begun: Instant::now(), commits: commits.get() };
        held.connection.begin_snapshot()?;
        Ok(held)
    }

    /// Whether it has all commits of this process, and is young enough for those of others.
    pub(super) fn is_current(&self, commits: &CommitCount) -> bool {
        self.commits == commits.get() && self.is_young()
    }

    /// Whether it is younger than [`SNAPSHOT_AGE`].
    pub(super) fn is_young(&self) -> bool {
        self.begun.elapsed() < SNAPSHOT_AGE
    }

    /// The state that it shows.
    pub(super) fn snapshot(&mut self) -> Snapshot<'_> {
        self.connection.snapshot()
    }
}

impl Drop for HeldSnapshot {
    fn drop(&mut self) {
        self.connection.end_snapshot();
    }
}
