//! The readers, in three lanes, so that no read waits for slower ones of another kind.
//!
//! - A **point read** finds what its caller names: a few rows by their keys, in microseconds. It runs on the thread of its caller
//!   ([`point_reads`]).
//! - A **list** finds a page of a project's rows for a client. Lists have threads and a deadline ([`lists`]).
//! - A **bulk read** reads all rows of a kind: what the actors start from, a check of the file, a backup ([`threads`]).
//!
//! Each read is a transaction that begins when it runs, so it sees everything that was committed before it was requested.

mod lists;
mod point_reads;
mod threads;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use conclave_model::ProjectId;
use prometheus::IntGauge;
use r2d2::{Pool, PooledConnection};
use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::{Connection, OpenFlags};

use crate::error::StoreError;
use crate::sql::Sql;
use lists::Lists;
use point_reads::PointReads;
use threads::Threads;

/// The number of threads for bulk reads: a long one, such as a backup, leaves one to the others.
const BULK_THREADS: usize = 2;

/// How long a read waits for a lock. Readers of a write-ahead log wait for a recovery only, which takes moments; a point read
/// waits on an asynchronous thread.
const BUSY_TIMEOUT: Duration = Duration::from_millis(250);

type Connections = Pool<SqliteConnectionManager>;
type ReadConnection = PooledConnection<SqliteConnectionManager>;

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
    pub(crate) fn start(path: &Path, point_readers: usize, waiting: &IntGauge) -> Result<Self, StoreError> {
        let connections = open(path, point_readers + lists::THREADS + BULK_THREADS)?;
        let threads = |count| Threads::start(&connections, count, waiting.clone());
        let (lists, bulk) = (Lists::new(threads(lists::THREADS)), threads(BULK_THREADS));
        Ok(Self { point_reads: PointReads::new(connections, bulk.clone()), lists, bulk })
    }

    /// Runs a point read on the thread of the caller.
    pub(crate) async fn point<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.point_reads.read(run).await
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
        self.bulk.run(move |connection| in_transaction(connection, run)).await
    }
}

fn open(path: &Path, size: usize) -> Result<Connections, StoreError> {
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
        .build(manager)
        .map_err(|error| StoreError::Unavailable(error.to_string()))
}

/// Runs a read in a transaction of its own. A panic fails this read only.
fn in_transaction<T>(
    connection: &Connection,
    run: impl FnOnce(Sql<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let sql = Sql::new(connection);
    sql.put("BEGIN", &[])?;
    let result = caught(|| run(sql));
    if let Err(error) = sql.put("COMMIT", &[]) {
        log::error!("a read transaction did not end: {error}");
        // It must end, or the connection reads an old state for ever.
        let _ = sql.put("ROLLBACK", &[]);
    }
    result.unwrap_or_else(|| Err(StoreError::Fault("a read panicked".into())))
}

/// Runs something that may panic; `None` if it does.
fn caught<T>(run: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(run)).inspect_err(|_| log::error!("a read panicked")).ok()
}
