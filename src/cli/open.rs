//! What commands and the server share: the data directory, the store in it, and the runtime it needs.

use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use conclave_db::{CommitHook, Store, StoreMetrics, StoreOptions, Vault};
use conclave_model::Clock;
use prometheus::Registry;

use super::CliError;
use crate::config::{Config, MediaCredentials};

/// The database file in a data directory.
#[must_use]
pub fn database_path(data: &Path) -> PathBuf {
    data.join("conclave.db")
}

/// Makes the data directory, for its owner only. One that exists keeps the mode it has.
///
/// # Errors
/// A directory that cannot be made.
pub fn create_data_dir(data: &Path) -> Result<(), CliError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(data);
    made.map_err(|error| CliError::failed(format!("--data {}: cannot be made: {error}", data.display())))
}

/// Takes a data directory for a server, until the file is dropped or the process ends, however it ends. Two servers would
/// each repair the records by a media plane that knows only half of the people. Commands take no lock.
///
/// # Errors
/// A directory that another server has, or that cannot be locked.
pub fn lock_data_dir(data: &Path) -> Result<File, CliError> {
    create_data_dir(data)?;
    let refuse = |why: String| CliError::failed(format!("--data {}: {why}", data.display()));
    let path = data.join("server.lock");
    let file = File::options().create(true).append(true).open(path).map_err(|error| refuse(error.to_string()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(refuse("another server is using it".into())),
        Err(TryLockError::Error(error)) => Err(refuse(format!("cannot be locked: {error}"))),
    }
}

/// Opens the store of a data directory for a command: one reader, nobody told of events. Needs [`run_blocking`].
///
/// # Errors
/// A data directory, key file or database that cannot be used.
pub fn open_store(config: &Config, data: &Path) -> Result<Store, CliError> {
    let nobody: CommitHook = Box::new(|_| {});
    open_store_with(config, data, Clock::system(), (nobody, uncounted()?), 1)
}

/// Numbers that nobody reads.
///
/// # Errors
/// Never: a registry that is new holds none.
pub fn uncounted() -> Result<StoreMetrics, CliError> {
    StoreMetrics::new(&Registry::new()).map_err(|error| CliError::failed(error.to_string()))
}

/// Opens the store of a data directory, making what a first start makes: the directory, media credentials, the
/// encryption key, the database. Needs [`run_blocking`].
///
/// # Errors
/// A data directory, key file or database that cannot be used.
pub fn open_store_with(
    config: &Config,
    data: &Path,
    clock: Clock,
    (on_commit, metrics): (CommitHook, StoreMetrics),
    readers: usize,
) -> Result<Store, CliError> {
    create_data_dir(data)?;
    let media = MediaCredentials::load_or_create(config, data).map_err(|e| CliError::of_credentials(&e))?;
    let key_file = config.encryption.key_path(data);
    let vault = Vault::open(key_file.as_deref(), &media.api_secret).map_err(|e| CliError::of_vault(&e))?;
    let options = StoreOptions { path: database_path(data), clock, vault, on_commit, readers, metrics };
    Store::open(options).map_err(|e| CliError::of_store(&e))
}

/// Runs a future to its end inside an actix system on a multi-threaded runtime: what [`Store`] needs.
///
/// # Errors
/// The future's own, or a runtime that cannot be started.
pub fn run_blocking<T>(future: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("the runtime cannot be started: {error}")))?;
    actix::System::with_tokio_rt(|| runtime).block_on(future)
}

/// Runs one operation on the store of a data directory, and closes it whatever came of it.
///
/// # Errors
/// The operation's own, or a store that cannot be opened.
pub fn with_store<T, F>(config: &Config, data: &Path, operation: F) -> Result<T, CliError>
where
    F: AsyncFnOnce(&Store) -> Result<T, CliError>,
{
    run_blocking(async {
        let store = open_store(config, data)?;
        let done = operation(&store).await;
        store.close();
        done
    })
}
