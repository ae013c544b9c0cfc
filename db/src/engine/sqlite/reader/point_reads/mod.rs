//! The lane of point reads. A read runs on the thread of its caller, since another thread would have to be woken, over a
//! connection that only reads of this thread use. It holds its snapshot for those that follow ([`SnapshotConnection`]).

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use r2d2::ManageConnection;
use r2d2_sqlite::SqliteConnectionManager;
use thread_local::ThreadLocal;
use tokio::runtime::Handle;

use super::held_snapshot::{SNAPSHOT_AGE, SnapshotConnection};
use crate::engine::snapshot::Snapshot;
use crate::engine::sqlite::commit_count::CommitCount;
use crate::error::{StoreError, catch_panic};

/// A handle to the lane.
#[derive(Clone)]
pub(super) struct PointReads {
    manager: Arc<SqliteConnectionManager>,
    commits: CommitCount,
    /// The readers of the threads. A new thread gets the reader of one that has ended.
    readers: Arc<ThreadLocal<Arc<Mutex<Reader>>>>,
    /// Where snapshots are ended: the runtime that the store was opened on, whose threads never block. That of a reader may block, or
    /// be gone.
    timers: Handle,
}

/// What a thread reads with. Its lock is free but for the timer.
struct Reader {
    connection: SnapshotConnection,
    /// Whether a task waits to end the snapshot.
    has_timer: bool,
}

impl PointReads {
    /// Must be called on a runtime. Room is made for the readers of so many threads.
    pub(super) fn new(
        manager: SqliteConnectionManager,
        threads: usize,
        commits: CommitCount,
    ) -> Self {
        let readers = Arc::new(ThreadLocal::with_capacity(threads));
        Self {
            manager: Arc::new(manager),
            commits,
            readers,
            timers: Handle::current(),
        }
    }

    /// Runs a read. It sees everything that this process has committed before.
    pub(super) async fn read<T>(
        &self,
        run: impl FnOnce(&mut Snapshot<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // A task that does nothing but read lets others run now and then.
        tokio::task::consume_budget().await;
        let reader = self.readers.get_or_try(|| self.connect())?;
        let mut locked = reader.lock();
        let snapshot = locked.connection.snapshot(&self.commits);
        let result = snapshot.and_then(|mut snapshot| catch_panic("a read", || run(&mut snapshot)));
        let has_timer = mem::replace(&mut locked.has_timer, true);
        // What follows is done without the lock: a runtime that shuts down drops the timer at once, which takes the lock.
        drop(locked);
        if !has_timer {
            self.timers.spawn(end_when_old(Timer(Arc::clone(reader))));
        }
        result
    }

    fn connect(&self) -> Result<Arc<Mutex<Reader>>, StoreError> {
        let connection = SnapshotConnection::new(self.manager.connect()?);
        Ok(Arc::new(Mutex::new(Reader {
            connection,
            has_timer: false,
        })))
    }

    /// Ends the transactions that are held.
    pub(super) fn end_snapshots(&self) {
        self.readers
            .iter()
            .for_each(|reader| reader.lock().connection.end());
    }
}

/// What ends the snapshot of a reader. Dropping it does so too, such as with its runtime.
struct Timer(Arc<Mutex<Reader>>);

impl Drop for Timer {
    fn drop(&mut self) {
        let mut reader = self.0.lock();
        reader.has_timer = false;
        reader.connection.end();
    }
}

/// Ends a snapshot once no read has renewed it, since the write-ahead log cannot be reused meanwhile.
async fn end_when_old(timer: Timer) {
    loop {
        tokio::time::sleep(SNAPSHOT_AGE).await;
        // A reader that is locked reads.
        if timer
            .0
            .try_lock()
            .is_some_and(|reader| reader.connection.is_old())
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
