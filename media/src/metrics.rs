//! What is counted of the calls to a media plane.

use std::time::Duration;

use prometheus::{Error, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

use crate::port::MediaError;

/// Upper ends of the buckets, in seconds. The last ones are what calls may take at most: a start of a job takes longest.
const BUCKETS: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1., 2.5, 5., 10., 30.];

/// The calls, by method and by what came of them, and how long they took.
#[derive(Clone)]
pub struct MediaMetrics {
    calls: IntCounterVec,
    seconds: HistogramVec,
}

/// What came of a call that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The plane did as asked.
    Answered,
    /// It answered that it would not.
    Refused,
    /// It did not answer.
    Failed,
}

impl Outcome {
    pub fn of<T>(result: &Result<T, MediaError>) -> Self {
        match result {
            Ok(_) => Self::Answered,
            Err(MediaError::Refused(_)) => Self::Refused,
            Err(MediaError::Unavailable(_) | MediaError::CircuitOpen { .. }) => Self::Failed,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

impl MediaMetrics {
    /// Numbers that show in `registry`.
    ///
    /// # Errors
    /// They are there already.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let calls = Opts::new("conclave_media_calls_total", "Calls to the media plane, by call and outcome");
        let seconds = HistogramOpts::new("conclave_media_call_seconds", "From a call to the media plane to its answer");
        let metrics = Self {
            calls: IntCounterVec::new(calls, &["call", "outcome"])?,
            seconds: HistogramVec::new(seconds.buckets(BUCKETS.to_vec()), &["call"])?,
        };
        registry.register(Box::new(metrics.calls.clone()))?;
        registry.register(Box::new(metrics.seconds.clone()))?;
        Ok(metrics)
    }

    pub(crate) fn made(&self, call: &str, outcome: Outcome, took: Duration) {
        self.calls.with_label_values(&[call, outcome.name()]).inc();
        self.seconds.with_label_values(&[call]).observe(took.as_secs_f64());
    }

    /// A call that the circuit did not let through.
    pub(crate) fn not_made(&self, call: &str) {
        self.calls.with_label_values(&[call, "not_made"]).inc();
    }
}
