//! What the rooms of a plane have in common: a limit, which room participants, egresses and stream keys belong to, and what is
//! shown of participants and egresses that have ended.
//!
//! Each lock is held for a look-up or a change, and no other lock is taken meanwhile. So a room takes one while it is locked
//! itself, and no room waits for another.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use conclave_model::egress::EgressState;
use conclave_model::ingress::StreamKeyHash;
use conclave_model::{EgressId, IngressId, NamespacedRoom, ParticipantSid};
use conclave_turn::{RelayAccess, TurnServer};
use parking_lot::Mutex;

use super::egress::{Egress, EndedEgresses};
use super::error::MachineError;
use super::local_participant::{LocalParticipant, ShownParticipant};

/// Number of participants that are kept; the oldest is dropped first.
const LEFT_CAPACITY: usize = 1_000;
/// Bytes of what is kept; the oldest is dropped first.
const LEFT_BYTES: usize = 16 * 1024 * 1024;

/// What belongs to a room, and is looked up without its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Owned {
    /// A participant that is joining or active, or has left recently. With the sandbox only.
    Participant(ParticipantSid),
    /// An egress, also one that has ended.
    Egress(EgressId),
    /// An ingress endpoint.
    Endpoint(IngressId),
    /// The ingress endpoint with this stream key.
    StreamKey(StreamKeyHash),
}

/// What the rooms of a plane have in common.
#[derive(Debug)]
pub(super) struct Common {
    /// Tracks that a participant may have at once, also those that it has announced only.
    max_tracks: usize,
    rooms: Mutex<HashMap<Owned, NamespacedRoom>>,
    ended: Mutex<EndedEgresses>,
    /// The TURN server in this process, if there is one.
    relay: Option<TurnServer>,
    /// The participants that left last, for the sandbox; `None` without it. Then nothing is put into inboxes either.
    left: Option<Mutex<RecentlyLeft>>,
    /// Whether the server stops. Set before the rooms are emptied, and read under a room's lock.
    is_stopping: AtomicBool,
}

impl Common {
    /// Creates it without rooms. What the sandbox shows is kept only with it.
    pub fn new(max_tracks: usize, has_sandbox: bool) -> Self {
        let left = has_sandbox.then(Mutex::default);
        let is_stopping = AtomicBool::default();
        Self {
            max_tracks,
            rooms: Mutex::default(),
            ended: Mutex::default(),
            relay: None,
            left,
            is_stopping,
        }
    }

    /// Returns how many tracks a participant may have at once, also those that it has announced only.
    pub const fn max_tracks(&self) -> usize {
        self.max_tracks
    }

    /// Lets participants use the TURN server in this process.
    pub fn with_relay(self, relay: Option<TurnServer>) -> Self {
        Self { relay, ..self }
    }

    /// Returns a participant's access to the TURN server in this process, if there is one.
    pub fn relay_access(&self, sid: &ParticipantSid, room: &NamespacedRoom) -> Option<RelayAccess> {
        self.relay
            .as_ref()
            .map(|relay| relay.admit(sid.as_str(), room.split().0))
    }

    /// Lets no participant join from now on.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
    }

    /// Checks that the server does not stop.
    pub fn check_running(&self) -> Result<(), MachineError> {
        if self.is_stopping.load(Ordering::SeqCst) {
            Err(MachineError::Stopping)
        } else {
            Ok(())
        }
    }

    /// Returns whether the sandbox shows inboxes, and participants that have left.
    pub const fn has_sandbox(&self) -> bool {
        self.left.is_some()
    }

    /// Returns the room that something belongs to.
    pub fn room_of(&self, owned: &Owned) -> Option<NamespacedRoom> {
        self.rooms.lock().get(owned).cloned()
    }

    /// Returns the room of the endpoint with this stream key.
    pub fn room_of_key(&self, key: &StreamKeyHash) -> Result<NamespacedRoom, MachineError> {
        self.room_of(&Owned::StreamKey(*key))
            .ok_or(MachineError::NoSuchIngress)
    }

    /// Records the room that something belongs to. Of two endpoints with one stream key, the first has it.
    pub fn insert(&self, owned: Owned, room: &NamespacedRoom) {
        self.rooms
            .lock()
            .entry(owned)
            .or_insert_with(|| room.clone());
    }

    /// Forgets the room of something that has ended.
    pub fn remove(&self, owned: &Owned) {
        self.rooms.lock().remove(owned);
    }

    /// Records the room of a participant that is joining.
    pub fn note_joining(&self, sid: &ParticipantSid, room: &NamespacedRoom) {
        if self.has_sandbox() {
            self.insert(Owned::Participant(sid.clone()), room);
        }
    }

    /// Records a participant that has left, and forgets those that left first beyond the bounds.
    pub fn note_left(&self, participant: LocalParticipant) {
        let forgotten = self.left.as_ref().map(|left| left.lock().push(participant));
        forgotten
            .into_iter()
            .flatten()
            .for_each(|sid| self.remove(&Owned::Participant(sid)));
    }

    /// Forgets a participant that has not joined.
    pub fn forget(&self, sid: &ParticipantSid) {
        if let Some(left) = &self.left {
            left.lock().forget(sid);
            self.remove(&Owned::Participant(sid.clone()));
        }
    }

    /// Returns what the sandbox shows of a participant that has left recently.
    pub fn left(&self, sid: &ParticipantSid) -> Option<ShownParticipant> {
        self.left
            .as_ref()?
            .lock()
            .get(sid)
            .map(ShownParticipant::from)
    }

    /// Records an egress that has ended, and forgets the one that ended first at capacity.
    pub fn note_egress_ended(&self, egress: Egress) {
        let forgotten = self.ended.lock().push(egress);
        forgotten
            .into_iter()
            .for_each(|id| self.remove(&Owned::Egress(id)));
    }

    /// Returns the state of an egress of a room that has ended.
    pub fn ended_egress(&self, room: &NamespacedRoom, id: &EgressId) -> Option<EgressState> {
        self.ended
            .lock()
            .get(id)
            .filter(|egress| egress.room() == room)
            .map(|egress| egress.state().clone())
    }
}

/// The participants that left last.
///
/// The sandbox shows them: their inboxes stay readable for a while, so that a test can see that a participant was removed.
#[derive(Debug, Default)]
struct RecentlyLeft {
    participants: HashMap<ParticipantSid, (LocalParticipant, usize)>,
    order: VecDeque<ParticipantSid>,
    bytes: usize,
}

impl RecentlyLeft {
    /// Adds a participant without what belongs to its client, and drops the oldest beyond the bounds. Returns the sids of those.
    pub fn push(&mut self, mut participant: LocalParticipant) -> Vec<ParticipantSid> {
        participant.client = None;
        let (sid, bytes) = (participant.sid().clone(), participant.shown_bytes());
        self.bytes += bytes;
        self.order.push_back(sid.clone());
        self.participants.insert(sid, (participant, bytes));
        let mut dropped = Vec::new();
        while self.order.len() > LEFT_CAPACITY || self.bytes > LEFT_BYTES {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            self.forget(&oldest);
            dropped.push(oldest);
        }
        dropped
    }

    pub fn get(&self, sid: &ParticipantSid) -> Option<&LocalParticipant> {
        self.participants
            .get(sid)
            .map(|(participant, _)| participant)
    }

    /// Removes a participant. Its sid stays in the queue and is dropped at capacity.
    pub fn forget(&mut self, sid: &ParticipantSid) {
        if let Some((_, bytes)) = self.participants.remove(sid) {
            self.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::client::Client;
    use crate::embedded::machine::tests::{NOW, claims, room};

    /// Proves S-50.
    #[test]
    fn what_a_client_said_is_gone_with_it() {
        let sid: ParticipantSid = "PA_1".parse().unwrap();
        let participant = LocalParticipant::new(sid.clone(), claims(&room(), "alice", None), NOW);
        let mut left = RecentlyLeft::default();
        left.push(participant.with_client(Client::default()));
        assert!(
            left.get(&sid).unwrap().client.is_none(),
            "its tracks, wishes and permissions"
        );
    }
}
