//! The store: one file, one writer, some readers. What can be asked of it stands in the file of the record it is about.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use conclave_model::Clock;
use r2d2::Pool;
use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::{Connection, OpenFlags};

use crate::error::OrStoreError;
use crate::outbox::CommittedEvent;
use crate::reader::Readers;
use crate::vault::Vault;
use crate::writer::{Shared, Tx, Writer};
use crate::{StoreError, StoreMetrics, migrate};

/// Told of events once they are on disk, in the order they were committed, on the writer's thread: it must be quick.
pub type CommitHook = Box<dyn Fn(&[CommittedEvent]) + Send>;

/// How long a statement waits for a lock that another process holds, such as the command line's.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// What a store is opened with.
pub struct StoreOptions {
    /// The database file; made when it does not exist.
    pub path: PathBuf,
    /// Where time comes from.
    pub clock: Clock,
    /// What secrets are sealed with.
    pub vault: Vault,
    /// Told of committed events.
    pub on_commit: CommitHook,
    /// Reader threads, each with a connection.
    pub readers: usize,
    /// Where it counts.
    pub metrics: StoreMetrics,
}

/// The durable records. Cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    path: PathBuf,
    clock: Clock,
    vault: Arc<Vault>,
    writer: Mutex<Option<Arc<Writer>>>,
    writer_thread: Mutex<Option<JoinHandle<()>>>,
    readers: Readers,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.0.path).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens a store, making or migrating its file. Needs a running actix system.
    ///
    /// # Errors
    /// A file that cannot be opened or written, or that a newer program has written.
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        let StoreOptions { path, clock, vault, on_commit, readers, metrics } = options;
        let vault = Arc::new(vault);
        let connection = open_for_writing(&path)?;
        let pool = open_readers(&path, readers)?;
        let shared = Shared { clock: clock.clone(), vault: Arc::clone(&vault), metrics: metrics.clone() };
        let (writer, thread) = Writer::start(connection, shared, on_commit)?;
        Ok(Self(Arc::new(Inner {
            path,
            clock,
            vault,
            writer: Mutex::new(Some(Arc::new(writer))),
            writer_thread: Mutex::new(Some(thread)),
            readers: Readers::start(pool, readers, metrics.reads_waiting),
        })))
    }

    /// Writes what is queued and closes the writer. Later writes are refused as unavailable. Blocks.
    pub fn close(&self) {
        drop(self.0.writer.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.0.writer_thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            log::error!("the writer thread had panicked");
        }
    }

    /// Where the file lies.
    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    /// Where time comes from.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    pub(crate) fn vault(&self) -> &Arc<Vault> {
        &self.0.vault
    }

    pub(crate) async fn write<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let writer = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match writer {
            Some(writer) => writer.write(run).await,
            None => Err(StoreError::Unavailable("the store is closed".into())),
        }
    }

    pub(crate) async fn read<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.0.readers.read(run).await
    }
}

fn open_for_writing(path: &Path) -> Result<Connection, StoreError> {
    let mut connection = Connection::open(path).or_store_error()?;
    // The file holds secrets; a umask must not open it to others.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .map_err(|error| StoreError::Unavailable(error.to_string()))?;
    connection.busy_timeout(BUSY_TIMEOUT).or_store_error()?;
    migrate::version(&connection)?;
    connection.pragma_update(None, "journal_mode", "WAL").or_store_error()?;
    connection.pragma_update(None, "synchronous", "FULL").or_store_error()?;
    // A batch of writes is at most a few hundred pages; checkpointing less often keeps fsyncs to the log.
    connection.pragma_update(None, "wal_autocheckpoint", 4_000).or_store_error()?;
    migrate::migrate(&mut connection)?;
    connection.pragma_update(None, "foreign_keys", true).or_store_error()?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

fn open_readers(path: &Path, size: usize) -> Result<Pool<SqliteConnectionManager>, StoreError> {
    let manager = SqliteConnectionManager::file(path)
        .with_flags(OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .with_init(|connection| {
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.set_prepared_statement_cache_capacity(128);
            Ok(())
        });
    Pool::builder()
        .max_size(u32::try_from(size).unwrap_or(u32::MAX))
        // A read connection to a local file does not go stale; asking it before each use would double the work.
        .test_on_check_out(false)
        .connection_timeout(BUSY_TIMEOUT)
        .build(manager)
        .map_err(|error| StoreError::Unavailable(error.to_string()))
}
