//! The lease as it is in the database.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

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
