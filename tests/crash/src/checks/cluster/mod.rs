//! A cluster's additional promises.

pub mod availability;
pub mod calls;
pub mod epochs;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::SystemTime;

use livekit_double::WebhookOutcomes;

pub use availability::p99;

use crate::cluster::{LateRequest, Round, Scenario, Writer};
use crate::journal::Entry;

/// Evidence from a run.
pub struct Evidence {
    pub scenario: Scenario,
    /// Whether each node forwards requests to the active one.
    pub passes_on: bool,
    /// Whether times are judged.
    pub is_timed: bool,
    pub entries: Vec<Entry>,
    pub rounds: Vec<Round>,
    /// Requests sent to replaced nodes.
    pub late: Vec<LateRequest>,
    /// Sids of the participants that were connected at the end.
    pub connected: BTreeSet<String>,
    /// Outcome of LiveKit's webhooks.
    pub webhooks: WebhookOutcomes,
    /// Writers by epoch.
    pub writers: Vec<Writer>,
    /// Ids of deliveries that were marked as delivered more than once.
    pub marked_twice: Vec<String>,
    /// When the run started to end all rooms.
    pub ending: SystemTime,
}
