//! The only writer: a thread that commits all queued jobs in one transaction.
//!
//! All jobs of a batch share one fsync. They do not share errors, because each job runs in a savepoint, or is one statement, which
//! writes all or nothing ([`Isolation`]). Replies are sent when the batch is on disk, not before. A panic in a job fails that job only. A panic outside a job ends the thread: what it has
//! committed and the actors' state may differ then, so the process must end ([`Store::writer_ended`](crate::Store::writer_ended)).

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use conclave_model::{Clock, Timestamp};
use prometheus::IntGauge;
use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use crate::commit_count::CommitCount;
use crate::error::StoreError;
use crate::metrics::StoreMetrics;
use crate::outbox::{CommitHook, CommittedEvent};
use crate::sql::Sql;
use crate::tx::{RoomCounts, Tx};
use crate::vault::Vault;

/// The most jobs in one transaction. A larger batch would make its first job wait too long for its last.
const BATCH: usize = 128;

/// What keeps an error of a job from the other jobs of its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// A savepoint, to which the transaction is rolled back.
    Savepoint,
    /// The job writes by one statement, and cannot fail behind it. A savepoint would copy each page that the statement changes,
    /// which took a sixth of the writer's time for each new room.
    Statement,
}

/// A job in the queue: it runs inside the transaction and is finished when the transaction has ended.
trait Work: Send {
    fn isolation(&self) -> Isolation;
    fn run(&mut self, tx: &mut Tx<'_>) -> JobOutcome;
    fn finish(self: Box<Self>, committed: Result<(), &StoreError>);
}

/// The end of a job's savepoint.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JobOutcome {
    Commit,
    Rollback,
}

struct Job<F, T, D: FnOnce(Result<T, StoreError>)> {
    isolation: Isolation,
    run: Option<F>,
    result: Option<Result<T, StoreError>>,
    done: Done<T, D>,
}

/// What takes a job's result, on the thread. If there is none, because the thread panicked, it takes an error.
struct Done<T, D: FnOnce(Result<T, StoreError>)>(Option<D>, PhantomData<fn(T)>);

impl<T, D: FnOnce(Result<T, StoreError>)> Done<T, D> {
    fn take(mut self, result: Result<T, StoreError>) {
        if let Some(done) = self.0.take() {
            done(result);
        }
    }
}

impl<T, D: FnOnce(Result<T, StoreError>)> Drop for Done<T, D> {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(StoreError::closed()));
        }
    }
}

impl<F, T, D> Work for Job<F, T, D>
where
    F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send,
    T: Send,
    D: FnOnce(Result<T, StoreError>) + Send,
{
    fn isolation(&self) -> Isolation {
        self.isolation
    }

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
            // A refusal that was decided inside a transaction that then failed may rest on rows that were rolled back.
            (Err(error), _) => Err(StoreError::Unavailable(error.to_string())),
            (Ok(()), None) => Err(StoreError::Fault("a write job did not run".into())),
        };
        self.done.take(result);
    }
}

/// A handle to the writer thread. When the last one is dropped, the thread finishes its queue and ends.
pub(crate) struct Writer {
    queue: Sender<Box<dyn Work>>,
    waiting: IntGauge,
}

/// The thread as the rest of the store sees it.
pub(crate) struct WriterThread {
    /// Waits for its end.
    pub(crate) handle: JoinHandle<()>,
    /// Closed when it has ended.
    pub(crate) running: watch::Receiver<()>,
}

/// The parts that the thread shares with the rest of the store.
pub(crate) struct Shared {
    /// The source of time.
    pub(crate) clock: Clock,
    /// The keys that encrypt secrets.
    pub(crate) vault: Arc<Vault>,
    /// The number of commits, for the readers.
    pub(crate) commits: CommitCount,
    /// The counters of batches, commits and the queue.
    pub(crate) metrics: StoreMetrics,
}

/// The state of the writer thread.
struct Thread {
    connection: Connection,
    shared: Shared,
    hook: CommitHook,
}

impl Writer {
    /// Starts the thread. No other part of this process may write through the connection or another one.
    pub(crate) fn start(
        connection: Connection,
        shared: Shared,
        hook: CommitHook,
    ) -> Result<(Self, WriterThread), StoreError> {
        let (queue, jobs) = channel();
        let (runs, running) = watch::channel(());
        let waiting = shared.metrics.writes_waiting.clone();
        let thread = Thread { connection, shared, hook };
        let handle = thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || {
                let _runs = runs;
                thread.run_batches(&jobs);
            })
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok((Self { queue, waiting }, WriterThread { handle, running }))
    }

    /// Queues a job and waits until its writes are on disk.
    pub(crate) async fn write<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.write_then(Isolation::Savepoint, run, move |result| {
            // The caller may have stopped waiting; the write remains.
            let _ = reply.send(result);
        });
        answer.await.map_err(|_| StoreError::closed())?
    }

    /// Queues a job. `done` takes its result once its writes are on disk; it must not block.
    pub(crate) fn write_then<T, F, D>(&self, isolation: Isolation, run: F, done: D)
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
        D: FnOnce(Result<T, StoreError>) + Send + 'static,
    {
        self.waiting.inc();
        log::trace!("a write is handed to the writer");
        let job = Job { isolation, run: Some(run), result: None, done: Done(Some(done), PhantomData) };
        if self.queue.send(Box::new(job)).is_err() {
            self.waiting.dec();
        }
    }
}

impl Thread {
    fn run_batches(&self, jobs: &Receiver<Box<dyn Work>>) {
        while let Ok(first) = jobs.recv() {
            let mut batch = vec![first];
            batch.extend(jobs.try_iter().take(BATCH - 1));
            let (metrics, begun) = (&self.shared.metrics, Instant::now());
            metrics.writes_waiting.sub(i64::try_from(batch.len()).unwrap_or(0));
            #[allow(clippy::cast_precision_loss)] // At most BATCH.
            metrics.batch.observe(batch.len() as f64);
            let committed = self.commit(&mut batch);
            #[cfg(feature = "faults")]
            let _ = crate::faults::reach(&self.connection, "batch ended");
            self.shared.metrics.commit.observe(begun.elapsed().as_secs_f64());
            log::trace!(jobs = batch.len(); "a batch has ended");
            match &committed {
                Ok(events) if !events.is_empty() => (self.hook)(events),
                Ok(_) => {}
                Err(error) => log::error!(jobs = batch.len(); "a batch of writes was rolled back: {error}"),
            }
            for work in batch {
                work.finish(committed.as_ref().map(|_| ()));
            }
        }
        // After a clean end there is one file, without a write-ahead log to replay.
        let _ = self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    }

    /// Runs the batch in one transaction and returns the events that are now durable.
    fn commit(&self, batch: &mut [Box<dyn Work>]) -> Result<Vec<CommittedEvent>, StoreError> {
        self.sql("BEGIN IMMEDIATE")?;
        let ran = self.run_all(batch, self.shared.clock.now()).and_then(|events| self.sql("COMMIT").map(|()| events));
        if ran.is_err() {
            // After some errors SQLite has rolled back already; this then fails, which does no harm.
            let _ = self.sql("ROLLBACK");
        }
        self.shared.commits.add();
        ran
    }

    fn run_all(&self, batch: &mut [Box<dyn Work>], now: Timestamp) -> Result<Vec<CommittedEvent>, StoreError> {
        #[cfg(feature = "faults")]
        crate::faults::reach(&self.connection, "batch begun")?;
        let sql = Sql::new(&self.connection);
        let (mut events, mut rooms) = (Vec::new(), RoomCounts::default());
        for work in batch {
            let mut tx = Tx { sql, now, vault: &self.shared.vault, events: Vec::new(), rooms: RoomCounts::default() };
            if self.run_isolated(work.as_mut(), &mut tx)? == JobOutcome::Commit {
                events.extend(tx.events);
                rooms.extend(&tx.rooms);
            }
        }
        rooms.write(sql)?;
        Ok(events)
    }

    /// Runs a job so that nothing remains of one that fails. An error is one of the batch.
    fn run_isolated(&self, work: &mut dyn Work, tx: &mut Tx<'_>) -> Result<JobOutcome, StoreError> {
        match work.isolation() {
            Isolation::Savepoint => {
                self.sql("SAVEPOINT job")?;
                let outcome = work.run(tx);
                if outcome == JobOutcome::Rollback {
                    self.sql("ROLLBACK TO job")?;
                }
                self.sql("RELEASE job")?;
                Ok(outcome)
            }
            Isolation::Statement => {
                let before = self.connection.total_changes();
                let outcome = work.run(tx);
                // A job that does not keep to its isolation, or an error after which SQLite has ended the transaction.
                let remains = self.connection.total_changes() != before || self.connection.is_autocommit();
                if outcome == JobOutcome::Rollback && remains {
                    return Err(StoreError::Fault("a write job failed behind its statement".into()));
                }
                Ok(outcome)
            }
        }
    }

    fn sql(&self, statement: &str) -> Result<(), StoreError> {
        Sql::new(&self.connection).put(statement, &[])
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::Secret;

    use super::*;
    use crate::values::args;

    type TestJob = fn(&mut Tx<'_>) -> Result<(), StoreError>;

    const INSERT: &str = "INSERT INTO numbers VALUES (?1)";
    const INSERT_NEW: &str = "INSERT INTO numbers VALUES (?1) ON CONFLICT DO NOTHING";

    fn thread() -> Thread {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE numbers (number INTEGER PRIMARY KEY) STRICT").unwrap();
        let shared = Shared {
            clock: Clock::manual(Timestamp::from_millis(0)),
            vault: Arc::new(Vault::open(None, &Secret::new("media")).unwrap()),
            commits: CommitCount::default(),
            metrics: StoreMetrics::new(&prometheus::Registry::new()).unwrap(),
        };
        Thread { connection, shared, hook: Box::new(|_| {}) }
    }

    /// Runs jobs that are one statement in one batch, and returns the numbers that remain.
    fn run(jobs: Vec<TestJob>) -> (Result<(), StoreError>, Vec<i64>) {
        let thread = thread();
        let job = |run| -> Box<dyn Work> {
            let done = Done(Some(|_| {}), PhantomData);
            Box::new(Job { isolation: Isolation::Statement, run: Some(run), result: None, done })
        };
        let committed = thread.commit(&mut jobs.into_iter().map(job).collect::<Vec<_>>());
        let numbers = Sql::new(&thread.connection).many("SELECT number FROM numbers", &[], |row| row.get(0));
        (committed.map(drop), numbers.unwrap())
    }

    fn refuse() -> Result<(), StoreError> {
        Err(StoreError::Fault("refused".into()))
    }

    #[test]
    fn a_statement_that_fails_leaves_the_other_jobs_of_its_batch() {
        let (committed, numbers) = run(vec![
            |tx| tx.sql.put(INSERT, args![1_i64]),
            |tx| tx.sql.put(INSERT, args![1_i64]),
            |tx| if tx.sql.change(INSERT_NEW, args![1_i64])? == 0 { refuse() } else { Ok(()) },
            |_| panic!("before its statement"),
            |tx| tx.sql.put(INSERT, args![2_i64]),
        ]);
        assert!(committed.is_ok());
        assert_eq!(numbers, [1, 2]);
    }

    #[test]
    fn nothing_remains_of_a_batch_with_a_job_that_fails_behind_its_statement() {
        let (committed, numbers) = run(vec![
            |tx| tx.sql.put(INSERT, args![1_i64]),
            |tx| tx.sql.put(INSERT, args![2_i64]).and_then(|()| refuse()),
            |tx| tx.sql.put(INSERT, args![3_i64]),
        ]);
        assert!(committed.unwrap_err().to_string().contains("failed behind its statement"));
        assert!(numbers.is_empty());
    }
}
