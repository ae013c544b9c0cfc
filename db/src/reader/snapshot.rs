//! A connection of point reads, and what was found in the snapshot of its transaction.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use conclave_model::key::ApiKeyPrefix;

use super::connection::Pooled;
use super::transaction;
use crate::commit_count::CommitCount;
use crate::credential::{self, StoredKey};
use crate::error::StoreError;
use crate::sql::Sql;

/// How old the snapshot of a point read can be. Commits of this process end it at once; those of another process are read after
/// this time.
pub const SNAPSHOT_AGE: Duration = Duration::from_millis(1);

/// The most API keys that a connection remembers.
const KEYS: usize = 1_000;

/// A connection whose transaction stays open between reads.
pub(super) struct ReadConnection {
    sqlite: Pooled,
    /// Of the transaction; `None` if none is open.
    begun: Option<Begun>,
    memory: Memory,
}

/// The begin of a transaction.
#[derive(Clone, Copy)]
struct Begun {
    at: Instant,
    /// The number of commits that it has seen, or fewer.
    commits: u64,
}

/// What was found in a snapshot of the database. The first commit after it, of this process or another, clears it, so it is
/// never older than the result of a query.
#[derive(Default)]
struct Memory {
    /// SQLite's number of the snapshot; it differs on each connection.
    version: i64,
    keys: HashMap<ApiKeyPrefix, StoredKey>,
}

/// The state of the database that a point read sees.
pub(crate) struct Snapshot<'c> {
    pub(crate) sql: Sql<'c>,
    memory: &'c mut Memory,
}

impl ReadConnection {
    pub(super) fn new(sqlite: Pooled) -> Self {
        Self { sqlite, begun: None, memory: Memory::default() }
    }

    /// Returns the snapshot of the open transaction if it has all commits of this process and is young enough for those of others, or
    /// else of a new one.
    pub(super) fn snapshot(&mut self, commits: &CommitCount) -> Result<Snapshot<'_>, StoreError> {
        if !self.is_young() || self.begun.is_none_or(|begun| begun.commits != commits.get()) {
            self.renew(commits)?;
        }
        Ok(Snapshot { sql: Sql::new(&self.sqlite), memory: &mut self.memory })
    }

    fn renew(&mut self, commits: &CommitCount) -> Result<(), StoreError> {
        self.end();
        // Read before the first query, which fixes the snapshot.
        let begun = Begun { at: Instant::now(), commits: commits.get() };
        transaction::begin(&self.sqlite)?;
        let version = self.sqlite.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.memory.version != version {
            self.memory = Memory { version, ..Memory::default() };
        }
        self.begun = Some(begun);
        Ok(())
    }

    /// Whether a transaction is open that is younger than [`SNAPSHOT_AGE`].
    pub(super) fn is_young(&self) -> bool {
        self.begun.is_some_and(|begun| begun.at.elapsed() < SNAPSHOT_AGE)
    }

    /// Ends the transaction, if one is open.
    pub(super) fn end(&mut self) {
        self.begun = None;
        transaction::end(&self.sqlite);
    }
}

impl Snapshot<'_> {
    /// Returns an API key, from memory if it was found in this snapshot before.
    pub(crate) fn key(&mut self, prefix: &ApiKeyPrefix) -> Result<Option<StoredKey>, StoreError> {
        let keys = &mut self.memory.keys;
        if let Some(found) = keys.get(prefix) {
            return Ok(Some(found.clone()));
        }
        // An unknown key is not kept: a client that tries many keys would displace the valid ones.
        let Some(found) = credential::find(self.sql, prefix)? else { return Ok(None) };
        if keys.len() == KEYS {
            keys.clear();
        }
        keys.insert(prefix.clone(), found.clone());
        Ok(Some(found))
    }
}
