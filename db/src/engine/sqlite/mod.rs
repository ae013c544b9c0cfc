//! The engine SQLite: one file, one thread that writes, and concurrent readers.

pub(crate) mod backup;
pub(crate) mod damage;
mod export;
#[cfg(feature = "faults")]
mod faults;
pub(crate) mod file;
#[cfg(test)]
mod list_plans;
pub(crate) mod migrate;
mod reader;
mod write_turn;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::writer::{Shared, Writer, WriterThreads};
use crate::error::StoreError;
use crate::options::OlderSchema;
use crate::tx::CommitHook;
pub use backup::DRAFT_SUFFIX;
pub(crate) use damage::{Damage, DamageCheck};
pub(crate) use export::Export;
pub(crate) use reader::Readers;
pub use reader::SNAPSHOT_AGE;
use writer::WriterThread;

/// Opens a file, creates or migrates it if allowed, and starts the threads. Requires a running actix system. `readers` is the number of
/// threads that make point reads.
pub(crate) fn open(
    path: &Path,
    older_schema: OlderSchema,
    readers: usize,
    shared: Shared,
    on_commit: CommitHook,
    damage: Damage,
) -> Result<(Writer, WriterThreads, Readers), StoreError> {
    // First, since the readers open the file read-only: they can neither create nor migrate it.
    let connection = file::open_for_writing(path, older_schema)?;
    let commits = CommitCount::default();
    let readers = Readers::start(
        path,
        readers,
        commits.clone(),
        &shared.metrics.reads_waiting,
    )?;
    let waiting = shared.metrics.writes_waiting.clone();
    let thread = WriterThread::new(connection, shared, commits, on_commit, damage)?;
    let (writer, threads) = Writer::start(vec![move |jobs| thread.run_batches(jobs)], waiting)?;
    Ok((writer, threads, readers))
}

/// Commit counter that the writer and the readers share.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommitCount(Arc<AtomicU64>);

impl CommitCount {
    /// Counts a commit. The writer calls this before it replies to any job.
    pub(crate) fn add(&self) {
        // Pairs with the acquire in `get`: a reader whose request follows the reply sees the count, and renews its snapshot.
        self.0.fetch_add(1, Ordering::Release);
    }

    /// Returns the commit count. A snapshot taken afterwards includes them all.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
