//! State that a plane's rooms share: a limit, indexes from participants, egresses and stream keys to their rooms, and
//! the sandbox's view of participants and egresses that have ended.
//!
//! Each lock is held for one look-up or change, without taking another lock. So a room may take one while it is locked
//! itself, and no room waits for another.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use conclave_model::egress::EgressState;
use conclave_model::ingress::StreamKeyHash;
use conclave_model::{EgressId, IngressId, NamespacedRoom, ParticipantSid};
use conclave_turn::{RelayAccess, TurnServer};
use parking_lot::Mutex;

use super::egress::{Egress, EndedEgresses};
use super::error::RoomStateError;
use super::local_participant::{LocalParticipant, ParticipantSnapshot};

/// Maximum number of participants that are kept after their leave. The oldest is dropped first.
const LEFT_CAPACITY: usize = 1_000;
/// Maximum size of the kept participants, in bytes. The oldest is dropped first.
const LEFT_BYTES: usize = 16 * 1024 * 1024;

/// Object in a room that is looked up without the room's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum RoomObject {
    /// A participant that is joining or active, or has left recently. Only with the sandbox.
    Participant(ParticipantSid),
    /// An egress, including ended ones.
    Egress(EgressId),
    Endpoint(IngressId),
    /// Stream key of an ingress endpoint.
    StreamKey(StreamKeyHash),
}

/// State that a plane's rooms share.
#[derive(Debug)]
pub(super) struct Common {
    /// Maximum number of tracks per participant, including announced ones.
    max_tracks: usize,
    rooms: Mutex<HashMap<RoomObject, NamespacedRoom>>,
    ended: Mutex<EndedEgresses>,
    /// The embedded TURN server, if it is enabled.
    relay: Option<TurnServer>,
    /// Participants that left recently; `None` without the sandbox, which also disables inboxes.
    left: Option<Mutex<RecentlyLeft>>,
    /// Whether the server is stopping. Set before the rooms are emptied, and read under a room's lock.
    is_stopping: AtomicBool,
}

impl Common {
    /// Creates the shared state of a plane without rooms.
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

    /// Returns the maximum number of tracks per participant, including announced ones.
    pub const fn max_tracks(&self) -> usize {
        self.max_tracks
    }

    /// Enables the embedded TURN server for participants.
    pub fn with_relay(self, relay: Option<TurnServer>) -> Self {
        Self { relay, ..self }
    }

    /// Returns a participant's access to the embedded TURN server, if that is enabled.
    pub fn relay_access(&self, sid: &ParticipantSid, room: &NamespacedRoom) -> Option<RelayAccess> {
        self.relay
            .as_ref()
            .map(|relay| relay.admit(sid.as_str(), room.split().0))
    }

    /// Refuses joins from now on.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
    }

    /// Checks that the server is not stopping.
    pub fn check_running(&self) -> Result<(), RoomStateError> {
        // Read under the lock of the room that is joined. Either `stop` is seen here, or the participant is seen by the
        // loop that empties the rooms after it.
        if self.is_stopping.load(Ordering::SeqCst) {
            Err(RoomStateError::Stopping)
        } else {
            Ok(())
        }
    }

    /// Returns whether the sandbox shows inboxes, and participants that have left.
    pub const fn has_sandbox(&self) -> bool {
        self.left.is_some()
    }

    /// Returns the room of an object.
    pub fn room_of(&self, owned: &RoomObject) -> Option<NamespacedRoom> {
        self.rooms.lock().get(owned).cloned()
    }

    /// Returns the room of the endpoint with this stream key.
    pub fn room_of_key(&self, key: &StreamKeyHash) -> Result<NamespacedRoom, RoomStateError> {
        self.room_of(&RoomObject::StreamKey(*key))
            .ok_or(RoomStateError::NoSuchIngress)
    }

    /// Records an object's room. If two endpoints have the same stream key, the first keeps it.
    pub fn insert(&self, owned: RoomObject, room: &NamespacedRoom) {
        self.rooms
            .lock()
            .entry(owned)
            .or_insert_with(|| room.clone());
    }

    /// Forgets the room of an ended object.
    pub fn remove(&self, owned: &RoomObject) {
        self.rooms.lock().remove(owned);
    }

    /// Records the room of a joining participant.
    pub fn record_joining(&self, sid: &ParticipantSid, room: &NamespacedRoom) {
        // Only the sandbox looks participants up by sid alone.
        if self.has_sandbox() {
            self.insert(RoomObject::Participant(sid.clone()), room);
        }
    }

    /// Keeps a participant that has left, and forgets the oldest ones beyond the limits.
    pub fn keep_left(&self, participant: LocalParticipant) {
        // The lock is released before the index is changed: no two locks are held at once.
        let forgotten = self.left.as_ref().map(|left| left.lock().push(participant));
        forgotten
            .into_iter()
            .flatten()
            .for_each(|sid| self.remove(&RoomObject::Participant(sid)));
    }

    /// Forgets a participant that did not join.
    pub fn forget(&self, sid: &ParticipantSid) {
        if let Some(left) = &self.left {
            left.lock().forget(sid);
            self.remove(&RoomObject::Participant(sid.clone()));
        }
    }

    /// Returns the sandbox's view of a participant that has left recently.
    pub fn left(&self, sid: &ParticipantSid) -> Option<ParticipantSnapshot> {
        self.left
            .as_ref()?
            .lock()
            .get(sid)
            .map(ParticipantSnapshot::from)
    }

    /// Keeps an ended egress, and forgets the oldest if there are too many.
    pub fn keep_ended_egress(&self, egress: Egress) {
        // The two locks are taken one after the other, never together.
        let forgotten = self.ended.lock().push(egress);
        forgotten
            .into_iter()
            .for_each(|id| self.remove(&RoomObject::Egress(id)));
    }

    /// Returns the state of an ended egress, if it belongs to this room.
    pub fn ended_egress(&self, room: &NamespacedRoom, id: &EgressId) -> Option<EgressState> {
        self.ended
            .lock()
            .get(id)
            .filter(|egress| egress.room() == room)
            .map(|egress| egress.state().clone())
    }
}

/// Participants that left recently.
///
/// The sandbox keeps their inboxes readable for a while, so that a test can see that a participant was removed.
#[derive(Debug, Default)]
struct RecentlyLeft {
    participants: HashMap<ParticipantSid, (LocalParticipant, usize)>,
    order: VecDeque<ParticipantSid>,
    bytes: usize,
}

impl RecentlyLeft {
    /// Adds a participant, without its client's state, and drops the oldest beyond the limits. Returns the dropped
    /// sids.
    pub fn push(&mut self, mut participant: LocalParticipant) -> Vec<ParticipantSid> {
        // The sandbox shows none of the client's own state, so it does not outlive the client (S-50).
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

    /// Removes a participant. Its sid stays in the queue until the limit drops it.
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
    use crate::embedded::room_state::tests::{NOW, claims, room};

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
