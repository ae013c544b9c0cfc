//! What the TURN server has done, for `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start. Read without a lock.
#[derive(Debug, Default)]
pub struct TurnMetrics {
    /// Allocations that exist.
    pub allocations: AtomicU64,
    /// Bytes of datagrams that clients sent to media workers.
    pub from_clients: AtomicU64,
    /// Bytes of datagrams that media workers sent to clients.
    pub to_clients: AtomicU64,
    /// Datagrams that were not relayed, because the way to their receiver was busy or their sender exceeded its rate.
    pub dropped: AtomicU64,
    refused: [AtomicU64; TurnRefusal::ALL.len()],
}

/// Why a request or a datagram of a client was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnRefusal {
    /// The credentials are wrong or have expired, or their participant has left.
    Credentials,
    /// The peer is no media worker, or not permitted.
    Peer,
    /// The participant, the project or the address has as many allocations as it may.
    Quota,
    /// There are as many allocations as there may be, or no socket.
    Capacity,
    /// The request is malformed, or asks for what there is not.
    Request,
    /// Strangers get no more answers now.
    Rate,
}

impl TurnRefusal {
    /// Every reason, for metrics that show one series each.
    pub const ALL: [Self; 6] = [
        Self::Credentials,
        Self::Peer,
        Self::Quota,
        Self::Capacity,
        Self::Request,
        Self::Rate,
    ];

    /// The value of the label `reason`.
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
    /// Returns how often something was refused for this reason.
    #[must_use]
    pub const fn refused(&self, reason: TurnRefusal) -> &AtomicU64 {
        &self.refused[reason as usize]
    }

    pub(crate) fn note_refusal(&self, reason: TurnRefusal) {
        self.refused(reason).fetch_add(1, Ordering::Relaxed);
    }

    /// Notes whether a datagram to a client was taken.
    pub(crate) fn note_to_client(&self, bytes: usize, was_taken: bool) {
        self.note(&self.to_clients, bytes, was_taken);
    }

    /// Notes whether a datagram of a client was taken.
    pub(crate) fn note_from_client(&self, bytes: usize, was_taken: bool) {
        self.note(&self.from_clients, bytes, was_taken);
    }

    fn note(&self, counter: &AtomicU64, bytes: usize, was_taken: bool) {
        let (counter, number) = if was_taken {
            (counter, bytes as u64)
        } else {
            (&self.dropped, 1)
        };
        counter.fetch_add(number, Ordering::Relaxed);
    }
}
