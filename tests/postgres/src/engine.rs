//! The database engine for this process's tests, and tests for only one engine.

use std::env;
use std::io::{self, Write};
use std::thread;

/// Storage of a test's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// A file, the default.
    Sqlite,
    /// A server: `TEST_DATABASE=postgres`.
    Postgres,
}

impl Engine {
    /// Returns the engine that `TEST_DATABASE` chooses.
    ///
    /// # Panics
    /// The variable has another value than `sqlite` and `postgres`.
    #[must_use]
    pub fn chosen() -> Self {
        match env::var("TEST_DATABASE").as_deref() {
            Err(env::VarError::NotPresent) | Ok("sqlite") => Self::Sqlite,
            Ok("postgres") => Self::Postgres,
            other => panic!("TEST_DATABASE must be sqlite or postgres, not {other:?}"),
        }
    }

    /// Returns whether this test has to return at once, because it is about the other engine only. If so, prints the test and the reason.
    #[must_use]
    pub fn is_not_chosen(self, reason: &str) -> bool {
        let other = self != Self::chosen();
        if other {
            print_skipped(&format!("on {self:?} only: {reason}"));
        }
        other
    }
}

/// Prints that a test proves nothing in this run. The line is visible even if the test harness captures the output.
pub(crate) fn print_skipped(reason: &str) {
    let current = thread::current();
    let _ = writeln!(
        io::stderr(),
        "skipped {}: {reason}",
        current.name().unwrap_or("a test")
    );
}
