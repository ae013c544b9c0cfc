//! The pool of connections that read, each with what point reads have found in its last snapshot.

use std::path::Path;
use std::time::Duration;

use r2d2::{ManageConnection, Pool, PooledConnection};
use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::{Connection, OpenFlags};

use super::transaction;
use crate::error::StoreError;
use crate::snapshot::{Memory, Snapshot};
use crate::sql::Sql;

/// How long a read waits for a lock. Readers of a write-ahead log wait for a recovery only, which takes moments; a point read
/// waits on an asynchronous thread.
const BUSY_TIMEOUT: Duration = Duration::from_millis(250);

pub(super) type Connections = Pool<Manager>;
pub(super) type Pooled = PooledConnection<Manager>;

/// A connection that reads.
pub(super) struct ReadConnection {
    pub(super) sqlite: Connection,
    pub(super) memory: Memory,
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
        self.memory.keep_for(version);
        Ok(())
    }

    /// The snapshot of the transaction that is open.
    pub(super) fn snapshot(&mut self) -> Snapshot<'_> {
        Snapshot::new(Sql::new(&self.sqlite), &mut self.memory)
    }

    /// Ends the transaction, if one is open.
    pub(super) fn end_snapshot(&self) {
        transaction::end(&self.sqlite);
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
