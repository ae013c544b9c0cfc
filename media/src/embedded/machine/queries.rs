//! Reading the state, and setting subscription rules.

use std::collections::BTreeMap;

use conclave_model::participant::Participant;
use conclave_model::role::RoleSubscribe;
use conclave_model::{Identity, ParticipantSid, RoleName, TrackSid};

use super::Machine;
use super::audience::may_receive;
use super::members::Members;
use crate::embedded::error::MachineError;
use crate::embedded::local_participant::{LocalParticipant, ShownParticipant};

impl Machine {
    /// Sets the subscription rules of the room, which may have no members yet.
    pub fn set_subscription_rules(&mut self, rules: BTreeMap<RoleName, RoleSubscribe>) {
        if self.members.set_rules(rules.into()) {
            self.refresh_permissions();
            self.refresh_room();
        }
    }

    /// Returns the members of the room, and its subscription rules.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Returns the active participants, including hidden ones.
    pub fn participants(&self) -> Vec<Participant> {
        self.active_members()
            .map(|participant| participant.participant().clone())
            .collect()
    }

    /// Returns an active participant.
    pub fn participant(&self, identity: &Identity) -> Option<Participant> {
        let sid = self.members.get(identity)?;
        self.active(sid)
            .ok()
            .map(|participant| participant.participant().clone())
    }

    /// Returns whether the join of a participant, or of any if none is named, is being written by the control plane.
    pub fn is_join_reported(&self, identity: Option<&Identity>) -> bool {
        let is_reported = |local: &LocalParticipant| local.is_reported && !local.is_active();
        let named =
            |local: &LocalParticipant| identity.is_none_or(|identity| local.identity() == identity);
        self.members
            .iter()
            .filter_map(|sid| self.participants.get(sid))
            .any(|local| named(local) && is_reported(local))
    }

    /// Returns what the sandbox shows of a participant that is active or left recently.
    pub fn active_or_left(&self, sid: &ParticipantSid) -> Result<ShownParticipant, MachineError> {
        self.active(sid)
            .map(ShownParticipant::from)
            .or_else(|error| self.common.left(sid).ok_or(error))
    }

    /// Returns the tracks that a participant may receive.
    pub fn subscriptions(&self, sid: &ParticipantSid) -> Vec<TrackSid> {
        let Some(receiver) = self.participants.get(sid).filter(|p| p.is_active()) else {
            return Vec::new();
        };
        self.active_members()
            .filter(|publisher| publisher.sid() != sid)
            .flat_map(|publisher| {
                publisher
                    .participant()
                    .tracks
                    .iter()
                    .map(move |track| (publisher, &track.sid))
            })
            .filter(|(publisher, track)| may_receive(&self.members, receiver, publisher, track))
            .map(|(_, track)| track.clone())
            .collect()
    }

    /// Returns the active participants that a participant sees besides itself.
    pub fn visible_to(&self, sid: &ParticipantSid) -> Vec<&LocalParticipant> {
        if !self.participants.contains_key(sid) {
            return Vec::new();
        }
        self.active_members()
            .filter(|other| other.sid() != sid && !other.grants.hidden)
            .collect()
    }

    /// Returns the members that have clients, with their identities.
    pub fn clients(&self) -> Vec<(ParticipantSid, Identity)> {
        let members = self
            .members
            .iter()
            .filter_map(|sid| self.participants.get(sid));
        let clients = members.filter(|local| local.client.is_some());
        clients
            .map(|local| (local.sid().clone(), local.identity().clone()))
            .collect()
    }

    /// Returns a participant that is joined or active.
    pub fn present(&self, sid: &ParticipantSid) -> Result<&LocalParticipant, MachineError> {
        self.participants
            .get(sid)
            .filter(|participant| participant.is_present())
            .ok_or(MachineError::NoSuchParticipant)
    }

    pub(super) fn active_members(&self) -> impl Iterator<Item = &LocalParticipant> {
        self.members.iter().filter_map(|sid| self.active(sid).ok())
    }
}
