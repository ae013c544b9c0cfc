//! Threads and sockets around the workers.

mod addresses;
mod neighbours;
mod sockets;
mod tcp;
mod thread;
mod udp;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::dropped::DropReason;

pub use addresses::BindError;
pub use neighbours::Neighbours;
pub use thread::{WorkerThread, start_worker};

/// Counters of a worker since its start. Only its thread writes them; readers need no lock.
#[derive(Debug, Default)]
pub struct WorkerMetrics {
    /// Datagrams and TCP frames received.
    pub received_packets: AtomicU64,
    /// Bytes in them.
    pub received_bytes: AtomicU64,
    /// Datagrams and TCP frames sent.
    pub sent_packets: AtomicU64,
    /// Bytes in them.
    pub sent_bytes: AtomicU64,
    /// Packets dropped because a socket was busy for too long.
    pub dropped_packets: AtomicU64,
    /// Media packets from publishers, of admitted tracks.
    pub published_packets: AtomicU64,
    /// Media packets forwarded, counted per receiver.
    pub forwarded_packets: AtomicU64,
    /// Media packets sent to other workers, counted per worker.
    pub mirrored_packets: AtomicU64,
    /// Packets not forwarded, by the reason's position in [`DropReason::ALL`].
    dropped_by_reason: [AtomicU64; DropReason::ALL.len()],
    /// Key frames requested from publishers.
    pub key_frame_requests: AtomicU64,
    /// Clients disconnected because they sent too many or too large descriptions or commands.
    pub refused_clients: AtomicU64,
    /// Mean loss of packets from clients in the last second, in millionths.
    pub received_loss: AtomicU64,
    /// Mean loss of packets to clients in the last second, in millionths.
    pub sent_loss: AtomicU64,
    /// Participants, including those whose media has failed.
    pub peers: AtomicU64,
    /// Open TCP connections.
    pub tcp_connections: AtomicU64,
    /// Percentage of participants that get the lowest layers because the thread is overloaded.
    pub reduced_percent: AtomicU64,
    /// Time in which the thread did not wait, in microseconds.
    pub busy_microseconds: AtomicU64,
    /// Share of the last second in which the thread was busy, in thousandths.
    pub busy_thousandths: AtomicU64,
}

impl WorkerMetrics {
    /// Returns the number of packets that were not forwarded for a reason, counted per receiver that missed them.
    pub const fn dropped(&self, reason: DropReason) -> &AtomicU64 {
        &self.dropped_by_reason[reason as usize]
    }
}

/// Adds to a counter of the calling worker's thread.
pub fn add(counter: &AtomicU64, count: usize) {
    // Relaxed: counters are independent of each other and of all other data. There is no other writer, against which
    // an atomic addition would lock the cache line several times per packet.
    let before = counter.load(Ordering::Relaxed);
    counter.store(before.wrapping_add(count as u64), Ordering::Relaxed);
}

/// Sets a value.
pub fn set(value: &AtomicU64, to: usize) {
    value.store(to as u64, Ordering::Relaxed);
}
