//! A connection with a read transaction that point reads share until the next commit, for a moment at most.
//!
//! To begin and end one takes several system calls and a lock that all connections share: more than most of these reads take.
//! Shared by the reads of [`SNAPSHOT_AGE`], it gave a third more `get_room` requests in the benchmark.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::transaction;
use crate::engine::snapshot::{Memory, Snapshot};
use crate::engine::sqlite::commit_count::CommitCount;
use crate::error::StoreError;
use crate::sql::Sql;

/// How old the snapshot of a point read can be. Commits of this process end it at once; those of another process are read after
/// this time.
pub const SNAPSHOT_AGE: Duration = Duration::from_millis(1);

/// A connection that reads, and the transaction that it holds.
pub(super) struct SnapshotConnection {
    sqlite: Connection,
    /// When the transaction was begun, and the number of commits that it has seen, or fewer; `None` if none is open.
    held: Option<(Instant, u64)>,
    memory: Memory,
}

impl SnapshotConnection {
    pub(super) fn new(sqlite: Connection) -> Self {
        Self {
            sqlite,
            held: None,
            memory: Memory::default(),
        }
    }

    /// Returns the snapshot that is held, or a new one if that lacks a commit of this process or is too old for those of others.
    pub(super) fn snapshot(&mut self, commits: &CommitCount) -> Result<Snapshot<'_>, StoreError> {
        if self.is_old() || self.held.is_some_and(|(_, seen)| seen != commits.get()) {
            self.end();
            // Taken before the first query, which fixes the snapshot.
            let held = (Instant::now(), commits.get());
            self.begin()?;
            self.held = Some(held);
        }
        Ok(Snapshot::new(Sql::Sqlite(&self.sqlite), &mut self.memory))
    }

    /// Begins a transaction. What was found in an older snapshot is forgotten.
    fn begin(&mut self) -> Result<(), StoreError> {
        transaction::begin(&self.sqlite)?;
        let version = self
            .sqlite
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        self.memory.keep_for(version);
        Ok(())
    }

    /// Whether no transaction is held that is younger than [`SNAPSHOT_AGE`].
    pub(super) fn is_old(&self) -> bool {
        self.held
            .is_none_or(|(begun, _)| begun.elapsed() >= SNAPSHOT_AGE)
    }

    /// Ends the transaction, if one is open.
    pub(super) fn end(&mut self) {
        self.held = None;
        transaction::end(&self.sqlite);
    }
}
