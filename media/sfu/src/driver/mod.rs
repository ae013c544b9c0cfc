//! The threads and sockets around the workers.

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

/// Counters of a worker since its start. Written by its thread only, and read without a lock.
#[derive(Debug, Default)]
pub struct WorkerMetrics {
    /// Datagrams, and frames over TCP, that were received.
    pub received_packets: AtomicU64,
    /// Bytes of the packets that were received.
    pub received_bytes: AtomicU64,
    /// Datagrams, and frames over TCP, that were sent.
    pub sent_packets: AtomicU64,
    /// Bytes of these packets.
    pub sent_bytes: AtomicU64,
    /// Packets that were not sent, because a socket was busy for too long.
    pub dropped_packets: AtomicU64,
    /// Media packets that publishers sent, of admitted tracks.
    pub published_packets: AtomicU64,
    /// Media packets that were sent on, counted for each receiver.
    pub forwarded_packets: AtomicU64,
    /// Media packets that crossed to other workers, counted for each of these.
    pub mirrored_packets: AtomicU64,
    /// Packets that were not sent on, by the position of the reason in [`DropReason::ALL`].
    dropped_by_reason: [AtomicU64; DropReason::ALL.len()],
    /// Key frames that were requested from publishers.
    pub key_frame_requests: AtomicU64,
    /// Clients that were disconnected because they sent more than they may: descriptions or commands.
    pub refused_clients: AtomicU64,
    /// Mean share of the packets from clients that were lost on the way in the last second, in millionths.
    pub received_loss: AtomicU64,
    /// Mean share of the packets to clients that were lost on the way in the last second, in millionths.
    pub sent_loss: AtomicU64,
    /// Participants, with those whose media has failed.
    pub peers: AtomicU64,
    /// Open TCP connections.
    pub tcp_connections: AtomicU64,
    /// How many percent of the participants get the lowest layers, because the thread has too much to do.
    pub reduced_percent: AtomicU64,
    /// Microseconds in which the thread did not wait.
    pub busy_microseconds: AtomicU64,
    /// The share of its time in which the thread was busy in the last second, in thousandths.
    pub busy_thousandths: AtomicU64,
}

impl WorkerMetrics {
    /// Returns the number of packets that were not sent on for a reason; those that a receiver did not get are counted for each
    /// receiver.
    pub const fn dropped(&self, reason: DropReason) -> &AtomicU64 {
        &self.dropped_by_reason[reason as usize]
    }
}

/// Adds to a counter.
pub fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

/// Sets a value.
pub fn set(value: &AtomicU64, to: usize) {
    value.store(to as u64, Ordering::Relaxed);
}
