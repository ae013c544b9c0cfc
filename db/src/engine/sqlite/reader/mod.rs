//! The readers, in three lanes, so that no read waits for slower ones of another kind.
//!
//! - A **point read** finds what its caller names: a few rows by their keys, in microseconds. It runs on the thread of its caller
//!   ([`point_reads`]).
//! - A **list** finds a page of a project's rows for a client. Lists have threads and a deadline ([`lists`]).
//! - A **bulk read** reads all rows of a kind: what the actors start from, a check of the file, a backup ([`threads`]).
//!
//! A read sees everything that this process had committed when it was requested, and what other processes had committed
//! [`SNAPSHOT_AGE`] before.

mod connection;
mod held_snapshot;
mod lists;
mod point_reads;
mod threads;
mod transaction;

use std::path::Path;

use conclave_model::ProjectId;
use prometheus::IntGauge;

use super::commit_count::CommitCount;
use crate::engine::snapshot::Snapshot;
use crate::error::StoreError;
use crate::sql::Sql;
pub use held_snapshot::SNAPSHOT_AGE;
use lists::Lists;
use point_reads::PointReads;
use threads::Threads;
use transaction::run_in_transaction;

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
        let connections = connection::open_pool(path, lists::THREADS + BULK_THREADS)?;
        let threads = |count| Threads::start(&connections, count, waiting.clone());
        let point_reads = PointReads::new(connection::manager(path), point_readers, commits);
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
