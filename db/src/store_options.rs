//! How a store is opened.

use std::fmt;
use std::path::PathBuf;

use conclave_model::Clock;

use crate::metrics::StoreMetrics;
use crate::outbox::CommitHook;
use crate::sql::postgres::PostgresServer;
use crate::vault::Vault;

/// What happens to a file with the schema of an older version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OlderSchema {
    /// It is migrated. A server of the older version must not be running, because it cannot use the newer schema.
    Migrate,
    /// It is refused with [`StoreError::OlderSchema`], and not changed.
    Refuse,
    /// It is opened as it is, for [`Store::check`](crate::Store::check) and [`Store::backup`](crate::Store::backup).
    Accept,
}

/// Where the records are.
#[derive(Debug, Clone)]
pub enum Location {
    /// In a file of SQLite; it is created when it does not exist.
    File(PathBuf),
    /// In a database of PostgreSQL, which exists.
    Server(PostgresOptions),
}

impl Location {
    /// The name of what keeps the records: `sqlite` or `postgresql`.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        match self {
            Self::File(_) => "sqlite",
            Self::Server(_) => "postgresql",
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Server(options) => f.write_str(&options.server.location()),
        }
    }
}

/// How a database of PostgreSQL is used.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Where it is.
    pub server: PostgresServer,
    /// The number of sessions that write for projects. One more writes what is of no project.
    pub lanes: usize,
    /// The number of sessions that read.
    pub readers: usize,
    /// The epoch in which this process is the server, which each of its transactions checks; `None` for a command beside a server.
    pub epoch: Option<i64>,
}

/// The parameters of [`Store::open`](crate::Store::open).
pub struct StoreOptions {
    /// Where the records are.
    pub location: Location,
    /// What to do with a file of an older version, or a new one.
    pub older_schema: OlderSchema,
    /// The source of time.
    pub clock: Clock,
    /// Seals and opens secrets.
    pub vault: Vault,
    /// Receives committed events.
    pub on_commit: CommitHook,
    /// The number of threads that find rows of a file by key; there is a connection for each.
    pub readers: usize,
    /// The counters of this store.
    pub metrics: StoreMetrics,
}
