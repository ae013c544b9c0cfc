//! The times of the lease. Every server of a database must have the same.

use std::time::Duration;

/// The times of the lease, by the steady clock of each server.
///
/// A server's clock may run up to a third faster than another's: the silence after which a standby takes over is a third longer than
/// the trust of the active server in itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTiming {
    /// Interval at which the active server renews the lease.
    pub renewal: Duration,
    /// How long the active server may act outside the database, from the sending of the last renewal that was confirmed.
    pub trust: Duration,
    /// Interval at which a standby reads the lease.
    pub read: Duration,
    /// How long a standby has to see no renewal before it takes over.
    pub silence: Duration,
    /// Delay before a request that failed is made again.
    pub retry: Duration,
    /// Time that the database has to answer a read or a renewal.
    pub answer: Duration,
    /// Interval at which a server says what it is, and reads what the others are.
    pub report: Duration,
    /// Time that the database has to answer a claim, which waits for the running transactions of the server before.
    pub claim: Duration,
}

impl LeaseTiming {
    /// How much of the silence one answered read counts for at most. So the silence takes at least four answered reads, and a
    /// database that has not answered for a while shows no more silence than one that answered at once.
    #[must_use]
    pub fn longest_gap(&self) -> Duration {
        self.silence / 4
    }
}

impl Default for LeaseTiming {
    fn default() -> Self {
        Self {
            renewal: Duration::from_secs(1),
            trust: Duration::from_secs(3),
            read: Duration::from_millis(500),
            silence: Duration::from_secs(4),
            retry: Duration::from_millis(250),
            answer: Duration::from_secs(2),
            report: Duration::from_secs(3),
            claim: Duration::from_secs(10),
        }
    }
}
