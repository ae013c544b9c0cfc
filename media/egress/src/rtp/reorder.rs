//! Packets in the order of their sequence numbers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use conclave_sfu::RecordedPacket;

/// How long a missing packet is waited for: longer than a repetition takes over most networks, and shorter than the delay of a
/// composition.
const PATIENCE: Duration = Duration::from_millis(300);
/// Number of packets that wait for a missing one.
const CAPACITY: usize = 1_024;

/// Puts packets of one layer at a time into order. Packets that come twice or too late are dropped.
#[derive(Debug, Default)]
pub struct Reorder {
    layer: Option<usize>,
    /// The next sequence number.
    next: u64,
    waiting: BTreeMap<u64, RecordedPacket>,
}

/// A packet in its order.
#[derive(Debug)]
pub struct Ordered {
    /// The packet as it was received.
    pub packet: RecordedPacket,
    /// Whether packets before it are missing, or belong to another layer.
    pub is_after_gap: bool,
}

impl Reorder {
    /// Takes a packet, and returns those whose turn it is.
    pub fn push(&mut self, packet: RecordedPacket) -> Vec<Ordered> {
        let now = packet.arrived;
        let mut is_after_gap = false;
        if self.layer != Some(packet.layer) {
            self.waiting.clear();
            (self.layer, self.next, is_after_gap) = (Some(packet.layer), packet.sequence, true);
        }
        if packet.sequence >= self.next {
            self.waiting.insert(packet.sequence, packet);
        }
        let mut ordered = Vec::new();
        while self.is_next_due(now) {
            let Some((sequence, packet)) = self.waiting.pop_first() else {
                break;
            };
            is_after_gap |= sequence != self.next;
            self.next = sequence + 1;
            ordered.push(Ordered {
                packet,
                is_after_gap: std::mem::take(&mut is_after_gap),
            });
        }
        ordered
    }

    /// Returns whether the first waiting packet is the next one, or has waited long enough for those before it.
    fn is_next_due(&self, now: Instant) -> bool {
        let Some((sequence, packet)) = self.waiting.first_key_value() else {
            return false;
        };
        let waited = now.saturating_duration_since(packet.arrived);
        *sequence == self.next || waited >= PATIENCE || self.waiting.len() > CAPACITY
    }
}
