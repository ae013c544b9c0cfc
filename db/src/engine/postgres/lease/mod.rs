//! The lease: which of the servers on one database is the active one.
//!
//! # Parts
//!
//! - The row `leadership`: epoch, number of the last renewal, holder, URL, key ids. The source of truth.
//! - [`machine`]: a state machine without I/O. It returns the next request and receives answers and the time. A simulation and property
//!   tests drive it with lost, late and repeated answers.
//! - [`driver`]: the thread that makes these requests, with a session of its own, and publishes [`LeaseState`].
//! - [`requests`]: the SQL of each request. [`timing`]: the intervals, equal on all servers.
//! - [`nodes`]: the table of servers, with their roles and keys, for operators and for a planned handover.
//! - The fence, in `lanes.rs`: each transaction shares the row and checks its epoch.
//!
//! # The usual course
//!
//! 1. A server starts as a standby and reads the row every 500 ms.
//! 2. The active server renews the row every second, and trusts itself for three seconds from the *sending* of a confirmed renewal.
//! 3. A standby that sees no renewal for four seconds claims the row, if the last renewal is still the one it saw. The claim starts a
//!    new epoch. It waits for the old server's transactions, since they share the row, and makes every later one fail.
//! 4. A released lease is claimed at once, as is the lease of a process that is known to have ended: the predecessor in the same data
//!    directory.
//!
//! # Failures
//!
//! - The active server is cut off from the database: after three seconds it acts no more outside the database (no webhook, no call to
//!   LiveKit). When it reaches the database again, a renewal is refused, and the process ends.
//! - The answer to a claim is lost: the next read shows this process as the holder, so it is active.
//! - The answer to a renewal is lost: it is repeated. An answer to an earlier request is ignored by its number.
//! - The database refuses writes for a while: the standby restarts its count, because the active server could not renew either.
//! - A failover of PostgreSQL loses commits: the row has an earlier epoch than this server's, and the process ends, because its memory
//!   is ahead of the records.
//! - A standby has other keys or an older schema: it never claims, and logs the obstacle.
//! - Clocks differ: only durations count, by each server's steady clock. The silence is a third longer than the trust, so a clock may
//!   run a third faster than another.
//!
//! # Why it is not simpler
//!
//! The fence alone keeps the records consistent, whatever clocks and networks do. The trust exists for effects outside the database,
//! which no fence can undo. Advisory locks would end with their session, so a short loss of the connection would cause a takeover, and
//! a half-open connection would prevent one.

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
