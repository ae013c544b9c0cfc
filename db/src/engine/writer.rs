//! The writer: the queue of write jobs. A job runs in a transaction, and its caller gets a reply once the changes are on disk.
//!
//! # Parts
//!
//! - [`Writer`]: the handle that all records share. [`Writer::write`] queues a closure and waits; [`Writer::write_then`] calls back on the
//!   writer's thread, so that actors continue without waiting.
//! - [`Jobs`]: the queued jobs, by project. Projects alternate ([`RoundRobin`]), so a project with a thousand jobs delays only its own.
//! - [`Job`]: a closure over a [`Tx`], and the closure that receives its result. [`Isolation`] states how a failed job is undone.
//! - [`Tx`]: the transaction as a job sees it: SQL, the time, the vault, and `emit` for events.
//! - The engines, which run the jobs: one thread on SQLite ([`crate::engine::sqlite`]), several sessions with a thread each on PostgreSQL
//!   ([`crate::engine::postgres`]).
//!
//! # A job's course
//!
//! 1. A method of a record, such as `store.rooms().create(…)`, queues a job in its project's queue.
//! 2. On SQLite, the thread takes the next job, opens a transaction, and adds further jobs for 2 ms, or for as long as the last commit
//!    took. Each job after the first runs in a savepoint, or is a single statement. They share one fsync.
//! 3. Events emitted by the job are written with one delivery per webhook endpoint, with the job's changes.
//! 4. The transaction commits. The commit hook receives the events, then each caller its result.
//! 5. On PostgreSQL, each job is a separate transaction, in its project's writer session, so a project's events keep the order of their
//!    commits.
//!
//! # Failures
//!
//! - A job returns an error or panics: its changes are rolled back, and its caller gets the error. Other jobs of the batch are
//!   unaffected.
//! - The commit fails, for example on a full disk: every job of the batch gets the error, and none of its changes is visible.
//! - On PostgreSQL, the reply to a commit is lost: the session's row has the id of its last job, which shows whether the commit happened.
//! - A caller stops waiting: the write remains.
//! - The thread panics outside a job, the file disappears, or another server takes over: [`WriterStop`] names the reason, and the process
//!   exits. Its actors may assume something that is not on disk.
//!
//! # Why not simpler
//!
//! A transaction per job would be simpler, but on SQLite it would cost an fsync each. In a shared transaction without savepoints, one
//! refused job would undo the others. Several SQLite connections would only wait for each other, since SQLite has one writer at a time.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::marker::PhantomData;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use conclave_model::{Clock, ProjectId, RoundRobin};
use prometheus::IntGauge;
use tokio::sync::{oneshot, watch};

use crate::error::{StoreError, catch_panic};
use crate::options::StoreMetrics;
use crate::tx::Tx;
use crate::vault::Vault;

/// Handle to the writer. When the last clone is dropped, its threads finish their queues and exit.
pub(crate) struct Writer {
    sessions: Vec<Sender<(Queue, Box<dyn Work>)>>,
    waiting: IntGauge,
}

/// Writer threads, as seen by the rest of the store.
pub(crate) struct WriterThreads {
    /// Join handles.
    pub(crate) handles: Vec<JoinHandle<()>>,
    /// Set once a thread has exited.
    pub(crate) ended: watch::Receiver<bool>,
}

/// Reports a thread's exit when it is dropped, even by a panic.
struct ExitGuard(watch::Sender<bool>);

impl Drop for ExitGuard {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// Reason why a writer thread has stopped before the store was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterStop {
    /// The thread panicked.
    Failed,
    /// Another server has taken over the database.
    TakenOver,
    /// The database lacks commits that it had acknowledged.
    CommitsLost,
    /// The database file is no longer where it was opened.
    FileGone,
}

impl WriterStop {
    /// Describes the reason for an operator.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "the thread that writes to the database ended unexpectedly",
            Self::TakenOver => "another server has become the active one",
            Self::CommitsLost => {
                "PostgreSQL has lost changes that it had acknowledged, as in a failover to an asynchronous standby: this server's \
                 memory is ahead of the records, so it exits, and starts again from the records"
            }
            Self::FileGone => {
                "the data directory has gone, or is another one: was its disk unmounted? Nothing more is acknowledged"
            }
        }
    }
}

/// Parts that the writer threads share with the rest of the store.
#[derive(Clone)]
pub(crate) struct Shared {
    /// Time source.
    pub(crate) clock: Clock,
    /// Keys that encrypt secrets.
    pub(crate) vault: Arc<Vault>,
    /// Counters for batches, commits and the queue.
    pub(crate) metrics: StoreMetrics,
    /// Set once the process is known to be a server.
    pub(crate) is_server: Arc<AtomicBool>,
    /// First reason why a thread has stopped.
    pub(crate) stop: Arc<OnceLock<WriterStop>>,
}

impl Writer {
    /// Starts a thread for each of `sessions`, which run jobs until all senders are gone. If there are several, the last session has the
    /// jobs that belong to no project.
    pub(crate) fn start<L>(
        sessions: Vec<L>,
        waiting: IntGauge,
    ) -> Result<(Self, WriterThreads), StoreError>
    where
        L: FnOnce(Jobs<Box<dyn Work>>) + Send + 'static,
    {
        // Every thread's guard clones the same sender: one dead thread means that some projects cannot write, so the whole process has to
        // stop.
        let (ends, ended) = watch::channel(false);
        let (mut senders, mut handles) = (Vec::new(), Vec::new());
        for session in sessions {
            let (sender, receiver) = channel();
            let end = ExitGuard(ends.clone());
            let thread = thread::Builder::new()
                .name("store-writer".into())
                .spawn(move || {
                    let _end = end;
                    session(Jobs::new(receiver));
                });
            handles.push(thread.map_err(|error| StoreError::Unavailable(error.to_string()))?);
            senders.push(sender);
        }
        Ok((
            Self {
                sessions: senders,
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

    /// Queues a job. `done` receives its result, on the writer's thread, once the changes are on disk; it must not block.
    pub(crate) fn write_then<T, F, D>(&self, queue: Queue, isolation: Isolation, run: F, done: D)
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
        D: FnOnce(Result<T, StoreError>) + Send + 'static,
    {
        self.waiting.inc();
        log::trace!("a write is handed to the writer");
        // Sending never blocks: the queue is unbounded, and requests are limited by the HTTP layer.
        let sent = match self.sessions.get(queue.session(self.sessions.len())) {
            Some(session) => session
                .send((queue, Box::new(Job::new(isolation, run, done))))
                .is_ok(),
            None => false,
        };
        // The queue is gone, so the job was dropped, and with it `Done`, which has replied with an error.
        if !sent {
            self.waiting.dec();
        }
    }
}

/// Means by which a failed job leaves the other jobs of its transaction intact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// A savepoint, to which the transaction is rolled back if the job fails. The first job of a transaction needs none.
    Savepoint,
    /// None: the job writes with one statement, and cannot fail after it. A savepoint would copy each page that the statement changes,
    /// which took a sixth of the writer's time per created room.
    Statement,
}

/// Job in the queue. It runs inside the transaction, and is finished once the transaction is over.
pub(crate) trait Work: Send {
    /// Returns how the job is isolated from the other jobs of its transaction.
    fn isolation(&self) -> Isolation;
    /// Runs the job, and stores its result.
    fn run(&mut self, tx: &mut Tx<'_>) -> JobOutcome;
    /// Hands over the result, or the error that ended the transaction.
    fn finish(self: Box<Self>, committed: Result<(), &StoreError>);
}

/// Outcome of a job: whether its changes are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobOutcome {
    Commit,
    Rollback,
}

/// Job made of the closure that runs and the closure that receives the result.
pub(crate) struct Job<F, T, D: FnOnce(Result<T, StoreError>)> {
    isolation: Isolation,
    run: Option<F>,
    result: Option<Result<T, StoreError>>,
    done: Done<T, D>,
}

/// Receiver of a job's result, on the writer's thread. Dropped without a result, such as by a panic of the thread, it receives an error.
pub(crate) struct Done<T, D: FnOnce(Result<T, StoreError>)>(Option<D>, PhantomData<fn(T)>);

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

impl<F, T, D: FnOnce(Result<T, StoreError>)> Job<F, T, D> {
    pub(crate) fn new(isolation: Isolation, run: F, done: D) -> Self {
        Self {
            isolation,
            run: Some(run),
            result: None,
            done: Done(Some(done), PhantomData),
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
        let Some(run) = self.run.take() else {
            // Jobs run once: the engines do not retry a transaction, since a closure may have moved its input.
            return JobOutcome::Rollback;
        };
        // The events are part of the job: if they cannot be written, its changes are rolled back, too.
        let run = || {
            let result = run(tx)?;
            tx.write_events()?;
            Ok(result)
        };
        let result = catch_panic("a write job", run);
        let outcome = if result.is_ok() {
            JobOutcome::Commit
        } else {
            JobOutcome::Rollback
        };
        self.result = Some(result);
        outcome
    }

    fn finish(self: Box<Self>, committed: Result<(), &StoreError>) {
        let result = match (committed, self.result) {
            (Ok(()), Some(result)) => result,
            // Damage concerns only the job that met it. The others get a plain error: their transaction ended because of it.
            (Err(_), Some(Err(own @ StoreError::Damaged(_)))) => Err(own),
            // A refusal from a failed transaction may be based on rows that were rolled back.
            (Err(error), _) => Err(StoreError::Unavailable(error.to_string())),
            // Unreachable unless an engine has a bug: a committed job has run.
            (Ok(()), None) => Err(StoreError::Fault("a write job did not run".into())),
        };
        self.done.take(result);
    }
}

/// A job's queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Queue(Option<ProjectId>);

impl Queue {
    /// Queue for jobs that belong to no project.
    pub(crate) const SERVER: Self = Self(None);

    /// Returns the queue for a project's jobs, which run in order.
    pub(crate) fn for_project(project: &ProjectId) -> Self {
        Self(Some(project.clone()))
    }

    /// Returns the index of this queue's writer session among `sessions`: constant per project, and the last one for jobs without a project.
    pub(super) fn session(&self, sessions: usize) -> usize {
        let last = sessions.saturating_sub(1);
        match &self.0 {
            Some(project) if last > 0 => {
                let mut hasher = DefaultHasher::new();
                project.hash(&mut hasher);
                // Below `last`. All hashers made by `new` are equal, so a project keeps its session.
                usize::try_from(hasher.finish() % last as u64).unwrap_or(last)
            }
            _ => last,
        }
    }
}

/// Queued jobs.
pub(crate) struct Jobs<J> {
    arriving: Receiver<(Queue, J)>,
    waiting: RoundRobin<Queue, J>,
    is_closed: bool,
}

impl<J> Jobs<J> {
    /// Creates the queue from a channel.
    pub(crate) fn new(arriving: Receiver<(Queue, J)>) -> Self {
        Self {
            arriving,
            waiting: RoundRobin::default(),
            is_closed: false,
        }
    }

    /// Waits for a job. Returns `None` when the queue is empty and all senders are gone.
    pub(crate) fn wait(&mut self) -> Option<J> {
        self.next()
            .or_else(|| self.arriving.recv().ok().map(|(_, job)| job))
    }

    /// Returns the next queued job, if any.
    pub(crate) fn next(&mut self) -> Option<J> {
        loop {
            // Sort everything that has arrived into the queues first: otherwise the channel's order would be the order of service.
            match self.arriving.try_recv() {
                Ok((queue, job)) => {
                    self.waiting.push(&queue, job);
                }
                Err(end) => {
                    self.is_closed = end == TryRecvError::Disconnected;
                    return self.waiting.pop().map(|(_, job)| job);
                }
            }
        }
    }

    /// Returns whether all senders are gone, as of the last [`Self::next`].
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    fn jobs() -> (Sender<(Queue, u32)>, Jobs<u32>) {
        let (sender, arriving) = channel();
        (sender, Jobs::new(arriving))
    }

    /// Proves R-47.
    #[test]
    fn projects_take_turns_and_the_jobs_of_each_keep_their_order() {
        let (sender, mut jobs) = jobs();
        let [busy, other] = [
            Queue::for_project(&ProjectId::new()),
            Queue::for_project(&ProjectId::new()),
        ];
        let send = |queue: &Queue, job| sender.send((queue.clone(), job)).unwrap();
        (0..1_000).for_each(|job| send(&busy, job));
        assert_eq!(jobs.next(), Some(0));
        (2_000..2_002).for_each(|job| send(&other, job));
        send(&Queue::SERVER, 3_000);
        let taken: Vec<_> = (0..6).filter_map(|_| jobs.next()).collect();
        assert_eq!(taken, [1, 2_000, 3_000, 2, 2_001, 3]);
        assert!((4..1_000).eq(std::iter::from_fn(|| jobs.next())));
        assert!(
            jobs.waiting.is_empty(),
            "a queue without jobs takes no memory"
        );
    }

    #[test]
    fn what_waits_is_returned_after_the_last_sender_has_gone() {
        let (sender, mut jobs) = jobs();
        (1..3).for_each(|job| sender.send((Queue::SERVER, job)).unwrap());
        drop(sender);
        assert_eq!(
            [jobs.wait(), jobs.wait(), jobs.wait()],
            [Some(1), Some(2), None]
        );
    }
}
