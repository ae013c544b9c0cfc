//! The engines SQLite and PostgreSQL: each opens its database, migrates the schema, and runs the jobs of the writer ([`writer`]) and the reads.
//!
//! The readers of an engine have three lanes, so that no read waits for slower ones of another kind: point reads find a few rows by their
//! keys, lists find a page of a project's rows, and bulk reads read all rows of a kind. A load reads what an actor starts from: after a
//! takeover, those of thousands of projects are requested at once. On PostgreSQL any thread that has nothing else to do makes them.
//!
//! A read sees everything that this process had committed when it was requested.

pub(crate) mod postgres;
pub(crate) mod snapshot;
pub(crate) mod sqlite;
pub(crate) mod writer;

use std::time::Duration;

use conclave_model::{ErrorCode, Problem};

use crate::error::StoreError;

/// The readers of one of the engines.
pub(crate) enum Readers {
    File(sqlite::Readers),
    Sessions(postgres::Readers),
}

/// The most lists of a project that run at once or wait for a thread.
pub(crate) const LISTS_OF_PROJECT: usize = 2;

/// The longest time from the request of a list until it is read.
pub(crate) const LIST_DEADLINE: Duration = Duration::from_secs(2);

/// The refusal of a list whose deadline is over.
pub(crate) fn too_slow() -> StoreError {
    let message = format!(
        "the list took longer than {} s; retry with backoff, with a smaller offset or with filters",
        LIST_DEADLINE.as_secs()
    );
    Problem::new(ErrorCode::DatabaseUnavailable, message)
        .after(Duration::from_secs(1))
        .into()
}
