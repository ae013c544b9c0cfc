//! A room on the embedded plane: its members, their maximum, and its subscription rules.

use std::collections::BTreeMap;

use conclave_model::{Identity, ParticipantSid};

use super::error::MachineError;
use crate::rules::SubscriptionRules;

/// A room. The first join opens it; a room without members exists only to keep its rules.
#[derive(Debug, Default)]
pub(super) struct Room {
    members: BTreeMap<Identity, ParticipantSid>,
    max_participants: Option<u32>,
    rules: SubscriptionRules,
}

impl Room {
    /// Checks whether a participant fits into the room, and returns the member with the same identity, which it replaces.
    /// The first token with a maximum sets the room's maximum; an encoder has no token.
    pub fn check_capacity(
        &mut self,
        identity: &Identity,
        max_participants: Option<u32>,
    ) -> Result<Option<ParticipantSid>, MachineError> {
        if self.members.is_empty() {
            self.max_participants = None;
        }
        self.max_participants = self.max_participants.or(max_participants);
        let replaced = self.members.get(identity).cloned();
        let is_full = self.max_participants.is_some_and(|max| self.members.len() >= max as usize);
        if is_full && replaced.is_none() { Err(MachineError::RoomFull) } else { Ok(replaced) }
    }

    /// Adds a member, in place of the one with the same identity.
    pub fn insert_member(&mut self, identity: Identity, sid: ParticipantSid) {
        self.members.insert(identity, sid);
    }

    pub fn remove_member(&mut self, identity: &Identity) {
        self.members.remove(identity);
    }

    pub fn into_members(self) -> impl Iterator<Item = ParticipantSid> {
        self.members.into_values()
    }

    /// Returns the sid of the member with this identity.
    pub fn member(&self, identity: &Identity) -> Option<&ParticipantSid> {
        self.members.get(identity)
    }

    /// Returns the sids of all members, ordered by identity.
    pub fn members(&self) -> impl Iterator<Item = &ParticipantSid> {
        self.members.values()
    }

    pub fn rules(&self) -> &SubscriptionRules {
        &self.rules
    }

    pub fn set_rules(&mut self, rules: SubscriptionRules) {
        self.rules = rules;
    }

    /// Returns whether the room has neither members nor rules, and so can be dropped.
    pub fn is_unused(&self) -> bool {
        self.members.is_empty() && self.rules.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_participant_that_replaces_itself_fits_into_a_full_room() {
        let mut room = Room::default();
        let (alice, bob): (Identity, Identity) = ("alice".parse().unwrap(), "bob".parse().unwrap());
        assert_eq!(room.check_capacity(&alice, Some(1)), Ok(None));
        room.insert_member(alice.clone(), "PA_1".parse().unwrap());
        let refused = room.check_capacity(&bob, Some(9));
        assert_eq!(refused, Err(MachineError::RoomFull), "a later token does not raise the maximum");
        assert_eq!(room.check_capacity(&alice, Some(1)), Ok(Some("PA_1".parse().unwrap())));
    }
}
