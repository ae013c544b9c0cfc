//! The points of the store at which tests make a fault. Their scope is the path of the file.

use conclave_model::faults::{Fault, at};
use rusqlite::Connection;

use crate::error::StoreError;

/// Lets the fault of a point happen, if one is armed.
pub(crate) fn reach(connection: &Connection, point: &str) -> Result<(), StoreError> {
    match at(connection.path().unwrap_or_default(), point) {
        Some(Fault::Sql(text)) => Ok(connection.execute_batch(text)?),
        _ => Ok(()),
    }
}
