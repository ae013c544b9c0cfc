//! Counters for `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start, readable without a lock.
#[derive(Debug, Default)]
pub struct TurnMetrics {
    /// Current allocations.
    pub allocations: AtomicU64,
    /// Bytes in datagrams from clients to media workers.
    pub from_clients: AtomicU64,
    /// Bytes in datagrams from media workers to clients.
    pub to_clients: AtomicU64,
    /// Datagrams dropped because the way to their receiver was busy or their sender exceeded its
    /// rate.
    pub dropped: AtomicU64,
    refused: [AtomicU64; TurnRefusal::ALL.len()],
}

/// Reason why a client's request or datagram was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnRefusal {
    /// The credentials are wrong or have expired, or the participant has left.
    Credentials,
    /// The peer is not a media worker, or not permitted.
    Peer,
    /// The participant, project or address has its maximum number of allocations.
    Quota,
    /// The maximum number of allocations exists, or no socket could be opened.
    Capacity,
    /// The request is malformed, or asks for something unsupported.
    Request,
    /// The response rate for unauthenticated clients is exceeded.
    Rate,
}

impl TurnRefusal {
    /// All reasons; each is a series.
    pub const ALL: [Self; 6] = [
        Self::Credentials,
        Self::Peer,
        Self::Quota,
        Self::Capacity,
        Self::Request,
        Self::Rate,
    ];

    /// Returns the value for the label `reason`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Credentials => "credentials",
            Self::Peer => "peer",
            Self::Quota => "quota",
            Self::Capacity => "capacity",
            Self::Request => "request",
            Self::Rate => "rate",
        }
    }
}

impl TurnMetrics {
    /// Returns the counter for a reason.
    #[must_use]
    pub const fn refused(&self, reason: TurnRefusal) -> &AtomicU64 {
        &self.refused[reason as usize]
    }

    pub(crate) fn record_refusal(&self, reason: TurnRefusal) {
        // Relaxed suffices for statistics.
        self.refused(reason).fetch_add(1, Ordering::Relaxed);
    }

    /// Records whether a datagram to a client was sent.
    pub(crate) fn record_to_client(&self, bytes: usize, was_sent: bool) {
        self.record(&self.to_clients, bytes, was_sent);
    }

    /// Records whether a datagram from a client was sent.
    pub(crate) fn record_from_client(&self, bytes: usize, was_sent: bool) {
        self.record(&self.from_clients, bytes, was_sent);
    }

    fn record(&self, counter: &AtomicU64, bytes: usize, was_sent: bool) {
        let (counter, number) = if was_sent {
            (counter, bytes as u64)
        } else {
            // Drops are counted in packets, since they matter as losses.
            (&self.dropped, 1)
        };
        counter.fetch_add(number, Ordering::Relaxed);
    }
}
