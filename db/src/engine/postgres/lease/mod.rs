//! The lease: decides which of several servers on one database is the active one.
//!
//! # Parts
//!
//! - The row `leadership`: epoch, holder, URL, key ids. With the row `beats`, which has the number of the last renewal, it is the source of
//!   truth.
//! - [`machine`]: a state machine without I/O. It returns the next request and receives replies and the time. A simulation and property
//!   tests drive it with lost, late and repeated replies.
//! - [`driver`]: the thread that makes these requests, with a session of its own, and publishes [`LeaseState`].
//! - [`requests`]: the SQL of each request. [`timing`]: the intervals, equal on all servers.
//! - [`nodes`]: the table of servers, with their roles and keys, for operators and for a planned handover.
//! - The fence, in the module `lanes`: each transaction shares the row, and checks its epoch.
//!
//! # The usual course
//!
//! 1. A server starts as a standby and reads the row every 500 ms.
//! 2. The active server renews the lease every second, and trusts itself for three seconds from the *sending* of a confirmed renewal.
//! 3. A standby that sees no renewal for four seconds claims the row, if the last renewal is still the one it saw. The claim starts a
//!    new epoch. It waits for the old server's transactions, since they share the row, and makes every later one fail.
//! 4. A released lease is claimed at once, as is the lease of a process that is known to have ended: the predecessor in the same data
//!    directory.
//!
//! # Failures
//!
//! - The active server is cut off from the database: after three seconds it no longer acts outside the database (no webhook, no call to
//!   LiveKit). When it reaches the database again, a renewal is refused, and the process exits.
//! - The reply to a claim is lost: the next read shows this process as the holder, so it is active.
//! - The reply to a renewal is lost: the renewal is repeated. A late reply is recognized by its request's number, and ignored.
//! - The database refuses writes for a while: the standby restarts its count, because the active server could not renew either.
//! - A PostgreSQL failover loses commits: the row has an earlier epoch than this server's, and the process exits, because its memory is
//!   ahead of the records.
//! - A standby has other keys or an older schema: it never claims, and logs the obstacle.
//! - Clocks differ: only durations count, by each server's steady clock. The silence is a third longer than the trust, so a clock may run a
//!   third faster than another.
//!
//! # Why not simpler
//!
//! The fence alone keeps the records consistent, whatever clocks and networks do. The trust exists for effects outside the database, which
//! no fence can undo. Advisory locks would end with their session, so a short loss of the connection would cause a takeover, and a
//! half-open connection would prevent one.

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

/// The two lease tables at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRow {
    /// Last renewal.
    pub beat: Beat,
    /// Process that holds the lease; `None` after a release, and before the first server.
    pub holder: Option<Holder>,
    /// URL at which other servers reach the last active server's API; empty before the first server.
    pub url: String,
    /// Id of the key that encrypts secrets; empty if there is none.
    pub encryption_key_id: String,
    /// Id of the media plane's key; empty before the first server.
    pub media_key_id: String,
    /// Schema number of the records; 0 before the first server.
    pub schema: i64,
    /// Whether the database currently refuses writes, by its settings or as a standby.
    pub is_read_only: bool,
}

impl LeaseRow {
    /// Returns the server that has the lease, for a process that does not; `None` while none has it.
    #[must_use]
    pub fn active_server(&self) -> Option<ActiveServer> {
        self.holder.map(|_| ActiveServer {
            epoch: self.beat.epoch,
            url: self.url.clone(),
            is_this: false,
        })
    }
}

/// Server that has the lease, as named in the database. It may have exited since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveServer {
    /// Epoch of its lease. Each takeover has a higher one.
    pub epoch: i64,
    /// URL at which other servers reach its API.
    pub url: String,
    /// Whether it is this process.
    pub is_this: bool,
}

/// A renewal: its server's epoch, and its number within the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    /// Increases by one at each takeover.
    pub epoch: i64,
    /// Increases by one at each renewal.
    pub number: i64,
}

/// Id of a process that holds the lease, or may. Each start has a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder(pub(super) Uuid);

impl Holder {
    /// Returns a new process id.
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

/// Known state of the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseState {
    /// Standing of this server, which decides what it may do.
    pub standing: Standing,
    /// Last request's error; `None` if it succeeded.
    pub failure: Option<String>,
    /// Whether the lease is lost because the database lost the commit that started this server's epoch, such as in a failover.
    pub is_set_back: bool,
    /// Time of the active server's last renewal, by this server's steady clock; `None` before it is known.
    pub(super) renewed: Option<Duration>,
}

impl LeaseState {
    /// Returns the time since the active server's last renewal; `None` before it is known.
    #[must_use]
    pub fn renewal_age(&self) -> Option<Duration> {
        self.renewed
            .map(|renewed| steady_now().saturating_sub(renewed))
    }

    /// Returns whether the database has replied, and the last request did not fail.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        // Without a known renewal, the lease has not been read yet.
        self.failure.is_none() && self.renewed.is_some()
    }
}

/// Sends a value if it differs from the last one.
pub(super) fn replace<T: PartialEq>(channel: &watch::Sender<T>, value: T) {
    channel.send_if_modified(|last| {
        // Receivers wake only for a change. The lease publishes after every request.
        let has_changed = *last != value;
        *last = value;
        has_changed
    });
}
