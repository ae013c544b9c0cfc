//! Leaves that came before their joins. LiveKit promises an order for one attempt, and sends an event again that was not
//! taken: whoever left in the meantime would be thought inside until reconciliation finds nobody.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use conclave_model::ParticipantSid;

use crate::port::{MediaEvent, Report};

/// Leaves that are remembered. A join is sent again for half a minute or not at all.
const REMEMBERED: usize = 1_000;

/// The latest leaves, the oldest first.
#[derive(Debug, Default)]
pub(in crate::livekit) struct Early(Mutex<VecDeque<(ParticipantSid, Report)>>);

impl Early {
    /// Remembers the leaves among `reports`, and puts behind a join the leave that came before it.
    pub fn complete(&self, reports: &mut Vec<Report>) {
        let mut leaves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut overdue = None;
        for report in &*reports {
            match &report.event {
                MediaEvent::ParticipantLeft { participant, .. } => {
                    leaves.retain(|(sid, _)| *sid != participant.sid);
                    leaves.push_back((participant.sid.clone(), report.clone()));
                }
                // It stays remembered: the join may not be taken, and come once more.
                MediaEvent::ParticipantJoined(person) => {
                    overdue = leaves.iter().find(|(sid, _)| *sid == person.sid).map(|(_, leave)| leave.clone());
                }
                _ => {}
            }
        }
        let excess = leaves.len().saturating_sub(REMEMBERED);
        leaves.drain(..excess);
        reports.extend(overdue);
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::Timestamp;
    use conclave_model::event::Who;

    use super::*;

    #[test]
    fn only_so_many_are_remembered_each_once() {
        let early = Early::default();
        for number in 0..=REMEMBERED {
            let participant =
                Who { identity: "alice".parse().unwrap(), sid: format!("PA_{number}").parse().unwrap(), role: None };
            let room = "prj_0123456789ab.standup".parse().unwrap();
            let event = MediaEvent::ParticipantLeft { participant, clean: true };
            let mut reports = vec![Report { room, at: Timestamp::from_millis(0), event }];
            early.complete(&mut reports);
            early.complete(&mut reports);
            assert_eq!(reports.len(), 1);
        }
        let leaves = early.0.lock().unwrap();
        assert_eq!((leaves.len(), leaves[0].0.as_str()), (REMEMBERED, "PA_1"));
    }
}
