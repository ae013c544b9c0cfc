//! For tests: the store's fault points, whose scope is the database's location, and further migrations, with which a program counts as the
//! next version in tests of mixed versions.

use std::sync::LazyLock;

use conclave_model::faults::{Fault, at};

use crate::error::StoreError;
use crate::sql::postgres::Session;

/// Triggers the fault of a point, if one is armed.
pub(super) fn reach(session: &Session, point: &str) -> Result<(), StoreError> {
    match at(session.location(), point) {
        Some(Fault::Sql(text)) => session.batch(text),
        _ => Ok(()),
    }
}

/// Environment variable with the paths of further migrations, separated by colons. Each migration raises the newest schema by one.
const FURTHER_MIGRATIONS: &str = "FURTHER_MIGRATIONS";

/// Returns the texts of the further migrations.
///
/// # Panics
/// If a file cannot be read.
#[expect(
    clippy::expect_used,
    reason = "a test without the migrations that it names must not go on"
)]
pub(super) fn further_migrations() -> &'static [String] {
    static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| {
        let paths = std::env::var_os(FURTHER_MIGRATIONS).unwrap_or_default();
        let paths = std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty());
        paths
            .map(|path| std::fs::read_to_string(path).expect("a further migration"))
            .collect()
    });
    &TEXTS
}
