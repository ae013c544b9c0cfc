//! The readers of an engine, in three lanes, so that no read waits for slower ones of another kind: point reads find a few rows by their
//! keys, lists find a page of a project's rows, and bulk reads read all rows of a kind. A load reads what an actor starts from: after a
//! takeover, those of thousands of projects are requested at once. On PostgreSQL any thread that has nothing else to do makes them.
//!
//! A read sees everything that this process had committed when it was requested.

pub(crate) mod postgres;
pub(crate) mod snapshot;
pub(crate) mod sqlite;
pub(crate) mod writer;

use std::time::Duration;

use conclave_model::{ErrorCode, Problem, ProjectId};

use crate::engine::snapshot::{Memory, Snapshot};
use crate::error::StoreError;
use crate::sql::Sql;

/// A handle to the readers.
#[derive(Clone)]
pub(crate) enum Readers {
    File(sqlite::Readers),
    Sessions(postgres::Readers),
}

impl Readers {
    /// Runs a point read.
    pub(crate) async fn point<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        match self {
            Self::File(readers) => readers.point(run).await,
            Self::Sessions(readers) => readers.point(run).await,
        }
    }

    /// The same, for a read that uses what the snapshot remembers.
    pub(crate) async fn snapshot<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(&mut Snapshot<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        match self {
            Self::File(readers) => readers.snapshot(run).await,
            // Nothing is remembered: what another program has committed, such as a revoked key, is seen by the next read.
            Self::Sessions(readers) => {
                readers
                    .point(|sql| run(&mut Snapshot::new(sql, &mut Memory::default())))
                    .await
            }
        }
    }

    /// Runs the query of a project's list.
    pub(crate) async fn list<T, F>(&self, project: ProjectId, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>, &ProjectId) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        match self {
            Self::File(readers) => readers.list(project, run).await,
            Self::Sessions(readers) => readers.list(project, run).await,
        }
    }

    /// Runs a read that may take long.
    pub(crate) async fn bulk<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        match self {
            Self::File(readers) => readers.bulk(run).await,
            Self::Sessions(readers) => readers.bulk(run).await,
        }
    }

    /// Runs a load.
    pub(crate) async fn load<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        match self {
            // There is no network to wait for, and the threads of bulk reads are as fast as the machine.
            Self::File(readers) => readers.bulk(run).await,
            Self::Sessions(readers) => readers.load(run).await,
        }
    }

    /// Ends what readers keep of the database: the transactions that point reads of a file share, or the sessions with a server.
    pub(crate) fn close(&self) {
        match self {
            Self::File(readers) => readers.end_snapshots(),
            Self::Sessions(readers) => readers.close(),
        }
    }
}

/// The most lists of a project that run at once or wait for a thread.
pub(crate) const LISTS_OF_PROJECT: usize = 2;

/// The longest time from the request of a list until it is read.
pub(crate) const LIST_DEADLINE: Duration = Duration::from_secs(2);

/// The refusal of a list whose deadline is over.
pub(crate) fn too_slow() -> StoreError {
    let message = format!(
        "the list took longer than {} s; retry with backoff, with a smaller offset or with filters",
        LIST_DEADLINE.as_secs()
    );
    Problem::new(ErrorCode::DatabaseUnavailable, message)
        .after(Duration::from_secs(1))
        .into()
}
