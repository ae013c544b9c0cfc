//! The further promises of a cluster.

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

/// What a run of a scenario has seen.
pub struct Evidence {
    pub scenario: Scenario,
    /// Whether each node passes requests on to the active one.
    pub passes_on: bool,
    /// Whether times count.
    pub is_timed: bool,
    pub entries: Vec<Entry>,
    pub rounds: Vec<Round>,
    /// What nodes were asked to do after another had taken over.
    pub late: Vec<LateRequest>,
    /// The sids of the participants who were connected at the end.
    pub connected: BTreeSet<String>,
    /// What became of LiveKit's webhooks.
    pub webhooks: WebhookOutcomes,
    /// Who wrote in which epoch.
    pub writers: Vec<Writer>,
    /// The ids of deliveries that were marked as delivered more than once.
    pub marked_twice: Vec<String>,
    /// When the run began to end all rooms.
    pub ending: SystemTime,
}
