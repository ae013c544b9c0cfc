//! A run's report.

use std::time::Duration;

use serde_json::{Value, json};

use super::round::median;
use super::scenario::Scenario;

/// Report on a scenario's run.
#[derive(Debug, Clone)]
pub struct ClusterReport {
    /// The scenario.
    pub scenario: Scenario,
    /// Number of rounds.
    pub rounds: usize,
    /// Times until changes succeeded again, sorted.
    pub times: Vec<Duration>,
    /// Requests from the clients, including repeated ones.
    pub requests: usize,
    /// Requests that were acknowledged with a 2xx.
    pub acknowledged: usize,
    /// Requests without a response, or with a status of 500 or above.
    pub failed: usize,
    /// p99 latency.
    pub slowest: Duration,
    /// Rooms in the records at the end.
    pub rooms: usize,
    /// Sessions in the records at the end.
    pub sessions: usize,
    /// Deliveries in the records at the end.
    pub deliveries: usize,
    /// Webhooks at the receivers, including repeated ones.
    pub posts: usize,
    /// Accepted LiveKit webhooks.
    pub livekit_webhooks: usize,
    /// LiveKit webhooks among them that had to be repeated.
    pub repeated_livekit_webhooks: usize,
    /// The last epoch.
    pub epochs: i64,
    /// Broken promises; empty if all were kept.
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

    /// Returns the report as JSON.
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
