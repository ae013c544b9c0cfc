//! Point reads. A read runs on its caller's thread, over that thread's own connection, since waking another thread would cost more than the
//! read. The connection keeps its snapshot for the reads that follow ([`SnapshotConnection`]).

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use r2d2::ManageConnection;
use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::Connection;
use thread_local::ThreadLocal;
use tokio::runtime::Handle;

use super::{begin, end};
use crate::engine::snapshot::{Snapshot, SnapshotMemory};
use crate::engine::sqlite::CommitCount;
use crate::error::{StoreError, catch_panic};
use crate::sql::Sql;

/// Handle to the point reads.
#[derive(Clone)]
pub(super) struct PointReads {
    manager: Arc<SqliteConnectionManager>,
    commits: CommitCount,
    /// Reader of each thread. A new thread reuses the reader of an exited thread.
    readers: Arc<ThreadLocal<Arc<Mutex<Reader>>>>,
    /// Runtime on which snapshots are ended. It opened the store, and its threads never block; a reader's own runtime may block or have
    /// shut down.
    timers: Handle,
}

/// A thread's reader. Its lock is contended only by the timer.
struct Reader {
    connection: SnapshotConnection,
    /// Whether a task is waiting to end the snapshot.
    has_timer: bool,
}

impl PointReads {
    /// Creates the handle, with capacity for the readers of `threads` threads. Must be called on a runtime.
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
        // A read has no other await, so without this, a task that only reads would never yield to others.
        tokio::task::consume_budget().await;
        let reader = self.readers.get_or_try(|| self.connect())?;
        let mut locked = reader.lock();
        let snapshot = locked.connection.snapshot(&self.commits);
        let result = snapshot.and_then(|mut snapshot| catch_panic("a read", || run(&mut snapshot)));
        // One timer per reader at a time. It recognizes later reads by their open snapshot.
        let has_timer = mem::replace(&mut locked.has_timer, true);
        // Without the lock from here on: a runtime that shuts down drops the timer at once, which takes the lock.
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

    /// Ends all open snapshots.
    pub(super) fn end_snapshots(&self) {
        self.readers
            .iter()
            .for_each(|reader| reader.lock().connection.end());
    }
}

/// Ends a reader's snapshot when it is dropped, even with its runtime.
struct Timer(Arc<Mutex<Reader>>);

impl Drop for Timer {
    fn drop(&mut self) {
        let mut reader = self.0.lock();
        reader.has_timer = false;
        reader.connection.end();
    }
}

/// Ends a reader's old snapshots, since an open one prevents the write-ahead log from being reused. Returns once the reader is idle. Starting
/// this task and waking it both wake threads of another runtime, which costs as much as several reads: one task per snapshot took a fifth of
/// a token request's CPU time. Reads renew an old snapshot themselves, so only idle threads depend on this task.
async fn end_when_old(timer: Timer) {
    loop {
        tokio::time::sleep(IDLE_AGE).await;
        // A locked reader is reading. A reader without a snapshot has not read since this task ended its last one.
        let is_idle = timer.0.try_lock().is_some_and(|mut reader| {
            let has_snapshot = reader.connection.has_snapshot();
            if reader.connection.is_old() {
                reader.connection.end();
            }
            !has_snapshot
        });
        // Dropping the timer locks the reader, so the lock is free here.
        if is_idle {
            return;
        }
    }
}

/// Maximum age of a point read's snapshot. Commits by this process end it at once; commits by other processes are visible after this time.
pub const SNAPSHOT_AGE: Duration = Duration::from_millis(1);

/// Interval at which an idle thread's snapshot is ended: it gets this old, or twice as old.
const IDLE_AGE: Duration = Duration::from_millis(10);

/// Connection that reads, and its open transaction.
pub(super) struct SnapshotConnection {
    sqlite: Connection,
    /// Start of the transaction, and a lower bound of the commits that it has seen; `None` if none is open.
    held: Option<(Instant, u64)>,
    memory: SnapshotMemory,
}

impl SnapshotConnection {
    pub(super) fn new(sqlite: Connection) -> Self {
        Self {
            sqlite,
            held: None,
            memory: SnapshotMemory::default(),
        }
    }

    /// Returns the open snapshot, or a new one if it lacks a commit of this process or is too old to show other processes' commits.
    pub(super) fn snapshot(&mut self, commits: &CommitCount) -> Result<Snapshot<'_>, StoreError> {
        if self.is_old() || self.held.is_some_and(|(_, seen)| seen != commits.get()) {
            self.end();
            // Before the first query, which determines the snapshot: the count may be too low, never too high.
            let held = (Instant::now(), commits.get());
            self.begin()?;
            self.held = Some(held);
        }
        let memory = Some(&mut self.memory);
        Ok(Snapshot::new(Sql::Sqlite(&self.sqlite), memory))
    }

    /// Starts a transaction, and forgets the rows of an older snapshot.
    fn begin(&mut self) -> Result<(), StoreError> {
        begin(&self.sqlite)?;
        // `data_version` changes with each commit by another connection, and is itself the query that determines the snapshot.
        let version = self
            .sqlite
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        self.memory.keep_for(version);
        Ok(())
    }

    /// Returns whether a transaction is open, however old.
    fn has_snapshot(&self) -> bool {
        self.held.is_some()
    }

    /// Returns whether no transaction younger than [`SNAPSHOT_AGE`] is open.
    pub(super) fn is_old(&self) -> bool {
        self.held
            .is_none_or(|(started, _)| started.elapsed() >= SNAPSHOT_AGE)
    }

    /// Ends the transaction, if one is open.
    pub(super) fn end(&mut self) {
        self.held = None;
        end(&self.sqlite);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use prometheus::IntGauge;
    use rusqlite::Connection;

    use crate::engine::sqlite::CommitCount;
    use crate::engine::sqlite::reader::Readers;

    /// Creates a database with a table of numbers. Returns a connection that stands for another process, and the readers.
    fn setup(dir: &tempfile::TempDir) -> (Connection, CommitCount, Readers) {
        let path = dir.path().join("test.db");
        let other = Connection::open(&path).unwrap();
        other.pragma_update(None, "journal_mode", "WAL").unwrap();
        other
            .execute_batch("CREATE TABLE numbers (number INTEGER)")
            .unwrap();
        let (commits, waiting) = (
            CommitCount::default(),
            IntGauge::new("waiting", "Waiting").unwrap(),
        );
        let readers = Readers::start(&path, 1, commits.clone(), &waiting).unwrap();
        (other, commits, readers)
    }

    async fn count(readers: &Readers) -> i64 {
        readers
            .point(|sql| sql.value("SELECT count(*) FROM numbers", &[]))
            .await
            .unwrap()
    }

    fn add(other: &Connection) {
        other.execute("INSERT INTO numbers VALUES (1)", []).unwrap();
    }

    #[actix::test]
    async fn a_commit_of_this_process_is_read_at_once_and_one_of_another_process_soon() {
        let dir = tempfile::tempdir().unwrap();
        let (other, commits, readers) = setup(&dir);
        for number in 0..100 {
            assert_eq!(count(&readers).await, number);
            add(&other);
            commits.add();
        }
        assert_eq!(count(&readers).await, 100);
        add(&other);
        let (since, mut reads) = (Instant::now(), 0);
        // Reads without a pause renew the snapshot, too.
        while count(&readers).await == 100 {
            reads += 1;
            assert!(
                since.elapsed() < Duration::from_secs(60),
                "{reads} reads did not see it"
            );
        }
    }

    #[actix::test]
    async fn no_snapshot_is_held_while_nothing_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let (other, _, readers) = setup(&dir);
        count(&readers).await;
        add(&other);
        wait_until_unread(&other).await;
    }

    #[actix::test]
    async fn reads_go_on_when_the_runtime_that_ends_snapshots_has_shut_down() {
        let dir = tempfile::tempdir().unwrap();
        let timers = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        let entered = timers.enter();
        let (other, _, readers) = setup(&dir);
        drop(entered);
        std::thread::spawn(move || drop(timers)).join().unwrap();
        for _ in 0..2 {
            assert_eq!(count(&readers).await, 0);
        }
        wait_until_unread(&other).await;
    }

    /// Waits until the log can be emptied, with no connection reading from it.
    async fn wait_until_unread(other: &Connection) {
        // Waiting inside SQLite would block the thread that ends the snapshot.
        other.busy_timeout(Duration::ZERO).unwrap();
        let since = Instant::now();
        let is_busy = || {
            other
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
                    row.get::<_, bool>(0)
                })
                .unwrap()
        };
        while is_busy() {
            assert!(since.elapsed() < Duration::from_secs(60));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[actix::test]
    async fn no_snapshot_is_held_by_a_thread_whose_runtime_blocks_or_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let (other, _, readers) = setup(&dir);
        add(&other);
        let (has_read, reading) = tokio::sync::oneshot::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let on_thread = readers.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap();
            runtime.block_on(async {
                count(&on_thread).await;
                has_read.send(()).unwrap();
                // Blocks the runtime, as an upload does.
                let _ = ended.recv();
                count(&on_thread).await;
            });
        });
        reading.await.unwrap();
        add(&other);
        wait_until_unread(&other).await;
        drop(end);
        thread.join().unwrap();
        add(&other);
        wait_until_unread(&other).await;
    }

    #[actix::test]
    async fn the_snapshots_can_be_ended_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let (other, _, readers) = setup(&dir);
        count(&readers).await;
        readers.end_snapshots();
        add(&other);
        assert_eq!(count(&readers).await, 1);
    }
}
