//! The store as commands use it: without event subscribers, and with metrics that nothing reads.

use std::path::Path;

use conclave_db::{OlderSchema, SNAPSHOT_AGE, Store, StoreMetrics};
use conclave_model::Clock;
use prometheus::Registry;

use crate::config::Config;
use crate::data_dir::{self, StoreSetup, database_path};
use crate::error::CliError;
use crate::runtime::run_in_system;

/// Opens a data directory's store, runs one operation on it and closes it, also after a failure. A mistyped directory is not created.
///
/// # Errors
/// The operation's own error, or an error if the store does not exist or cannot be opened.
pub(super) fn with_store<T, E, F>(config: &Config, data: &Path, operation: F) -> Result<T, CliError>
where
    F: AsyncFnOnce(&Store) -> Result<T, E>,
    CliError: From<E>,
{
    match missing(config, data) {
        Some(problem) => Err(CliError::data_dir(
            data,
            format!("{problem}; name the server's directory with --data"),
        )),
        None => with_created_store(config, data, operation),
    }
}

/// Returns the missing part of a deployment that was never used: its database or, with PostgreSQL, the directory with its keys.
pub(super) fn missing(config: &Config, data: &Path) -> Option<&'static str> {
    if config.database.is_postgres() {
        return (!data.exists()).then_some("does not exist");
    }
    // Anything but a directory is reported by the first access to it.
    let is_unused = !database_path(data).exists() && (data.is_dir() || !data.exists());
    is_unused.then_some(if data.exists() {
        "has no database"
    } else {
        "does not exist"
    })
}

/// Like [`with_store`], but creates missing parts.
///
/// # Errors
/// The operation's own error, or an error if the store cannot be opened.
pub(super) fn with_created_store<T, E, F>(
    config: &Config,
    data: &Path,
    operation: F,
) -> Result<T, CliError>
where
    F: AsyncFnOnce(&Store) -> Result<T, E>,
    CliError: From<E>,
{
    run_in_system(async { run_and_close(&open(config, data)?, operation).await })
}

/// Like [`with_store`], but leaves an older version's database unchanged.
///
/// # Errors
/// The operation's own error, or an error if the store cannot be opened.
pub(super) fn with_store_as_it_is<T, E, F>(
    config: &Config,
    data: &Path,
    operation: F,
) -> Result<T, CliError>
where
    F: AsyncFnOnce(&Store) -> Result<T, E>,
    CliError: From<E>,
{
    run_in_system(async {
        let store = data_dir::open_store(config, data, setup(OlderSchema::Accept)?)?;
        run_and_close(&store, operation).await
    })
}

async fn run_and_close<T, E, F>(store: &Store, operation: F) -> Result<T, CliError>
where
    F: AsyncFnOnce(&Store) -> Result<T, E>,
    CliError: From<E>,
{
    let result = operation(store).await;
    // Waits for the writer thread.
    store.close();
    // A server beside this command caches records for this long, so it sees the change before the command ends.
    tokio::time::sleep(2 * SNAPSHOT_AGE).await;
    Ok(result?)
}

/// Opens the store. A missing or older database is migrated, unless a server is using it. In PostgreSQL, only an empty database is
/// migrated: a server of the older version may run on another machine.
fn open(config: &Config, data: &Path) -> Result<Store, CliError> {
    match data_dir::open_store(config, data, setup(OlderSchema::Refuse)?) {
        Err(error @ CliError::OlderSchema { found, .. }) if config.database.is_postgres() => {
            match found {
                0 => data_dir::open_store(config, data, setup(OlderSchema::Migrate)?),
                _ => Err(error),
            }
        }
        Err(CliError::OlderSchema { found, known }) => {
            // The lock shows that no server runs in this directory, and keeps one from starting during the migration.
            let _lock = data_dir::lock_for_server(data).map_err(|_| in_use(data, found, known))?;
            data_dir::open_store(config, data, setup(OlderSchema::Migrate)?)
        }
        opened => opened,
    }
}

fn in_use(data: &Path, found: i64, known: i64) -> CliError {
    let message = format!(
        "a server is using the database with schema {found}, and this command would migrate it to {known}: stop the server, or \
         run the command of the server's version"
    );
    CliError::data_dir(data, message)
}

fn setup(older_schema: OlderSchema) -> Result<StoreSetup, CliError> {
    Ok(StoreSetup {
        older_schema,
        clock: Clock::system(),
        on_commit: Box::new(|_| {}),
        metrics: unregistered_metrics()?,
        readers: 1,
        epoch: None,
    })
}

/// Creates metrics in a separate registry.
///
/// # Errors
/// Never in practice: an empty registry has no name that could be taken.
pub(super) fn unregistered_metrics() -> Result<StoreMetrics, prometheus::Error> {
    StoreMetrics::new(&Registry::new())
}
