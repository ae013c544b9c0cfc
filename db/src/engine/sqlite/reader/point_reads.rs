//! The lane of point reads. A read runs on the thread of its caller, since another thread would have to be woken, over a
//! connection that only reads of this thread use. It holds its snapshot for those that follow ([`SnapshotConnection`]).

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
use crate::engine::snapshot::{Memory, Snapshot};
use crate::engine::sqlite::CommitCount;
use crate::error::{StoreError, catch_panic};
use crate::sql::Sql;

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

/// Ends each snapshot that is old, since the write-ahead log cannot be reused meanwhile, until a while without reads. Starting this task, and
/// each of its turns, wakes threads of another runtime, which costs as much as several reads: one for each snapshot took a fifth of the
/// processor time of a token. Reads renew an old snapshot themselves, so only idle threads depend on this task.
async fn end_when_old(timer: Timer) {
    loop {
        tokio::time::sleep(IDLE_AGE).await;
        // A reader that is locked reads. Without a snapshot, it has not read since this task ended the last snapshot.
        let is_idle = timer.0.try_lock().is_some_and(|mut reader| {
            let has_snapshot = reader.connection.has_snapshot();
            if reader.connection.is_old() {
                reader.connection.end();
            }
            !has_snapshot
        });
        // The timer locks the reader when it is dropped.
        if is_idle {
            return;
        }
    }
}

/// How old the snapshot of a point read can be. Commits of this process end it at once; those of another process are read after
/// this time.
pub const SNAPSHOT_AGE: Duration = Duration::from_millis(1);

/// How old the snapshot of a thread that reads no more gets, or twice that.
const IDLE_AGE: Duration = Duration::from_millis(10);

/// A connection that reads, and the transaction that it holds.
pub(super) struct SnapshotConnection {
    sqlite: Connection,
    /// When the transaction was begun, and the number of commits that it has seen, or fewer; `None` if none is open.
    held: Option<(Instant, u64)>,
    memory: Memory,
}

impl SnapshotConnection {
    pub(super) fn new(sqlite: Connection) -> Self {
        Self {
            sqlite,
            held: None,
            memory: Memory::default(),
        }
    }

    /// Returns the snapshot that is held, or a new one if that lacks a commit of this process or is too old for those of others.
    pub(super) fn snapshot(&mut self, commits: &CommitCount) -> Result<Snapshot<'_>, StoreError> {
        if self.is_old() || self.held.is_some_and(|(_, seen)| seen != commits.get()) {
            self.end();
            // Taken before the first query, which fixes the snapshot.
            let held = (Instant::now(), commits.get());
            self.begin()?;
            self.held = Some(held);
        }
        let memory = Some(&mut self.memory);
        Ok(Snapshot::new(Sql::Sqlite(&self.sqlite), memory))
    }

    /// Begins a transaction. What was found in an older snapshot is forgotten.
    fn begin(&mut self) -> Result<(), StoreError> {
        begin(&self.sqlite)?;
        let version = self
            .sqlite
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        self.memory.keep_for(version);
        Ok(())
    }

    /// Whether a transaction is held, however old.
    fn has_snapshot(&self) -> bool {
        self.held.is_some()
    }

    /// Whether no transaction is held that is younger than [`SNAPSHOT_AGE`].
    pub(super) fn is_old(&self) -> bool {
        self.held
            .is_none_or(|(begun, _)| begun.elapsed() >= SNAPSHOT_AGE)
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

    /// A database with a table of numbers, the connection of another process, and readers.
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
        // Reads that never pause renew the snapshot, too.
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

    /// Waits until the log can be emptied: no connection reads from it any more.
    async fn wait_until_unread(other: &Connection) {
        // Waiting in SQLite would block the thread that ends the snapshot.
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
                // As an upload does.
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
