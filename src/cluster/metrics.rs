//! The metrics of what is passed on.

use prometheus::{Error, IntCounterVec, IntGauge, Opts, Registry};

/// Counts of requests that are passed on. Clones share them.
#[derive(Debug, Clone)]
pub struct ClusterMetrics {
    requests: IntCounterVec,
    held: IntGauge,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    /// The active node has answered.
    Answered,
    /// It is sent again.
    Repeated,
    /// It was given up, since the active node was lost.
    NodeLost,
    /// It was given up, since the active node broke off each time.
    BrokeOff,
    /// It was given up, since no node has taken it in time.
    NotTaken,
    /// It was refused, since too many are held.
    NotHeld,
}

impl Passed {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Repeated => "repeated",
            Self::NodeLost => "node_lost",
            Self::BrokeOff => "broke_off",
            Self::NotTaken => "not_taken",
            Self::NotHeld => "not_held",
        }
    }
}

impl ClusterMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// They are registered already.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let requests = Opts::new(
            "conclave_cluster_requests_total",
            "Requests passed on to the active node, by result",
        );
        let requests = IntCounterVec::new(requests, &["result"])?;
        let held = IntGauge::new(
            "conclave_cluster_requests_held",
            "Requests that wait for an active node",
        )?;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(held.clone()))?;
        Ok(Self { requests, held })
    }

    pub(super) fn count(&self, passed: Passed) {
        self.requests.with_label_values(&[passed.as_str()]).inc();
    }

    /// Counts a request as held until the result is dropped.
    pub(super) fn hold(&self) -> HeldGauge {
        self.held.inc();
        HeldGauge(self.held.clone())
    }
}

/// A request that is held.
pub(super) struct HeldGauge(IntGauge);

impl Drop for HeldGauge {
    fn drop(&mut self) {
        self.0.dec();
    }
}
