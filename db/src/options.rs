//! How a store is opened, and its metrics.

use std::fmt;
use std::path::PathBuf;

use conclave_model::Clock;
use prometheus::{
    Error, Histogram, HistogramOpts, IntCounter, IntGauge, IntGaugeVec, Opts, Registry,
};

use crate::sql::postgres::PostgresServer;
use crate::tx::CommitHook;
use crate::vault::Vault;

/// What happens to a file with the schema of an older version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OlderSchema {
    /// It is migrated. A server of the older version must not be running, because it cannot use the newer schema.
    Migrate,
    /// It is refused with [`StoreError::OlderSchema`], and not changed.
    Refuse,
    /// It is opened as it is, for [`ServerRecords::check`](crate::ServerRecords::check) and [`Backups::create`](crate::Backups::create).
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

/// The metrics of one store.
#[derive(Clone)]
pub struct StoreMetrics {
    /// The number of jobs in one transaction.
    pub(crate) batch: Histogram,
    /// Seconds from a batch's first statement until it is on disk.
    pub(crate) commit: Histogram,
    /// The number of jobs that wait for the writer.
    pub(crate) writes_waiting: IntGauge,
    /// The number of jobs that wait for a reader.
    pub(crate) reads_waiting: IntGauge,
    /// How often writes have waited for an answer of PostgreSQL.
    pub(crate) round_trips: IntCounter,
    /// 1 for the engine that keeps the records.
    pub(crate) engine: IntGaugeVec,
}

impl StoreMetrics {
    /// Creates the metrics and registers them.
    ///
    /// # Errors
    /// Fails when the registry has them already.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let histogram = |name: &str, help: &str, buckets: &[f64]| {
            Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()))
        };
        let metrics = Self {
            batch: histogram(
                "conclave_store_batch_jobs",
                "Writes committed in one transaction",
                &[1., 2., 4., 8., 16., 32., 64., 128.],
            )?,
            commit: histogram(
                "conclave_store_commit_seconds",
                "From a batch's first statement until it is on disk",
                &[
                    0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1., 5.,
                ],
            )?,
            writes_waiting: IntGauge::new(
                "conclave_store_writes_waiting",
                "Writes that wait for the writer",
            )?,
            reads_waiting: IntGauge::new(
                "conclave_store_reads_waiting",
                "Reads that wait for a reader",
            )?,
            round_trips: IntCounter::new(
                "conclave_store_write_round_trips_total",
                "Waits of writes for an answer of PostgreSQL; 0 on SQLite",
            )?,
            engine: IntGaugeVec::new(
                Opts::new("conclave_store_engine", "1 for what keeps the records"),
                &["engine"],
            )?,
        };
        registry.register(Box::new(metrics.batch.clone()))?;
        registry.register(Box::new(metrics.commit.clone()))?;
        registry.register(Box::new(metrics.writes_waiting.clone()))?;
        registry.register(Box::new(metrics.reads_waiting.clone()))?;
        registry.register(Box::new(metrics.round_trips.clone()))?;
        registry.register(Box::new(metrics.engine.clone()))?;
        Ok(metrics)
    }
}
