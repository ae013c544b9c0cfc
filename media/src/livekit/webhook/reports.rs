//! What an event comes to: reports, in the order in which records have to be written.

use std::time::Duration;

use conclave_model::event::{PublishLimit, TrackFacts, Who};
use conclave_model::participant::Participant;
use conclave_model::{NamespacedRoom, Timestamp};
use livekit_protocol as proto;
use proto::DisconnectReason as Reason;

use super::wire::Event;
use crate::livekit::convert;
use crate::port::{MediaEvent, Report};

/// From a second's begin to its last millisecond.
const LAST_OF_SECOND: Duration = Duration::from_millis(999);

/// A signed event that lacks what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoReport;

/// What an event comes to. Nothing, when its room is none of ours or the event needs no record: rooms begin and end by our
/// own clock. `now` stands in for times that are left out.
pub(super) fn of(event: &Event, now: Timestamp) -> Result<Vec<Report>, NoReport> {
    let Ok(room) = event.room().parse::<NamespacedRoom>() else { return Ok(Vec::new()) };
    let at = happened_at(event.created_at(), now);
    let facts = match event.name() {
        "participant_joined" => return joined(event, &room, at),
        "participant_left" => vec![left(event)?],
        "participant_connection_aborted" => aborted(event)?,
        "track_published" => {
            vec![track(event, |participant, track| MediaEvent::TrackPublished { participant, track })?]
        }
        "track_unpublished" => {
            vec![track(event, |participant, track| MediaEvent::TrackUnpublished { participant, track })?]
        }
        "participant_publish_limit_exceeded" => vec![publish_limit(event, true)?],
        "participant_publish_limit_cleared" => vec![publish_limit(event, false)?],
        "egress_started" | "egress_updated" | "egress_ended" => egress(event, now),
        "ingress_started" | "ingress_ended" => ingress(event),
        _ => Vec::new(),
    };
    Ok(facts.into_iter().map(|event| Report { room: room.clone(), at, event }).collect())
}

/// When an event happened that was queued in a second and is there now. LiveKit says no more than the second, so a track would
/// be published, or somebody leave, before the join that it tells in milliseconds.
fn happened_at(second: i64, now: Timestamp) -> Timestamp {
    let begins = Timestamp::from_millis(second.saturating_mul(1_000));
    if second > 0 { now.clamp(begins, begins.after(LAST_OF_SECOND)) } else { now }
}

/// Somebody joined; and what they published already, since LiveKit may have said so before anybody knew them.
fn joined(event: &Event, room: &NamespacedRoom, at: Timestamp) -> Result<Vec<Report>, NoReport> {
    let info = event.participant();
    let participant = convert::participant(&info).ok_or(NoReport)?;
    let (who, tracks) = (Who::from(&participant), participant.tracks.iter().map(TrackFacts::from).collect::<Vec<_>>());
    let join_at = convert::joined_at(&info).unwrap_or(at);
    let join = Report { room: room.clone(), at: join_at, event: MediaEvent::ParticipantJoined(Box::new(participant)) };
    let published = tracks.into_iter().map(|track| {
        let event = MediaEvent::TrackPublished { participant: who.clone(), track };
        Report { room: room.clone(), at, event }
    });
    Ok(std::iter::once(join).chain(published).collect())
}

fn left(event: &Event) -> Result<MediaEvent, NoReport> {
    let info = event.participant();
    Ok(MediaEvent::ParticipantLeft { participant: who(&info)?, clean: is_clean(info.disconnect_reason()) })
}

/// A connection ended that had never been active, says LiveKit. Reconciliation may have met it on its way in; so whoever has
/// a session leaves, and only who has none is told of as a join that failed.
fn aborted(event: &Event) -> Result<Vec<MediaEvent>, NoReport> {
    let participant = who(&event.participant())?;
    Ok(vec![
        MediaEvent::ParticipantLeft { participant: participant.clone(), clean: false },
        MediaEvent::JoinAborted { participant },
    ])
}

fn track(event: &Event, to_event: fn(Who, TrackFacts) -> MediaEvent) -> Result<MediaEvent, NoReport> {
    let track = convert::track(&event.track()).ok_or(NoReport)?;
    Ok(to_event(who(&event.participant())?, TrackFacts::from(&track)))
}

fn publish_limit(event: &Event, exceeded: bool) -> Result<MediaEvent, NoReport> {
    let (kbps, max_kbps) = event.publish_kbps();
    let track = event.track().sid.parse().ok();
    let limit = PublishLimit { exceeded, kbps, max_kbps, track };
    Ok(MediaEvent::PublishLimit { participant: who(&event.participant())?, limit })
}

/// A job that LiveKit could not even begin by itself has no id, and is nobody's.
fn egress(event: &Event, now: Timestamp) -> Vec<MediaEvent> {
    convert::egress(&event.egress(), now).into_iter().map(|(_, state)| MediaEvent::Egress(state)).collect()
}

fn ingress(event: &Event) -> Vec<MediaEvent> {
    convert::ingress(&event.ingress()).into_iter().map(|(_, state)| MediaEvent::Ingress(state)).collect()
}

/// Whom an event is about. Track events name sid and identity alone: the role stands in the records then.
fn who(info: &proto::ParticipantInfo) -> Result<Who, NoReport> {
    let participant: Option<Participant> = convert::participant(info);
    participant.as_ref().map(Who::from).ok_or(NoReport)
}

/// Whether somebody said goodbye or was disconnected on purpose. A reason that nobody gave counts as a goodbye.
const fn is_clean(reason: Reason) -> bool {
    match reason {
        Reason::UnknownReason
        | Reason::ClientInitiated
        | Reason::DuplicateIdentity
        | Reason::ParticipantRemoved
        | Reason::RoomDeleted
        | Reason::Migration
        | Reason::RoomClosed
        | Reason::UserUnavailable
        | Reason::UserRejected => true,
        // A server that shuts down cuts everybody off, as a restart of the embedded plane does.
        Reason::ServerShutdown
        | Reason::StateMismatch
        | Reason::JoinFailure
        | Reason::SignalClose
        | Reason::SipTrunkFailure
        | Reason::ConnectionTimeout
        | Reason::MediaFailure
        | Reason::AgentError => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_happened_within_the_second_that_livekit_names_and_not_after_it_was_told() {
        let at = |now| happened_at(7, Timestamp::from_millis(now)).millis();
        assert_eq!((at(7_000), at(7_420), at(7_999)), (7_000, 7_420, 7_999));
        assert_eq!(at(9_500), 7_999, "it was a while on its way");
        assert_eq!(at(6_500), 7_000, "clocks differ");
        assert_eq!(happened_at(0, Timestamp::from_millis(3)).millis(), 3, "it is not said");
    }
}
