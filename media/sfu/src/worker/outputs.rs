//! What a worker puts out: packets to send, events for the control side, counters, and warnings in the log.

use std::time::{Duration, Instant};

use conclave_model::{Identity, NamespacedRoom, ParticipantSid, Throttle};
use str0m::net::Transmit;

use crate::dropped::{DropReason, Drops};
use crate::event::{Event, PeerEvent, RoomEvent};
use crate::mirror::{RingReader, WorkerId};
use crate::notice::Instruction;

/// What a worker puts out.
#[derive(Default)]
pub struct Outputs {
    outbox: Vec<Transmit>,
    events: Vec<Event>,
    crossings: Crossings,
    counters: Counters,
    warnings: Warnings,
}

/// What goes to other workers.
#[derive(Default)]
pub struct Crossings {
    /// What they are told, with the room that it is about, in order.
    pub told: Vec<(WorkerId, NamespacedRoom, Instruction)>,
    /// The mirrors for which packets have been put into rings.
    pub ready: Vec<RingReader>,
}

/// What a worker has forwarded since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Media packets that publishers sent, of admitted tracks.
    pub published_packets: usize,
    /// Media packets that were sent on, counted for each receiver.
    pub forwarded_packets: usize,
    /// Media packets that were put into rings of mirrors, counted for each of these.
    pub mirrored_packets: usize,
    /// Packets that were not sent on; those that a receiver did not get are counted for each receiver.
    pub dropped: Drops,
    /// Key frames that were requested from publishers.
    pub key_frame_requests: usize,
    /// Clients that failed because they sent more than they may.
    pub refused_clients: usize,
    /// Mean share of the packets from clients that were lost on the way in the last second, in millionths.
    pub received_loss: usize,
    /// Mean share of the packets to clients that were lost on the way in the last second, in millionths.
    pub sent_loss: usize,
}

/// Warnings that clients cause: one a minute for each participant, by identity, as a client that joins anew has another sid.
struct Warnings(Throttle<(NamespacedRoom, Identity)>);

/// How often a participant is named.
const INTERVAL: Duration = Duration::from_secs(60);

/// How many participants are named in a minute. More only fill the log.
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

    /// Removes and returns what goes to other workers; `None` if nothing does.
    pub fn take_crossings(&mut self) -> Option<Crossings> {
        let is_empty = self.crossings.told.is_empty() && self.crossings.ready.is_empty();
        (!is_empty).then(|| std::mem::take(&mut self.crossings))
    }

    /// Tells another worker something about a room.
    pub fn tell(&mut self, to: WorkerId, room: NamespacedRoom, instruction: Instruction) {
        self.crossings.told.push((to, room, instruction));
    }

    /// Tells the reader of a ring that packets wait in it.
    pub fn announce(&mut self, reader: RingReader) {
        self.crossings.ready.push(reader);
    }

    /// Reports something of a participant.
    pub fn report(&mut self, room: NamespacedRoom, peer: ParticipantSid, event: PeerEvent) {
        self.events.push(Event::Peer { room, peer, event });
    }

    /// Reports something of a room.
    pub fn report_room(&mut self, room: NamespacedRoom, event: RoomEvent) {
        self.events.push(Event::Room { room, event });
    }

    /// Returns what was counted.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Counts a packet of a publisher.
    pub fn count_published(&mut self) {
        self.counters.published_packets += 1;
    }

    /// Counts a packet that was sent on to a receiver.
    pub fn count_forwarded(&mut self) {
        self.counters.forwarded_packets += 1;
    }

    /// Counts a packet that was put into the ring of a mirror.
    pub fn count_mirrored(&mut self) {
        self.counters.mirrored_packets += 1;
    }

    /// Counts a packet that was not sent on.
    pub fn count_drop(&mut self, reason: DropReason) {
        self.counters.dropped.count(reason);
    }

    /// Returns the counters of the packets that were not sent on.
    pub fn drops(&mut self) -> &mut Drops {
        &mut self.counters.dropped
    }

    /// Counts a key frame that was requested.
    pub fn count_key_frame_request(&mut self) {
        self.counters.key_frame_requests += 1;
    }

    /// Counts a client that fails because it sent more than it may.
    pub fn count_refused_client(&mut self) {
        self.counters.refused_clients += 1;
    }

    /// Sets the mean losses of the last second, in millionths.
    pub fn set_losses(&mut self, received: usize, sent: usize) {
        (self.counters.received_loss, self.counters.sent_loss) = (received, sent);
    }

    /// Logs what a participant's client does wrong.
    pub fn warn(
        &self,
        (room, identity, sid): (&NamespacedRoom, &Identity, &ParticipantSid),
        what: &str,
        details: &dyn std::fmt::Display,
        now: Instant,
    ) {
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
