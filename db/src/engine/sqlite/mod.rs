//! The engine SQLite: one file, one thread that writes, and readers beside it.

pub(crate) mod backup;
mod commit_count;
pub(crate) mod damage;
mod export;
#[cfg(feature = "faults")]
mod faults;
mod file;
pub(crate) mod health;
#[cfg(test)]
mod list_plans;
pub(crate) mod migrate;
pub(crate) mod place;
mod reader;
mod write_turn;
mod writer;

use std::path::Path;

use crate::engine::writer::{Shared, Writer, WriterThreads};
use crate::error::StoreError;
use crate::outbox::CommitHook;
use crate::store_options::OlderSchema;
pub use backup::DRAFT_SUFFIX;
use commit_count::CommitCount;
pub(crate) use damage::{Damage, DamageCheck};
pub(crate) use export::Export;
pub(crate) use reader::Readers;
pub use reader::SNAPSHOT_AGE;
use writer::Thread;

/// Opens a file, creates or migrates it if it may be, and starts the threads. Needs a running actix system. `readers` is the number of
/// threads that make point reads.
pub(crate) fn open(
    path: &Path,
    older_schema: OlderSchema,
    readers: usize,
    shared: Shared,
    on_commit: CommitHook,
    damage: Damage,
) -> Result<(Writer, WriterThreads, Readers), StoreError> {
    let connection = file::open_for_writing(path, older_schema)?;
    let commits = CommitCount::default();
    let readers = Readers::start(
        path,
        readers,
        commits.clone(),
        &shared.metrics.reads_waiting,
    )?;
    let waiting = shared.metrics.writes_waiting.clone();
    let thread = Thread::new(connection, shared, commits, on_commit, damage)?;
    let (writer, threads) = Writer::start(vec![move |jobs| thread.run_batches(jobs)], waiting)?;
    Ok((writer, threads, readers))
}
