//! Store options and metrics.

use std::fmt;
use std::path::PathBuf;

use conclave_model::Clock;
use prometheus::{
    Error, Histogram, HistogramOpts, IntCounter, IntGauge, IntGaugeVec, Opts, Registry,
};

use crate::sql::postgres::PostgresServer;
use crate::tx::CommitHook;
use crate::vault::Vault;

/// Treatment of a database with an older schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OlderSchema {
    /// Migrate it. No server of the older version may be running, because it cannot use the newer schema.
    Migrate,
    /// Refuse it with [`StoreError::OlderSchema`], unchanged.
    Refuse,
    /// Open it unchanged, for [`ServerRecords::check`](crate::ServerRecords::check) and [`Backups::create`](crate::Backups::create).
    Accept,
}

/// Location of the records.
#[derive(Debug, Clone)]
pub enum Location {
    /// SQLite file, created if it does not exist.
    File(PathBuf),
    /// Existing PostgreSQL database.
    Server(PostgresOptions),
}

impl Location {
    /// Returns the engine's name: `sqlite` or `postgresql`.
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
            // Without user and password, since locations are logged.
            Self::Server(options) => f.write_str(&options.server.location()),
        }
    }
}

/// Use of a PostgreSQL database.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Server and database.
    pub server: PostgresServer,
    /// Sessions that write for projects. One more writes for no project.
    pub lanes: usize,
    /// Sessions that read.
    pub readers: usize,
    /// Epoch of this server, which each of its transactions checks; `None` for a command, which may run at the same time as a server.
    pub epoch: Option<i64>,
}

/// Parameters for [`Store::open`](crate::Store::open).
pub struct StoreOptions {
    /// Location of the records.
    pub location: Location,
    /// Treatment of a database with an older schema, or a new one.
    pub older_schema: OlderSchema,
    /// Time source.
    pub clock: Clock,
    /// Seals and opens secrets.
    pub vault: Vault,
    /// Committed event receiver.
    pub on_commit: CommitHook,
    /// Point read threads for a file, each with a connection.
    pub readers: usize,
    /// Store metrics.
    pub metrics: StoreMetrics,
}

/// Store metrics.
#[derive(Clone)]
pub struct StoreMetrics {
    /// Jobs per transaction.
    pub(crate) batch: Histogram,
    /// Seconds from a batch's first statement until it is on disk.
    pub(crate) commit: Histogram,
    /// Jobs queued for the writer.
    pub(crate) writes_waiting: IntGauge,
    /// Jobs queued for a reader.
    pub(crate) reads_waiting: IntGauge,
    /// PostgreSQL round trips that writes have waited for.
    pub(crate) round_trips: IntCounter,
    /// 1 for the engine in use.
    pub(crate) engine: IntGaugeVec,
}

impl StoreMetrics {
    /// Creates the metrics and registers them.
    ///
    /// # Errors
    /// If metrics with these names are already registered.
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
