//! The store: one file, one writer, several readers. Its operations are in the file of the record that they are about.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use conclave_model::{Clock, ProjectId, Timestamp};
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::watch;

use crate::commit_count::CommitCount;
use crate::error::StoreError;
use crate::metrics::StoreMetrics;
use crate::migrate;
use crate::outbox::CommitHook;
use crate::reader::{Readers, Snapshot};
use crate::sql::Sql;
use crate::tx::Tx;
use crate::vault::Vault;
use crate::writer::{Isolation, Queue, Shared, Writer, WriterThread};

/// How long a statement waits for a lock that another process holds, such as a command of the command line.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// What happens to a file with the schema of an older version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OlderSchema {
    /// It is migrated. A server of the older version must not be running, because it cannot use the newer schema.
    Migrate,
    /// It is refused with [`StoreError::OlderSchema`], and not changed.
    Refuse,
    /// It is opened as it is, for [`Store::check`] and [`Store::backup`].
    Accept,
}

/// The parameters of [`Store::open`].
pub struct StoreOptions {
    /// The database file; created when it does not exist.
    pub path: PathBuf,
    /// What to do with a file of an older version, or a new one.
    pub older_schema: OlderSchema,
    /// The source of time.
    pub clock: Clock,
    /// Seals and opens secrets.
    pub vault: Vault,
    /// Receives committed events.
    pub on_commit: CommitHook,
    /// The number of threads that find rows by key; there is a connection for each.
    pub readers: usize,
    /// The counters of this store.
    pub metrics: StoreMetrics,
}

/// A crash of the server that ran before this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash {
    /// The last heartbeat before the crash.
    pub last_heartbeat: Timestamp,
    /// The instant at which this server started.
    pub restarted_at: Timestamp,
}

/// A handle to the durable records. Cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    path: PathBuf,
    clock: Clock,
    vault: Arc<Vault>,
    writer: Mutex<Option<Arc<Writer>>>,
    writer_thread: Mutex<Option<JoinHandle<()>>>,
    writer_running: watch::Receiver<()>,
    readers: Readers,
    /// The crash before this server's start; empty until the server has started.
    crash: OnceLock<Option<Crash>>,
    /// Whether a server runs on this store, as opposed to a command.
    is_server: Arc<AtomicBool>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.0.path).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens a store, and creates or migrates its file if it may. Needs a running actix system.
    ///
    /// # Errors
    /// Fails for a file that cannot be opened or written, that a newer version has written, or that may not be migrated.
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        let StoreOptions { path, older_schema, clock, vault, on_commit, readers, metrics } = options;
        let vault = Arc::new(vault);
        let connection = open_for_writing(&path, older_schema)?;
        let commits = CommitCount::default();
        let readers = Readers::start(&path, readers, commits.clone(), &metrics.reads_waiting)?;
        let is_server = Arc::<AtomicBool>::default();
        let (of_writer, for_log) = (clock.clone(), Arc::clone(&is_server));
        let shared = Shared { clock: of_writer, vault: Arc::clone(&vault), commits, metrics, is_server: for_log };
        let (writer, WriterThread { handle, running }) = Writer::start(connection, shared, on_commit)?;
        Ok(Self(Arc::new(Inner {
            path,
            clock,
            vault,
            writer: Mutex::new(Some(Arc::new(writer))),
            writer_thread: Mutex::new(Some(handle)),
            writer_running: running,
            readers,
            crash: OnceLock::new(),
            is_server,
        })))
    }

    /// Runs the queued writes and closes the writer. Later writes fail as unavailable. Blocks until then.
    pub fn close(&self) {
        drop(self.0.writer.lock().take());
        self.0.readers.end_snapshots();
        let thread = self.0.writer_thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            log::error!("the writer thread had panicked");
        }
    }

    /// Returns once the writer's thread has ended: after [`Store::close`], or because it panicked. Every write fails from then on.
    pub async fn writer_ended(&self) {
        let mut running = self.0.writer_running.clone();
        // Nothing is ever sent; an error means that the thread has ended.
        while running.changed().await.is_ok() {}
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    /// The source of time.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Notes that a server runs on this store.
    pub(crate) fn note_server(&self) {
        self.0.is_server.store(true, Ordering::Relaxed);
    }

    pub(crate) fn crash_cell(&self) -> &OnceLock<Option<Crash>> {
        &self.0.crash
    }

    pub(crate) fn vault(&self) -> &Arc<Vault> {
        &self.0.vault
    }

    /// Writes, when it is the turn of the queue.
    pub(crate) async fn write<T, F>(&self, queue: Queue, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        match self.writer() {
            Some(writer) => writer.write(queue, run).await,
            None => Err(StoreError::closed()),
        }
    }

    /// Writes, and gives the result to `done` on the thread of the writer. Where many writes have one receiver, each wakes no task
    /// of its own. `done` must not block.
    pub(crate) fn write_then<T, F>(
        &self,
        queue: Queue,
        isolation: Isolation,
        run: F,
        done: impl FnOnce(Result<T, StoreError>) + Send + 'static,
    ) where
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        match self.writer() {
            Some(writer) => writer.write_then(queue, isolation, run, done),
            None => done(Err(StoreError::closed())),
        }
    }

    fn writer(&self) -> Option<Arc<Writer>> {
        self.0.writer.lock().clone()
    }

    /// Reads a few rows by their keys.
    pub(crate) async fn read<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.0.readers.point(run).await
    }

    /// Reads a few rows by their keys, some of which the snapshot may remember.
    pub(crate) async fn read_snapshot<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(&mut Snapshot<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.0.readers.snapshot(run).await
    }

    /// Reads a page of a project's rows for a client.
    pub(crate) async fn list<T, F>(&self, project: ProjectId, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>, &ProjectId) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.0.readers.list(project, run).await
    }

    /// Reads all rows of a kind.
    pub(crate) async fn bulk_read<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.0.readers.bulk(run).await
    }
}

fn open_for_writing(path: &Path, older_schema: OlderSchema) -> Result<Connection, StoreError> {
    let mut connection = Connection::open(path)?;
    // The file holds secrets, so its mode must not depend on the umask.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .map_err(|error| StoreError::Unavailable(error.to_string()))?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let found = migrate::version(&connection)?;
    if older_schema == OlderSchema::Refuse && found < migrate::SCHEMA {
        return Err(StoreError::OlderSchema { found, known: migrate::SCHEMA });
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // A batch writes at most a few hundred pages. Rare checkpoints keep the fsyncs to the log.
    connection.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    if older_schema == OlderSchema::Migrate {
        migrate::migrate(&mut connection)?;
    }
    connection.pragma_update(None, "foreign_keys", true)?;
    // A savepoint keeps the pages that its job changes. In a file, as by default, this took more writes than the log.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Costs that no other test would notice; `.cargo/config.toml` and [`open_for_writing`] say what they are.
    #[test]
    fn sqlite_takes_no_shared_lock_and_keeps_savepoints_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let connection = open_for_writing(&dir.path().join("conclave.db"), OlderSchema::Migrate).unwrap();
        let sql = Sql::new(&connection);
        let options: Vec<String> = sql.many("PRAGMA compile_options", &[], |row| row.get("compile_options")).unwrap();
        assert!(options.iter().any(|option| option == "DEFAULT_MEMSTATUS=0"), "{options:?}");
        assert!(!options.iter().any(|option| option == "ENABLE_MEMORY_MANAGEMENT"), "{options:?}");
        assert_eq!(sql.value::<i64>("PRAGMA temp_store", &[]).unwrap(), 2);
    }
}
