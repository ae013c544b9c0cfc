//! What a run of a scenario has found.

use std::time::Duration;

use serde_json::{Value, json};

use super::round::median;
use super::scenario::Scenario;

/// What a run of a scenario has found.
#[derive(Debug, Clone)]
pub struct ClusterReport {
    /// What happened.
    pub scenario: Scenario,
    /// How often.
    pub rounds: usize,
    /// How long it took each time until changes succeeded again, in order of length.
    pub times: Vec<Duration>,
    /// Requests that the clients sent, repeated ones too.
    pub requests: usize,
    /// Requests that were acknowledged with a 2xx.
    pub acknowledged: usize,
    /// Requests without an answer, or with one of 500 and above.
    pub failed: usize,
    /// The time within which 99 of 100 requests were answered.
    pub slowest: Duration,
    /// Rooms in the records at the end.
    pub rooms: usize,
    /// Sessions in the records at the end.
    pub sessions: usize,
    /// Deliveries in the records at the end.
    pub deliveries: usize,
    /// Webhooks that the receivers got, repeated ones too.
    pub posts: usize,
    /// Webhooks of LiveKit that were accepted.
    pub livekit_webhooks: usize,
    /// Those of them that LiveKit had to send again.
    pub repeated_livekit_webhooks: usize,
    /// The last epoch.
    pub epochs: i64,
    /// Promises that were broken; empty when all were kept.
    pub violations: Vec<String>,
}

impl ClusterReport {
    /// Returns the median time until changes succeeded again.
    #[must_use]
    pub fn median(&self) -> Duration {
        median(&self.times)
    }

    /// Returns the longest time until changes succeeded again.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.times.last().copied().unwrap_or_default()
    }

    /// Returns the report for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "scenario": self.scenario.name(),
            "rounds": self.rounds,
            "median_seconds": self.median().as_secs_f64(),
            "longest_seconds": self.longest().as_secs_f64(),
            "requests": self.requests,
            "acknowledged": self.acknowledged,
            "failed": self.failed,
            "p99_seconds": self.slowest.as_secs_f64(),
            "rooms": self.rooms,
            "sessions": self.sessions,
            "deliveries": self.deliveries,
            "posts": self.posts,
            "livekit_webhooks": self.livekit_webhooks,
            "repeated_livekit_webhooks": self.repeated_livekit_webhooks,
            "epochs": self.epochs,
            "violations": self.violations,
        })
    }
}
