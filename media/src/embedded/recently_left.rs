//! Participants that have left, as the sandbox shows them: their inboxes stay readable for a while, so that a test can see that a
//! participant was removed.

use std::collections::{HashMap, VecDeque};

use conclave_model::ParticipantSid;

use super::local_participant::LocalParticipant;

/// Number of participants that are kept; the oldest is dropped first.
const CAPACITY: usize = 1_000;
/// Bytes of what is kept; the oldest is dropped first.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The participants that left last.
#[derive(Debug, Default)]
pub(super) struct RecentlyLeft {
    participants: HashMap<ParticipantSid, (LocalParticipant, usize)>,
    order: VecDeque<ParticipantSid>,
    bytes: usize,
}

impl RecentlyLeft {
    /// Adds a participant without what belongs to its client, and drops the oldest beyond the bounds. Returns the sids of those.
    pub fn push(&mut self, mut participant: LocalParticipant) -> Vec<ParticipantSid> {
        participant.client = None;
        let (sid, bytes) = (participant.sid().clone(), participant.shown_bytes());
        self.bytes += bytes;
        self.order.push_back(sid.clone());
        self.participants.insert(sid, (participant, bytes));
        let mut dropped = Vec::new();
        while self.order.len() > CAPACITY || self.bytes > MAX_BYTES {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            self.forget(&oldest);
            dropped.push(oldest);
        }
        dropped
    }

    pub fn get(&self, sid: &ParticipantSid) -> Option<&LocalParticipant> {
        self.participants
            .get(sid)
            .map(|(participant, _)| participant)
    }

    /// Removes a participant. Its sid stays in the queue and is dropped at capacity.
    pub fn forget(&mut self, sid: &ParticipantSid) {
        if let Some((_, bytes)) = self.participants.remove(sid) {
            self.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::client::Client;
    use crate::embedded::machine::tests::{NOW, claims, room};

    /// Proves S-50.
    #[test]
    fn what_a_client_said_is_gone_with_it() {
        let sid: ParticipantSid = "PA_1".parse().unwrap();
        let participant = LocalParticipant::new(sid.clone(), claims(&room(), "alice", None), NOW);
        let mut left = RecentlyLeft::default();
        left.push(participant.with_client(Client::default()));
        assert!(
            left.get(&sid).unwrap().client.is_none(),
            "its tracks, wishes and permissions"
        );
    }
}
