//! The lane of point reads: the reads that the tasks of a thread ask for in one round of its scheduler run together, in a
//! [`HeldSnapshot`].
//!
//! A task queues its read and yields. The first task that runs again runs all reads that were queued meanwhile, on its own
//! thread: another thread would have to be woken.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::caught;
use super::connection::{Connections, ReadConnection};
use super::held_snapshot::{HeldSnapshot, SNAPSHOT_AGE};
use super::threads::Threads;
use crate::error::StoreError;
use crate::snapshot::Snapshot;
use crate::sqlite::commit_count::CommitCount;

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
    commits: CommitCount,
    queues: Arc<[Queue]>,
    /// Where snapshots are ended: the runtime that the store was opened on, whose threads never block. That of a reader may block, or
    /// be gone.
    timers: Handle,
}

/// The reads of a thread.
#[derive(Default)]
struct Queue {
    jobs: Mutex<Vec<Job>>,
    idle: Mutex<Idle>,
}

/// What a thread keeps between two rounds.
#[derive(Default)]
struct Idle {
    snapshot: Option<HeldSnapshot>,
    /// Whether a task waits to end the snapshot.
    has_timer: bool,
}

impl PointReads {
    /// Must be called on a runtime.
    pub(super) fn new(connections: Connections, spare: Threads, commits: CommitCount) -> Self {
        let queues = (0..QUEUES).map(|_| Queue::default()).collect();
        Self { connections, spare, commits, queues, timers: Handle::current() }
    }

    /// Runs a read. It sees everything that this process has committed before.
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
        self.queues[queue].jobs.lock().push(job);
        tokio::task::yield_now().await;
        self.run_queued(queue);
        answer.await.map_err(|_| StoreError::Fault("a read panicked".into()))?
    }

    /// Ends the transactions that are held.
    pub(super) fn end_snapshots(&self) {
        self.queues.iter().for_each(|queue| drop(queue.idle.lock().snapshot.take()));
    }

    /// Runs what is queued. Nothing is, if a task that ran before this one has done it.
    fn run_queued(&self, queue: usize) {
        let jobs = mem::take(&mut *self.queues[queue].jobs.lock());
        if jobs.is_empty() {
            return;
        }
        match self.snapshot(queue) {
            Ok(Some(mut held)) => {
                run_all(&mut held.snapshot(), jobs);
                self.keep(queue, held);
            }
            Ok(None) => self.spare.run_detached(move |connection| match connection {
                Ok(connection) => run_apart(connection, jobs),
                Err(error) => refuse(jobs, &error),
            }),
            Err(error) => refuse(jobs, &error),
        }
    }

    /// Returns the snapshot of the last round if it is current, or else a new one; `None` if no connection is free.
    fn snapshot(&self, queue: usize) -> Result<Option<HeldSnapshot>, StoreError> {
        let held = self.queues[queue].idle.lock().snapshot.take();
        if let Some(current) = held.filter(|held| held.is_current(&self.commits)) {
            return Ok(Some(current));
        }
        self.connections.try_get().map(|connection| HeldSnapshot::begin(connection, &self.commits)).transpose()
    }

    /// Keeps a snapshot for the next round. A task ends it when it is too old.
    fn keep(&self, queue: usize, held: HeldSnapshot) {
        let mut idle = self.queues[queue].idle.lock();
        let other = idle.snapshot.replace(held);
        let has_timer = mem::replace(&mut idle.has_timer, true);
        // What follows is done without the lock: a runtime that shuts down drops the timer at once, which takes the lock.
        drop(idle);
        if !has_timer {
            self.timers.spawn(end_when_old(Timer { queues: Arc::clone(&self.queues), queue }));
        }
        // Another thread with the same queue has kept it.
        drop(other);
    }
}

/// What ends the snapshot of a queue. Dropping it does so too, such as with its runtime.
struct Timer {
    queues: Arc<[Queue]>,
    queue: usize,
}

impl Timer {
    fn is_due(&self) -> bool {
        self.queues[self.queue].idle.lock().snapshot.as_ref().is_none_or(|held| !held.is_young())
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let mut idle = self.queues[self.queue].idle.lock();
        idle.has_timer = false;
        let old = idle.snapshot.take();
        // Ended after the lock is released.
        drop(idle);
        drop(old);
    }
}

/// Ends a queue's snapshot once no round has renewed it, since the write-ahead log cannot be reused meanwhile.
async fn end_when_old(timer: Timer) {
    loop {
        tokio::time::sleep(SNAPSHOT_AGE).await;
        if timer.is_due() {
            return;
        }
    }
}

/// Runs reads in a transaction of their own, on a spare thread.
fn run_apart(connection: &mut ReadConnection, jobs: Vec<Job>) {
    match connection.begin_snapshot() {
        Ok(()) => run_all(&mut connection.snapshot(), jobs),
        Err(error) => refuse(jobs, &error),
    }
    connection.end_snapshot();
}

fn run_all(snapshot: &mut Snapshot<'_>, jobs: Vec<Job>) {
    for job in jobs {
        let _ = caught(|| job(Ok(&mut *snapshot)));
    }
}

fn refuse(jobs: Vec<Job>, error: &StoreError) {
    for job in jobs {
        job(Err(StoreError::Unavailable(error.to_string())));
    }
}

#[cfg(test)]
mod tests;
