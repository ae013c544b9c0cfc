//! The store as commands use it: no event subscribers, metrics that nothing reads.

use std::path::Path;

use conclave_db::{Store, StoreMetrics};
use conclave_model::Clock;
use prometheus::Registry;

use crate::config::Config;
use crate::data_dir::{self, StoreSetup};
use crate::error::CliError;
use crate::runtime::run_in_system;

/// Opens the store of a data directory, runs one operation on it and closes it, also after a failure.
///
/// # Errors
/// The operation's own error, or a store that cannot be opened.
pub(super) fn with_store<T, E, F>(config: &Config, data: &Path, operation: F) -> Result<T, CliError>
where
    F: AsyncFnOnce(&Store) -> Result<T, E>,
    CliError: From<E>,
{
    run_in_system(async {
        let setup = StoreSetup {
            clock: Clock::system(),
            on_commit: Box::new(|_| {}),
            metrics: unregistered_metrics()?,
            readers: 1,
        };
        let store = data_dir::open_store(config, data, setup)?;
        let result = operation(&store).await;
        store.close();
        Ok(result?)
    })
}

/// Creates metrics in a registry of their own.
///
/// # Errors
/// Never in practice: an empty registry contains no name that could be taken.
pub(super) fn unregistered_metrics() -> Result<StoreMetrics, prometheus::Error> {
    StoreMetrics::new(&Registry::new())
}
