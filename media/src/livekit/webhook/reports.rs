//! Conversion of webhook events into reports, and the order in which these are sent.
//!
//! LiveKit sends events in order, but repeats an event that was not accepted, so later events of the same participant
//! can overtake its join. The control plane ignores a track or a leave of a participant without a session. So these
//! reports are kept, and sent again after the join. Otherwise, until reconciliation, the track would be missing and the
//! participant would count as connected. The control plane records each of them once, however often it is sent.

use std::collections::VecDeque;
use std::time::Duration;

use conclave_model::event::{Departure, ParticipantRef, PublishLimit, TrackSummary};
use conclave_model::{NamespacedRoom, ParticipantSid, Timestamp, TrackSid};
use livekit_protocol as proto;
use parking_lot::Mutex;
use proto::DisconnectReason as Reason;

use super::wire::WebhookEvent;
use crate::livekit::convert;
use crate::port::{MediaEvent, Report};

/// From a second's start to its last millisecond.
const LAST_MILLISECOND: Duration = Duration::from_millis(999);

/// A signed event that lacks its participant or track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IncompleteEvent;

/// Returns an event's reports, in the order in which they must be recorded. There are none if the room is not owned by
/// this server, or if the event needs no record: Conclave's own timers open and end rooms. For a participant with an
/// invalid identity, only the join is reported. `now` replaces times that the event lacks.
pub(super) fn from_event(
    event: &WebhookEvent,
    now: Timestamp,
) -> Result<Vec<Report>, IncompleteEvent> {
    // Room names of other users of this LiveKit do not parse.
    let Ok(room) = event.room().parse::<NamespacedRoom>() else {
        return Ok(Vec::new());
    };
    let at = occurred_at(event.created_at(), now);
    // Without a valid identity there is no session that a later event could belong to.
    if convert::is_invalid_identity(event.identity()) {
        let joined = (event.name() == "participant_joined").then_some(MediaEvent::InvalidIdentity);
        return Ok(joined
            .into_iter()
            .map(|event| Report {
                room: room.clone(),
                at,
                event,
            })
            .collect());
    }
    let events = match event.name() {
        // The only event with several reports, because it lists published tracks.
        "participant_joined" => return joined(event, &room, at),
        "participant_left" => vec![left(event)?],
        "participant_connection_aborted" => connection_aborted(event)?,
        "track_published" => {
            vec![track(event, |participant, track| {
                MediaEvent::TrackPublished { participant, track }
            })?]
        }
        "track_unpublished" => {
            vec![track(event, |participant, track| {
                MediaEvent::TrackUnpublished { participant, track }
            })?]
        }
        "participant_publish_limit_exceeded" => vec![publish_limit(event, true)?],
        "participant_publish_limit_cleared" => vec![publish_limit(event, false)?],
        "egress_started" | "egress_updated" | "egress_ended" => egress(event, now),
        "ingress_started" | "ingress_ended" => ingress(event),
        // `room_started` and `room_finished` among others, and events of newer versions.
        _ => Vec::new(),
    };
    Ok(events
        .into_iter()
        .map(|event| Report {
            room: room.clone(),
            at,
            event,
        })
        .collect())
}

/// Returns the time of an event that LiveKit queued in the given second and that has arrived now. Without the
/// milliseconds, a track's publication or a participant's leave would precede the join, whose time has milliseconds.
fn occurred_at(created_at_second: i64, now: Timestamp) -> Timestamp {
    let first = Timestamp::from_millis(created_at_second.saturating_mul(1_000));
    if created_at_second > 0 {
        // Arrival is the best estimate within that second. A repetition arrives later, and gets its last millisecond.
        now.clamp(first, first.after(LAST_MILLISECOND))
    } else {
        now
    }
}

/// Returns the reports of a join and of the tracks that the participant had published when the event was queued.
fn joined(
    event: &WebhookEvent,
    room: &NamespacedRoom,
    at: Timestamp,
) -> Result<Vec<Report>, IncompleteEvent> {
    let info = event.participant();
    let joined = convert::participant(&info).ok_or(IncompleteEvent)?;
    let participant = ParticipantRef::from(&joined);
    let tracks: Vec<_> = joined.tracks.iter().map(TrackSummary::from).collect();
    // LiveKit's own time of joining is more precise than the event's.
    let joined_at = convert::joined_at(&info).unwrap_or(at);
    let join = Report {
        room: room.clone(),
        at: joined_at,
        event: MediaEvent::ParticipantJoined(Box::new(joined)),
    };
    // These tracks may also have events of their own; the control plane records each track once.
    let published = tracks.into_iter().map(|track| {
        let event = MediaEvent::TrackPublished {
            participant: participant.clone(),
            track,
        };
        Report {
            room: room.clone(),
            at,
            event,
        }
    });
    Ok(std::iter::once(join).chain(published).collect())
}

fn left(event: &WebhookEvent) -> Result<MediaEvent, IncompleteEvent> {
    let info = event.participant();
    Ok(MediaEvent::ParticipantLeft {
        participant: participant(&info)?,
        departure: departure(info.disconnect_reason()),
    })
}

/// Returns the reports of a connection that ended before it was active. Reconciliation may have found the participant
/// in the meantime, so both events are reported: a leave, which is recorded if there is a session, and an aborted join,
/// which is recorded if there is none.
fn connection_aborted(event: &WebhookEvent) -> Result<Vec<MediaEvent>, IncompleteEvent> {
    let participant = participant(&event.participant())?;
    let left = MediaEvent::ParticipantLeft {
        participant: participant.clone(),
        departure: Departure::Lost,
    };
    Ok(vec![left, MediaEvent::JoinAborted { participant }])
}

fn track(
    event: &WebhookEvent,
    to_event: fn(ParticipantRef, TrackSummary) -> MediaEvent,
) -> Result<MediaEvent, IncompleteEvent> {
    let track = convert::track(&event.track()).ok_or(IncompleteEvent)?;
    Ok(to_event(
        participant(&event.participant())?,
        TrackSummary::from(&track),
    ))
}

fn publish_limit(event: &WebhookEvent, exceeded: bool) -> Result<MediaEvent, IncompleteEvent> {
    let (kbps, max_kbps) = event.publish_kbps();
    // The limit concerns all tracks together, so the event may name none.
    let track = event.track().sid.parse().ok();
    let limit = PublishLimit {
        exceeded,
        kbps,
        max_kbps,
        track,
    };
    Ok(MediaEvent::PublishLimit {
        participant: participant(&event.participant())?,
        limit,
    })
}

/// Returns an egress's report; none if it has no id, because LiveKit could not start it.
fn egress(event: &WebhookEvent, now: Timestamp) -> Vec<MediaEvent> {
    convert::egress(&event.egress(), now)
        .into_iter()
        .map(|(_, state)| MediaEvent::Egress(state))
        .collect()
}

fn ingress(event: &WebhookEvent) -> Vec<MediaEvent> {
    convert::ingress(&event.ingress())
        .into_iter()
        .map(|(_, state)| MediaEvent::Ingress(state))
        .collect()
}

/// Returns an event's participant. Track events contain only sid and identity; the role is then read from the records.
fn participant(info: &proto::ParticipantInfo) -> Result<ParticipantRef, IncompleteEvent> {
    convert::participant(info)
        .as_ref()
        .map(ParticipantRef::from)
        .ok_or(IncompleteEvent)
}

/// Returns whether a participant left or was disconnected on purpose. An unknown reason counts as on purpose.
const fn departure(reason: Reason) -> Departure {
    match reason {
        Reason::UnknownReason
        | Reason::ClientInitiated
        | Reason::DuplicateIdentity
        | Reason::ParticipantRemoved
        | Reason::RoomDeleted
        | Reason::Migration
        | Reason::RoomClosed
        | Reason::UserUnavailable
        | Reason::UserRejected => Departure::Left,
        // A server's shutdown interrupts connections, as a restart of the embedded plane does.
        Reason::ServerShutdown
        | Reason::StateMismatch
        | Reason::JoinFailure
        | Reason::SignalClose
        | Reason::SipTrunkFailure
        | Reason::ConnectionTimeout
        | Reason::MediaFailure
        | Reason::AgentError => Departure::Lost,
    }
}

/// Maximum number of kept reports per kind. LiveKit repeats a join within half a minute or not at all.
const MAX_KEPT_REPORTS: usize = 1_000;

/// Recent publications, ends of tracks, and leaves.
#[derive(Debug, Default)]
pub(super) struct OutOfOrderEvents(Mutex<RecentReports>);

/// A queue for each kind, in the order in which the kinds must be recorded.
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
    /// Sends an event's reports through `send`, and after a join also the reports that arrived before it. Reports of
    /// concurrent events are not interleaved.
    pub fn send_in_order<T>(&self, reports: Vec<Report>, send: impl FnMut(Report) -> T) -> Vec<T> {
        // Held while the reports are sent: they only enter a queue, and another event must not come between them.
        let mut recent = self.0.lock();
        let mut overdue = Vec::new();
        for report in &reports {
            match &report.event {
                // The reports stay in their queues: the join may be refused, and repeated.
                MediaEvent::ParticipantJoined(participant) => {
                    overdue.extend(recent.for_participant(&participant.sid));
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
            // Other reports need no session, or repeat themselves: an egress reports its whole state each time.
            _ => {}
        }
    }

    /// Returns a participant's reports, in the order in which they must be recorded.
    fn for_participant(&self, sid: &ParticipantSid) -> Vec<Report> {
        let queues = [&self.published, &self.unpublished, &self.left];
        let reports = queues
            .into_iter()
            .flat_map(|queue| &queue.0)
            .filter(|((of, _), _)| of == sid);
        reports.map(|(_, report)| report.clone()).collect()
    }
}

impl ReportQueue {
    /// Adds a report, replacing an earlier report with the same key, and removes the oldest if there are too many.
    fn push(&mut self, key: (ParticipantSid, Option<TrackSid>), report: &Report) {
        self.0.retain(|(kept, _)| *kept != key);
        self.0.push_back((key, report.clone()));
        if self.0.len() > MAX_KEPT_REPORTS {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::participant::{TrackKind, TrackSource};

    use super::*;

    #[test]
    fn an_event_occurred_within_its_second_and_not_after_it_arrived() {
        let at = |now| occurred_at(7, Timestamp::from_millis(now)).millis();
        assert_eq!((at(7_000), at(7_420), at(7_999)), (7_000, 7_420, 7_999));
        assert_eq!(at(9_500), 7_999, "it arrived later");
        assert_eq!(at(6_500), 7_000, "LiveKit's clock is ahead");
        assert_eq!(
            occurred_at(0, Timestamp::from_millis(5_000)).millis(),
            5_000,
            "the event has no time"
        );
    }

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
        // One more than the capacity, each report twice.
        for number in 0..=MAX_KEPT_REPORTS {
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
            assert_eq!(
                (queue.0.len(), queue.0[0].0.0.as_str()),
                (MAX_KEPT_REPORTS, "PA_1")
            );
        }
    }
}
