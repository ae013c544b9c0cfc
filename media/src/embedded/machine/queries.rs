//! Reading the state, and setting subscription rules.

use std::collections::BTreeMap;

use conclave_model::participant::Participant;
use conclave_model::role::RoleSubscribe;
use conclave_model::{Identity, NamespacedRoom, ParticipantSid, RoleName, TrackSid};

use super::Machine;
use super::audience::may_receive;
use crate::embedded::error::MachineError;
use crate::embedded::local_participant::LocalParticipant;
use crate::embedded::room::Room;

impl Machine {
    /// Sets the subscription rules of a room, which may have no members yet.
    pub fn set_subscription_rules(&mut self, room: &NamespacedRoom, rules: BTreeMap<RoleName, RoleSubscribe>) {
        let entry = self.rooms.entry(room.clone()).or_default();
        let is_changed = entry.set_rules(rules.into());
        if entry.is_unused() {
            self.rooms.remove(room);
        }
        if is_changed {
            self.refresh_permissions(room);
            self.refresh_room(room);
        }
    }

    /// Returns the active participants of a room, including hidden ones.
    pub fn participants(&self, room: &NamespacedRoom) -> Vec<Participant> {
        self.active_in(room).map(|participant| participant.participant().clone()).collect()
    }

    /// Returns the rooms that have members.
    pub fn occupied_rooms(&self) -> Vec<NamespacedRoom> {
        let occupied = self.rooms.iter().filter(|(_, room)| room.members().next().is_some());
        occupied.map(|(name, _)| name.clone()).collect()
    }

    /// Returns an active participant of a room.
    pub fn participant(&self, room: &NamespacedRoom, identity: &Identity) -> Option<Participant> {
        let sid = self.rooms.get(room)?.member(identity)?;
        self.active(sid).ok().map(|participant| participant.participant().clone())
    }

    /// Returns a participant that is active or, with the sandbox, left recently.
    pub fn active_or_left(&self, sid: &ParticipantSid) -> Result<&LocalParticipant, MachineError> {
        self.active(sid).or_else(|error| self.recently_left.as_ref().and_then(|left| left.get(sid)).ok_or(error))
    }

    /// Returns the tracks that a participant may receive.
    pub fn subscriptions(&self, sid: &ParticipantSid) -> Vec<TrackSid> {
        let Some(receiver) = self.participants.get(sid).filter(|p| p.is_active()) else { return Vec::new() };
        let Some(room) = self.rooms.get(&receiver.room) else { return Vec::new() };
        self.active_in(&receiver.room)
            .filter(|publisher| publisher.sid() != sid)
            .flat_map(|publisher| publisher.participant().tracks.iter().map(move |track| (publisher, &track.sid)))
            .filter(|(publisher, track)| may_receive(room, receiver, publisher, track))
            .map(|(_, track)| track.clone())
            .collect()
    }

    /// Returns the active participants of a room that a participant sees besides itself.
    pub fn visible_to(&self, sid: &ParticipantSid) -> Vec<&LocalParticipant> {
        let Some(viewer) = self.participants.get(sid) else { return Vec::new() };
        self.active_in(&viewer.room).filter(|other| other.sid() != sid && !other.grants.hidden).collect()
    }

    /// Returns the participants of a room that have clients, with their identities.
    pub fn clients_of(&self, room: &NamespacedRoom) -> Vec<(ParticipantSid, Identity)> {
        let members = self.rooms.get(room).into_iter().flat_map(Room::members);
        let clients = members.filter_map(|sid| self.participants.get(sid).filter(|local| local.client.is_some()));
        clients.map(|local| (local.sid().clone(), local.identity().clone())).collect()
    }

    /// Returns a participant that is joined or active.
    pub fn present(&self, sid: &ParticipantSid) -> Result<&LocalParticipant, MachineError> {
        self.participants.get(sid).filter(|participant| participant.is_present()).ok_or(MachineError::NoSuchParticipant)
    }

    pub(super) fn active_in(&self, room: &NamespacedRoom) -> impl Iterator<Item = &LocalParticipant> {
        let members = self.rooms.get(room).into_iter().flat_map(Room::members);
        members.filter_map(|sid| self.active(sid).ok())
    }
}
