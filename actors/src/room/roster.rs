//! The state of a room actor, and its snapshot for the debug endpoint.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::ready;
use std::time::Duration;

use conclave_db::{ConnectedParticipant, RoomSnapshot};
use conclave_model::event::ParticipantRef;
use conclave_model::room::{Room, RoomStatus};
use conclave_model::{Identity, ParticipantSid, RoleName, Timestamp};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;

use super::commands::MediaCalls;
use super::join::Reservations;
use super::message::RoomMsg;
use super::reconcile::Absences;
use crate::mailbox::{Timer, TimerView};
use crate::registry::{Inspect, Inspection};

/// A hibernating room as the debug endpoint shows it: open, without participants, until its deadline.
pub(crate) struct HibernatingRoom {
    /// The instant at which the room ends.
    pub deadline: Timestamp,
}

impl Inspect for HibernatingRoom {
    fn inspect(&self, _: Duration) -> BoxFuture<'_, Option<Inspection>> {
        let deadline = self.deadline;
        let state = json!({"status": "open", "participants": {}, "holders": {}, "reserved": [], "empty_deadline": deadline});
        let timers = vec![TimerView {
            name: "empty_timeout",
            fires_at: deadline,
        }];
        ready(Some(Inspection { timers, state })).boxed()
    }
}

/// What a room's actor is started with.
pub struct RoomStart {
    pub(crate) snapshot: RoomSnapshot,
    /// The seats that an earlier actor had reserved when it stopped. They are in no record.
    pub(super) reservations: Reservations,
}

impl From<RoomSnapshot> for RoomStart {
    fn from(snapshot: RoomSnapshot) -> Self {
        Self {
            snapshot,
            reservations: Reservations::default(),
        }
    }
}

/// The room's record as last written, its connected participants and who of them is not listed, its timer and running calls.
pub struct RoomState {
    pub(super) room: Box<Room>,
    pub(super) participants: Vec<ConnectedParticipant>,
    pub(super) empty_timer: Option<Timer>,
    pub(super) end_failed: bool,
    pub(super) calls: MediaCalls,
    pub(super) absences: Absences,
    /// When the media plane is asked again about participants that were absent.
    pub(super) absence_timer: Option<Timer>,
    pub(super) reservations: Reservations,
    pub(super) reservation_timer: Option<Timer>,
    /// Messages that wait for reports, by the numbers of their marks in the room's queue.
    pub(super) behind_reports: BTreeMap<u64, RoomMsg>,
    /// Joins that may not be complete on the media plane, with the monotonic time at which they were written.
    recent_joins: HashMap<ParticipantSid, Duration>,
}

impl RoomState {
    /// Returns the state of a room as its records describe it.
    pub(super) fn new(
        RoomStart {
            snapshot,
            reservations,
        }: RoomStart,
    ) -> Self {
        Self {
            room: Box::new(snapshot.room),
            participants: snapshot.participants,
            empty_timer: None,
            end_failed: false,
            calls: MediaCalls::default(),
            absences: Absences::default(),
            absence_timer: None,
            reservations,
            reservation_timer: None,
            behind_reports: BTreeMap::new(),
            recent_joins: HashMap::new(),
        }
    }

    /// Applies a join that was written.
    pub(super) fn joined(&mut self, sid: ParticipantSid, at: Duration, now: RoomSnapshot) {
        self.reservations.release(&sid);
        self.recent_joins.insert(sid, at);
        self.refresh(now);
    }

    /// Forgets that a join is recent: its participant has left.
    pub(super) fn forget_join(&mut self, sid: &ParticipantSid) {
        self.recent_joins.remove(sid);
    }

    /// Returns the participants whose joins were written at least `grace` before the monotonic time `now`, or by an earlier actor.
    pub(super) fn settled(&mut self, now: Duration, grace: Duration) -> Vec<ParticipantSid> {
        self.recent_joins.retain(|_, at| *at + grace > now);
        let sids = self.participants.iter().map(|participant| &participant.sid);
        sids.filter(|sid| !self.recent_joins.contains_key(sid))
            .cloned()
            .collect()
    }

    /// Whether the room has not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.room.status == RoomStatus::Open
    }

    /// Whether nothing happens before a message or the deadline: the room is open and empty, no call is running, and no
    /// seat is reserved.
    pub(crate) fn is_idle(&self) -> bool {
        let is_waiting = self.calls.is_empty() && self.reservations.is_empty();
        self.is_open()
            && self.participants.is_empty()
            && self.room.empty_deadline.is_some()
            && is_waiting
    }

    /// Whether the room should have ended, and the store did not answer.
    pub(crate) fn end_failed(&self) -> bool {
        self.end_failed
    }

    /// Returns what the next actor of this room can be started with.
    pub(crate) fn into_start(self) -> RoomStart {
        let snapshot = RoomSnapshot {
            room: *self.room,
            participants: self.participants,
        };
        RoomStart {
            snapshot,
            reservations: self.reservations,
        }
    }

    /// Counts the identities that hold a role or have a reserved seat of it. `except` does not count: a join of that
    /// identity replaces the connected one.
    pub(super) fn holders(&self, role: &RoleName, except: &Identity) -> usize {
        let connected = self
            .participants
            .iter()
            .filter(|p| p.role.as_ref() == Some(role))
            .map(|p| &p.identity);
        let seated = connected
            .chain(self.reservations.holders(role))
            .filter(|identity| *identity != except);
        seated.collect::<HashSet<_>>().len()
    }

    /// Whether this join is connected.
    pub(super) fn has_session(&self, sid: &ParticipantSid) -> bool {
        self.participants
            .iter()
            .any(|participant| participant.sid == *sid)
    }

    /// Whether this join of this identity is connected.
    pub(super) fn is_present(&self, participant: &ParticipantRef) -> bool {
        self.participants
            .iter()
            .any(|p| p.sid == participant.sid && p.identity == participant.identity)
    }

    /// Whether a participant with this identity is connected.
    pub(super) fn is_connected(&self, identity: &Identity) -> bool {
        self.participants
            .iter()
            .any(|participant| participant.identity == *identity)
    }

    /// Applies a role change that was written.
    pub(super) fn set_role(&mut self, sid: &ParticipantSid, role: &RoleName) {
        if let Some(participant) = self
            .participants
            .iter_mut()
            .find(|participant| participant.sid == *sid)
        {
            participant.role = Some(role.clone());
        }
    }

    /// Replaces the record and the participants with what a write returned.
    pub(super) fn refresh(&mut self, now: RoomSnapshot) {
        *self.room = now.room;
        self.participants = now.participants;
    }

    /// Returns the snapshot for the debug endpoint.
    pub(super) fn inspect(&self) -> Inspection {
        let mut participants: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for participant in &self.participants {
            let role = participant.role.as_ref().map_or("", RoleName::as_str);
            participants
                .entry(role)
                .or_default()
                .push(participant.identity.as_str());
        }
        let holders: BTreeMap<_, _> = participants
            .iter()
            .map(|(role, held)| (*role, held.len()))
            .collect();
        let state = json!({
            "status": self.room.status.as_str(),
            "participants": participants,
            "holders": holders,
            "reserved": self.reservations.identities(),
            "empty_deadline": self.room.empty_deadline,
            "template_id": self.room.template_id,
        });
        let timers = self
            .empty_timer
            .iter()
            .chain(&self.reservation_timer)
            .chain(&self.absence_timer);
        Inspection {
            timers: timers.map(Timer::view).collect(),
            state,
        }
    }
}

#[cfg(test)]
mod tests {
    use conclave_media::MediaEvent;
    use conclave_model::event::Departure;
    use conclave_model::participant::ParticipantKind;
    use conclave_model::{ProjectId, RoomId, SessionId};

    use super::super::commands::Target;
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

    /// An open room with a deadline.
    fn snapshot(participants: &[(&str, &str)]) -> RoomSnapshot {
        let room = Room {
            id: RoomId::new(),
            project_id: ProjectId::new(),
            name: "standup".parse().unwrap(),
            max_participants: 0,
            empty_timeout_seconds: 60,
            metadata: None,
            status: RoomStatus::Open,
            template_id: None,
            created_at: Timestamp::from_millis(0),
            started_at: None,
            ended_at: None,
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

    fn state(participants: &[(&str, &str)]) -> RoomState {
        RoomState::new(snapshot(participants).into())
    }

    #[test]
    fn a_room_is_idle_while_it_is_open_and_empty_with_a_deadline_and_without_calls() {
        assert!(state(&[]).is_open() && state(&[]).is_idle());
        assert!(!state(&[("alice", "host")]).is_idle());
        let mut ended = state(&[]);
        ended.room.status = RoomStatus::Ended;
        assert!(!ended.is_open() && !ended.is_idle());
        let mut kept_open = state(&[]);
        kept_open.room.empty_deadline = None;
        assert!(!kept_open.is_idle());
        let mut calling = state(&[]);
        let call = calling.calls.begin(Target::Room).id;
        assert!(!calling.is_idle());
        calling.calls.end(call);
        assert!(calling.is_idle());
    }

    #[test]
    fn a_room_whose_end_was_not_written_says_so() {
        let mut state = state(&[]);
        assert!(!state.end_failed());
        state.end_failed = true;
        assert!(state.end_failed());
    }

    #[test]
    fn the_holders_of_a_role_are_counted_without_the_one_who_is_replaced() {
        let state = state(&[
            ("alice", "host"),
            ("bob", "host"),
            ("carol", "guest"),
            ("dave", "host"),
        ]);
        let holders = |name: &str, except: &str| state.holders(&role(name), &id(except));
        assert_eq!(
            (
                holders("host", "nobody"),
                holders("host", "alice"),
                holders("host", "carol")
            ),
            (3, 2, 3)
        );
        assert_eq!(
            (
                holders("guest", "nobody"),
                holders("guest", "carol"),
                holders("speaker", "nobody")
            ),
            (1, 0, 0)
        );
    }

    #[test]
    fn a_participant_is_known_by_its_join_and_by_its_identity() {
        let state = state(&[("alice", "host"), ("bob", "guest")]);
        assert!(state.has_session(&sid("bob")) && !state.has_session(&sid("carol")));
        assert!(state.is_connected(&id("bob")) && !state.is_connected(&id("carol")));
        let present = |of: &str, who: &str| {
            state.is_present(&ParticipantRef {
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
        let mut state = state(&[("alice", "host"), ("bob", "host")]);
        state.set_role(&sid("bob"), &role("guest"));
        let roles: Vec<_> = state
            .participants
            .iter()
            .map(|participant| participant.role.clone().unwrap())
            .collect();
        assert_eq!(roles, [role("host"), role("guest")]);
    }

    #[test]
    fn a_join_is_settled_after_its_grace_and_one_of_an_earlier_actor_at_once() {
        let (grace, at) = (Duration::from_secs(5), Duration::from_secs);
        let mut state = state(&[("alice", "host")]);
        state.joined(
            sid("bob"),
            at(10),
            snapshot(&[("alice", "host"), ("bob", "guest")]),
        );
        assert_eq!(state.settled(at(10), grace), [sid("alice")]);
        assert_eq!(state.settled(at(14), grace), [sid("alice")]);
        assert_eq!(state.settled(at(15), grace), [sid("alice"), sid("bob")]);
        state.joined(sid("dave"), at(20), snapshot(&[("dave", "guest")]));
        state.forget_join(&sid("dave"));
        assert!(
            state.recent_joins.is_empty(),
            "it is not kept until the next round"
        );
        state.joined(sid("carol"), at(20), snapshot(&[("carol", "guest")]));
        state.refresh(snapshot(&[("alice", "host"), ("carol", "guest")]));
        assert_eq!(state.settled(at(21), grace), [sid("alice")]);
    }

    #[test]
    fn reports_about_a_participant_are_held_while_its_role_is_changed() {
        let left = |name: &str| {
            let participant = ParticipantRef {
                identity: id(name),
                sid: sid(name),
                role: None,
            };
            MediaEvent::ParticipantLeft {
                participant,
                departure: Departure::Left,
            }
        };
        let mut state = state(&[("alice", "host")]);
        let removal = state.calls.begin(Target::Participant(id("bob"))).id;
        let change = state.calls.begin(Target::RoleOf(id("alice"))).id;
        assert!(
            state.calls.holds_report(&left("alice")) && !state.calls.holds_report(&left("bob"))
        );
        assert!(
            !state.calls.holds_report(&MediaEvent::InvalidIdentity)
                && state.calls.is_changing_role()
        );
        state.calls.end(change);
        assert!(!state.calls.holds_report(&left("alice")) && !state.calls.is_changing_role());
        state.calls.end(removal);
    }
}
