//! The readers, in three concurrency classes, so that no read waits for a slower kind.
//!
//! - A **point read** finds named records: a few rows by their keys, in microseconds. It runs on its caller's thread ([`point_reads`]).
//! - A **list** finds a page of a project's rows for a client. Lists have threads and a deadline ([`lists`]).
//! - A **bulk read** reads all rows of a kind: initial states of actors, a file check, a backup ([`ReaderThreads`]).
//!
//! A read sees everything that this process had committed when it was requested, and whatever other processes had committed
//! [`SNAPSHOT_AGE`] before.

mod lists;
mod point_reads;

use std::path::Path;
use std::time::Duration;

use conclave_model::ProjectId;
use prometheus::IntGauge;
use r2d2::{Pool, PooledConnection};
use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::{Connection, OpenFlags};

use super::CommitCount;
use crate::engine::snapshot::Snapshot;
use crate::error::{StoreError, catch_panic};
use crate::sql::Sql;
use lists::{Lists, ReaderThreads};
use point_reads::PointReads;
pub use point_reads::SNAPSHOT_AGE;

/// Threads for bulk reads: a long one, such as a backup, leaves one free.
const BULK_THREADS: usize = 2;

/// Handle to the readers.
#[derive(Clone)]
pub(crate) struct Readers {
    point_reads: PointReads,
    lists: Lists,
    bulk: ReaderThreads,
}

impl Readers {
    /// Opens the connections and starts the threads. Requires a running actix system. `point_readers` is the number of threads that make
    /// point reads.
    pub(crate) fn start(
        path: &Path,
        point_readers: usize,
        commits: CommitCount,
        waiting: &IntGauge,
    ) -> Result<Self, StoreError> {
        let connections = open_pool(path, lists::THREADS + BULK_THREADS)?;
        let threads = |count| ReaderThreads::start(&connections, count, waiting.clone());
        let point_reads = PointReads::new(manager(path), point_readers, commits);
        Ok(Self {
            point_reads,
            lists: Lists::new(threads(lists::THREADS)),
            bulk: threads(BULK_THREADS),
        })
    }

    /// Runs a point read on the caller's thread.
    pub(crate) fn point<T, F>(&self, run: F) -> impl Future<Output = Result<T, StoreError>>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.snapshot(move |snapshot| run(snapshot.sql))
    }

    /// Runs a point read that uses remembered rows.
    pub(crate) fn snapshot<T, F>(&self, run: F) -> impl Future<Output = Result<T, StoreError>>
    where
        F: FnOnce(&mut Snapshot<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.point_reads.read(run)
    }

    /// Ends the transactions shared by point reads, which would keep the write-ahead log from being emptied.
    pub(crate) fn end_snapshots(&self) {
        self.point_reads.end_snapshots();
    }

    /// Runs a list's query.
    pub(crate) async fn list<T, F>(&self, project: ProjectId, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>, &ProjectId) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.lists.read(project, run).await
    }

    /// Runs a read that may take long.
    pub(crate) async fn bulk<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.bulk
            .run(move |connection| run_in_transaction(connection, run))
            .await
    }
}

/// Maximum wait of a read for a lock. Readers of a write-ahead log wait only for a recovery, which takes moments, and a point read waits on
/// an asynchronous thread.
const BUSY_TIMEOUT: Duration = Duration::from_millis(250);

pub(super) type Connections = Pool<SqliteConnectionManager>;
pub(super) type Pooled = PooledConnection<SqliteConnectionManager>;

/// Returns the manager that opens read-only connections to a file.
pub(super) fn manager(path: &Path) -> SqliteConnectionManager {
    SqliteConnectionManager::file(path)
        // NO_MUTEX: each connection is used by one thread at a time, so SQLite's own mutex would cost time without a benefit.
        .with_flags(OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .with_init(|connection| {
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.set_prepared_statement_cache_capacity(128);
            Ok(())
        })
}

/// Opens a connection pool.
pub(super) fn open_pool(path: &Path, size: usize) -> Result<Connections, StoreError> {
    Pool::builder()
        .max_size(u32::try_from(size).unwrap_or(u32::MAX))
        // A connection to a local file does not go stale, and its prepared statements are worth keeping.
        .test_on_check_out(false)
        .max_lifetime(None)
        .idle_timeout(None)
        .build(manager(path))
        .map_err(|error| StoreError::Unavailable(error.to_string()))
}

/// Starts a transaction. Its first query determines the snapshot.
pub(super) fn begin(connection: &Connection) -> Result<(), StoreError> {
    Ok(connection.prepare_cached("BEGIN")?.execute([]).map(drop)?)
}

/// Ends the transaction, if one is open.
pub(super) fn end(connection: &Connection) {
    if connection.is_autocommit() {
        return;
    }
    let ended = connection
        .prepare_cached("COMMIT")
        .and_then(|mut commit| commit.execute([]));
    if let Err(error) = ended.map_err(StoreError::from) {
        // After damage it cannot be committed, and its read has already failed.
        if !matches!(error, StoreError::Damaged(_)) {
            log::error!("a read transaction did not end: {error}");
        }
        // It must end, or the connection would read an old state forever.
        let _ = connection.execute_batch("ROLLBACK");
    }
}

/// Runs a read in a separate transaction. A panic fails only this read.
pub(super) fn run_in_transaction<T>(
    connection: &Connection,
    run: impl FnOnce(Sql<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    begin(connection)?;
    let result = catch_panic("a read", || run(Sql::Sqlite(connection)));
    end(connection);
    result
}
