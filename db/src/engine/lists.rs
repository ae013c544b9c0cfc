//! Limits of lists. A page through an index takes a millisecond, but a client may ask for a page far into millions of rows.

use std::time::Duration;

use conclave_model::{ErrorCode, Problem};

use crate::error::StoreError;

/// The most lists of a project that run at once or wait for a thread.
pub(crate) const OF_PROJECT: usize = 2;

/// The longest time from the request of a list until it is read.
pub(crate) const DEADLINE: Duration = Duration::from_secs(2);

/// The refusal of a list whose deadline is over.
pub(crate) fn too_slow() -> StoreError {
    let message = format!(
        "the list took longer than {} s; retry with backoff, with a smaller offset or with filters",
        DEADLINE.as_secs()
    );
    Problem::new(ErrorCode::DatabaseUnavailable, message)
        .after(Duration::from_secs(1))
        .into()
}
