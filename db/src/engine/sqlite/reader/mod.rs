//! The readers, in three lanes, so that no read waits for slower ones of another kind.
//!
//! - A **point read** finds what its caller names: a few rows by their keys, in microseconds. It runs on the thread of its caller
//!   ([`point_reads`]).
//! - A **list** finds a page of a project's rows for a client. Lists have threads and a deadline ([`lists`]).
//! - A **bulk read** reads all rows of a kind: what the actors start from, a check of the file, a backup ([`Threads`]).
//!
//! A read sees everything that this process had committed when it was requested, and what other processes had committed
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
use lists::{Lists, Threads};
use point_reads::PointReads;
pub use point_reads::SNAPSHOT_AGE;

/// The number of threads for bulk reads: a long one, such as a backup, leaves one to the others.
const BULK_THREADS: usize = 2;

/// A handle to the readers.
#[derive(Clone)]
pub(crate) struct Readers {
    point_reads: PointReads,
    lists: Lists,
    bulk: Threads,
}

impl Readers {
    /// Opens the connections and starts the threads. Needs a running actix system. `point_readers` is the number of threads that
    /// make point reads.
    pub(crate) fn start(
        path: &Path,
        point_readers: usize,
        commits: CommitCount,
        waiting: &IntGauge,
    ) -> Result<Self, StoreError> {
        let connections = open_pool(path, lists::THREADS + BULK_THREADS)?;
        let threads = |count| Threads::start(&connections, count, waiting.clone());
        let point_reads = PointReads::new(manager(path), point_readers, commits);
        Ok(Self {
            point_reads,
            lists: Lists::new(threads(lists::THREADS)),
            bulk: threads(BULK_THREADS),
        })
    }

    /// Runs a point read on the thread of the caller.
    pub(crate) async fn point<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.snapshot(move |snapshot| run(snapshot.sql)).await
    }

    /// The same, for a read that uses what the snapshot remembers.
    pub(crate) async fn snapshot<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(&mut Snapshot<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.point_reads.read(run).await
    }

    /// Ends the transactions that point reads share, so that none keeps the write-ahead log from being emptied.
    pub(crate) fn end_snapshots(&self) {
        self.point_reads.end_snapshots();
    }

    /// Runs the query of a project's list.
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

/// Begins a transaction. Its first query fixes the snapshot that it reads.
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
        // One that has met damage cannot be committed, and its read has failed already.
        if !matches!(error, StoreError::Damaged(_)) {
            log::error!("a read transaction did not end: {error}");
        }
        // It must end, or the connection reads an old state for ever.
        let _ = connection.execute_batch("ROLLBACK");
    }
}

/// Runs a read in a transaction of its own. A panic fails this read only.
pub(super) fn run_in_transaction<T>(
    connection: &Connection,
    run: impl FnOnce(Sql<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    begin(connection)?;
    let result = catch_panic("a read", || run(Sql::Sqlite(connection)));
    end(connection);
    result
}
