//! The lease: which of the servers on one database is the active one.
//!
//! The active server renews the lease each second. The others are standbys, which read it: one of them takes over when the renewals
//! have stopped for four seconds, or at once when the lease was released or its holder is known to have ended. Each takeover begins a
//! new epoch, and each transaction of a server is fenced with its own epoch: it shares the row in which the epoch is, and does nothing
//! if it finds another one. A takeover changes that row, so it waits for those that have it.
//!
//! The fence alone keeps the records consistent, whatever the clocks and the network do. Outside the database, a server acts only as
//! long as no other can have taken over: three seconds from the sending of the last renewal that was confirmed.
//!
//! [`machine`] decides, without I/O. [`driver`] does what it says, on a thread and a session of its own.

mod driver;
mod keys;
mod machine;
mod nodes;
mod requests;
mod timing;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tokio::sync::watch;
use uuid::Uuid;

pub use driver::{Lease, LeaseOptions, ReadKeys};
pub use keys::{KeyIds, WrongKey};
pub use machine::{Obstacle, Standing};
pub(crate) use nodes::read as read_cluster;
pub use nodes::{ClusterState, Node, NodeInfo, Role, cluster_state, require_media_key};
pub(crate) use requests::ATTEMPTS_AT_ROW;
pub use timing::LeaseTiming;
use timing::steady_now;

/// The two tables of the lease at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRow {
    /// The last renewal.
    pub beat: Beat,
    /// The process that holds the lease; `None` after it has released it, and before the first server.
    pub holder: Option<Holder>,
    /// Where the API of the last active server is reached by the others; empty before the first server.
    pub url: String,
    /// The id of the key that encrypts secrets; empty if there is none.
    pub encryption_key_id: String,
    /// The id of the media plane's key; empty before the first server.
    pub media_key_id: String,
    /// The number of the schema of the records; 0 before the first server.
    pub schema: i64,
    /// Whether the database refuses to be written now, by its settings or as a standby of another one.
    pub is_read_only: bool,
}

impl LeaseRow {
    /// Returns the server that has the lease, for a process that has not; `None` while none has it.
    #[must_use]
    pub fn active_server(&self) -> Option<ActiveServer> {
        self.holder.map(|_| ActiveServer {
            epoch: self.beat.epoch,
            url: self.url.clone(),
            is_this: false,
        })
    }
}

/// The server that has the lease, as the database names it. It may have ended since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveServer {
    /// The epoch of its lease: each takeover has a higher one.
    pub epoch: i64,
    /// Where its API is reached by the other servers.
    pub url: String,
    /// Whether it is this process.
    pub is_this: bool,
}

/// A renewal: the epoch of its server, and its number within the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    /// Grows by one with each takeover.
    pub epoch: i64,
    /// Grows by one with each renewal.
    pub number: i64,
}

/// The id of a process that holds the lease, or would. Each start has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder(pub(super) Uuid);

impl Holder {
    /// Returns the id of a new process.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Holder {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        text.parse().map(Self)
    }
}

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
            .map(|renewed| steady_now().saturating_sub(renewed))
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
