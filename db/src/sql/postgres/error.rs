//! The errors of PostgreSQL, as those of the store.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::error::StoreError;

/// Distinguishes what time, a repetition or an operator can cure from a fault. Names nothing of a row: details, which have values,
/// are left out.
pub(super) fn store_error(error: &Error) -> StoreError {
    let Some(found) = error.as_db_error() else {
        let cause = error
            .source()
            .map(|cause| format!(": {cause}"))
            .unwrap_or_default();
        let text = format!("PostgreSQL: {error}{cause}");
        // What the program itself encodes or reads wrongly is a fault; all others are about the connection.
        let is_fault = [
            "error serializing",
            "error deserializing",
            "expected ",
            "invalid column",
        ];
        let is_fault = is_fault
            .iter()
            .any(|start| error.to_string().starts_with(start));
        return if is_fault {
            StoreError::Fault(text)
        } else {
            StoreError::Unavailable(text)
        };
    };
    let text = format!("PostgreSQL: {} ({})", found.message(), found.code().code());
    if is_curable(found.code()) {
        StoreError::Unavailable(text)
    } else {
        StoreError::Fault(text)
    }
}

/// Whether the server has refused a statement as a violation of its protocol.
pub(crate) fn is_protocol_violation(error: &StoreError) -> bool {
    let code = format!("({})", SqlState::PROTOCOL_VIOLATION.code());
    matches!(error, StoreError::Unavailable(text) | StoreError::Fault(text) if text.ends_with(&code))
}

fn is_curable(code: &SqlState) -> bool {
    let exact = [
        // Another transaction, such as one of a command: a repetition finds what that has written.
        SqlState::UNIQUE_VIOLATION,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
        // A primary that has become a standby.
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::INVALID_PASSWORD,
        SqlState::INVALID_CATALOG_NAME,
        SqlState::INSUFFICIENT_PRIVILEGE,
    ];
    // Connections, authorization, resources such as disk space, intervention by an operator, errors of the system.
    let classes = ["08", "28", "53", "57", "58"];
    exact.contains(code) || classes.iter().any(|class| code.code().starts_with(class))
}
