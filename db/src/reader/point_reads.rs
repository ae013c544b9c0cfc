//! The lane of point reads. They run on the threads of their callers, since another thread would have to be woken, over connections
//! that all threads share.
//!
//! A connection keeps its transaction for the reads that follow, until the next commit and for [`SNAPSHOT_AGE`] at most. To begin and
//! end one takes several system calls and a lock that all connections share: more than most of these reads take. Shared
//! transactions gave a third more `get_room` requests in the benchmark.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::caught;
use super::connection::{self, Connections};
use super::snapshot::{ReadConnection, SNAPSHOT_AGE, Snapshot};
use crate::commit_count::CommitCount;
use crate::error::StoreError;

/// A handle to the lane.
#[derive(Clone)]
pub(super) struct PointReads {
    connections: Connections,
    /// A permit for each connection of this lane.
    permits: Arc<Semaphore>,
    commits: CommitCount,
    idle: Idle,
    /// Where transactions are ended: the runtime that the store was opened on, whose threads never block. That of a reader may block,
    /// or be gone.
    timers: Handle,
}

/// The connections that no read uses, the last that was used last.
#[derive(Clone, Default)]
struct Idle(Arc<Mutex<IdleState>>);

#[derive(Default)]
struct IdleState {
    connections: Vec<ReadConnection>,
    /// Whether a task ends the transactions that are too old.
    has_timer: bool,
}

impl PointReads {
    /// Must be called on a runtime. `count` of the connections are for this lane.
    pub(super) fn new(connections: Connections, count: usize, commits: CommitCount) -> Self {
        let permits = Arc::new(Semaphore::new(count));
        Self { connections, permits, commits, idle: Idle::default(), timers: Handle::current() }
    }

    /// Runs a read. It sees everything that this process has committed before.
    pub(super) async fn read<T>(
        &self,
        run: impl FnOnce(&mut Snapshot<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // No read waits for anything, so all permits are taken only if more threads read than there are connections.
        let _permit = self.permits.acquire().await.map_err(|_| StoreError::closed())?;
        let idle = self.idle.0.lock().connections.pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => ReadConnection::new(connection::take(&self.connections)?),
        };
        let result = connection.snapshot(&self.commits).and_then(|mut snapshot| {
            caught(|| run(&mut snapshot)).unwrap_or_else(|| Err(StoreError::Fault("a read panicked".into())))
        });
        if let Some(timer) = self.idle.keep(connection) {
            // Without the lock: a runtime that shuts down drops the timer at once, which takes it.
            self.timers.spawn(timer.run());
        }
        result
    }

    /// Ends the transactions that are kept.
    pub(super) fn end_snapshots(&self) {
        self.idle.0.lock().connections.iter_mut().for_each(ReadConnection::end);
    }
}

impl Idle {
    /// Keeps a connection for the next read. Returns what has to end its transaction, if no other does.
    fn keep(&self, connection: ReadConnection) -> Option<Timer> {
        let mut idle = self.0.lock();
        idle.connections.push(connection);
        (!std::mem::replace(&mut idle.has_timer, true)).then(|| Timer(self.clone()))
    }

    /// Ends the transactions that are too old. Returns whether others are open.
    fn end_old(&self) -> bool {
        let mut idle = self.0.lock();
        idle.connections.iter_mut().filter(|connection| !connection.is_young()).for_each(ReadConnection::end);
        idle.connections.iter().any(ReadConnection::is_young)
    }
}

/// Ends transactions that no read has renewed, since the write-ahead log cannot be reused meanwhile. Dropping it ends all, such as
/// with its runtime.
struct Timer(Idle);

impl Timer {
    async fn run(self) {
        while self.0.end_old() {
            tokio::time::sleep(SNAPSHOT_AGE).await;
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let mut idle = self.0.0.lock();
        idle.has_timer = false;
        idle.connections.iter_mut().for_each(ReadConnection::end);
    }
}

#[cfg(test)]
mod tests;
