//! The pool of connections that read.

use std::path::Path;
use std::time::Duration;

use r2d2::{Pool, PooledConnection};
use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::OpenFlags;

use crate::error::StoreError;

/// How long a read waits for a lock. Readers of a write-ahead log wait for a recovery only, which takes moments; a point read
/// waits on an asynchronous thread.
const BUSY_TIMEOUT: Duration = Duration::from_millis(250);

pub(super) type Connections = Pool<SqliteConnectionManager>;
pub(super) type Pooled = PooledConnection<SqliteConnectionManager>;

pub(super) fn open(path: &Path, size: usize) -> Result<Connections, StoreError> {
    let manager = SqliteConnectionManager::file(path)
        .with_flags(OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .with_init(|connection| {
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.set_prepared_statement_cache_capacity(128);
            Ok(())
        });
    let pool = Pool::builder().max_size(u32::try_from(size).unwrap_or(u32::MAX));
    // A read connection to a local file does not go stale, and its prepared statements are worth keeping.
    pool.max_lifetime(None).idle_timeout(None).build(manager).map_err(unavailable)
}

/// Takes a connection, which its user keeps. The pool has one for each.
pub(super) fn take(connections: &Connections) -> Result<Pooled, StoreError> {
    connections.get().map_err(unavailable)
}

fn unavailable(error: r2d2::Error) -> StoreError {
    StoreError::Unavailable(error.to_string())
}
