//! Threads for lists and bulk reads.
//!
//! A page through an index takes a millisecond, but a client may request a page far into millions of rows. So a list has a deadline, and
//! each project runs few at once: lists delay only other lists of their project.

use actix::{Actor, Addr, Handler, Message, SyncArbiter, SyncContext};
use conclave_model::ProjectId;
use conclave_model::permits::{PermitLimits, ProjectPermits};
use prometheus::IntGauge;
use rusqlite::Connection;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::{Connections, Pooled, run_in_transaction};
use crate::engine::{LIST_DEADLINE, LISTS_OF_PROJECT, too_slow};
use crate::error::{StoreError, catch_panic};
use crate::sql::Sql;

/// Threads for lists.
pub(super) const THREADS: usize = 4;

/// Limits on lists that run or wait for a thread.
const AT_ONCE: PermitLimits = PermitLimits {
    total: usize::MAX,
    per_project: LISTS_OF_PROJECT,
};

/// Interval of deadline checks, in instructions of SQLite's virtual machine: about 100 microseconds.
const CHECK_EVERY: i32 = 10_000;

/// Handle to the list threads.
#[derive(Clone)]
pub(super) struct Lists {
    threads: ReaderThreads,
    permits: ProjectPermits,
}

impl Lists {
    pub(super) fn new(threads: ReaderThreads) -> Self {
        Self {
            threads,
            permits: ProjectPermits::new(AT_ONCE),
        }
    }

    /// Runs a list once its project has a permit.
    pub(super) async fn read<T, F>(&self, project: ProjectId, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>, &ProjectId) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let deadline = Instant::now() + LIST_DEADLINE;
        // The deadline includes this wait: a client that sends many lists gets errors early, and no growing queue.
        let permit = timeout_at(deadline, self.permits.wait(&project))
            .await
            .map_err(|_| too_slow())?;
        self.threads
            .run(move |connection| {
                let result = until(deadline, connection, |sql| run(sql, &project));
                // Held until the read is over, even if the caller has stopped waiting: the thread is busy until then.
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
    // The permit may have arrived at the last moment.
    if is_over() {
        return Err(too_slow());
    }
    #[cfg(feature = "faults")]
    crate::engine::sqlite::faults::reach(connection, "list begun")?;
    connection.progress_handler(CHECK_EVERY, Some(is_over))?;
    let result = run_in_transaction(connection, run);
    // The connection is used again, and its next read has another deadline.
    connection.progress_handler(0, None::<fn() -> bool>)?;
    // An interrupted statement fails with SQLITE_INTERRUPT, which means nothing to a client.
    result.map_err(|error| if is_over() { too_slow() } else { error })
}

/// Handle to threads with a common queue.
#[derive(Clone)]
pub(super) struct ReaderThreads {
    queue: Addr<ReaderThread>,
    waiting: IntGauge,
}

/// Read, boxed for the queue. It sends its result through its own channel.
struct Job(Box<Run>);

type Run = dyn FnOnce(Result<&Connection, StoreError>) + Send;

impl Message for Job {
    type Result = ();
}

struct ReaderThread {
    connections: Connections,
    /// Kept from the first job on.
    connection: Option<Pooled>,
    waiting: IntGauge,
}

impl Actor for ReaderThread {
    type Context = SyncContext<Self>;
}

impl Handler<Job> for ReaderThread {
    type Result = ();

    fn handle(&mut self, Job(run): Job, _: &mut SyncContext<Self>) {
        self.waiting.dec();
        // A panic would end the thread, and the whole class with the last one.
        let _ = catch_panic("a read", || {
            run(self.connection());
            Ok(())
        });
    }
}

impl ReaderThread {
    fn connection(&mut self) -> Result<&Connection, StoreError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            // The pool has a connection for each thread, so this does not wait.
            None => self
                .connections
                .get()
                .map_err(|error| StoreError::Unavailable(error.to_string()))?,
        };
        Ok(self.connection.insert(connection))
    }
}

impl ReaderThreads {
    /// Starts threads over a pool with a connection for each.
    pub(super) fn start(connections: &Connections, count: usize, waiting: IntGauge) -> Self {
        let (connections, gauge) = (connections.clone(), waiting.clone());
        // The closure runs once per thread.
        let queue = SyncArbiter::start(count, move || ReaderThread {
            connections: connections.clone(),
            connection: None,
            waiting: gauge.clone(),
        });
        Self { queue, waiting }
    }

    /// Runs a read on one of the threads.
    pub(super) async fn run<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.waiting.inc();
        log::trace!("a read is handed to a thread");
        self.queue.do_send(Job(Box::new(move |connection| {
            // The caller may have stopped waiting.
            let _ = reply.send(connection.and_then(run));
        })));
        answer
            .await
            .map_err(|_| StoreError::Fault("a read did not finish".into()))?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use conclave_model::{ErrorCode, ProjectId};
    use prometheus::IntGauge;
    use rusqlite::Connection;
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::{AT_ONCE, THREADS};
    use crate::StoreError;
    use crate::engine::sqlite::CommitCount;
    use crate::engine::sqlite::reader::Readers;
    use crate::sql::Sql;

    const SOON: Duration = Duration::from_secs(60);
    /// Query that never ends.
    const ENDLESS: &str =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

    fn one(sql: Sql<'_>) -> Result<i64, StoreError> {
        sql.value("SELECT 1", &[])
    }

    fn list_one(sql: Sql<'_>, _: &ProjectId) -> Result<i64, StoreError> {
        one(sql)
    }

    fn readers(dir: &tempfile::TempDir) -> Readers {
        let path = dir.path().join("test.db");
        Connection::open(&path)
            .unwrap()
            .pragma_update(None, "journal_mode", "WAL")
            .unwrap();
        Readers::start(
            &path,
            1,
            CommitCount::default(),
            &IntGauge::new("waiting", "Waiting").unwrap(),
        )
        .unwrap()
    }

    /// Lists that block their threads until `release` is dropped.
    struct Holding {
        lists: Vec<JoinHandle<Result<(), StoreError>>>,
        started: Receiver<()>,
        release: Sender<()>,
    }

    impl Holding {
        fn start(readers: &Readers, projects: impl IntoIterator<Item = ProjectId>) -> Self {
            let (release, released) = channel::<()>();
            let (start, started) = channel();
            let released = Arc::new(Mutex::new(released));
            let lists = projects.into_iter().map(|project| {
                let (readers, released, start) =
                    (readers.clone(), Arc::clone(&released), start.clone());
                tokio::spawn(async move {
                    let hold = move |_: Sql<'_>, _: &ProjectId| {
                        start.send(()).unwrap();
                        let _ = released.lock().unwrap().recv();
                        Ok(())
                    };
                    readers.list(project, hold).await
                })
            });
            Self {
                lists: lists.collect(),
                started,
                release,
            }
        }

        /// Waits until `count` lists run.
        async fn running(&self, count: usize) {
            for _ in 0..count {
                while self.started.try_recv().is_err() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }

        async fn end(self) {
            drop(self.release);
            for list in self.lists {
                list.await.unwrap().unwrap();
            }
        }
    }

    #[actix::test]
    async fn point_and_bulk_reads_do_not_wait_for_lists() {
        let dir = tempfile::tempdir().unwrap();
        let readers = readers(&dir);
        let lists = Holding::start(&readers, (0..THREADS).map(|_| ProjectId::new()));
        lists.running(THREADS).await;
        assert_eq!(timeout(SOON, readers.point(one)).await.unwrap().unwrap(), 1);
        assert_eq!(timeout(SOON, readers.bulk(one)).await.unwrap().unwrap(), 1);
        lists.end().await;
    }

    /// Proves R-48, S-61.
    #[actix::test]
    async fn the_lists_of_one_project_leave_threads_to_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let readers = readers(&dir);
        let (busy, other) = (ProjectId::new(), ProjectId::new());
        let lists = Holding::start(&readers, std::iter::repeat_n(busy, THREADS));
        lists.running(AT_ONCE.per_project).await;
        assert_eq!(
            timeout(SOON, readers.list(other, list_one))
                .await
                .unwrap()
                .unwrap(),
            1
        );
        assert!(
            lists.started.try_recv().is_err(),
            "the busy project runs more lists than it may"
        );
        lists.end().await;
    }

    #[actix::test]
    async fn a_list_ends_at_its_deadline_and_leaves_its_thread_usable() {
        let dir = tempfile::tempdir().unwrap();
        let readers = readers(&dir);
        let project = ProjectId::new();
        for _ in 0..2 {
            let endless = |sql: Sql<'_>, _: &ProjectId| sql.value::<i64>(ENDLESS, &[]);
            let refused = timeout(
                Duration::from_secs(20),
                readers.list(project.clone(), endless),
            )
            .await
            .unwrap()
            .unwrap_err();
            let StoreError::Refused(problem) = refused else {
                panic!("{refused}")
            };
            assert_eq!(problem.code, ErrorCode::DatabaseUnavailable);
            assert!(
                problem.message.contains("took longer than 2 s"),
                "{}",
                problem.message
            );
            assert!(problem.retry_after.is_some());
        }
        assert_eq!(readers.list(project, list_one).await.unwrap(), 1);
    }

    #[actix::test]
    async fn a_panic_in_a_read_fails_that_read_only() {
        let dir = tempfile::tempdir().unwrap();
        let readers = readers(&dir);
        let project = ProjectId::new();
        let broken = |_: Sql<'_>| -> Result<i64, StoreError> { panic!("broken") };
        assert!(matches!(
            readers.point(broken).await,
            Err(StoreError::Fault(_))
        ));
        assert!(matches!(
            readers
                .list(project.clone(), move |sql, _| broken(sql))
                .await,
            Err(StoreError::Fault(_))
        ));
        assert_eq!(readers.point(one).await.unwrap(), 1);
        assert_eq!(readers.list(project, list_one).await.unwrap(), 1);
    }
}
