//! Conversion of webhook events into reports.

use std::time::Duration;

use conclave_model::event::{Departure, ParticipantRef, PublishLimit, TrackSummary};
use conclave_model::{NamespacedRoom, Timestamp};
use livekit_protocol as proto;
use proto::DisconnectReason as Reason;

use super::wire::WebhookEvent;
use crate::livekit::convert;
use crate::port::{MediaEvent, Report};

/// From the begin of a second to its last millisecond.
const LAST_MILLISECOND: Duration = Duration::from_millis(999);

/// A signed event that lacks the participant or track that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IncompleteEvent;

/// Returns the reports of an event, in the order in which they have to be recorded. There are none if the room is not owned
/// by this server, or if the event needs no record: Conclave's own timers open and end rooms. Of a participant with an invalid
/// identity only the join is reported. `now` replaces times that the event lacks.
pub(super) fn from_event(
    event: &WebhookEvent,
    now: Timestamp,
) -> Result<Vec<Report>, IncompleteEvent> {
    let Ok(room) = event.room().parse::<NamespacedRoom>() else {
        return Ok(Vec::new());
    };
    let at = occurred_at(event.created_at(), now);
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

/// Returns when an event occurred that LiveKit queued in the given second and that has arrived now. Without the
/// milliseconds, a track would be published, or a participant leave, before the join, which has a time in milliseconds.
fn occurred_at(created_at_second: i64, now: Timestamp) -> Timestamp {
    let first = Timestamp::from_millis(created_at_second.saturating_mul(1_000));
    if created_at_second > 0 {
        now.clamp(first, first.after(LAST_MILLISECOND))
    } else {
        now
    }
}

/// A join, and the tracks that the participant had published when the event was queued.
fn joined(
    event: &WebhookEvent,
    room: &NamespacedRoom,
    at: Timestamp,
) -> Result<Vec<Report>, IncompleteEvent> {
    let info = event.participant();
    let joined = convert::participant(&info).ok_or(IncompleteEvent)?;
    let participant = ParticipantRef::from(&joined);
    let tracks: Vec<_> = joined.tracks.iter().map(TrackSummary::from).collect();
    let joined_at = convert::joined_at(&info).unwrap_or(at);
    let join = Report {
        room: room.clone(),
        at: joined_at,
        event: MediaEvent::ParticipantJoined(Box::new(joined)),
    };
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

/// A connection that ended before it was active. Reconciliation may have found the participant in the meantime, so both
/// events are reported: a leave, which is recorded if there is a session, and an aborted join, which is recorded if there
/// is none.
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

/// An egress; nothing if it has no id, because LiveKit could not start it.
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

/// The participant of an event. Track events contain only sid and identity; the role is then read from the records.
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
        // A server that shuts down interrupts its connections, as a restart of the embedded plane does.
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

#[cfg(test)]
mod tests {
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
}
