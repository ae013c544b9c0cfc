//! Errors of the store and of an import.

use std::panic::{AssertUnwindSafe, catch_unwind};

use conclave_model::Problem;

use crate::vault::VaultError;

/// Error of a read or a write.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The records do not allow it. The problem is the response to the client.
    #[error("refused: {0}")]
    Refused(Problem),
    /// The database cannot be read or written now, because of a full disk, a lock that is not released, or a store that is closing.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// A page of the file cannot be read, or belongs to a damaged table and may not be written. Only a backup helps.
    #[error("the database file is damaged: {0}")]
    Damaged(String),
    /// A bug, or a damaged row.
    #[error("the store failed: {0}")]
    Fault(String),
    /// The file has an older version's schema, and may not be migrated now.
    #[error("the database has schema {found}, this conclave needs {known}")]
    OlderSchema {
        /// File schema.
        found: i64,
        /// Newest schema that this program knows.
        known: i64,
    },
    /// A newer version of Conclave has written the file.
    #[error(
        "the database has schema {found}, this conclave knows up to {known}: it was written by a newer version; \
         run that version, or restore a backup"
    )]
    NewerSchema {
        /// File schema.
        found: i64,
        /// Newest schema that this program knows.
        known: i64,
    },
}

impl StoreError {
    /// Returns a refusal as a result.
    pub(crate) fn refuse<T>(problem: Problem) -> Result<T, Self> {
        Err(Self::Refused(problem))
    }

    /// Returns the error for a write after [`Store::close`](crate::Store::close).
    pub(crate) fn closed() -> Self {
        Self::Unavailable("the store is closed".into())
    }

    /// Returns the error for a secret that cannot be sealed because the key file cannot be read, which an operator can correct.
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
    /// Converts to a fault: this program's values always serialize unless there is a bug.
    fn from(error: serde_json::Error) -> Self {
        Self::Fault(error.to_string())
    }
}

/// Returns a start's read or write; `None`, with an error in the log that names what is missing, if the file's damage prevented it. The
/// start continues with the intact tables.
pub(crate) fn left_out<T>(
    missing: &str,
    result: Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    match result {
        // Other errors are not about single tables, and must fail the start.
        Err(error @ StoreError::Damaged(_)) => {
            log::error!("{missing}: {error}");
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// Runs a read or a write job. A panic becomes an error, so that the thread can continue.
pub(crate) fn catch_panic<T>(
    what: &str,
    run: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    // AssertUnwindSafe: the transaction is rolled back after an error, so nothing sees a half-changed state.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        let fault = format!("{what} panicked");
        log::error!("{fault}");
        Err(StoreError::Fault(fault))
    })
}

/// Reason why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file has no records.
    #[error("{0} is not a database of Conclave")]
    NoRecords(String),
    /// The database has records, or a server has run on it.
    #[error("the database is not empty ({0}): import into a new one")]
    NotEmpty(String),
    /// PostgreSQL has stored other values than were read from the file.
    #[error("the table {0} differs from the file's: nothing was imported")]
    Differs(&'static str),
    /// A table could not be copied.
    #[error("the table {table} was not copied, and nothing was imported: {source}")]
    Table {
        /// Table name.
        table: &'static str,
        /// Error of reading or writing it.
        source: StoreError,
    },
    /// The connection was lost before the reply to the commit.
    #[error(
        "the connection ended while the import was completed: everything is imported if the database has records now, and otherwise \
         nothing: {0}"
    )]
    InDoubt(StoreError),
    /// The file or the database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}
