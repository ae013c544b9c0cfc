//! What the rooms of a plane have in common: a limit, where participants, egresses and stream keys are, and what is shown of
//! participants and egresses that have ended.
//!
//! Each lock is held for a look-up or a change, and no other lock is taken meanwhile. So a room takes one while it is locked
//! itself, and no room waits for another.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use conclave_model::egress::EgressState;
use conclave_model::ingress::StreamKeyHash;
use conclave_model::{EgressId, IngressId, NamespacedRoom, ParticipantSid};

use super::egress::{Egress, EgressIndex};
use super::local_participant::{LocalParticipant, ShownParticipant};
use super::recently_left::RecentlyLeft;
use crate::port::KnownIngress;

/// What the rooms of a plane have in common.
#[derive(Debug)]
pub(super) struct Common {
    /// Tracks that a participant may have at once, also those that it has announced only.
    pub max_tracks: usize,
    /// The participants, for the sandbox; `None` without it. Then nothing is put into inboxes either.
    sandbox: Option<Mutex<SandboxParticipants>>,
    egresses: Mutex<EgressIndex>,
    endpoints: Mutex<EndpointIndex>,
}

/// The rooms of the participants that are joining or active, and those that have left.
#[derive(Debug, Default)]
struct SandboxParticipants {
    rooms: HashMap<ParticipantSid, NamespacedRoom>,
    left: RecentlyLeft,
}

/// The rooms of ingress endpoints.
#[derive(Debug, Default)]
struct EndpointIndex {
    rooms: HashMap<IngressId, (NamespacedRoom, StreamKeyHash)>,
    by_key: HashMap<StreamKeyHash, NamespacedRoom>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Common {
    /// Creates it without rooms. What the sandbox shows is kept only with it.
    pub fn new(max_tracks: usize, has_sandbox: bool) -> Self {
        let sandbox = has_sandbox.then(Mutex::default);
        Self { max_tracks, sandbox, egresses: Mutex::default(), endpoints: Mutex::default() }
    }

    /// Returns whether the sandbox shows inboxes, and participants that have left.
    pub const fn has_sandbox(&self) -> bool {
        self.sandbox.is_some()
    }

    fn sandbox(&self) -> Option<MutexGuard<'_, SandboxParticipants>> {
        self.sandbox.as_ref().map(lock)
    }

    /// Records the room of a participant that is joining.
    pub fn note_joining(&self, sid: &ParticipantSid, room: &NamespacedRoom) {
        if let Some(mut sandbox) = self.sandbox() {
            sandbox.rooms.insert(sid.clone(), room.clone());
        }
    }

    /// Records a participant that has left.
    pub fn note_left(&self, participant: LocalParticipant) {
        if let Some(mut sandbox) = self.sandbox() {
            sandbox.rooms.remove(participant.sid());
            sandbox.left.push(participant);
        }
    }

    /// Forgets a participant that has not joined.
    pub fn forget(&self, sid: &ParticipantSid) {
        if let Some(mut sandbox) = self.sandbox() {
            sandbox.rooms.remove(sid);
            sandbox.left.forget(sid);
        }
    }

    /// Returns the room of a participant, also if it has left recently. Always `None` without the sandbox.
    pub fn room_of(&self, sid: &ParticipantSid) -> Option<NamespacedRoom> {
        let sandbox = self.sandbox()?;
        sandbox.rooms.get(sid).or_else(|| sandbox.left.get(sid).map(|left| &left.room)).cloned()
    }

    /// Returns what the sandbox shows of a participant that has left recently.
    pub fn left(&self, sid: &ParticipantSid) -> Option<ShownParticipant> {
        self.sandbox()?.left.get(sid).map(ShownParticipant::from)
    }

    /// Records the room of an egress that has started.
    pub fn note_egress(&self, id: &EgressId, room: &NamespacedRoom) {
        lock(&self.egresses).insert(id.clone(), room.clone());
    }

    /// Records an egress that has ended.
    pub fn note_egress_ended(&self, egress: Egress) {
        lock(&self.egresses).end(egress);
    }

    /// Returns whether an egress has this id, also if it has ended.
    pub fn knows_egress(&self, id: &EgressId) -> bool {
        self.room_of_egress(id).is_some()
    }

    /// Returns the room of an egress, also if it has ended.
    pub fn room_of_egress(&self, id: &EgressId) -> Option<NamespacedRoom> {
        lock(&self.egresses).room(id).cloned()
    }

    /// Returns the state of an egress of a room that has ended.
    pub fn ended_egress(&self, room: &NamespacedRoom, id: &EgressId) -> Option<EgressState> {
        lock(&self.egresses).ended(id).filter(|egress| egress.room == *room).map(|egress| egress.state.clone())
    }

    /// Records the room of an ingress endpoint and of its stream key.
    pub fn note_endpoint(&self, known: &KnownIngress) {
        let mut index = lock(&self.endpoints);
        index.by_key.entry(known.key_hash).or_insert_with(|| known.room.clone());
        index.rooms.insert(known.ingress_id.clone(), (known.room.clone(), known.key_hash));
    }

    /// Forgets an ingress endpoint and its stream key.
    pub fn forget_endpoint(&self, id: &IngressId) {
        let mut index = lock(&self.endpoints);
        if let Some((_, key)) = index.rooms.remove(id) {
            index.by_key.remove(&key);
        }
    }

    /// Returns the room of an ingress endpoint.
    pub fn room_of_endpoint(&self, id: &IngressId) -> Option<NamespacedRoom> {
        lock(&self.endpoints).rooms.get(id).map(|(room, _)| room.clone())
    }

    /// Returns the room of the ingress endpoint with this stream key.
    pub fn room_of_key(&self, key: &StreamKeyHash) -> Option<NamespacedRoom> {
        lock(&self.endpoints).by_key.get(key).cloned()
    }
}
