//! A room actor's state, and what it shows of itself.

use std::collections::BTreeMap;

use conclave_db::{LivePerson, RoomSnapshot};
use conclave_model::room::Room;
use conclave_model::{Identity, RoleName};
use serde_json::json;

use crate::card::Inspection;
use crate::timer::Timer;

/// The record as last written, who is inside, and the timer.
pub struct RoomState {
    pub(super) room: Box<Room>,
    pub(super) people: Vec<LivePerson>,
    pub(super) empty_timer: Option<Timer>,
}

impl RoomState {
    /// A room taken up from its records.
    pub(super) fn new(snapshot: RoomSnapshot) -> Self {
        Self { room: Box::new(snapshot.room), people: snapshot.people, empty_timer: None }
    }

    /// Who holds a role, not counting `except`, who is about to be replaced by a join of its own.
    pub(super) fn holders(&self, role: &RoleName, except: &Identity) -> usize {
        self.people.iter().filter(|p| p.role.as_ref() == Some(role) && p.identity != *except).count()
    }

    /// Takes over what a write gave back.
    pub(super) fn renew(&mut self, room: Room, people: Vec<LivePerson>) {
        *self.room = room;
        self.people = people;
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
