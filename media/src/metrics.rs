//! Metrics of calls to the media plane.

use std::time::Duration;

use prometheus::{Error, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

use crate::port::MediaError;

/// Upper bounds of the buckets, in seconds. The highest is the longest timeout, that of starting an egress.
const BUCKETS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1., 2.5, 5., 10., 30.,
];

/// The number of calls by method and outcome, and their duration by method.
#[derive(Clone)]
pub struct MediaMetrics {
    calls: IntCounterVec,
    seconds: HistogramVec,
}

/// The outcome of a call. Each outcome is a value of the `outcome` label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    /// The plane did what was requested.
    Answered,
    /// The plane answered with an error.
    Refused,
    /// The plane did not answer.
    Failed,
}

impl CallOutcome {
    const fn label(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

impl<T> From<&Result<T, MediaError>> for CallOutcome {
    fn from(result: &Result<T, MediaError>) -> Self {
        match result {
            Ok(_) => Self::Answered,
            Err(
                MediaError::Refused(_)
                | MediaError::NoSuchTrack
                | MediaError::Encrypted { .. }
                | MediaError::InvalidFilepath(_)
                | MediaError::Busy { .. },
            ) => Self::Refused,
            Err(MediaError::Unavailable(_) | MediaError::CircuitOpen { .. }) => Self::Failed,
        }
    }
}

impl MediaMetrics {
    /// Creates the metrics and registers them.
    ///
    /// # Errors
    /// They are registered already.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let calls = Opts::new(
            "conclave_media_calls_total",
            "Calls to the media plane, by call and outcome",
        );
        let seconds = HistogramOpts::new(
            "conclave_media_call_seconds",
            "From a call to the media plane to its answer",
        );
        let metrics = Self {
            calls: IntCounterVec::new(calls, &["call", "outcome"])?,
            seconds: HistogramVec::new(seconds.buckets(BUCKETS.to_vec()), &["call"])?,
        };
        registry.register(Box::new(metrics.calls.clone()))?;
        registry.register(Box::new(metrics.seconds.clone()))?;
        Ok(metrics)
    }

    /// Records a call that was made, and its duration.
    pub(crate) fn record_call(&self, call: &str, outcome: CallOutcome, duration: Duration) {
        self.calls.with_label_values(&[call, outcome.label()]).inc();
        self.seconds
            .with_label_values(&[call])
            .observe(duration.as_secs_f64());
    }

    /// Records a call that the circuit breaker rejected.
    pub(crate) fn record_rejected(&self, call: &str) {
        self.calls.with_label_values(&[call, "not_made"]).inc();
    }
}
