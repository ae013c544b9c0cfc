//! The readers: sessions with a thread each. A read is one snapshot of the primary: the transaction opens with its first statement and its
//! end is not waited for, so it takes no round trip of its own.
//!
//! Point reads, lists and bulk reads have their own threads, as on SQLite; all of them make loads ([`ReadQueue`]). Nothing is remembered
//! between reads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use conclave_model::ProjectId;
use conclave_model::permits::{PermitLimits, ProjectPermits};
use parking_lot::{Condvar, Mutex};
use prometheus::IntGauge;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::{Link, STATEMENT_LIMIT};
use crate::engine::{LIST_DEADLINE, LISTS_OF_PROJECT, too_slow};
use crate::error::{StoreError, catch_panic};
use crate::sql::Sql;
use crate::sql::postgres::{PostgresServer, Session};

/// Maximum statement duration in a bulk read or a load.
const BULK_LIMIT: Duration = Duration::from_secs(600);

/// Read, boxed for the queue. It sends its result through its own channel.
type Job = Box<dyn FnOnce(Result<&Session, StoreError>) + Send>;

/// Handle to the readers.
#[derive(Clone)]
pub(crate) struct Readers {
    queue: Arc<Sender<Job>>,
    waiting: IntGauge,
    permits: ProjectPermits,
}

impl Readers {
    /// Starts the threads. A server's connect at once, a command's at their first read.
    pub(crate) fn start(
        server: &PostgresServer,
        readers: usize,
        waiting: &IntGauge,
        is_server: bool,
    ) -> Result<Self, StoreError> {
        let (queue, sender) = ReadQueue::new();
        // Most requests need only point reads: a quarter of the threads for lists, an eighth for bulk reads, the rest for point reads.
        let (lists, bulk) = ((readers / 4).max(1), (readers / 8).max(1));
        let points = readers.saturating_sub(lists + bulk).max(1);
        for (kind, count, limit) in [
            (ReaderClass::Point, points, STATEMENT_LIMIT),
            (ReaderClass::List, lists, STATEMENT_LIMIT),
            (ReaderClass::Bulk, bulk, BULK_LIMIT),
        ] {
            for _ in 0..count {
                let (queue, mut link, waiting) = (
                    Arc::clone(&queue),
                    Link::new(server.clone(), limit),
                    waiting.clone(),
                );
                thread::Builder::new()
                    .name("store-reader".into())
                    .spawn(move || {
                        if is_server {
                            // The first read reports a failure.
                            let _ = link.session();
                        }
                        run_jobs(&queue, kind, link, &waiting);
                    })
                    .map_err(|error| StoreError::Unavailable(error.to_string()))?;
            }
        }
        let permits = ProjectPermits::new(PermitLimits {
            total: usize::MAX,
            per_project: LISTS_OF_PROJECT,
        });
        Ok(Self {
            queue: Arc::new(sender),
            waiting: waiting.clone(),
            permits,
        })
    }

    /// Stops the threads and their sessions after the queued reads. Later reads fail as unavailable.
    pub(crate) fn close(&self) {
        self.queue.close();
    }

    /// Reads a few rows by their keys.
    pub(crate) fn point<T, F>(&self, run: F) -> impl Future<Output = Result<T, StoreError>>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.run(Some(ReaderClass::Point), |_| Ok(()), run)
    }

    /// Runs a project's list, which has a deadline.
    pub(crate) async fn list<T, F>(&self, project: ProjectId, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>, &ProjectId) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let deadline = Instant::now() + LIST_DEADLINE;
        let permit = timeout_at(deadline, self.permits.wait(&project))
            .await
            .map_err(|_| too_slow())?;
        let limit = move |session: &Session| {
            #[cfg(feature = "faults")]
            super::faults::reach(session, "list begun")?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(too_slow());
            }
            // Rounded up, so that the deadline is over when the server cancels the statement.
            session.send_text(format!(
                "SET LOCAL statement_timeout = {}",
                left.as_millis() + 1
            ))
        };
        let list = move |sql: Sql<'_>| {
            let result = run(sql, &project);
            // Held until the read is over, even if the caller has stopped waiting.
            drop(permit);
            // PostgreSQL reports the timeout as a canceled query, which means nothing to a client.
            result.map_err(|error| {
                if Instant::now() >= deadline {
                    too_slow()
                } else {
                    error
                }
            })
        };
        self.run(Some(ReaderClass::List), limit, list).await
    }

    /// Runs a read that may take long.
    pub(crate) async fn bulk<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.run(Some(ReaderClass::Bulk), |_| Ok(()), run).await
    }

    /// Reads an actor's initial state, on any idle thread.
    pub(crate) async fn load<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        // A thread for point reads has a session with a short limit. LOCAL ends with the transaction.
        let limit = |session: &Session| {
            session.send_text(format!(
                "SET LOCAL statement_timeout = {}",
                BULK_LIMIT.as_millis()
            ))
        };
        self.run(None, limit, run).await
    }

    /// Runs a read in a separate transaction, on a thread of `kind`, or on any. `prepare` is sent before it.
    async fn run<T, F>(
        &self,
        kind: Option<ReaderClass>,
        prepare: impl FnOnce(&Session) -> Result<(), StoreError> + Send + 'static,
        run: F,
    ) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let limit = if matches!(kind, None | Some(ReaderClass::Bulk)) {
            BULK_LIMIT
        } else {
            STATEMENT_LIMIT
        };
        let job: Job = Box::new(move |session| {
            let read = |session: &Session| {
                // The session waits a little longer than the server's own limit for a statement.
                session.expect_statements(limit);
                // One snapshot for all statements of the read, as in SQLite. Sent together with the first query.
                session.send_text("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
                prepare(session)?;
                run(Sql::Postgres(session))
            };
            // The caller may have stopped waiting, so an error is ignored.
            let _ = reply.send(catch_panic("a read", || session.and_then(read)));
        });
        log::trace!("a read is handed to a thread");
        self.waiting.inc();
        let sent = match kind {
            Some(kind) => self.queue.send(kind, job),
            None => self.queue.send_load(job),
        };
        if sent == Err(Closed) {
            self.waiting.dec();
            return Err(StoreError::closed());
        }
        answer
            .await
            .map_err(|_| StoreError::Fault("a read did not finish".into()))?
    }
}

fn run_jobs(queue: &ReadQueue<Job>, kind: ReaderClass, mut link: Link, waiting: &IntGauge) {
    while let Some(job) = queue.next(kind) {
        waiting.dec();
        let session = link.session();
        match session {
            Ok(session) => {
                job(Ok(session));
                // After the reply, which does not depend on the end of the transaction.
                session.end_reading();
            }
            Err(error) => job(Err(error)),
        }
    }
}

/// Concurrency class of a reader thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReaderClass {
    Point,
    List,
    Bulk,
}

impl ReaderClass {
    pub const ALL: [Self; 3] = [Self::Point, Self::List, Self::Bulk];
}

/// Queued jobs of type `J`.
pub(super) struct ReadQueue<J> {
    waiting: Mutex<QueuedReads<J>>,
    /// One per kind, signalled when its threads have something to do.
    arrivals: [Condvar; ReaderClass::ALL.len()],
}

struct QueuedReads<J> {
    own: [VecDeque<J>; ReaderClass::ALL.len()],
    loads: VecDeque<J>,
    is_closed: bool,
}

/// Sender of jobs. When it is closed or dropped, the threads finish the queue and exit.
pub(super) struct Sender<J>(Arc<ReadQueue<J>>);

/// The queue accepts no more jobs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Closed;

impl<J> ReadQueue<J> {
    /// Creates an empty queue and its sender.
    pub fn new() -> (Arc<Self>, Sender<J>) {
        let waiting = QueuedReads {
            own: ReaderClass::ALL.map(|_| VecDeque::new()),
            loads: VecDeque::new(),
            is_closed: false,
        };
        let queue = Arc::new(Self {
            waiting: Mutex::new(waiting),
            arrivals: ReaderClass::ALL.map(|_| Condvar::new()),
        });
        (Arc::clone(&queue), Sender(queue))
    }

    /// Waits for a thread's next job; `None` once the queue is closed and empty.
    pub fn next(&self, kind: ReaderClass) -> Option<J> {
        let mut waiting = self.waiting.lock();
        loop {
            // Its own kind first, so that thousands of loads after a takeover do not delay requests.
            let own = waiting.own[kind as usize].pop_front();
            if let Some(job) = own.or_else(|| waiting.loads.pop_front()) {
                return Some(job);
            }
            if waiting.is_closed {
                return None;
            }
            self.arrivals[kind as usize].wait(&mut waiting);
        }
    }
}

impl<J> Sender<J> {
    /// Queues a job for the threads of a kind.
    pub fn send(&self, kind: ReaderClass, job: J) -> Result<(), Closed> {
        self.push(|waiting| &mut waiting.own[kind as usize], job)?;
        self.0.arrivals[kind as usize].notify_one();
        Ok(())
    }

    /// Queues a load, for any thread.
    pub fn send_load(&self, job: J) -> Result<(), Closed> {
        self.push(|waiting| &mut waiting.loads, job)?;
        // Which kind has an idle thread is unknown; a thread that finds nothing waits again.
        self.0.arrivals.iter().for_each(|arrival| {
            arrival.notify_one();
        });
        Ok(())
    }

    fn push(
        &self,
        queue: impl FnOnce(&mut QueuedReads<J>) -> &mut VecDeque<J>,
        job: J,
    ) -> Result<(), Closed> {
        let mut waiting = self.0.waiting.lock();
        // Checked under the lock, so that no job is queued after the last thread has exited.
        if waiting.is_closed {
            return Err(Closed);
        }
        queue(&mut waiting).push_back(job);
        Ok(())
    }

    /// Closes the queue.
    pub fn close(&self) {
        self.0.waiting.lock().is_closed = true;
        self.0.arrivals.iter().for_each(|arrival| {
            arrival.notify_all();
        });
    }
}

impl<J> Drop for Sender<J> {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_takes_its_own_jobs_before_loads_and_none_of_other_kinds() {
        let (queue, sender) = ReadQueue::new();
        sender.send_load("load").unwrap();
        sender.send(ReaderClass::List, "list").unwrap();
        sender.send(ReaderClass::Point, "point").unwrap();
        let mut taken = Vec::from([
            queue.next(ReaderClass::Point),
            queue.next(ReaderClass::Point),
        ]);
        sender.send_load("another load").unwrap();
        taken.push(queue.next(ReaderClass::Bulk));
        assert_eq!(taken, [Some("point"), Some("load"), Some("another load")]);
        sender.close();
        assert_eq!(
            [
                sender.send(ReaderClass::Point, "late"),
                sender.send_load("late")
            ],
            [Err(Closed), Err(Closed)]
        );
        assert_eq!(
            (
                queue.next(ReaderClass::Point),
                queue.next(ReaderClass::List)
            ),
            (None, Some("list")),
            "what waits is finished"
        );
        assert_eq!(queue.next(ReaderClass::List), None);
    }

    #[test]
    fn idle_threads_of_every_kind_take_loads() {
        let (queue, sender) = ReadQueue::new();
        let threads = ReaderClass::ALL.map(|kind| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.next(kind))
        });
        (0..ReaderClass::ALL.len()).for_each(|load| sender.send_load(load).unwrap());
        let mut taken = threads.map(|thread| thread.join().unwrap());
        taken.sort_unstable();
        assert_eq!(taken, [Some(0), Some(1), Some(2)]);
    }
}
