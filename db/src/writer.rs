//! The one writer: a thread that commits whatever has queued up in one transaction.
//!
//! An fsync is shared by all jobs of a batch; an error is not, since each job runs in a savepoint. Replies are sent when
//! the batch is on disk and not before. A panic in a job is that job's failure alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use conclave_model::{Clock, Timestamp};
use prometheus::IntGauge;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::error::OrStoreError;
use crate::outbox::{CommittedEvent, Outbox};
use crate::store::CommitHook;
use crate::vault::Vault;
use crate::{StoreError, StoreMetrics};

/// Jobs committed together at most. More would make the first wait for the last.
const BATCH: usize = 128;

/// What a job sees of the transaction it runs in.
pub(crate) struct Tx<'a> {
    /// The connection; a savepoint is open on it.
    pub(crate) sql: &'a Connection,
    /// The time of this batch. Never earlier than that of the batch before, so queued deliveries keep their order.
    pub(crate) now: Timestamp,
    /// Seals what must not lie open.
    pub(crate) vault: &'a Vault,
    /// Events of this job.
    pub(crate) outbox: &'a mut Outbox,
}

/// A job in the queue: runs in the transaction, and is told afterwards how the transaction went.
trait Work: Send {
    fn run(&mut self, tx: &mut Tx<'_>) -> JobOutcome;
    fn finish(self: Box<Self>, committed: Result<(), &StoreError>);
}

/// What becomes of a job's savepoint.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JobOutcome {
    Commit,
    Rollback,
}

struct Job<F, T> {
    run: Option<F>,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<F, T> Work for Job<F, T>
where
    F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send,
    T: Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> JobOutcome {
        let Some(run) = self.run.take() else { return JobOutcome::Rollback };
        let result = catch_unwind(AssertUnwindSafe(|| run(tx)))
            .unwrap_or_else(|_| Err(StoreError::Fault("a write job panicked".into())));
        let outcome = if result.is_ok() { JobOutcome::Commit } else { JobOutcome::Rollback };
        self.result = Some(result);
        outcome
    }

    fn finish(self: Box<Self>, committed: Result<(), &StoreError>) {
        let result = match (committed, self.result) {
            (Ok(()), Some(result)) => result,
            // A refusal was decided inside a transaction that then failed: what it was decided on may not stand.
            (Err(error), _) => Err(StoreError::Unavailable(error.to_string())),
            (Ok(()), None) => Err(StoreError::Fault("a write job did not run".into())),
        };
        // Nobody may be waiting any more; the write stands all the same.
        let _ = self.reply.send(result);
    }
}

/// The way to the writer thread. Dropping the last one lets the thread finish its queue and end.
pub(crate) struct Writer {
    queue: Sender<Box<dyn Work>>,
    waiting: IntGauge,
}

/// What the thread shares with the rest of the store.
pub(crate) struct Shared {
    /// Where time comes from.
    pub(crate) clock: Clock,
    /// Seals what must not lie open.
    pub(crate) vault: Arc<Vault>,
    /// Where it counts.
    pub(crate) metrics: StoreMetrics,
}

/// The thread's own things.
struct Thread {
    connection: Connection,
    shared: Shared,
    hook: CommitHook,
    now: Timestamp,
}

impl Writer {
    /// Starts the thread on a connection that nobody else writes with.
    pub(crate) fn start(
        connection: Connection,
        shared: Shared,
        hook: CommitHook,
    ) -> Result<(Self, JoinHandle<()>), StoreError> {
        let (queue, jobs) = channel();
        let (now, waiting) = (shared.clock.now(), shared.metrics.writes_waiting.clone());
        let mut thread = Thread { connection, shared, hook, now };
        let handle = thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || thread.work_off(&jobs))
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok((Self { queue, waiting }, handle))
    }

    /// Queues a job and waits until what it wrote is on disk.
    pub(crate) async fn write<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let closed = || StoreError::Unavailable("the store is closed".into());
        self.waiting.inc();
        let queued = self.queue.send(Box::new(Job { run: Some(run), result: None, reply }));
        queued.map_err(|_| {
            self.waiting.dec();
            closed()
        })?;
        answer.await.map_err(|_| closed())?
    }
}

impl Thread {
    fn work_off(&mut self, jobs: &Receiver<Box<dyn Work>>) {
        while let Ok(first) = jobs.recv() {
            let mut batch = vec![first];
            batch.extend(jobs.try_iter().take(BATCH - 1));
            let (metrics, begun) = (&self.shared.metrics, Instant::now());
            metrics.writes_waiting.sub(i64::try_from(batch.len()).unwrap_or(0));
            #[allow(clippy::cast_precision_loss)] // At most BATCH.
            metrics.batch.observe(batch.len() as f64);
            let committed = self.commit(&mut batch);
            self.shared.metrics.commit.observe(begun.elapsed().as_secs_f64());
            match &committed {
                Ok(events) if !events.is_empty() => (self.hook)(events),
                Ok(_) => {}
                Err(error) => log::error!(jobs = batch.len(); "a batch of writes was rolled back: {error}"),
            }
            for work in batch {
                work.finish(committed.as_ref().map(|_| ()));
            }
        }
        // A clean end leaves one file behind, without a log to replay.
        let _ = self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    }

    /// Runs the batch in one transaction and gives back the events that are now durable.
    fn commit(&mut self, batch: &mut [Box<dyn Work>]) -> Result<Vec<CommittedEvent>, StoreError> {
        self.now = self.now.max(self.shared.clock.now());
        self.sql("BEGIN IMMEDIATE")?;
        let ran = self.run_all(batch).and_then(|events| self.sql("COMMIT").map(|()| events));
        if ran.is_err() {
            // Some errors have rolled back already; then there is nothing to roll back and that is fine.
            let _ = self.sql("ROLLBACK");
        }
        ran
    }

    fn run_all(&self, batch: &mut [Box<dyn Work>]) -> Result<Vec<CommittedEvent>, StoreError> {
        let mut events = Vec::new();
        for work in batch {
            self.sql("SAVEPOINT job")?;
            let mut outbox = Outbox::default();
            let mut tx = Tx { sql: &self.connection, now: self.now, vault: &self.shared.vault, outbox: &mut outbox };
            if work.run(&mut tx) == JobOutcome::Rollback {
                self.sql("ROLLBACK TO job")?;
                outbox = Outbox::default();
            }
            self.sql("RELEASE job")?;
            events.extend(outbox.events);
        }
        Ok(events)
    }

    fn sql(&self, statement: &str) -> Result<(), StoreError> {
        self.connection.prepare_cached(statement).and_then(|mut s| s.execute([])).map(|_| ()).or_store_error()
    }
}
