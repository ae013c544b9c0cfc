//! Participants that have left. Their inboxes stay readable for a while, so that a test can see that a participant was
//! removed.

use std::collections::{HashMap, VecDeque};

use conclave_model::ParticipantSid;

use super::local_participant::LocalParticipant;

/// Number of participants that are kept; the oldest is dropped first.
const CAPACITY: usize = 1_000;

/// The participants that left last.
#[derive(Debug, Default)]
pub(super) struct RecentlyLeft {
    participants: HashMap<ParticipantSid, LocalParticipant>,
    order: VecDeque<ParticipantSid>,
}

impl RecentlyLeft {
    /// Adds a participant and drops the oldest at capacity.
    pub fn push(&mut self, participant: LocalParticipant) {
        if self.order.len() == CAPACITY
            && let Some(oldest) = self.order.pop_front()
        {
            self.participants.remove(&oldest);
        }
        let sid = participant.sid().clone();
        self.order.push_back(sid.clone());
        self.participants.insert(sid, participant);
    }

    pub fn get(&self, sid: &ParticipantSid) -> Option<&LocalParticipant> {
        self.participants.get(sid)
    }

    /// Removes a participant. Its sid stays in the queue and is dropped at capacity.
    pub fn forget(&mut self, sid: &ParticipantSid) {
        self.participants.remove(sid);
    }
}
