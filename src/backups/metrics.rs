//! Backup metrics.

use std::time::Duration;

use conclave_db::Contents;
use conclave_model::Timestamp;
use prometheus::{Error, Gauge, IntCounterVec, IntGauge, Opts, Registry};

/// Backup metrics. Clones share them.
#[derive(Debug, Clone)]
pub struct BackupMetrics {
    last_good: IntGauge,
    attempts: IntCounterVec,
    seconds: Gauge,
    bytes: IntGauge,
    unopenable: IntGauge,
}

impl BackupMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If metrics with these names are already registered.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let attempts = Opts::new(
            "conclave_backup_attempts_total",
            "Attempts to copy the database, by outcome",
        );
        let metrics = Self {
            last_good: IntGauge::new(
                "conclave_backup_last_success_timestamp_seconds",
                "Time of the last good copy; 0 without one",
            )?,
            attempts: IntCounterVec::new(attempts, &["outcome"])?,
            seconds: Gauge::new(
                "conclave_backup_duration_seconds",
                "Duration of the last good copy and its check",
            )?,
            bytes: IntGauge::new("conclave_backup_size_bytes", "Size of the last good copy")?,
            unopenable: IntGauge::new(
                "conclave_backup_unopenable_secrets",
                "Secrets in the last good copy that no available encryption key decrypts",
            )?,
        };
        registry.register(Box::new(metrics.last_good.clone()))?;
        registry.register(Box::new(metrics.attempts.clone()))?;
        registry.register(Box::new(metrics.seconds.clone()))?;
        registry.register(Box::new(metrics.bytes.clone()))?;
        registry.register(Box::new(metrics.unopenable.clone()))?;
        // Created before the first attempt, so that a rate has a start value.
        for outcome in ["kept", "failed"] {
            metrics.attempts.with_label_values(&[outcome]);
        }
        Ok(metrics)
    }

    /// Records a previous server's good copy.
    pub(super) fn set_last_good(&self, at: Timestamp) {
        self.last_good.set(at.millis() / 1_000);
    }

    /// Records a good copy.
    pub(super) fn kept(&self, at: Timestamp, took: Duration, contents: &Contents) {
        self.set_last_good(at);
        self.seconds.set(took.as_secs_f64());
        self.bytes
            .set(i64::try_from(contents.bytes).unwrap_or(i64::MAX));
        self.unopenable
            .set(i64::try_from(contents.secrets.unopenable).unwrap_or(i64::MAX));
        self.attempts.with_label_values(&["kept"]).inc();
    }

    /// Records a failed attempt.
    pub(super) fn failed(&self) {
        self.attempts.with_label_values(&["failed"]).inc();
    }
}
