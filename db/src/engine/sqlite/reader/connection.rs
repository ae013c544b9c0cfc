//! The connections that read.

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

/// Returns what opens connections to a file.
pub(super) fn manager(path: &Path) -> SqliteConnectionManager {
    SqliteConnectionManager::file(path)
        .with_flags(OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .with_init(|connection| {
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.set_prepared_statement_cache_capacity(128);
            Ok(())
        })
}

/// Opens the connections of a pool.
pub(super) fn open_pool(path: &Path, size: usize) -> Result<Connections, StoreError> {
    Pool::builder()
        .max_size(u32::try_from(size).unwrap_or(u32::MAX))
        // A read connection to a local file does not go stale, and its prepared statements are worth keeping.
        .test_on_check_out(false)
        .max_lifetime(None)
        .idle_timeout(None)
        .build(manager(path))
        .map_err(|error| StoreError::Unavailable(error.to_string()))
}
