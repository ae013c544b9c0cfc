//! The data directory: its creation, its lock files and the database in it.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use conclave_db::{
    CommitHook, FileLocation, Location, OlderSchema, Store, StoreMetrics, StoreOptions, Vault,
    private_file,
};
use conclave_model::{Clock, NodeId};

use crate::config::{Config, ConfigError, MediaCredentials};
use crate::error::CliError;

/// Options for opening a data directory's store, besides the configuration.
pub struct StoreSetup {
    /// Handling of an older version's database, or a missing one. Only the holder of the server lock may migrate.
    pub older_schema: OlderSchema,
    /// Source of timestamps.
    pub clock: Clock,
    /// Called with the events of each committed transaction.
    pub on_commit: CommitHook,
    /// Metrics that the store updates.
    pub metrics: StoreMetrics,
    /// Number of threads that read a file's records by key.
    pub readers: usize,
    /// Epoch of this process as the server of a PostgreSQL database; `None` for a command.
    pub epoch: Option<i64>,
}

/// Data directory unless `--data` is given.
pub const DEFAULT_DATA: &str = "./conclave-data";

/// Name of a data directory's database file.
pub const DATABASE_FILE: &str = "conclave.db";

/// Name of the file with `conclave dev`'s API key.
pub const DEV_KEY_FILE: &str = "dev.key";

/// Name of the file with the server's id.
const NODE_FILE: &str = "node.id";

/// Returns the database file's path, if the records are in a file.
#[must_use]
pub fn database_path(data: &Path) -> PathBuf {
    data.join(DATABASE_FILE)
}

/// Creates the data directory with mode 0700. An existing directory keeps its mode.
///
/// # Errors
/// If the directory cannot be created.
pub fn create(data: &Path) -> Result<(), CliError> {
    private_file::create_directory(data)
        .map_err(|error| CliError::data_dir(data, format!("cannot be created: {error}")))
}

/// Lock on the data directory, until it is dropped or the process ends.
#[derive(Debug)]
pub struct DirectoryLock {
    file: File,
    path: PathBuf,
}

impl DirectoryLock {
    /// Returns the locked file.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Returns the locked file's identity, for checks that it still exists at its path.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn place(&self) -> io::Result<FileLocation> {
        self.file
            .metadata()
            .map(|metadata| FileLocation::new(self.path.clone(), &metadata))
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that is being started has a copy of the descriptor until it executes its program.
        let _ = self.file.unlock();
    }
}

/// Creates the data directory if necessary and locks it for a server.
///
/// Two servers in one directory would each reconcile the records with a media plane that knows only half of the participants. Other
/// commands run beside a server and do not take this lock.
///
/// # Errors
/// If another server holds the lock, or the directory cannot be created or locked.
pub fn lock_for_server(data: &Path) -> Result<DirectoryLock, CliError> {
    create(data)?;
    lock(data, "server.lock", "another server is using it")
}

/// Locks the data directory for a key rotation: two at once would each drop the other's key.
///
/// # Errors
/// If another rotation holds the lock, or the directory cannot be locked.
pub fn lock_for_key_rotation(data: &Path) -> Result<DirectoryLock, CliError> {
    lock(
        data,
        "key-rotate.lock",
        "another conclave key-rotate is running",
    )
}

fn lock(data: &Path, file_name: &str, held: &str) -> Result<DirectoryLock, CliError> {
    let path = data.join(file_name);
    // Never truncated: the lock file of a running server names its process.
    let file = File::options()
        .create(true)
        .read(true)
        .append(true)
        .open(&path);
    let file = file.map_err(|error| CliError::data_dir(data, error.to_string()))?;
    match file.try_lock() {
        Ok(()) => Ok(DirectoryLock { file, path }),
        // Not awaited: the other process may run for months.
        Err(TryLockError::WouldBlock) => Err(CliError::data_dir(data, held)),
        Err(TryLockError::Error(error)) => Err(CliError::data_dir(
            data,
            format!("cannot be locked: {error}"),
        )),
    }
}

/// Returns the id of the server that owns this data directory, and creates it at the first start. Records refer to the server whose disk
/// has a file by this id, so it must not be copied to another server.
///
/// # Errors
/// If the id's file cannot be read or created, or has other content.
pub fn node_id(data: &Path) -> Result<NodeId, CliError> {
    let path = data.join(NODE_FILE);
    let read = || {
        // The file exists, except at the first start.
        private_file::create(&path, &format!("{}\n", NodeId::new()))?;
        private_file::read(&path)
    };
    let text = read().map_err(|error| CliError::failed(format!("{}: {error}", path.display())))?;
    text.trim()
        .parse()
        .map_err(|error| CliError::failed(format!("{}: {error}", path.display())))
}

/// Opens a deployment's store. Creates what is missing: the data directory, the media credentials, the encryption key and, if it may be
/// migrated, the database file or its tables. Must run inside [`run_in_system`](crate::runtime::run_in_system).
///
/// # Errors
/// If the data directory, a key file or the database cannot be used.
pub fn open_store(config: &Config, data: &Path, setup: StoreSetup) -> Result<Store, CliError> {
    create(data)?;
    let media = MediaCredentials::load_or_create(config, data)?;
    let key_file = config.encryption.key_path(data);
    let vault = Vault::open(key_file.as_deref(), &media.api_secret)?;
    let StoreSetup {
        older_schema,
        clock,
        on_commit,
        metrics,
        readers,
        epoch,
    } = setup;
    let location = location(config, data, epoch)?;
    Ok(Store::open(StoreOptions {
        location,
        older_schema,
        clock,
        vault,
        on_commit,
        readers,
        metrics,
    })?)
}

/// Returns the location of a deployment's records.
///
/// # Errors
/// If the database settings, or a file that they name, cannot be read.
pub fn location(config: &Config, data: &Path, epoch: Option<i64>) -> Result<Location, ConfigError> {
    let postgres = config.database.postgres(epoch)?;
    Ok(postgres.map_or_else(|| Location::File(database_path(data)), Location::Server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_keeps_its_id_and_has_another_than_others() {
        let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let id = node_id(data.path()).unwrap();
        assert_eq!(node_id(data.path()).unwrap(), id);
        assert_ne!(node_id(other.path()).unwrap(), id);
        std::fs::write(data.path().join(NODE_FILE), "a name\n").unwrap();
        assert!(
            node_id(data.path())
                .unwrap_err()
                .to_string()
                .contains("node.id")
        );
    }

    #[test]
    fn a_lock_ends_when_it_is_dropped_although_a_started_program_has_its_file() {
        let data = tempfile::tempdir().unwrap();
        let lock = lock_for_server(data.path()).unwrap();
        // A descriptor such as a child process has until it executes its program.
        let inherited = lock.file.try_clone().unwrap();
        assert!(lock_for_server(data.path()).is_err());
        drop(lock);
        assert!(lock_for_server(data.path()).is_ok());
        drop(inherited);
    }
}
