//! A worker's output: packets, events, messages to other workers, counters, and warnings in the log.

use std::time::{Duration, Instant};

use conclave_model::{Identity, NamespacedRoom, ParticipantSid, Throttle};
use str0m::net::Transmit;

use crate::dropped::{DropReason, Drops};
use crate::event::{Event, PeerEvent, QualityReport, RoomEvent};
use crate::mirror::{RingReader, WorkerId};
use crate::notice::Instruction;

/// A worker's output.
#[derive(Default)]
pub struct Outputs {
    outbox: Vec<Transmit>,
    events: Vec<Event>,
    crossings: Crossings,
    counters: Counters,
    warnings: Warnings,
}

/// Output for other workers.
#[derive(Default)]
pub struct Crossings {
    /// Instructions for other workers, with their room, in order.
    pub instructions: Vec<(WorkerId, NamespacedRoom, Instruction)>,
    /// Mirrors with packets in their rings.
    pub ready: Vec<RingReader>,
}

/// Counters since the worker's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Media packets received from publishers, for admitted tracks.
    pub published_packets: usize,
    /// Media packets sent to receivers, counted per receiver.
    pub forwarded_packets: usize,
    /// Media packets put into mirrors' rings, counted per ring.
    pub mirrored_packets: usize,
    /// Dropped packets, counted per receiver where they were dropped for a receiver.
    pub dropped: Drops,
    /// Key frames requested from publishers.
    pub key_frame_requests: usize,
    /// Clients that failed because they exceeded a limit.
    pub refused_clients: usize,
    /// Mean loss of packets from clients in the last second, in millionths.
    pub received_loss: usize,
    /// Mean loss of packets to clients in the last second, in millionths.
    pub sent_loss: usize,
}

/// Throttle for warnings that clients cause: one a minute per participant. The key is the identity, since a client that
/// joins again has a new sid.
struct Warnings(Throttle<(NamespacedRoom, Identity)>);

/// Interval between warnings about one participant.
const INTERVAL: Duration = Duration::from_secs(60);

/// Participants that are named per minute. More would only fill the log.
const MOST: usize = 100;

impl Outputs {
    /// Returns the packets to send, in order. The driver empties the list.
    pub fn outbox(&mut self) -> &mut Vec<Transmit> {
        &mut self.outbox
    }

    /// Returns the number of packets to send.
    pub fn waiting(&self) -> usize {
        self.outbox.len()
    }

    /// Adds a packet to send.
    pub fn send(&mut self, packet: Transmit) {
        self.outbox.push(packet);
    }

    /// Removes and returns the events, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Removes and returns the output for other workers, if there is any.
    pub fn take_crossings(&mut self) -> Option<Crossings> {
        // Called after each batch, and most rooms are on one worker.
        let is_empty = self.crossings.instructions.is_empty() && self.crossings.ready.is_empty();
        (!is_empty).then(|| std::mem::take(&mut self.crossings))
    }

    /// Adds an instruction for another worker.
    pub fn send_to_worker(&mut self, to: WorkerId, room: NamespacedRoom, instruction: Instruction) {
        self.crossings.instructions.push((to, room, instruction));
    }

    /// Notifies a ring's reader of packets.
    pub fn announce(&mut self, reader: RingReader) {
        self.crossings.ready.push(reader);
    }

    /// Reports a participant's event.
    pub fn report(&mut self, room: NamespacedRoom, peer: ParticipantSid, event: PeerEvent) {
        self.events.push(Event::Peer { room, peer, event });
    }

    /// Reports a room's event.
    pub fn report_room(&mut self, room: NamespacedRoom, event: RoomEvent) {
        self.events.push(Event::Room { room, event });
    }

    /// Reports the quality of a session.
    pub fn report_quality(&mut self, report: QualityReport) {
        self.events.push(Event::Quality(Box::new(report)));
    }

    pub const fn counters(&self) -> Counters {
        self.counters
    }

    pub fn count_published(&mut self) {
        self.counters.published_packets += 1;
    }

    pub fn count_forwarded(&mut self) {
        self.counters.forwarded_packets += 1;
    }

    pub fn count_mirrored(&mut self) {
        self.counters.mirrored_packets += 1;
    }

    pub fn count_drop(&mut self, reason: DropReason) {
        self.counters.dropped.count(reason);
    }

    /// Returns the counters for dropped packets.
    pub fn drops(&mut self) -> &mut Drops {
        &mut self.counters.dropped
    }

    pub fn count_key_frame_request(&mut self) {
        self.counters.key_frame_requests += 1;
    }

    /// Counts a client that failed because it exceeded a limit.
    pub fn count_refused_client(&mut self) {
        self.counters.refused_clients += 1;
    }

    /// Sets the mean losses in the last second, in millionths.
    pub fn set_losses(&mut self, received: usize, sent: usize) {
        (self.counters.received_loss, self.counters.sent_loss) = (received, sent);
    }

    /// Logs a client's error.
    pub fn warn(
        &self,
        (room, identity, sid): (&NamespacedRoom, &Identity, &ParticipantSid),
        what: &str,
        details: &dyn std::fmt::Display,
        now: Instant,
    ) {
        // A client could otherwise fill the log, and the disk.
        if self.warnings.permit(room, identity, now) {
            log::warn!(participant = sid.as_str(), details:%; "{what}");
        }
    }
}

impl Default for Warnings {
    fn default() -> Self {
        Self(Throttle::by_key(INTERVAL, MOST))
    }
}

impl Warnings {
    /// Returns whether a participant may be named now.
    fn permit(&self, room: &NamespacedRoom, identity: &Identity, now: Instant) -> bool {
        self.0.allow_key((room.clone(), identity.clone()), now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Proves S-40.
    #[test]
    fn a_participant_is_named_once_a_minute() {
        let (warnings, begin) = (Warnings::default(), Instant::now());
        let count = |identity: &str, seconds: std::ops::Range<u64>| {
            let name = || {
                (
                    "prj_0123456789ab.room".parse().unwrap(),
                    identity.parse().unwrap(),
                )
            };
            seconds
                .filter(|at| {
                    let (room, identity) = name();
                    warnings.permit(&room, &identity, begin + Duration::from_secs(*at))
                })
                .count()
        };
        assert_eq!(count("mallory", 0..90), 2);
        assert_eq!(count("alice", 90..91), 1);
        let named = (0..200)
            .map(|number| count(&format!("m{number}"), 90..91))
            .sum::<usize>();
        assert_eq!(named, MOST - 2);
    }
}
