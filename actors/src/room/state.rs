//! A room actor's state, and what it shows of itself.

use std::collections::BTreeMap;
use std::future::ready;
use std::time::Duration;

use conclave_db::{ConnectedParticipant, RoomSnapshot};
use conclave_model::room::{Room, RoomStatus};
use conclave_model::{Identity, ParticipantSid, RoleName, Timestamp};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::inspection::{Inspect, Inspection};
use crate::timer::{Timer, TimerView};

/// A hibernating room as the debug endpoint shows it: open, without participants, until its deadline.
pub(crate) struct HibernatingRoom {
    /// The instant at which the room ends.
    pub deadline: Timestamp,
}

impl Inspect for HibernatingRoom {
    fn inspect(&self, _: Duration) -> BoxFuture<'_, Option<Inspection>> {
        let deadline = self.deadline;
        let state = json!({"status": "open", "participants": {}, "holders": {}, "empty_deadline": deadline});
        let timers = vec![TimerView { name: "empty_timeout", fires_at: deadline }];
        ready(Some(Inspection { timers, state })).boxed()
    }
}

/// The record as last written, who is inside, and the timer.
pub struct RoomState {
    pub(super) room: Box<Room>,
    pub(super) people: Vec<ConnectedParticipant>,
    pub(super) empty_timer: Option<Timer>,
    pub(super) end_failed: bool,
}

impl RoomState {
    /// A room taken up from its records.
    pub(super) fn new(snapshot: RoomSnapshot) -> Self {
        Self { room: Box::new(snapshot.room), people: snapshot.participants, empty_timer: None, end_failed: false }
    }

    /// Not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.room.status == RoomStatus::Open
    }

    /// Open, with nobody inside: nothing happens before somebody joins or the deadline comes.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_open() && self.people.is_empty() && self.room.empty_deadline.is_some()
    }

    /// Its deadline has come, and the store was away.
    pub(crate) fn end_failed(&self) -> bool {
        self.end_failed
    }

    /// Back to what a room is taken up from.
    pub(crate) fn into_snapshot(self) -> RoomSnapshot {
        RoomSnapshot { room: *self.room, participants: self.people }
    }

    /// Who holds a role, not counting `except`, who is about to be replaced by a join of its own.
    pub(super) fn holders(&self, role: &RoleName, except: &Identity) -> usize {
        self.people.iter().filter(|p| p.role.as_ref() == Some(role) && p.identity != *except).count()
    }

    /// Whether somebody is inside by that join.
    pub(super) fn has(&self, sid: &ParticipantSid) -> bool {
        self.people.iter().any(|person| person.sid == *sid)
    }

    /// Whether somebody by that identity is inside.
    pub(super) fn holds(&self, identity: &Identity) -> bool {
        self.people.iter().any(|person| person.identity == *identity)
    }

    /// Takes over a change of role that was written.
    pub(super) fn give_role(&mut self, sid: &ParticipantSid, role: &RoleName) {
        if let Some(person) = self.people.iter_mut().find(|person| person.sid == *sid) {
            person.role = Some(role.clone());
        }
    }

    /// Takes over what a write gave back.
    pub(super) fn refresh(&mut self, now: RoomSnapshot) {
        *self.room = now.room;
        self.people = now.participants;
    }

    /// What the debug endpoint shows.
    pub(super) fn inspect(&self) -> Inspection {
        let mut participants: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for person in &self.people {
            let role = person.role.as_ref().map_or("", RoleName::as_str);
            participants.entry(role).or_default().push(person.identity.as_str());
        }
        let holders: BTreeMap<_, _> = participants.iter().map(|(role, people)| (*role, people.len())).collect();
        let state = json!({
            "status": self.room.status.as_str(),
            "participants": participants,
            "holders": holders,
            "empty_deadline": self.room.empty_deadline,
            "template_id": self.room.template_id,
        });
        Inspection { timers: self.empty_timer.iter().map(Timer::view).collect(), state }
    }
}
