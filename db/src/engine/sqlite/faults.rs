//! Store fault points, for tests. Their scope is the file's path.

use conclave_model::faults::{Fault, at};
use rusqlite::Connection;

use crate::error::StoreError;

/// Triggers the fault of a point, if one is armed.
pub(crate) fn reach(connection: &Connection, point: &str) -> Result<(), StoreError> {
    match at(connection.path().unwrap_or_default(), point) {
        Some(Fault::Sql(text)) => Ok(connection.execute_batch(text)?),
        _ => Ok(()),
    }
}
