//! How a store is opened.

use std::path::PathBuf;

use conclave_model::Clock;

use crate::metrics::StoreMetrics;
use crate::outbox::CommitHook;
use crate::vault::Vault;

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
