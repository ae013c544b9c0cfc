//! Those who were in a room and no longer are. What they received last stays readable for a while, so that a test can see
//! that somebody was removed; the number kept is bounded.

use std::collections::{HashMap, VecDeque};

use conclave_model::ParticipantSid;

use super::person::Person;

/// How many are kept; the first to have gone give way.
const CAPACITY: usize = 1_000;

/// The last ones to have gone.
#[derive(Debug, Default)]
pub(super) struct Departed {
    people: HashMap<ParticipantSid, Person>,
    order: VecDeque<ParticipantSid>,
}

impl Departed {
    /// Keeps somebody.
    pub fn keep(&mut self, person: Person) {
        if self.order.len() == CAPACITY
            && let Some(first) = self.order.pop_front()
        {
            self.people.remove(&first);
        }
        let sid = person.sid().clone();
        self.order.push_back(sid.clone());
        self.people.insert(sid, person);
    }

    /// Finds somebody.
    pub fn get(&self, sid: &ParticipantSid) -> Option<&Person> {
        self.people.get(sid)
    }

    /// Forgets somebody at once. The place in the queue ages out by itself.
    pub fn forget(&mut self, sid: &ParticipantSid) {
        self.people.remove(sid);
    }
}
