//! The readers: a pool of threads over a queue of jobs.
//!
//! Waking a thread costs more than most reads, so a reader that is awake takes what has queued up without being told, and
//! only a reader that sleeps is woken. What it takes at once it reads in one transaction: that was begun after the last of
//! these jobs had come, so each sees everything that was committed before it was asked for.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use actix::{Actor, Addr, Handler, Message, SyncArbiter, SyncContext};
use prometheus::IntGauge;
use r2d2::Pool;
use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::StoreError;
use crate::error::OrStoreError;

/// Jobs read in one transaction at most, so that one reader does not take what another could do.
const BATCH: usize = 16;

/// Times a reader that found nothing lets others run and looks again before it sleeps: under load the next job is there
/// by then, and on an idle machine this costs a few system calls.
const YIELDS: u32 = 4;

/// A read, boxed for the queue. It answers through a channel of its own.
type Job = Box<dyn FnOnce(Result<&Connection, StoreError>) + Send>;

/// The way to the reader threads.
#[derive(Clone)]
pub(crate) struct Readers {
    queue: Arc<Queue>,
    threads: Addr<Reader>,
}

/// Jobs that wait, and how many readers are awake to take them.
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
    /// Puts a job in. Says whether a reader must be woken for it.
    fn put(&self, job: Job) -> bool {
        self.waiting.inc();
        let waiting = {
            let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            jobs.push_back(job);
            jobs.len()
        };
        // One reader that is awake keeps up with a short queue; more are woken as it grows.
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

    /// A reader found nothing and goes to sleep, unless a job came in while it was saying so.
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
        let connection = match &connection {
            Ok(connection) => connection,
            Err(error) => return refuse(jobs, &error.to_string()),
        };
        if let Err(error) = sql(connection, "BEGIN") {
            return refuse(jobs, &error.to_string());
        }
        for job in jobs {
            // A panic would end this thread for good; the job's channel closes and its caller is told.
            if catch_unwind(AssertUnwindSafe(|| job(Ok(connection)))).is_err() {
                log::error!("a read job panicked");
            }
        }
        if let Err(error) = sql(connection, "COMMIT") {
            log::error!("a read transaction did not end: {error}");
            // One way or another it must end, or the connection reads the past for ever.
            let _ = sql(connection, "ROLLBACK");
        }
    }
}

fn sql(connection: &Connection, statement: &str) -> Result<(), StoreError> {
    connection.prepare_cached(statement).and_then(|mut s| s.execute([])).map(|_| ()).or_store_error()
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
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            // Nobody may be waiting any more.
            let _ = reply.send(connection.and_then(run));
        });
        if self.queue.put(job) {
            self.threads.do_send(Wake);
        }
        answer.await.map_err(|_| StoreError::Fault("a read did not finish".into()))?
    }
}
