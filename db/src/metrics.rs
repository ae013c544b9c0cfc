//! The metrics of the store.

use prometheus::{
    Error, Histogram, HistogramOpts, IntCounter, IntGauge, IntGaugeVec, Opts, Registry,
};

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
