//! Forwarding metrics.

use prometheus::{Error, IntCounterVec, IntGauge, Opts, Registry};

/// Forwarding counters. Clones share them.
#[derive(Debug, Clone)]
pub struct ClusterMetrics {
    requests: IntCounterVec,
    buffered: IntGauge,
}

/// Result of a forwarded request or attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForwardResult {
    /// The active node responded.
    Answered,
    /// The request is sent again.
    Repeated,
    /// Given up: the active node was lost.
    NodeLost,
    /// Given up: the connection to each active node broke.
    BrokeOff,
    /// Given up: no node accepted the request in time.
    NotTaken,
    /// Rejected: all slots for buffered requests are taken.
    NotBuffered,
}

impl ForwardResult {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Repeated => "repeated",
            Self::NodeLost => "node_lost",
            Self::BrokeOff => "broke_off",
            Self::NotTaken => "not_taken",
            Self::NotBuffered => "not_held",
        }
    }
}

impl ClusterMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If metrics with these names are already registered.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let requests = Opts::new(
            "conclave_cluster_requests_total",
            "Requests forwarded to the active node, by result",
        );
        let requests = IntCounterVec::new(requests, &["result"])?;
        let buffered = IntGauge::new(
            "conclave_cluster_requests_held",
            "Requests that wait for an active node",
        )?;
        // Clones share their counters.
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(buffered.clone()))?;
        Ok(Self { requests, buffered })
    }

    pub(super) fn count(&self, result: ForwardResult) {
        self.requests.with_label_values(&[result.as_str()]).inc();
    }

    /// Counts a request as buffered until the returned value is dropped.
    pub(super) fn count_buffered(&self) -> BufferedGauge {
        self.buffered.inc();
        BufferedGauge(self.buffered.clone())
    }
}

/// Counts one buffered request.
pub(super) struct BufferedGauge(IntGauge);

impl Drop for BufferedGauge {
    fn drop(&mut self) {
        self.0.dec();
    }
}
