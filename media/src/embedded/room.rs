//! A room on the media plane: who is in it, how many may be, and which roles receive which.

use std::collections::BTreeMap;

use conclave_model::{Identity, ParticipantSid};

use super::publish::MachineError;
use crate::rules::SubscriptionRules;

/// A room. Opened by its first join; one that nobody is in exists for the sake of its rules alone.
#[derive(Debug, Default)]
pub(super) struct Room {
    members: BTreeMap<Identity, ParticipantSid>,
    max_participants: Option<u32>,
    rules: SubscriptionRules,
}

impl Room {
    /// Says whether one more fits, and whom the newcomer replaces. The first token that says how many fit decides; an
    /// encoder has none.
    pub fn admit(&mut self, who: &Identity, offered_cap: Option<u32>) -> Result<Option<ParticipantSid>, MachineError> {
        if self.members.is_empty() {
            self.max_participants = None;
        }
        self.max_participants = self.max_participants.or(offered_cap);
        let replaced = self.members.get(who).cloned();
        let full = self.max_participants.is_some_and(|cap| self.members.len() >= cap as usize);
        if full && replaced.is_none() { Err(MachineError::RoomFull) } else { Ok(replaced) }
    }

    /// Lets somebody in, in place of whoever had that identity.
    pub fn enter(&mut self, who: Identity, sid: ParticipantSid) {
        self.members.insert(who, sid);
    }

    /// Lets somebody out.
    pub fn leave(&mut self, who: &Identity) {
        self.members.remove(who);
    }

    /// Lets everybody out.
    pub fn into_members(self) -> impl Iterator<Item = ParticipantSid> {
        self.members.into_values()
    }

    /// The join by which somebody is in the room.
    pub fn member(&self, who: &Identity) -> Option<&ParticipantSid> {
        self.members.get(who)
    }

    /// Everybody's joins, in the order of their identities.
    pub fn members(&self) -> impl Iterator<Item = &ParticipantSid> {
        self.members.values()
    }

    /// Which roles receive which.
    pub fn rules(&self) -> &SubscriptionRules {
        &self.rules
    }

    /// Replaces the rules.
    pub fn set_rules(&mut self, rules: SubscriptionRules) {
        self.rules = rules;
    }

    /// Whether nothing is lost by forgetting the room.
    pub fn is_idle(&self) -> bool {
        self.members.is_empty() && self.rules.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_replaces_itself_needs_no_place() {
        let mut room = Room::default();
        let (alice, bob): (Identity, Identity) = ("alice".parse().unwrap(), "bob".parse().unwrap());
        assert_eq!(room.admit(&alice, Some(1)), Ok(None));
        room.enter(alice.clone(), "PA_1".parse().unwrap());
        assert_eq!(room.admit(&bob, Some(9)), Err(MachineError::RoomFull), "a later token does not widen the room");
        assert_eq!(room.admit(&alice, Some(1)), Ok(Some("PA_1".parse().unwrap())));
    }
}
