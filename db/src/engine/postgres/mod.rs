//! The engine PostgreSQL: lanes that write and sessions that read, each on a thread of its own. No thread of a runtime waits for a
//! socket.

#[cfg(feature = "faults")]
mod faults;
pub(crate) mod health;
mod import;
pub(crate) mod indexes;
mod lanes;
pub mod lease;
mod link;
pub(crate) mod migrate;
pub(crate) mod prepare;
mod read_queue;
mod readers;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::engine::writer::{Jobs, Shared, Work, Writer, WriterThreads};
use crate::error::StoreError;
use crate::outbox::CommitHook;
use crate::store_options::{OlderSchema, PostgresOptions};
pub(crate) use import::Import;
use lanes::{Lane, LastJobs};
pub(crate) use readers::Readers;

/// The longest time that a statement of a write, of a point read or of a command takes.
const STATEMENT_LIMIT: Duration = Duration::from_secs(5);

/// Connects, creates or migrates the schema if it may be, and starts the threads.
pub(crate) fn open(
    options: &PostgresOptions,
    older_schema: OlderSchema,
    shared: &Shared,
    on_commit: CommitHook,
) -> Result<(Writer, WriterThreads, Readers), StoreError> {
    let (hook, last_jobs) = (Arc::new(on_commit), LastJobs::default());
    let lane = |row: i64| {
        let lane = Lane::new(
            row,
            options,
            shared.clone(),
            Arc::clone(&hook),
            Arc::clone(&last_jobs),
        );
        move |jobs: Jobs<Box<dyn Work>>| lane.run(jobs)
    };
    // One more than those of projects, for the jobs of none.
    let lanes = lanes::rows(options).map(lane).collect();
    let (writer, threads) = Writer::start(lanes, shared.metrics.writes_waiting.clone())?;
    let waiting = &shared.metrics.reads_waiting;
    let readers = Readers::start(
        &options.server,
        options.readers,
        waiting,
        options.epoch.is_some(),
    )?;
    // Last: the lanes and the readers of a server connect meanwhile. A session has a runtime of its own, and the caller's thread may
    // belong to another.
    let prepared = thread::scope(|scope| {
        scope
            .spawn(|| migrate::prepare(&options.server, older_schema))
            .join()
    });
    let prepared =
        prepared.unwrap_or_else(|_| Err(StoreError::Fault("the schema was not prepared".into())));
    if let Err(error) = prepared {
        readers.close();
        return Err(error);
    }
    Ok((writer, threads, readers))
}
