//! The pool of connections that read, each with what point reads have found in its last snapshot.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use conclave_model::key::ApiKeyPrefix;
use r2d2::{ManageConnection, Pool, PooledConnection};
use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::{Connection, OpenFlags};

use super::transaction;
use crate::credential::{self, StoredKey};
use crate::error::StoreError;
use crate::sql::Sql;

/// How long a read waits for a lock. Readers of a write-ahead log wait for a recovery only, which takes moments; a point read
/// waits on an asynchronous thread.
const BUSY_TIMEOUT: Duration = Duration::from_millis(250);

/// The most API keys that a connection remembers.
const KEYS: usize = 1_000;

pub(super) type Connections = Pool<Manager>;
pub(super) type Pooled = PooledConnection<Manager>;

/// A connection that reads.
pub(super) struct ReadConnection {
    pub(super) sqlite: Connection,
    pub(super) memory: Memory,
}

/// What was found in a snapshot of the database. The first commit after it, of this process or another, clears it, so it is
/// never older than the result of a query.
#[derive(Default)]
pub(super) struct Memory {
    /// SQLite's number of the snapshot; it differs on each connection.
    version: i64,
    keys: HashMap<ApiKeyPrefix, StoredKey>,
}

/// The state of the database that a point read sees.
pub(crate) struct Snapshot<'c> {
    pub(crate) sql: Sql<'c>,
    memory: &'c mut Memory,
}

/// Opens the connections of the pool.
pub(super) struct Manager(SqliteConnectionManager);

impl ManageConnection for Manager {
    type Connection = ReadConnection;
    type Error = rusqlite::Error;

    fn connect(&self) -> Result<ReadConnection, rusqlite::Error> {
        Ok(ReadConnection { sqlite: self.0.connect()?, memory: Memory::default() })
    }

    fn is_valid(&self, connection: &mut ReadConnection) -> Result<(), rusqlite::Error> {
        self.0.is_valid(&mut connection.sqlite)
    }

    fn has_broken(&self, connection: &mut ReadConnection) -> bool {
        self.0.has_broken(&mut connection.sqlite)
    }
}

impl ReadConnection {
    /// Begins a transaction. What was found in an older snapshot is forgotten.
    pub(super) fn begin_snapshot(&mut self) -> Result<(), StoreError> {
        transaction::begin(&self.sqlite)?;
        let version = self.sqlite.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.memory.version != version {
            self.memory = Memory { version, ..Memory::default() };
        }
        Ok(())
    }

    /// The snapshot of the transaction that is open.
    pub(super) fn snapshot(&mut self) -> Snapshot<'_> {
        Snapshot { sql: Sql::new(&self.sqlite), memory: &mut self.memory }
    }

    /// Ends the transaction, if one is open.
    pub(super) fn end_snapshot(&self) {
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

pub(super) fn open(path: &Path, size: usize) -> Result<Connections, StoreError> {
    let manager = SqliteConnectionManager::file(path)
        .with_flags(OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .with_init(|connection| {
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.set_prepared_statement_cache_capacity(128);
            Ok(())
        });
    Pool::builder()
        .max_size(u32::try_from(size).unwrap_or(u32::MAX))
        // A read connection to a local file does not go stale, and its prepared statements are worth keeping.
        .test_on_check_out(false)
        .max_lifetime(None)
        .idle_timeout(None)
        .build(Manager(manager))
        .map_err(|error| StoreError::Unavailable(error.to_string()))
}
