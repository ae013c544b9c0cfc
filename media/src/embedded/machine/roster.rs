//! The members of a room, their maximum, and the room's subscription rules.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use conclave_model::secret::{BASE62, random_text};
use conclave_model::{Identity, ParticipantSid, Timestamp};

use crate::embedded::error::MachineError;
use crate::rules::SubscriptionRules;

/// The members of a room. The first one opens it; before, it exists only to keep its rules.
#[derive(Debug)]
pub(in crate::embedded) struct Members {
    /// The id of the room as long as it is in memory, as clients see it.
    pub sid: Box<str>,
    /// When its first member joined; `None` before.
    pub opened_at: Option<Timestamp>,
    members: BTreeMap<Identity, Member>,
    /// The number of joins so far.
    joins: u64,
    /// Joins that the control plane is being asked about.
    requested: HashMap<ParticipantSid, Identity>,
    max_participants: Option<u32>,
    rules: SubscriptionRules,
}

/// A member of a room.
#[derive(Debug)]
struct Member {
    sid: ParticipantSid,
    /// Position among the joins of the room, since the instants of two can be equal.
    number: u64,
}

impl Default for Members {
    fn default() -> Self {
        Self {
            sid: ["RM_", &random_text(12, BASE62)].concat().into(),
            opened_at: None,
            members: BTreeMap::new(),
            joins: 0,
            requested: HashMap::new(),
            max_participants: None,
            rules: SubscriptionRules::default(),
        }
    }
}

impl Members {
    /// Checks whether a participant fits into the room, and returns the member with the same identity, which it replaces.
    /// The first token with a maximum sets the room's maximum; an encoder has no token.
    pub fn check_capacity(
        &mut self,
        identity: &Identity,
        max_participants: Option<u32>,
    ) -> Result<Option<ParticipantSid>, MachineError> {
        if self.members.is_empty() && self.requested.is_empty() {
            self.max_participants = None;
        }
        self.max_participants = self.max_participants.or(max_participants);
        let replaced = self.get(identity).cloned();
        if self.is_full_for(identity) {
            Err(MachineError::RoomFull)
        } else {
            Ok(replaced)
        }
    }

    /// Returns whether members and requested joins of other identities take all places.
    pub fn is_full_for(&self, identity: &Identity) -> bool {
        let others = self
            .members
            .keys()
            .chain(self.requested.values())
            .filter(|other| *other != identity);
        self.max_participants
            .is_some_and(|max| others.collect::<BTreeSet<_>>().len() >= max as usize)
    }

    /// Holds a place while the control plane is asked about a join.
    pub fn request(&mut self, sid: ParticipantSid, identity: Identity) {
        self.requested.insert(sid, identity);
    }

    /// Releases the place of a join that the control plane has decided about.
    pub fn end_request(&mut self, sid: &ParticipantSid) {
        self.requested.remove(sid);
    }

    /// Adds a member, in place of the one with the same identity.
    pub fn insert(&mut self, identity: Identity, sid: ParticipantSid) {
        self.joins += 1;
        self.members.insert(
            identity,
            Member {
                sid,
                number: self.joins,
            },
        );
    }

    /// Removes a member, unless another join has taken its place.
    pub fn remove(&mut self, identity: &Identity, sid: &ParticipantSid) {
        if self.get(identity) == Some(sid) {
            self.members.remove(identity);
        }
    }

    /// Returns the sids of all members, in the order of their joins, and then those of requested joins.
    pub fn into_sids(self) -> impl Iterator<Item = ParticipantSid> {
        let mut members: Vec<_> = self.members.into_values().collect();
        members.sort_unstable_by_key(|member| member.number);
        members
            .into_iter()
            .map(|member| member.sid)
            .chain(self.requested.into_keys())
    }

    /// Returns the sid of the member with this identity.
    pub fn get(&self, identity: &Identity) -> Option<&ParticipantSid> {
        self.members.get(identity).map(|member| &member.sid)
    }

    /// Returns the sids of all members, ordered by identity.
    pub fn iter(&self) -> impl Iterator<Item = &ParticipantSid> {
        self.members.values().map(|member| &member.sid)
    }

    pub fn rules(&self) -> &SubscriptionRules {
        &self.rules
    }

    /// Sets the rules and returns whether they are others than before.
    pub fn set_rules(&mut self, rules: SubscriptionRules) -> bool {
        let is_changed = self.rules != rules;
        self.rules = rules;
        is_changed
    }

    /// Returns whether there are neither members nor rules.
    pub fn is_unused(&self) -> bool {
        self.members.is_empty() && self.requested.is_empty() && self.rules.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_participant_that_replaces_itself_fits_into_a_full_room() {
        let mut room = Members::default();
        let (alice, bob): (Identity, Identity) = ("alice".parse().unwrap(), "bob".parse().unwrap());
        assert_eq!(room.check_capacity(&alice, Some(1)), Ok(None));
        room.insert(alice.clone(), "PA_1".parse().unwrap());
        let refused = room.check_capacity(&bob, Some(9));
        assert_eq!(
            refused,
            Err(MachineError::RoomFull),
            "a later token does not raise the maximum"
        );
        assert_eq!(
            room.check_capacity(&alice, Some(1)),
            Ok(Some("PA_1".parse().unwrap()))
        );
    }

    #[test]
    fn members_leave_in_the_order_of_their_joins() {
        let mut room = Members::default();
        for (identity, sid) in [
            ("carol", "PA_1"),
            ("alice", "PA_2"),
            ("bob", "PA_3"),
            ("carol", "PA_4"),
        ] {
            room.insert(identity.parse().unwrap(), sid.parse().unwrap());
        }
        room.request("PA_5".parse().unwrap(), "dave".parse().unwrap());
        let sids: Vec<_> = room.into_sids().map(|sid| sid.to_string()).collect();
        assert_eq!(sids, ["PA_2", "PA_3", "PA_4", "PA_5"]);
    }
}
