//! Room roster: the record as last written, the connected participants, and joins that may not be complete yet.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use conclave_db::{ConnectedParticipant, RoomSnapshot};
use conclave_model::event::ParticipantRef;
use conclave_model::room::{Room, RoomStatus};
use conclave_model::{Identity, ParticipantSid, RoleName, Timestamp};

/// A room's record and its connected participants, as last written.
pub(super) struct Roster {
    room: Box<Room>,
    participants: Vec<ConnectedParticipant>,
    /// Joins that may not be complete on the media plane, with the monotonic times at which they were written.
    recent_joins: HashMap<ParticipantSid, Duration>,
    end_failed: bool,
}

impl Roster {
    /// Creates the roster from a room's records.
    pub fn new(snapshot: RoomSnapshot) -> Self {
        Self {
            room: Box::new(snapshot.room),
            participants: snapshot.participants,
            // Joins written by an earlier actor count as complete.
            recent_joins: HashMap::new(),
            end_failed: false,
        }
    }

    /// Returns the room's record.
    pub fn room(&self) -> &Room {
        &self.room
    }

    /// Returns the records, with which another actor of this room can be started.
    pub fn into_snapshot(self) -> RoomSnapshot {
        RoomSnapshot {
            room: *self.room,
            participants: self.participants,
        }
    }

    /// Applies a join that was written at the monotonic time `at`.
    pub fn joined(&mut self, sid: ParticipantSid, at: Duration, now: RoomSnapshot) {
        self.recent_joins.insert(sid, at);
        self.refresh(now);
    }

    /// Forgets that a join is recent, since its participant has left.
    pub fn forget_join(&mut self, sid: &ParticipantSid) {
        self.recent_joins.remove(sid);
    }

    /// Returns the participants whose joins were written at least `grace` before the monotonic time `now`, or by an earlier actor.
    pub fn settled(&mut self, now: Duration, grace: Duration) -> Vec<ParticipantSid> {
        // Pruned here, with each reconciliation, so that the map stays small.
        self.recent_joins.retain(|_, at| *at + grace > now);
        let sids = self.participants.iter().map(|participant| &participant.sid);
        sids.filter(|sid| !self.recent_joins.contains_key(sid))
            .cloned()
            .collect()
    }

    /// Returns whether the room has not ended.
    pub fn is_open(&self) -> bool {
        self.room.status == RoomStatus::Open
    }

    /// Records that the room should have ended, but that the store was unavailable.
    pub fn record_failed_end(&mut self) {
        self.end_failed = true;
    }

    /// Returns whether the room should have ended, but the store was unavailable.
    pub fn end_failed(&self) -> bool {
        self.end_failed
    }

    /// Returns whether the room is open and empty, and has a deadline at which it ends.
    pub fn awaits_deadline(&self) -> bool {
        self.is_open() && self.participants.is_empty() && self.room.empty_deadline.is_some()
    }

    /// Returns the connected participants that keep the room open: neither recorders nor agents.
    pub fn keeping_room(&self) -> impl Iterator<Item = &ConnectedParticipant> {
        self.participants
            .iter()
            .filter(|participant| participant.kind.keeps_room())
    }

    /// Removes the setting of a composite that has been started, as in the record.
    pub fn remove_auto_record(&mut self) {
        self.room.auto_record = None;
    }

    /// Returns the connected identities with a role.
    pub fn holders(&self, role: &RoleName) -> impl Iterator<Item = &Identity> {
        self.participants
            .iter()
            .filter(move |participant| participant.role.as_ref() == Some(role))
            .map(|participant| &participant.identity)
    }

    /// Returns the connected participants, including hidden ones.
    pub fn participants(&self) -> &[ConnectedParticipant] {
        &self.participants
    }

    /// Returns the connected identities by role; those without a role under the empty name.
    pub fn identities_by_role(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut participants: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for participant in &self.participants {
            // No role has an empty name.
            let role = participant.role.as_ref().map_or("", RoleName::as_str);
            participants
                .entry(role)
                .or_default()
                .push(participant.identity.as_str());
        }
        participants
    }

    /// Returns whether this join is connected.
    pub fn has_session(&self, sid: &ParticipantSid) -> bool {
        self.participants
            .iter()
            .any(|participant| participant.sid == *sid)
    }

    /// Returns whether this join is connected, and its session started before `at`.
    pub fn joined_before(&self, sid: &ParticipantSid, at: Timestamp) -> bool {
        self.participants
            .iter()
            // By the time of the record, which survives a restart of the server.
            .any(|participant| participant.sid == *sid && participant.joined_at < at)
    }

    /// Returns whether this join is connected, with this identity.
    pub fn is_present(&self, participant: &ParticipantRef) -> bool {
        self.participants
            .iter()
            // Both, since a report's sid and identity come from outside, and may not belong together.
            .any(|p| p.sid == participant.sid && p.identity == participant.identity)
    }

    /// Returns whether a participant with this identity is connected.
    pub fn is_connected(&self, identity: &Identity) -> bool {
        self.participants
            .iter()
            .any(|participant| participant.identity == *identity)
    }

    /// Applies a role change that was written.
    pub fn set_role(&mut self, sid: &ParticipantSid, role: &RoleName) {
        if let Some(participant) = self
            .participants
            .iter_mut()
            // By sid: the identity may have joined again since.
            .find(|participant| participant.sid == *sid)
        {
            participant.role = Some(role.clone());
        }
    }

    /// Replaces the record and the participants with the result of a write.
    pub fn refresh(&mut self, now: RoomSnapshot) {
        // Replaced as a whole, so that memory never differs from the records in a detail.
        *self.room = now.room;
        self.participants = now.participants;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use conclave_model::participant::ParticipantKind;
    use conclave_model::{ProjectId, RoomId, SessionId};

    use super::*;

    fn sid(identity: &str) -> ParticipantSid {
        format!("PA_{identity}").parse().unwrap()
    }

    fn id(identity: &str) -> Identity {
        identity.parse().unwrap()
    }

    fn role(name: &str) -> RoleName {
        name.parse().unwrap()
    }

    fn connected(identity: &str, role: &str) -> ConnectedParticipant {
        ConnectedParticipant {
            session: SessionId::new(),
            identity: id(identity),
            sid: sid(identity),
            kind: ParticipantKind::Standard,
            role: Some(role.parse().unwrap()),
            joined_at: Timestamp::from_millis(0),
        }
    }

    /// Open room with a deadline.
    pub fn snapshot(participants: &[(&str, &str)]) -> RoomSnapshot {
        let room = Room {
            id: RoomId::new(),
            project_id: ProjectId::new(),
            name: "standup".parse().unwrap(),
            max_participants: 0,
            empty_timeout_seconds: 60,
            max_duration_seconds: None,
            metadata: None,
            status: RoomStatus::Open,
            template_id: None,
            created_at: Timestamp::from_millis(0),
            started_at: None,
            ended_at: None,
            auto_record: None,
            empty_deadline: Some(Timestamp::from_millis(60_000)),
        };
        RoomSnapshot {
            room,
            participants: participants
                .iter()
                .map(|(who, role)| connected(who, role))
                .collect(),
        }
    }

    pub fn roster(participants: &[(&str, &str)]) -> Roster {
        Roster::new(snapshot(participants))
    }

    #[test]
    fn a_room_whose_end_was_not_written_says_so() {
        let mut roster = roster(&[]);
        assert!(!roster.end_failed());
        roster.record_failed_end();
        assert!(roster.end_failed());
    }

    #[test]
    fn a_participant_is_known_by_its_join_and_by_its_identity() {
        let roster = roster(&[("alice", "host"), ("bob", "guest")]);
        assert!(roster.has_session(&sid("bob")) && !roster.has_session(&sid("carol")));
        assert!(roster.is_connected(&id("bob")) && !roster.is_connected(&id("carol")));
        let present = |of: &str, who: &str| {
            roster.is_present(&ParticipantRef {
                identity: id(who),
                sid: sid(of),
                role: None,
            })
        };
        assert!(present("alice", "alice") && present("bob", "bob"));
        assert!(!present("alice", "bob") && !present("carol", "bob") && !present("bob", "carol"));
    }

    #[test]
    fn a_new_role_is_that_of_one_participant() {
        let mut roster = roster(&[("alice", "host"), ("bob", "host")]);
        roster.set_role(&sid("bob"), &role("guest"));
        let roles: Vec<_> = roster
            .participants
            .iter()
            .map(|participant| participant.role.clone().unwrap())
            .collect();
        assert_eq!(roles, [role("host"), role("guest")]);
    }

    #[test]
    fn a_join_is_settled_after_its_grace_and_one_of_an_earlier_actor_at_once() {
        let (grace, at) = (Duration::from_secs(5), Duration::from_secs);
        let mut roster = roster(&[("alice", "host")]);
        roster.joined(
            sid("bob"),
            at(10),
            snapshot(&[("alice", "host"), ("bob", "guest")]),
        );
        assert_eq!(roster.settled(at(10), grace), [sid("alice")]);
        assert_eq!(roster.settled(at(14), grace), [sid("alice")]);
        assert_eq!(roster.settled(at(15), grace), [sid("alice"), sid("bob")]);
        roster.joined(sid("dave"), at(20), snapshot(&[("dave", "guest")]));
        roster.forget_join(&sid("dave"));
        assert!(
            roster.recent_joins.is_empty(),
            "a forgotten join is dropped before the next round"
        );
        roster.joined(sid("carol"), at(20), snapshot(&[("carol", "guest")]));
        roster.refresh(snapshot(&[("alice", "host"), ("carol", "guest")]));
        assert_eq!(roster.settled(at(21), grace), [sid("alice")]);
    }
}
