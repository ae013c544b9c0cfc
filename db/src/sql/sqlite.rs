//! The client of SQLite: prepared statements, parameters and errors.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode, ToSql};

use crate::StoreError;
use crate::sql::values::Value;

/// Texts hold no values, so a log with all of them gives nothing away.
pub(super) fn prepare<'c>(
    connection: &'c Connection,
    text: &str,
) -> Result<CachedStatement<'c>, StoreError> {
    log::trace!("{text}");
    Ok(connection.prepare_cached(text)?)
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
            Self::Uuid(uuid) => ValueRef::Blob(uuid.as_bytes()),
        }))
    }
}

impl From<rusqlite::Error> for StoreError {
    /// Distinguishes what time or an operator can cure from a fault.
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            // Only the guard of damaged tables denies statements.
            Some(ErrorCode::AuthorizationForStatementDenied) => {
                return Self::Damaged(
                    "a damaged table is not changed, and not read for a change".into(),
                );
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                return Self::Damaged(error.to_string());
            }
            _ => {}
        }
        let curable = matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::DiskFull
                    | ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::SystemIoFailure
                    | ErrorCode::CannotOpen
                    | ErrorCode::ReadOnly
                    | ErrorCode::PermissionDenied
                    | ErrorCode::OutOfMemory
            )
        );
        if curable {
            Self::Unavailable(error.to_string())
        } else {
            Self::Fault(error.to_string())
        }
    }
}
