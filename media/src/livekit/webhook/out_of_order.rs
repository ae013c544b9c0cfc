//! Reports that arrived before the join of their participant.
//!
//! LiveKit sends events in order, but repeats an event that was not accepted, so later events of the same participant can
//! overtake its join. The control plane ignores a track or a leave of a participant without a session. So these reports are
//! kept, and sent again after the join: the track would otherwise be missing, and the participant count as connected, until
//! reconciliation. The control plane records each of them once, however often it is sent.

use std::collections::VecDeque;

use conclave_model::{ParticipantSid, TrackSid};
use parking_lot::Mutex;

use crate::port::{MediaEvent, Report};

/// Number of reports of each kind that are kept. LiveKit repeats a join for half a minute or not at all.
const CAPACITY: usize = 1_000;

/// The latest publications, ends of tracks, and leaves.
#[derive(Debug, Default)]
pub(super) struct OutOfOrderEvents(Mutex<RecentReports>);

/// A queue for each kind, in the order in which the kinds have to be recorded.
#[derive(Debug, Default)]
struct RecentReports {
    published: ReportQueue,
    unpublished: ReportQueue,
    left: ReportQueue,
}

/// Reports by participant and track, oldest first. A leave has no track.
#[derive(Debug, Default)]
struct ReportQueue(VecDeque<((ParticipantSid, Option<TrackSid>), Report)>);

impl OutOfOrderEvents {
    /// Sends the reports of one event by `send`, and after a join also the reports that arrived before it. The reports of
    /// concurrent events are not interleaved.
    pub fn send_in_order<T>(&self, reports: Vec<Report>, send: impl FnMut(Report) -> T) -> Vec<T> {
        let mut recent = self.0.lock();
        let mut overdue = Vec::new();
        for report in &reports {
            match &report.event {
                // The reports stay in their queues: the join may not be accepted, and be repeated.
                MediaEvent::ParticipantJoined(participant) => {
                    overdue.extend(recent.of(&participant.sid));
                }
                _ => recent.keep(report),
            }
        }
        reports.into_iter().chain(overdue).map(send).collect()
    }
}

impl RecentReports {
    /// Keeps a report if its event belongs to a participant's session.
    fn keep(&mut self, report: &Report) {
        match &report.event {
            MediaEvent::TrackPublished { participant, track } => {
                self.published
                    .push((participant.sid.clone(), Some(track.sid.clone())), report);
            }
            MediaEvent::TrackUnpublished { participant, track } => {
                self.unpublished
                    .push((participant.sid.clone(), Some(track.sid.clone())), report);
            }
            MediaEvent::ParticipantLeft { participant, .. } => {
                self.left.push((participant.sid.clone(), None), report);
            }
            _ => {}
        }
    }

    /// Returns the reports of a participant, in the order in which they have to be recorded.
    fn of(&self, sid: &ParticipantSid) -> Vec<Report> {
        let queues = [&self.published, &self.unpublished, &self.left];
        let reports = queues
            .into_iter()
            .flat_map(|queue| &queue.0)
            .filter(|((of, _), _)| of == sid);
        reports.map(|(_, report)| report.clone()).collect()
    }
}

impl ReportQueue {
    /// Adds a report in place of an earlier one with the same key, and removes the oldest at capacity.
    fn push(&mut self, key: (ParticipantSid, Option<TrackSid>), report: &Report) {
        self.0.retain(|(kept, _)| *kept != key);
        self.0.push_back((key, report.clone()));
        if self.0.len() > CAPACITY {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::Timestamp;
    use conclave_model::event::{Departure, ParticipantRef, TrackSummary};
    use conclave_model::participant::{TrackKind, TrackSource};

    use super::*;

    fn participant(number: usize) -> ParticipantRef {
        ParticipantRef {
            identity: "alice".parse().unwrap(),
            sid: format!("PA_{number}").parse().unwrap(),
            role: None,
        }
    }

    fn left(number: usize) -> MediaEvent {
        MediaEvent::ParticipantLeft {
            participant: participant(number),
            departure: Departure::Left,
        }
    }

    fn published(number: usize) -> MediaEvent {
        let (sid, kind, source) = (
            "TR_1".parse().unwrap(),
            TrackKind::Audio,
            TrackSource::Microphone,
        );
        MediaEvent::TrackPublished {
            participant: participant(number),
            track: TrackSummary {
                sid,
                kind,
                source,
                muted: false,
            },
        }
    }

    #[test]
    fn each_report_is_kept_once_and_the_oldest_of_its_kind_is_dropped_at_capacity() {
        let events = OutOfOrderEvents::default();
        for number in 0..=CAPACITY {
            for event in [
                left(number),
                left(number),
                published(number),
                published(number),
            ] {
                let room = "prj_0123456789ab.standup".parse().unwrap();
                let report = Report {
                    room,
                    at: Timestamp::from_millis(0),
                    event,
                };
                assert_eq!(events.send_in_order(vec![report], |_| ()).len(), 1);
            }
        }
        let recent = events.0.lock();
        for queue in [&recent.left, &recent.published] {
            assert_eq!((queue.0.len(), queue.0[0].0.0.as_str()), (CAPACITY, "PA_1"));
        }
    }
}
