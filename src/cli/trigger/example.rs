//! An example of each event. Its ids and names say that it is one.

use conclave_model::egress::{EgressKind, EgressStatus};
use conclave_model::event::{
    ChangedBy, Departure, Event, EventContext, EventType, ParticipantRef, PublishLimit,
    TrackChange, TrackSummary,
};
use conclave_model::ingress::IngressStatus;
use conclave_model::participant::{TrackKind, TrackSource};
use conclave_model::{Clock, EgressId, IngressId};

/// Returns an example of an event; `None` if an id in it is not valid.
pub(super) fn example(event: EventType) -> Option<Event> {
    use EventType as E;
    let context = EventContext {
        project_id: "prj_000000000000".parse().ok()?,
        room: "example".parse().ok()?,
        occurred_at: Clock::system().now(),
    };
    let egress = |text: &str| text.parse::<EgressId>().ok();
    let (recording, broadcast) = (
        egress("EG_example_recording")?,
        egress("EG_example_broadcast")?,
    );
    Some(match event {
        E::RoomStarted => Event::room_started(context),
        E::RoomFinished => Event::room_finished(context),
        E::ParticipantJoined => Event::participant_joined(context, participant()?),
        E::ParticipantLeft => Event::participant_gone(context, participant()?, Departure::Left),
        E::ParticipantConnectionAborted => {
            Event::participant_gone(context, participant()?, Departure::Lost)
        }
        E::ParticipantRoleChanged => {
            let by = ChangedBy::Identity("example-host".parse().ok()?);
            Event::role_changed(context, participant()?, "example-guest".parse().ok(), &by)
        }
        E::ParticipantPublishLimitExceeded => {
            Event::publish_limit(context, participant()?, limit(true)?)
        }
        E::ParticipantPublishLimitCleared => {
            Event::publish_limit(context, participant()?, limit(false)?)
        }
        E::TrackPublished => {
            Event::track(context, participant()?, track()?, TrackChange::Published)
        }
        E::TrackUnpublished => {
            Event::track(context, participant()?, track()?, TrackChange::Unpublished)
        }
        E::RecordingStarted => Event::egress_started(context, EgressKind::Recording, recording),
        E::RecordingUpdated => updated(
            context,
            EgressKind::Recording,
            recording,
            EgressStatus::Active,
        ),
        E::RecordingEnded => updated(
            context,
            EgressKind::Recording,
            recording,
            EgressStatus::Complete,
        ),
        E::RecordingFailed => updated(
            context,
            EgressKind::Recording,
            recording,
            EgressStatus::Failed,
        ),
        E::BroadcastStarted => Event::egress_started(context, EgressKind::Broadcast, broadcast),
        E::BroadcastUpdated => updated(
            context,
            EgressKind::Broadcast,
            broadcast,
            EgressStatus::Active,
        ),
        E::BroadcastEnded => updated(
            context,
            EgressKind::Broadcast,
            broadcast,
            EgressStatus::Complete,
        ),
        E::BroadcastFailed => updated(
            context,
            EgressKind::Broadcast,
            broadcast,
            EgressStatus::Failed,
        ),
        E::IngressStarted => ingress(context, IngressStatus::Publishing)?,
        E::IngressEnded => ingress(context, IngressStatus::Inactive)?,
    })
}

fn updated(context: EventContext, kind: EgressKind, id: EgressId, status: EgressStatus) -> Event {
    Event::egress_updated(context, kind, id, status)
}

fn ingress(context: EventContext, status: IngressStatus) -> Option<Event> {
    let id: IngressId = "IN_example".parse().ok()?;
    Some(Event::ingress(
        context,
        id,
        "example-encoder".parse().ok()?,
        status,
    ))
}

fn participant() -> Option<ParticipantRef> {
    let (identity, sid) = (
        "example-participant".parse().ok()?,
        "PA_example".parse().ok()?,
    );
    Some(ParticipantRef {
        identity,
        sid,
        role: "example-host".parse().ok(),
    })
}

fn track() -> Option<TrackSummary> {
    let sid = "TR_example".parse().ok()?;
    Some(TrackSummary {
        sid,
        kind: TrackKind::Video,
        source: TrackSource::Camera,
        muted: false,
    })
}

fn limit(exceeded: bool) -> Option<PublishLimit> {
    let kbps = if exceeded { 640 } else { 400 };
    Some(PublishLimit {
        exceeded,
        track: Some("TR_example".parse().ok()?),
        kbps,
        max_kbps: 500,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_an_example_of_each_event() {
        for event in EventType::ALL {
            let example = serde_json::to_value(example(*event).unwrap()).unwrap();
            assert_eq!(example["type"], event.as_str());
            assert_eq!(
                (&example["room"], &example["project_id"]),
                (&"example".into(), &"prj_000000000000".into())
            );
        }
    }
}
