//! The lane of lists. A page through an index takes a millisecond, but a client may ask for a page far into millions of rows. So a
//! list has a deadline, and each project runs few at once: only its own other lists wait for these.

use conclave_model::ProjectId;
use conclave_model::permits::{PermitLimits, ProjectPermits};
use rusqlite::Connection;
use tokio::time::{Instant, timeout_at};

use super::threads::Threads;
use super::transaction::run_in_transaction;
use crate::engine::lists::{self, DEADLINE, too_slow};
use crate::error::StoreError;
use crate::sql::Sql;

/// The number of threads for lists.
pub(super) const THREADS: usize = 4;

/// The most lists that run at once or wait for a thread.
const AT_ONCE: PermitLimits = PermitLimits {
    total: usize::MAX,
    of_project: lists::OF_PROJECT,
};

/// How often the deadline is checked, in instructions of SQLite's virtual machine: every 100 microseconds or so.
const CHECK_EVERY: i32 = 10_000;

/// A handle to the lane.
#[derive(Clone)]
pub(super) struct Lists {
    threads: Threads,
    permits: ProjectPermits,
}

impl Lists {
    pub(super) fn new(threads: Threads) -> Self {
        Self {
            threads,
            permits: ProjectPermits::new(AT_ONCE),
        }
    }

    /// Runs a list when its project has a permit.
    pub(super) async fn read<T, F>(&self, project: ProjectId, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>, &ProjectId) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let deadline = Instant::now() + DEADLINE;
        let permit = timeout_at(deadline, self.permits.wait(&project))
            .await
            .map_err(|_| too_slow())?;
        self.threads
            .run(move |connection| {
                let result = until(deadline, connection, |sql| run(sql, &project));
                // Kept until here also when the caller has stopped waiting.
                drop(permit);
                result
            })
            .await
    }
}

/// Runs a read that SQLite interrupts at the deadline.
fn until<T>(
    deadline: Instant,
    connection: &Connection,
    run: impl FnOnce(Sql<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let is_over = move || Instant::now() >= deadline;
    if is_over() {
        return Err(too_slow());
    }
    #[cfg(feature = "faults")]
    crate::engine::sqlite::faults::reach(connection, "list begun")?;
    connection.progress_handler(CHECK_EVERY, Some(is_over))?;
    let result = run_in_transaction(connection, run);
    connection.progress_handler(0, None::<fn() -> bool>)?;
    result.map_err(|error| if is_over() { too_slow() } else { error })
}

#[cfg(test)]
mod tests;
