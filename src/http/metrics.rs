//! Listener metrics, and the registry with all the server's metrics.

use std::sync::Arc;
use std::time::Instant;

use actix_web::http::StatusCode;
use conclave_actors::metrics::ActorMetrics;
use conclave_db::StoreMetrics;
use conclave_db::lease::Lease;
use conclave_media::MediaMetrics;
use conclave_media::embedded::rtc::WorkerMetrics;
use conclave_media::embedded::{EmbeddedPlane, OwnTurn, RtcMetrics};
use conclave_model::Timestamp;
use prometheus::{
    Error, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use super::frame::admission::AdmittedCounts;
use super::lease::LeaseView;
use crate::backups::BackupMetrics;

/// Upper bounds of the latency buckets, in seconds.
const BUCKETS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1., 2.5, 10.,
];
/// Label for a request without an operation.
pub const NO_OPERATION: &str = "none";

/// All the server's metrics. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    /// Store metrics.
    pub store: StoreMetrics,
    /// Actor metrics.
    pub actors: ActorMetrics,
    /// Metrics for calls to the media plane.
    pub media: MediaMetrics,
    /// Connections closed because a limit was reached, by limit.
    pub connections_refused: IntCounterVec,
    requests_admitted: IntGaugeVec,
    /// Requests that were not admitted, by limit.
    pub requests_refused: IntCounterVec,
    requests: IntCounterVec,
    latency: HistogramVec,
    certificate_expiry: IntGauge,
}

impl Metrics {
    /// Creates zeroed metrics in their own registry.
    ///
    /// # Errors
    /// If two metrics have the same name, which would be a bug.
    pub fn new() -> Result<Self, Error> {
        let registry = Registry::new();
        let requests = Opts::new(
            "conclave_http_requests_total",
            "Requests answered, by operation and status",
        );
        let latency = HistogramOpts::new(
            "conclave_http_request_seconds",
            "From a request's routing to its answer, by operation",
        );
        let refused = Opts::new(
            "conclave_http_connections_refused_total",
            "Connections closed at once, by the limit they exceed",
        );
        let admitted = Opts::new(
            "conclave_http_requests_admitted",
            "Requests that are being handled, or wait for that",
        );
        let not_admitted = Opts::new(
            "conclave_http_requests_refused_total",
            "Requests not admitted, by the limit they exceed",
        );
        let metrics = Self {
            requests_admitted: IntGaugeVec::new(admitted, &["state"])?,
            requests_refused: IntCounterVec::new(not_admitted, &["limit"])?,
            connections_refused: IntCounterVec::new(refused, &["limit"])?,
            store: StoreMetrics::new(&registry)?,
            actors: ActorMetrics::new(&registry)?,
            media: MediaMetrics::new(&registry)?,
            requests: IntCounterVec::new(requests, &["operation", "status"])?,
            latency: HistogramVec::new(latency.buckets(BUCKETS.to_vec()), &["operation"])?,
            certificate_expiry: IntGauge::new(
                "conclave_tls_certificate_expiration_timestamp_seconds",
                "When the certificate of the API listener expires; 0 without one",
            )?,
            registry,
        };
        // Registration keeps a clone, which shares its values.
        metrics
            .registry
            .register(Box::new(metrics.connections_refused.clone()))?;
        metrics
            .registry
            .register(Box::new(metrics.requests_admitted.clone()))?;
        metrics
            .registry
            .register(Box::new(metrics.requests_refused.clone()))?;
        metrics
            .registry
            .register(Box::new(metrics.requests.clone()))?;
        metrics
            .registry
            .register(Box::new(metrics.latency.clone()))?;
        metrics
            .registry
            .register(Box::new(metrics.certificate_expiry.clone()))?;
        Ok(metrics)
    }

    /// Registers and returns metrics of WebRTC clients, of these media workers and of the TURN server.
    ///
    /// # Errors
    /// If they are registered already, which would be a bug.
    pub fn rtc(
        &self,
        workers: Vec<Arc<WorkerMetrics>>,
        turn: Option<&OwnTurn>,
    ) -> Result<RtcMetrics, Error> {
        turn.map(|turn| turn.register_metrics(&self.registry))
            .transpose()?;
        RtcMetrics::new(&self.registry, workers)
    }

    /// Registers the embedded media plane's egress metrics.
    ///
    /// # Errors
    /// If they are registered already.
    pub fn egress(&self, plane: &EmbeddedPlane) -> Result<(), Error> {
        plane.register_egress_metrics(&self.registry)
    }

    /// Returns the registry, for the metrics of other modules.
    #[must_use]
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Registers the database lease's metrics, and returns the lease with them.
    ///
    /// # Errors
    /// If they are registered already, which would be a bug.
    pub fn lease(&self, lease: Lease) -> Result<LeaseView, Error> {
        LeaseView::new(lease, &self.registry)
    }

    /// Registers and returns the database backups' metrics.
    ///
    /// # Errors
    /// If they are registered already, which would be a bug.
    pub fn backups(&self) -> Result<BackupMetrics, Error> {
        BackupMetrics::new(&self.registry)
    }

    /// Starts the timer for a request.
    pub fn time(&self, operation: &'static str) -> Timed<'_> {
        // Not the injected clock, which tests move.
        Timed {
            metrics: self,
            operation,
            since: Instant::now(),
            answered: false,
        }
    }

    /// Sets the gauges for admitted requests.
    pub fn set_admitted(&self, admitted: AdmittedCounts) {
        for (state, count) in [("running", admitted.running), ("waiting", admitted.waiting)] {
            self.requests_admitted
                .with_label_values(&[state])
                .set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Sets the gauge for the certificate's expiry.
    pub fn set_certificate_expiry(&self, expires: Timestamp) {
        // Prometheus counts in seconds.
        self.certificate_expiry.set(expires.millis() / 1_000);
    }

    /// Renders the metrics in Prometheus' text format.
    ///
    /// # Errors
    /// If a metric has no name, which would be a bug.
    pub fn text(&self) -> Result<String, Error> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    // Labels are operation ids and not paths, so their number is bounded.
    fn answered(&self, operation: &str, status: StatusCode) {
        self.requests
            .with_label_values(&[operation, status.as_str()])
            .inc();
    }
}

/// Timer of a request in progress. If the handler panics, the request counts as a 500, which its client gets.
pub struct Timed<'a> {
    metrics: &'a Metrics,
    operation: &'static str,
    since: Instant,
    answered: bool,
}

impl Timed<'_> {
    /// Records the response's status and duration.
    pub fn answered(mut self, status: StatusCode) {
        self.answered = true;
        self.metrics.answered(self.operation, status);
        let latency = self.metrics.latency.with_label_values(&[self.operation]);
        latency.observe(self.since.elapsed().as_secs_f64());
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        // A client that disconnects also drops the timer, but then there is no response to count.
        if !self.answered && std::thread::panicking() {
            self.metrics
                .answered(self.operation, StatusCode::INTERNAL_SERVER_ERROR);
        }
    }
}
