//! The points of the store at which tests make a fault. Their scope is the location of the database.

use conclave_model::faults::{Fault, at};

use crate::error::StoreError;
use crate::sql::postgres::Session;

/// Lets the fault of a point happen, if one is armed.
pub(super) fn reach(session: &Session, point: &str) -> Result<(), StoreError> {
    match at(session.location(), point) {
        Some(Fault::Sql(text)) => session.batch(text),
        _ => Ok(()),
    }
}
