//! The one error of this layer.

use conclave_model::Problem;

use crate::vault::VaultError;
use rusqlite::ErrorCode as Sqlite;

/// Why the store did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The records do not allow it; the problem is the client's answer.
    #[error("refused: {0}")]
    Refused(Problem),
    /// The database cannot be reached or written now: a full disk, a lock that does not go away, a store that is closing.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// Something that must not happen: a row that does not read, a bug.
    #[error("the store failed: {0}")]
    Fault(String),
    /// The file was written by a newer version of Conclave.
    #[error(
        "the database has schema {found}, this conclave knows up to {known}: it was written by a newer version; \
         run that version, or restore a backup"
    )]
    NewerSchema {
        /// What the file says.
        found: i64,
        /// The newest this program knows.
        known: i64,
    },
}

impl StoreError {
    /// A refusal, as a store result.
    pub(crate) fn refuse<T>(problem: Problem) -> Result<T, Self> {
        Err(Self::Refused(problem))
    }

    /// A secret that cannot be sealed now, since the key file cannot be read: an operator can cure that.
    pub(crate) fn unsealed(error: &VaultError) -> Self {
        Self::Unavailable(error.to_string())
    }

    /// Sorts an error of the engine into what time or an operator can cure and what is a fault.
    pub(crate) fn of(error: &rusqlite::Error) -> Self {
        let curable = matches!(
            error.sqlite_error_code(),
            Some(
                Sqlite::DiskFull
                    | Sqlite::DatabaseBusy
                    | Sqlite::DatabaseLocked
                    | Sqlite::SystemIoFailure
                    | Sqlite::CannotOpen
                    | Sqlite::ReadOnly
                    | Sqlite::PermissionDenied
                    | Sqlite::OutOfMemory
            )
        );
        if curable { Self::Unavailable(error.to_string()) } else { Self::Fault(error.to_string()) }
    }
}

/// Turns an engine's result into the store's. A trait instead of `From`, so that no `?` converts unseen.
pub(crate) trait OrStoreError<T> {
    fn or_store_error(self) -> Result<T, StoreError>;
}

impl<T> OrStoreError<T> for rusqlite::Result<T> {
    fn or_store_error(self) -> Result<T, StoreError> {
        self.map_err(|error| StoreError::of(&error))
    }
}
