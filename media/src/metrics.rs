//! What is counted of the calls to a media plane.

use prometheus::{Error, IntCounterVec, Opts, Registry};

/// The calls, by method and by whether they were answered.
#[derive(Clone)]
pub struct MediaMetrics {
    pub(crate) calls: IntCounterVec,
}

impl MediaMetrics {
    /// Numbers that show in `registry`.
    ///
    /// # Errors
    /// They are there already.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let calls = Opts::new("conclave_media_calls_total", "Calls to the media plane, by call and outcome");
        let metrics = Self { calls: IntCounterVec::new(calls, &["call", "outcome"])? };
        registry.register(Box::new(metrics.calls.clone()))?;
        Ok(metrics)
    }
}
