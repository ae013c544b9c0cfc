//! The database shared by all components of the store: one writer, several readers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::{fmt, mem};

use conclave_model::{Clock, ProjectId};
use futures_util::future::Either;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::engine::snapshot::Snapshot;
use crate::engine::sqlite::{self, Damage, DamageCheck};
use crate::engine::writer::{Isolation, Queue, Shared, Writer, WriterStop, WriterThreads};
use crate::engine::{Readers, postgres};
use crate::error::StoreError;
use crate::options::{Location, StoreOptions};
use crate::sql::Sql;
use crate::tx::Tx;
use crate::vault::Vault;

/// Handle to the database. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Database(Arc<DatabaseState>);

struct DatabaseState {
    location: Location,
    clock: Clock,
    vault: Arc<Vault>,
    writer: Mutex<Option<Arc<Writer>>>,
    writer_threads: Mutex<Vec<JoinHandle<()>>>,
    writer_ended: watch::Receiver<bool>,
    writer_stop: Arc<OnceLock<WriterStop>>,
    damage: Damage,
    /// Thread that checks for damage, once a server runs.
    damage_check: Mutex<Option<DamageCheck>>,
    readers: Readers,
    /// Whether a server runs on this store, and not a command.
    is_server: Arc<AtomicBool>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("location", &self.0.location)
            .finish_non_exhaustive()
    }
}

impl Database {
    /// Opens a store, and creates or migrates its schema if allowed. Requires a running actix system. Blocks.
    ///
    /// # Errors
    /// If the database cannot be opened or written, has a newer schema, or may not be migrated.
    pub(crate) fn open(options: StoreOptions) -> Result<Self, StoreError> {
        let StoreOptions {
            location,
            older_schema,
            clock,
            vault,
            on_commit,
            readers,
            metrics,
        } = options;
        metrics
            .engine
            .with_label_values(&[location.engine()])
            .set(1);
        let (vault, is_server) = (Arc::new(vault), Arc::<AtomicBool>::default());
        // Shared with the writer threads, which set the reason, and the check, which finds damage.
        let (stop, damage) = (Arc::<OnceLock<WriterStop>>::default(), Damage::default());
        let shared = Shared {
            clock: clock.clone(),
            vault: Arc::clone(&vault),
            metrics,
            is_server: Arc::clone(&is_server),
            stop: Arc::clone(&stop),
        };
        let (writer, threads, readers) = match &location {
            Location::File(path) => {
                let (writer, threads, readers) = sqlite::open(
                    path,
                    older_schema,
                    readers,
                    shared,
                    on_commit,
                    damage.clone(),
                )?;
                (writer, threads, Readers::File(readers))
            }
            Location::Server(options) => {
                let (writer, threads, readers) =
                    postgres::open(options, older_schema, &shared, on_commit)?;
                (writer, threads, Readers::Sessions(readers))
            }
        };
        let WriterThreads { handles, ended } = threads;
        Ok(Self(Arc::new(DatabaseState {
            location,
            clock,
            vault,
            writer: Mutex::new(Some(Arc::new(writer))),
            writer_threads: Mutex::new(handles),
            writer_ended: ended,
            writer_stop: stop,
            damage,
            damage_check: Mutex::default(),
            readers,
            is_server,
        })))
    }

    /// Runs the queued writes, and closes the writer. Later writes fail as unavailable, as do later reads from a PostgreSQL server. Blocks
    /// until the queue is empty.
    pub(crate) fn close(&self) {
        // The check has a connection of its own, which would keep the write-ahead log from being emptied.
        drop(self.0.damage_check.lock().take());
        drop(self.0.writer.lock().take());
        match &self.0.readers {
            // The transactions shared by point reads would keep the write-ahead log from being emptied.
            Readers::File(readers) => readers.end_snapshots(),
            Readers::Sessions(readers) => readers.close(),
        }
        // After the senders are gone: the threads run their queues, and exit.
        let threads = mem::take(&mut *self.0.writer_threads.lock());
        // Logged only: every caller has its reply by now.
        if threads
            .into_iter()
            .filter_map(|thread| thread.join().err())
            .count()
            > 0
        {
            log::error!("a writer thread has panicked");
        }
    }

    /// Returns once a writer thread has stopped, with the reason: after [`Self::close`], or by itself. Its writes fail from then on.
    pub(crate) async fn writer_ended(&self) -> WriterStop {
        let mut ended = self.0.writer_ended.clone();
        // An error means that all threads have exited.
        let _ = ended.wait_for(|ended| *ended).await;
        self.0
            .writer_stop
            .get()
            .copied()
            .unwrap_or(WriterStop::Failed)
    }

    /// Returns the location of the records.
    pub(crate) fn location(&self) -> &Location {
        &self.0.location
    }

    /// Returns the time source.
    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Marks this process as a server, and starts to check the file for damage.
    pub(crate) fn mark_as_server(&self) -> Result<(), StoreError> {
        self.0.is_server.store(true, Ordering::Relaxed);
        if let Location::File(path) = &self.0.location {
            // Only for a server: a command is over before a check would find anything.
            let check = DamageCheck::start(path, self.0.damage.clone())?;
            // A check that an earlier start left running stops.
            drop(self.0.damage_check.lock().replace(check));
        }
        Ok(())
    }

    /// Fails if a table of the file is known to be damaged.
    pub(crate) fn check_damage(&self) -> Result<(), StoreError> {
        self.0.damage.check()
    }

    pub(crate) fn vault(&self) -> &Arc<Vault> {
        &self.0.vault
    }

    /// Queues a write, and waits until it is on disk.
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

    /// Queues a write, and passes the result to `done` on the writer's thread. Where one receiver has many writes, this saves waking a task
    /// for each. `done` must not block.
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
        // Cloned out of the lock: a write that has the handle while the store is closed still completes.
        self.0.writer.lock().clone()
    }

    /// Reads a few rows by their keys.
    // Returns the reader's future instead of awaiting it, as do the other functions between a frequent read and its reader: each `async fn`
    // would keep a second copy of the closure in the request's future, and copy the result.
    pub(crate) fn read<T, F>(&self, run: F) -> impl Future<Output = Result<T, StoreError>>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        match &self.0.readers {
            Readers::File(readers) => Either::Left(readers.point(run)),
            Readers::Sessions(readers) => Either::Right(readers.point(run)),
        }
    }

    /// Reads a few rows by their keys. The snapshot may remember some.
    pub(crate) fn read_snapshot<T, F>(&self, run: F) -> impl Future<Output = Result<T, StoreError>>
    where
        F: FnOnce(&mut Snapshot<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        match &self.0.readers {
            Readers::File(readers) => Either::Left(readers.snapshot(run)),
            // Nothing is remembered: a commit by another program, such as a revoked key, must be visible to the next read.
            Readers::Sessions(readers) => {
                Either::Right(readers.point(move |sql| run(&mut Snapshot::new(sql, None))))
            }
        }
    }

    /// Reads a page of a project's rows for a client.
    pub(crate) async fn list<T, F>(&self, project: ProjectId, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>, &ProjectId) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        match &self.0.readers {
            Readers::File(readers) => readers.list(project, run).await,
            Readers::Sessions(readers) => readers.list(project, run).await,
        }
    }

    /// Reads an actor's initial state.
    pub(crate) async fn load<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        match &self.0.readers {
            // There is no network to wait for, so more threads than those for bulk reads would not be faster.
            Readers::File(readers) => readers.bulk(run).await,
            Readers::Sessions(readers) => readers.load(run).await,
        }
    }

    /// Reads all rows of a kind.
    pub(crate) async fn bulk_read<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        match &self.0.readers {
            Readers::File(readers) => readers.bulk(run).await,
            Readers::Sessions(readers) => readers.bulk(run).await,
        }
    }
}
