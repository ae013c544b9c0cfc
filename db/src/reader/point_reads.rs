//! The lane of point reads: the reads that the tasks of a thread ask for in one round of its scheduler share a transaction.
//!
//! To begin and end a read transaction takes several system calls and a lock that all connections share, which is more than
//! most of these reads take. So a task queues its read and yields. The first task that runs again runs all reads that were
//! queued meanwhile, on its own thread: another thread would have to be woken.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::connection::{Connections, ReadConnection, Snapshot};
use super::threads::Threads;
use super::{caught, in_transaction};
use crate::error::StoreError;

/// The number of queues. Threads beyond that share them, which does no harm.
const QUEUES: usize = 32;

/// The number of threads that have read.
static THREADS_SEEN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static THREAD: usize = THREADS_SEEN.fetch_add(1, Ordering::Relaxed);
}

/// A read, boxed for the queue. It sends its result through its own channel.
type Job = Box<dyn FnOnce(Result<&mut Snapshot<'_>, StoreError>) + Send>;

/// A handle to the lane.
#[derive(Clone)]
pub(super) struct PointReads {
    connections: Connections,
    /// Where reads run when more threads read than there are connections.
    spare: Threads,
    queues: Arc<[Mutex<Vec<Job>>]>,
}

impl PointReads {
    pub(super) fn new(connections: Connections, spare: Threads) -> Self {
        Self { connections, spare, queues: (0..QUEUES).map(|_| Mutex::default()).collect() }
    }

    /// Runs a read. It sees everything that was committed before.
    pub(super) async fn read<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(&mut Snapshot<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |snapshot| {
            // The caller may have stopped waiting.
            let _ = reply.send(snapshot.and_then(run));
        });
        let queue = THREAD.with(|thread| thread % QUEUES);
        self.queue(queue, |jobs| jobs.push(job));
        tokio::task::yield_now().await;
        self.run_queued(queue);
        answer.await.map_err(|_| StoreError::Fault("a read panicked".into()))?
    }

    fn queue<T>(&self, queue: usize, change: impl FnOnce(&mut Vec<Job>) -> T) -> T {
        change(&mut self.queues[queue].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs what is queued. Nothing is, if a task that ran before this one has done it.
    fn run_queued(&self, queue: usize) {
        let jobs = self.queue(queue, mem::take);
        if jobs.is_empty() {
            return;
        }
        match self.connections.try_get() {
            Some(mut connection) => run_all(&mut connection, jobs),
            None => self.spare.run_detached(move |connection| match connection {
                Ok(connection) => run_all(connection, jobs),
                Err(error) => refuse(jobs, &error),
            }),
        }
    }
}

/// Runs reads in one transaction.
fn run_all(connection: &mut ReadConnection, jobs: Vec<Job>) {
    let ReadConnection { sqlite, memory } = connection;
    let mut jobs = jobs.into_iter();
    let run = in_transaction(sqlite, |sql| {
        let mut snapshot = memory.snapshot(sql)?;
        for job in jobs.by_ref() {
            let _ = caught(|| job(Ok(&mut snapshot)));
        }
        Ok(())
    });
    if let Err(error) = run {
        refuse(jobs, &error);
    }
}

fn refuse(jobs: impl IntoIterator<Item = Job>, error: &StoreError) {
    for job in jobs {
        job(Err(StoreError::Unavailable(error.to_string())));
    }
}
