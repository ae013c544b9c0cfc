//! Reports that arrived before the join of their participant.
//!
//! LiveKit sends events in order, but repeats an event that was not accepted, so a later event of the same participant can
//! overtake it. A leave that arrives before its join would otherwise be lost, and the participant would count as connected
//! until reconciliation.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use conclave_model::ParticipantSid;

use crate::port::{MediaEvent, Report};

/// Number of leaves that are kept. LiveKit repeats a join for half a minute or not at all.
const CAPACITY: usize = 1_000;

/// The latest leaves, oldest first.
#[derive(Debug, Default)]
pub(super) struct OutOfOrderEvents(Mutex<VecDeque<(ParticipantSid, Report)>>);

impl OutOfOrderEvents {
    /// Keeps the leaves among `reports`, and appends to a join the leave that arrived before it.
    pub fn complete(&self, reports: &mut Vec<Report>) {
        let mut leaves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut overdue = None;
        for report in &*reports {
            match &report.event {
                MediaEvent::ParticipantLeft { participant, .. } => {
                    leaves.retain(|(sid, _)| *sid != participant.sid);
                    leaves.push_back((participant.sid.clone(), report.clone()));
                }
                // The leave stays: the join may not be accepted, and be repeated.
                MediaEvent::ParticipantJoined(participant) => {
                    overdue = leaves.iter().find(|(sid, _)| *sid == participant.sid).map(|(_, leave)| leave.clone());
                }
                _ => {}
            }
        }
        let excess = leaves.len().saturating_sub(CAPACITY);
        leaves.drain(..excess);
        reports.extend(overdue);
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::Timestamp;
    use conclave_model::event::ParticipantRef;

    use super::*;

    #[test]
    fn each_leave_is_kept_once_and_the_oldest_is_dropped_at_capacity() {
        let events = OutOfOrderEvents::default();
        for number in 0..=CAPACITY {
            let participant = ParticipantRef {
                identity: "alice".parse().unwrap(),
                sid: format!("PA_{number}").parse().unwrap(),
                role: None,
            };
            let room = "prj_0123456789ab.standup".parse().unwrap();
            let event = MediaEvent::ParticipantLeft { participant, clean: true };
            let mut reports = vec![Report { room, at: Timestamp::from_millis(0), event }];
            events.complete(&mut reports);
            events.complete(&mut reports);
            assert_eq!(reports.len(), 1);
        }
        let leaves = events.0.lock().unwrap();
        assert_eq!((leaves.len(), leaves[0].0.as_str()), (CAPACITY, "PA_1"));
    }
}
