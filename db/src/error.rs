//! The errors of the store and of an import into it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use conclave_model::Problem;

use crate::vault::VaultError;

/// The reason why the store did not read or write what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The records do not allow it; the problem is the response to the client.
    #[error("refused: {0}")]
    Refused(Problem),
    /// The database cannot be read or written now: a full disk, a lock that is not released, a store that is closing.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// A page of the file cannot be read, or belongs to a damaged table and may not be written. Only a backup helps.
    #[error("the file of the database is damaged: {0}")]
    Damaged(String),
    /// A bug, or a damaged row.
    #[error("the store failed: {0}")]
    Fault(String),
    /// The file has the schema of an older version of Conclave, and may not be migrated now.
    #[error("the database has schema {found}, this conclave needs {known}")]
    OlderSchema {
        /// The schema of the file.
        found: i64,
        /// The newest schema that this program knows.
        known: i64,
    },
    /// The file was written by a newer version of Conclave.
    #[error(
        "the database has schema {found}, this conclave knows up to {known}: it was written by a newer version; \
         run that version, or restore a backup"
    )]
    NewerSchema {
        /// The schema of the file.
        found: i64,
        /// The newest schema that this program knows.
        known: i64,
    },
}

impl StoreError {
    /// A refusal, as a store result.
    pub(crate) fn refuse<T>(problem: Problem) -> Result<T, Self> {
        Err(Self::Refused(problem))
    }

    /// The error for a write after [`Store::close`](crate::Store::close).
    pub(crate) fn closed() -> Self {
        Self::Unavailable("the store is closed".into())
    }

    /// The error for a secret that cannot be sealed because the key file cannot be read, which an operator can correct.
    pub(crate) fn not_sealed(error: &VaultError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<Problem> for StoreError {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

impl From<serde_json::Error> for StoreError {
    /// A value of ours that cannot be written as JSON.
    fn from(error: serde_json::Error) -> Self {
        Self::Fault(error.to_string())
    }
}

/// Returns what was read or written; `None`, with a line in the log that says what is missing, if damage of the file has kept it from
/// that. It serves a start, which goes on with what is whole.
pub(crate) fn left_out<T>(
    missing: &str,
    result: Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    match result {
        Err(error @ StoreError::Damaged(_)) => {
            log::error!("{missing}: {error}");
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// Runs a read or a write job. If it panics, it has failed, and its thread goes on.
pub(crate) fn catch_panic<T>(
    what: &str,
    run: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        let fault = format!("{what} panicked");
        log::error!("{fault}");
        Err(StoreError::Fault(fault))
    })
}

/// The reason why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file has no records.
    #[error("{0} is not a database of Conclave")]
    NoRecords(String),
    /// The database has records, or a server has run on it.
    #[error("the database is not empty ({0}): import into a new one")]
    NotEmpty(String),
    /// What PostgreSQL has stored is not what was read from the file.
    #[error("the table {0} differs from that of the file: nothing was imported")]
    Differs(&'static str),
    /// A table could not be copied.
    #[error("the table {table} was not copied, and nothing was imported: {source}")]
    Table {
        /// The name of the table.
        table: &'static str,
        /// What reading or writing it has failed with.
        source: StoreError,
    },
    /// The connection ended before the last answer.
    #[error(
        "the connection ended while the import was completed: everything is imported if the database has records now, and otherwise \
         nothing: {0}"
    )]
    InDoubt(StoreError),
    /// The file or the database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}
