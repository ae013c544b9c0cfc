//! The writer: the queue of the jobs that write. Each job runs in a transaction, and is answered once its writes are on disk.
//!
//! The engine runs them: SQLite on one thread, PostgreSQL in lanes ([`crate::engine::sqlite`], [`crate::engine::postgres`]). A panic in a job fails that job only. A panic outside a job ends the
//! thread: what it has committed and the actors' state may differ then, so the process must end
//! ([`Store::writer_ended`](crate::Store::writer_ended)).

mod job;
mod jobs;

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use conclave_model::Clock;
use prometheus::IntGauge;
use tokio::sync::{oneshot, watch};

use crate::error::StoreError;
use crate::metrics::StoreMetrics;
use crate::tx::Tx;
use crate::vault::Vault;
pub(crate) use job::{Isolation, Job, JobOutcome, Work};
pub(crate) use jobs::{Jobs, Queue};

/// A handle to the writer. When the last one is dropped, its threads finish their queues and end.
pub(crate) struct Writer {
    lanes: Vec<Sender<(Queue, Box<dyn Work>)>>,
    waiting: IntGauge,
}

/// The threads as the rest of the store sees them.
pub(crate) struct WriterThreads {
    /// Wait for their ends.
    pub(crate) handles: Vec<JoinHandle<()>>,
    /// Set once a thread has ended.
    pub(crate) ended: watch::Receiver<bool>,
}

/// Notes the end of a thread when it is dropped, also by a panic.
struct End(watch::Sender<bool>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// Why a thread of the writer has ended before the store was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterEnd {
    /// It panicked.
    Failed,
    /// Another server has taken over the database.
    TakenOver,
    /// The database lacks commits that it had acknowledged.
    CommitsLost,
    /// The file of the database is not where it was opened.
    FileGone,
}

impl WriterEnd {
    /// Describes it for an operator.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "the thread that writes to the database ended by itself",
            Self::TakenOver => "another server has become the active one",
            Self::CommitsLost => {
                "PostgreSQL has lost changes that it had acknowledged, as a failover to an asynchronous standby does: what this server \
                 has in memory is no longer true, so it ends and begins anew with the records as they are"
            }
            Self::FileGone => {
                "the data directory has gone, or is another one: was its disk unmounted? Nothing more is acknowledged"
            }
        }
    }
}

/// The parts that the threads share with the rest of the store.
#[derive(Clone)]
pub(crate) struct Shared {
    /// The source of time.
    pub(crate) clock: Clock,
    /// The keys that encrypt secrets.
    pub(crate) vault: Arc<Vault>,
    /// The counters of batches, commits and the queue.
    pub(crate) metrics: StoreMetrics,
    /// Set once the process is known to be a server.
    pub(crate) is_server: Arc<AtomicBool>,
    /// Why a thread has ended, if it has said so.
    pub(crate) end: Arc<OnceLock<WriterEnd>>,
}

impl Writer {
    /// Starts a thread for each of `lanes`, which run jobs until none can come any more. The last lane has the jobs of no project, if
    /// there are several.
    pub(crate) fn start<L>(
        lanes: Vec<L>,
        waiting: IntGauge,
    ) -> Result<(Self, WriterThreads), StoreError>
    where
        L: FnOnce(Jobs<Box<dyn Work>>) + Send + 'static,
    {
        let (ends, ended) = watch::channel(false);
        let (mut senders, mut handles) = (Vec::new(), Vec::new());
        for lane in lanes {
            let (sender, receiver) = channel();
            let end = End(ends.clone());
            let thread = thread::Builder::new()
                .name("store-writer".into())
                .spawn(move || {
                    let _end = end;
                    lane(Jobs::new(receiver));
                });
            handles.push(thread.map_err(|error| StoreError::Unavailable(error.to_string()))?);
            senders.push(sender);
        }
        Ok((
            Self {
                lanes: senders,
                waiting,
            },
            WriterThreads { handles, ended },
        ))
    }

    /// Queues a job and waits until its writes are on disk.
    pub(crate) async fn write<T, F>(&self, queue: Queue, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.write_then(queue, Isolation::Savepoint, run, move |result| {
            // The caller may have stopped waiting; the write remains.
            let _ = reply.send(result);
        });
        answer.await.map_err(|_| StoreError::closed())?
    }

    /// Queues a job. `done` takes its result once its writes are on disk; it must not block.
    pub(crate) fn write_then<T, F, D>(&self, queue: Queue, isolation: Isolation, run: F, done: D)
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
        D: FnOnce(Result<T, StoreError>) + Send + 'static,
    {
        self.waiting.inc();
        log::trace!("a write is handed to the writer");
        let sent = match self.lanes.get(queue.lane(self.lanes.len())) {
            Some(lane) => lane
                .send((queue, Box::new(Job::new(isolation, run, done))))
                .is_ok(),
            None => false,
        };
        if !sent {
            self.waiting.dec();
        }
    }
}
