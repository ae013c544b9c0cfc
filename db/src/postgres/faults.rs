//! The points of the store at which tests make a fault. Their scope is the location of the database. And what makes a program one
//! of the next version, for tests of mixed versions.

use std::sync::LazyLock;

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

/// The environment variable with the path of a further migration. A program that has it knows one schema more than the same program
/// without it.
const FURTHER_MIGRATION: &str = "FURTHER_MIGRATION";

/// Returns the text of the further migration, if this program has one.
///
/// # Panics
/// The file cannot be read.
#[expect(clippy::expect_used, reason = "a test without the migration that it names must not go on")]
pub(super) fn further_migration() -> Option<String> {
    static TEXT: LazyLock<Option<String>> = LazyLock::new(|| {
        let path = std::env::var_os(FURTHER_MIGRATION)?;
        Some(std::fs::read_to_string(path).expect("the further migration"))
    });
    TEXT.clone()
}
