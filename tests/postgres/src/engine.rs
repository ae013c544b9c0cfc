//! The engine that the tests of this process run on, and the tests that only one engine has.

use std::env;
use std::io::{self, Write};
use std::thread;

/// What keeps the records of a test.
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

    /// Whether this test has to return at once, because it is about the other engine only. Prints the test and the reason.
    #[must_use]
    pub fn is_not_chosen(self, reason: &str) -> bool {
        let other = self != Self::chosen();
        if other {
            print_skipped(&format!("on {self:?} only: {reason}"));
        }
        other
    }
}

/// Prints that a test proves nothing in this run. The line is seen also where the test harness keeps the output of tests.
pub(crate) fn print_skipped(reason: &str) {
    let current = thread::current();
    let _ = writeln!(
        io::stderr(),
        "skipped {}: {reason}",
        current.name().unwrap_or("a test")
    );
}
