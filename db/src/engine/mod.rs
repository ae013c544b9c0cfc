//! Database engines: SQLite and PostgreSQL. Each opens its database, migrates the schema, and runs write jobs ([`writer`]) and reads.
//!
//! Readers have three concurrency classes, so that no read waits for a slower kind: point reads find a few rows by their keys, lists find a
//! page of a project's rows, and bulk reads read all rows of a kind. A load reads an actor's initial state. After a takeover, thousands of
//! projects are loaded at once, so on PostgreSQL any idle thread runs loads, whatever its class.
//!
//! A read sees everything that this process had committed when the read was requested.

pub(crate) mod postgres;
pub(crate) mod snapshot;
pub(crate) mod sqlite;
pub(crate) mod writer;

use std::time::Duration;

use conclave_model::{ErrorCode, Problem};

use crate::error::StoreError;

/// Readers of one engine.
pub(crate) enum Readers {
    File(sqlite::Readers),
    Sessions(postgres::Readers),
}

/// Maximum number of lists per project that run or wait for a thread.
pub(crate) const LISTS_OF_PROJECT: usize = 2;

/// Time limit for a list, from its request to its result.
pub(crate) const LIST_DEADLINE: Duration = Duration::from_secs(2);

/// Returns the error for a list that exceeds its deadline.
pub(crate) fn too_slow() -> StoreError {
    let message = format!(
        "the list took longer than {} s; retry with backoff, with a smaller offset or with filters",
        LIST_DEADLINE.as_secs()
    );
    Problem::new(ErrorCode::DatabaseUnavailable, message)
        .after(Duration::from_secs(1))
        .into()
}
