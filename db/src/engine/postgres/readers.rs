//! The readers: sessions on threads of their own. Each read is one snapshot of the primary: it begins with its first statement, and
//! its end is not waited for, so the transaction takes no round trip of its own.
//!
//! Point reads, lists and bulk reads have their own threads, as on SQLite, and all of them make loads ([`super::read_queue`]). Nothing is
//! remembered between reads.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use conclave_model::ProjectId;
use conclave_model::permits::{PermitLimits, ProjectPermits};
use prometheus::IntGauge;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::STATEMENT_LIMIT;
use super::link::Link;
use super::read_queue::{Closed, Kind, ReadQueue, Sender};
use crate::engine::lists;
use crate::error::{StoreError, catch_panic};
use crate::sql::Sql;
use crate::sql::postgres::{PostgresServer, Session};

/// The longest time that a statement of a bulk read or of a load takes.
const BULK_LIMIT: Duration = Duration::from_secs(600);

/// A read, boxed for the queue. It sends its result through its own channel.
type Job = Box<dyn FnOnce(Result<&Session, StoreError>) + Send>;

/// A handle to the readers.
#[derive(Clone)]
pub(crate) struct Readers {
    queue: Arc<Sender<Job>>,
    waiting: IntGauge,
    permits: ProjectPermits,
}

impl Readers {
    /// Starts the threads. Each connects at once, for a server, or at its first read.
    pub(crate) fn start(
        server: &PostgresServer,
        readers: usize,
        waiting: &IntGauge,
        is_server: bool,
    ) -> Result<Self, StoreError> {
        let (queue, sender) = ReadQueue::new();
        let (lists, bulk) = ((readers / 4).max(1), (readers / 8).max(1));
        let points = readers.saturating_sub(lists + bulk).max(1);
        for (kind, count, limit) in [
            (Kind::Point, points, STATEMENT_LIMIT),
            (Kind::List, lists, STATEMENT_LIMIT),
            (Kind::Bulk, bulk, BULK_LIMIT),
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
                            // A failure is one of the first read.
                            let _ = link.session();
                        }
                        run_jobs(&queue, kind, link, &waiting);
                    })
                    .map_err(|error| StoreError::Unavailable(error.to_string()))?;
            }
        }
        let permits = ProjectPermits::new(PermitLimits {
            total: usize::MAX,
            of_project: lists::OF_PROJECT,
        });
        Ok(Self {
            queue: Arc::new(sender),
            waiting: waiting.clone(),
            permits,
        })
    }

    /// Ends the threads and their sessions, once what waits is read. Later reads fail as unavailable.
    pub(crate) fn close(&self) {
        self.queue.close();
    }

    /// Reads a few rows by their keys.
    pub(crate) async fn point<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.run(Some(Kind::Point), |_| Ok(()), run).await
    }

    /// Runs the query of a project's list, which has a deadline.
    pub(crate) async fn list<T, F>(&self, project: ProjectId, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>, &ProjectId) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let deadline = Instant::now() + lists::DEADLINE;
        let permit = timeout_at(deadline, self.permits.wait(&project))
            .await
            .map_err(|_| lists::too_slow())?;
        let limit = move |session: &Session| {
            #[cfg(feature = "faults")]
            super::faults::reach(session, "list begun")?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(lists::too_slow());
            }
            // In whole milliseconds, so that the deadline is over when the server stops.
            session.send_text(format!(
                "SET LOCAL statement_timeout = {}",
                left.as_millis() + 1
            ))
        };
        let list = move |sql: Sql<'_>| {
            let result = run(sql, &project);
            // Kept until here also when the caller has stopped waiting.
            drop(permit);
            result.map_err(|error| {
                if Instant::now() >= deadline {
                    lists::too_slow()
                } else {
                    error
                }
            })
        };
        self.run(Some(Kind::List), limit, list).await
    }

    /// Runs a read that may take long.
    pub(crate) async fn bulk<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.run(Some(Kind::Bulk), |_| Ok(()), run).await
    }

    /// Reads what an actor starts from, on a thread that has nothing else to do.
    pub(crate) async fn load<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let limit = |session: &Session| {
            session.send_text(format!(
                "SET LOCAL statement_timeout = {}",
                BULK_LIMIT.as_millis()
            ))
        };
        self.run(None, limit, run).await
    }

    /// Runs a read in a transaction of its own, on a thread of that kind, or on any thread. `prepare` is sent before it.
    async fn run<T, F>(
        &self,
        kind: Option<Kind>,
        prepare: impl FnOnce(&Session) -> Result<(), StoreError> + Send + 'static,
        run: F,
    ) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let limit = if matches!(kind, None | Some(Kind::Bulk)) {
            BULK_LIMIT
        } else {
            STATEMENT_LIMIT
        };
        let job: Job = Box::new(move |session| {
            let read = |session: &Session| {
                session.expect_statements(limit);
                session.send_text("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
                prepare(session)?;
                run(Sql::Postgres(session))
            };
            // The caller may have stopped waiting.
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

fn run_jobs(queue: &ReadQueue<Job>, kind: Kind, mut link: Link, waiting: &IntGauge) {
    while let Some(job) = queue.next(kind) {
        waiting.dec();
        let session = link.session();
        match session {
            Ok(session) => {
                job(Ok(session));
                session.end_reading();
            }
            Err(error) => job(Err(error)),
        }
    }
}
