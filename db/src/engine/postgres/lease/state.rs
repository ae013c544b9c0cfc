//! What a server knows of its lease.

use std::time::Duration;

use tokio::sync::watch;

use super::machine::Standing;
use super::steady;

/// What is known of the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseState {
    /// What this server may do.
    pub standing: Standing,
    /// Why the last request had no answer; `None` if it had one.
    pub failure: Option<String>,
    /// Whether the lease is lost because the database has gone back to an epoch before that of this server.
    pub is_set_back: bool,
    /// When the active server has last renewed the lease, by the steady clock of this one; `None` before it is known.
    pub(super) renewed: Option<Duration>,
}

impl LeaseState {
    /// Returns how long ago the active server has last renewed the lease; `None` before that is known.
    #[must_use]
    pub fn renewal_age(&self) -> Option<Duration> {
        self.renewed
            .map(|renewed| steady::now().saturating_sub(renewed))
    }
}

/// Sends a value, if it is another than the last one.
pub(super) fn replace<T: PartialEq>(channel: &watch::Sender<T>, value: T) {
    channel.send_if_modified(|last| {
        let has_changed = *last != value;
        *last = value;
        has_changed
    });
}
