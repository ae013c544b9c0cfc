//! The readers: a pool of threads over a queue of jobs.
//!
//! Waking a thread costs more than most reads, so a reader that is awake takes the queued jobs by itself, and only a sleeping
//! reader is woken. It runs the jobs that it takes together in one transaction. That transaction begins after the last of these
//! jobs was queued, so each job sees everything that was committed before it was queued.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use actix::{Actor, Addr, Handler, Message, SyncArbiter, SyncContext};
use prometheus::IntGauge;
use r2d2::Pool;
use r2d2_sqlite::SqliteConnectionManager;
use tokio::sync::oneshot;

use crate::error::StoreError;
use crate::sql::Sql;

/// The most jobs in one read transaction, so that one reader does not take jobs that another reader could run.
const BATCH: usize = 16;

/// How often a reader with an empty queue yields and looks again before it sleeps. Under load the next job is there by then;
/// on an idle machine this costs a few system calls.
const YIELDS: u32 = 4;

/// A read, boxed for the queue. It sends its result through its own channel.
type Job = Box<dyn FnOnce(Result<Sql<'_>, StoreError>) + Send>;

/// A handle to the reader threads.
#[derive(Clone)]
pub(crate) struct Readers {
    queue: Arc<Queue>,
    threads: Addr<Reader>,
}

/// The queued jobs, and the number of readers that are awake to take them.
struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    awake: AtomicUsize,
    readers: usize,
    waiting: IntGauge,
}

struct Reader {
    connections: Pool<SqliteConnectionManager>,
    queue: Arc<Queue>,
}

/// Wakes a reader.
struct Wake;

impl Message for Wake {
    type Result = ();
}

impl Queue {
    /// Adds a job. Returns whether a reader must be woken for it.
    fn put(&self, job: Job) -> bool {
        self.waiting.inc();
        let waiting = {
            let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            jobs.push_back(job);
            jobs.len()
        };
        // One awake reader is enough for a short queue; more are woken as the queue grows.
        let wanted = waiting.div_ceil(BATCH).min(self.readers);
        let wake = |awake: usize| (awake < wanted).then_some(awake + 1);
        self.awake.fetch_update(Ordering::SeqCst, Ordering::SeqCst, wake).is_ok()
    }

    fn take(&self) -> Vec<Job> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let count = jobs.len().min(BATCH);
        self.waiting.sub(i64::try_from(count).unwrap_or(0));
        jobs.drain(..count).collect()
    }

    /// Counts a reader as asleep. Returns false, and counts it as awake again, when a job was queued in the meantime.
    fn sleep(&self) -> bool {
        self.awake.fetch_sub(1, Ordering::SeqCst);
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.is_empty() {
            return true;
        }
        self.awake.fetch_add(1, Ordering::SeqCst);
        false
    }
}

impl Actor for Reader {
    type Context = SyncContext<Self>;
}

impl Handler<Wake> for Reader {
    type Result = ();

    fn handle(&mut self, _: Wake, _: &mut SyncContext<Self>) {
        let mut idle = 0;
        loop {
            let jobs = self.queue.take();
            if !jobs.is_empty() {
                idle = 0;
                self.read(jobs);
            } else if idle < YIELDS {
                idle += 1;
                std::thread::yield_now();
            } else if self.queue.sleep() {
                return;
            }
        }
    }
}

impl Reader {
    /// Runs jobs in one transaction.
    fn read(&self, jobs: Vec<Job>) {
        let connection = self.connections.get();
        let sql = match &connection {
            Ok(connection) => Sql::new(connection),
            Err(error) => return refuse(jobs, &error.to_string()),
        };
        if let Err(error) = sql.put("BEGIN", &[]) {
            return refuse(jobs, &error.to_string());
        }
        for job in jobs {
            // An uncaught panic would end this thread. A caught one closes the job's channel, which its caller notices.
            if catch_unwind(AssertUnwindSafe(|| job(Ok(sql)))).is_err() {
                log::error!("a read job panicked");
            }
        }
        if let Err(error) = sql.put("COMMIT", &[]) {
            log::error!("a read transaction did not end: {error}");
            // The transaction must end, or the connection reads an old state for ever.
            let _ = sql.put("ROLLBACK", &[]);
        }
    }
}

fn refuse(jobs: Vec<Job>, reason: &str) {
    for job in jobs {
        job(Err(StoreError::Unavailable(reason.to_owned())));
    }
}

impl Readers {
    /// Starts `readers` threads over a pool of as many connections. Needs a running actix system.
    pub(crate) fn start(connections: Pool<SqliteConnectionManager>, readers: usize, waiting: IntGauge) -> Self {
        let queue = Arc::new(Queue { jobs: Mutex::default(), awake: AtomicUsize::new(0), readers, waiting });
        let shared = Arc::clone(&queue);
        let threads = SyncArbiter::start(readers, move || Reader {
            connections: connections.clone(),
            queue: Arc::clone(&shared),
        });
        Self { queue, threads }
    }

    /// Runs a read on one of the threads.
    pub(crate) async fn read<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |sql| {
            // The caller may have stopped waiting.
            let _ = reply.send(sql.and_then(run));
        });
        if self.queue.put(job) {
            self.threads.do_send(Wake);
        }
        answer.await.map_err(|_| StoreError::Fault("a read did not finish".into()))?
    }
}
