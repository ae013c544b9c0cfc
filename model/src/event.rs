//! The 20 events a project reports, each with its exact set of fields (contract "Events").
//!
//! An [`Event`] is made by the constructor of its family, so that a field which belongs to an event type cannot be
//! forgotten and one which does not cannot slip in.

use serde::Serialize;

use crate::egress::{EgressKind, EgressStatus};
use crate::ingress::IngressStatus;
use crate::key::ApiKeyPrefix;
use crate::participant::{Participant, Track, TrackKind, TrackSource};
use crate::schema::word_enum;
use crate::{EgressId, Identity, IngressId, ParticipantSid, ProjectId, RoleName, RoomName, Timestamp, TrackSid};

word_enum! {
    /// The name of an event.
    EventType {
        /// The first participant joined.
        RoomStarted = "room.started",
        /// The room closed, by emptying past its timeout or by being ended.
        RoomFinished = "room.finished",
        /// Somebody connected.
        ParticipantJoined = "participant.joined",
        /// Somebody disconnected cleanly.
        ParticipantLeft = "participant.left",
        /// A join failed before completing, or the connection dropped without a clean leave.
        ParticipantConnectionAborted = "participant.connection_aborted",
        /// Somebody was given another role.
        ParticipantRoleChanged = "participant.role_changed",
        /// Somebody's bitrate stayed above its ceiling.
        ParticipantPublishLimitExceeded = "participant.publish_limit_exceeded",
        /// Somebody came back under the ceiling and stayed there.
        ParticipantPublishLimitCleared = "participant.publish_limit_cleared",
        /// Somebody started publishing a track.
        TrackPublished = "track.published",
        /// A track stopped.
        TrackUnpublished = "track.unpublished",
        /// The egress behind a recording began.
        RecordingStarted = "recording.started",
        /// A recording moved to another status that is not final.
        RecordingUpdated = "recording.updated",
        /// A recording is final.
        RecordingEnded = "recording.ended",
        /// A recording failed.
        RecordingFailed = "recording.failed",
        /// The egress behind a broadcast began.
        BroadcastStarted = "broadcast.started",
        /// A broadcast moved to another status that is not final.
        BroadcastUpdated = "broadcast.updated",
        /// A broadcast is final.
        BroadcastEnded = "broadcast.ended",
        /// A broadcast failed.
        BroadcastFailed = "broadcast.failed",
        /// An encoder connected and began publishing.
        IngressStarted = "ingress.started",
        /// An encoder went away.
        IngressEnded = "ingress.ended",
    }
}

/// Who an event speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParticipantRef {
    /// The identity.
    pub identity: Identity,
    /// The join.
    pub sid: ParticipantSid,
    /// The role held.
    pub role: Option<RoleName>,
}

impl From<&Participant> for ParticipantRef {
    fn from(participant: &Participant) -> Self {
        Self { identity: participant.identity.clone(), sid: participant.sid.clone(), role: participant.role() }
    }
}

/// Which room an event happened in, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventContext {
    /// Whose room.
    pub project_id: ProjectId,
    /// The room.
    pub room: RoomName,
    /// The media plane's clock where it supplies one.
    pub occurred_at: Timestamp,
}

/// What a track event says of its track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackSummary {
    /// The track.
    pub sid: TrackSid,
    /// What it carries.
    pub kind: TrackKind,
    /// Where it comes from.
    pub source: TrackSource,
    /// Muted at the moment of the event.
    pub muted: bool,
}

impl From<&Track> for TrackSummary {
    fn from(track: &Track) -> Self {
        Self { sid: track.sid.clone(), kind: track.kind, source: track.source, muted: track.muted }
    }
}

/// An event; its JSON is the body that receivers get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Which event.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// Whose.
    pub project_id: ProjectId,
    /// Room name without the project prefix.
    pub room: RoomName,
    /// When it happened.
    pub occurred_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    participant_identity: Option<Identity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    participant_sid: Option<ParticipantSid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<RoleName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_role: Option<RoleName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_by_identity: Option<Identity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_by_api_key_prefix: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    track_sid: Option<TrackSid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    track_kind: Option<TrackKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    track_source: Option<TrackSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    track_muted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    egress_id: Option<EgressId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recording_status: Option<EgressStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    broadcast_status: Option<EgressStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ingress_id: Option<IngressId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ingress_status: Option<IngressStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    publish_kbps: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    publish_max_kbps: Option<u32>,
}

/// Who changed a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangedBy {
    /// A participant, by a room token.
    Identity(Identity),
    /// A server, by a project API key.
    ApiKey(ApiKeyPrefix),
}

impl Event {
    fn bare(event_type: EventType, scene: EventContext) -> Self {
        Self {
            event_type,
            project_id: scene.project_id,
            room: scene.room,
            occurred_at: scene.occurred_at,
            participant_identity: None,
            participant_sid: None,
            role: None,
            previous_role: None,
            changed_by_identity: None,
            changed_by_api_key_prefix: None,
            track_sid: None,
            track_kind: None,
            track_source: None,
            track_muted: None,
            egress_id: None,
            recording_status: None,
            broadcast_status: None,
            ingress_id: None,
            ingress_status: None,
            publish_kbps: None,
            publish_max_kbps: None,
        }
    }

    /// `room.started`.
    #[must_use]
    pub fn room_started(scene: EventContext) -> Self {
        Self::bare(EventType::RoomStarted, scene)
    }

    /// `room.finished`.
    #[must_use]
    pub fn room_finished(scene: EventContext) -> Self {
        Self::bare(EventType::RoomFinished, scene)
    }

    fn of_participant(event_type: EventType, scene: EventContext, who: &ParticipantRef) -> Self {
        Self {
            participant_identity: Some(who.identity.clone()),
            participant_sid: Some(who.sid.clone()),
            role: who.role.clone(),
            ..Self::bare(event_type, scene)
        }
    }

    /// `participant.joined`.
    #[must_use]
    pub fn participant_joined(scene: EventContext, who: &ParticipantRef) -> Self {
        Self::of_participant(EventType::ParticipantJoined, scene, who)
    }

    /// `participant.left`, or `participant.connection_aborted` when nobody said goodbye.
    #[must_use]
    pub fn participant_gone(scene: EventContext, who: &ParticipantRef, clean: bool) -> Self {
        let event_type = if clean { EventType::ParticipantLeft } else { EventType::ParticipantConnectionAborted };
        Self::of_participant(event_type, scene, who)
    }

    /// `track.published` or `track.unpublished`.
    #[must_use]
    pub fn track(scene: EventContext, who: &ParticipantRef, track: &TrackSummary, published: bool) -> Self {
        let event_type = if published { EventType::TrackPublished } else { EventType::TrackUnpublished };
        Self {
            track_sid: Some(track.sid.clone()),
            track_kind: Some(track.kind),
            track_source: Some(track.source),
            track_muted: Some(track.muted),
            ..Self::of_participant(event_type, scene, who)
        }
    }

    /// `participant.publish_limit_exceeded` or `_cleared`; the track where the excess can be attributed to one.
    #[must_use]
    pub fn publish_limit(scene: EventContext, who: &ParticipantRef, limit: &PublishLimit) -> Self {
        let event_type = if limit.exceeded {
            EventType::ParticipantPublishLimitExceeded
        } else {
            EventType::ParticipantPublishLimitCleared
        };
        Self {
            track_sid: limit.track.clone(),
            publish_kbps: Some(limit.kbps),
            publish_max_kbps: Some(limit.max_kbps),
            ..Self::of_participant(event_type, scene, who)
        }
    }

    /// `participant.role_changed`; `who` carries the new role.
    #[must_use]
    pub fn role_changed(
        scene: EventContext,
        who: &ParticipantRef,
        previous_role: Option<RoleName>,
        by: &ChangedBy,
    ) -> Self {
        let (identity, prefix) = match by {
            ChangedBy::Identity(identity) => (Some(identity.clone()), None),
            ChangedBy::ApiKey(prefix) => (None, Some(prefix.as_str().to_owned())),
        };
        Self {
            previous_role,
            changed_by_identity: identity,
            changed_by_api_key_prefix: prefix,
            ..Self::of_participant(EventType::ParticipantRoleChanged, scene, who)
        }
    }
}

// Jobs and ingress endpoints.
impl Event {
    fn of_job(
        event_type: EventType,
        scene: EventContext,
        kind: EgressKind,
        egress_id: &EgressId,
        status: EgressStatus,
    ) -> Self {
        let (recording_status, broadcast_status) = match kind {
            EgressKind::Recording => (Some(status), None),
            EgressKind::Broadcast => (None, Some(status)),
        };
        Self { egress_id: Some(egress_id.clone()), recording_status, broadcast_status, ..Self::bare(event_type, scene) }
    }

    /// `recording.started` or `broadcast.started`.
    #[must_use]
    pub fn egress_started(scene: EventContext, kind: EgressKind, egress_id: &EgressId) -> Self {
        let event_type = match kind {
            EgressKind::Recording => EventType::RecordingStarted,
            EgressKind::Broadcast => EventType::BroadcastStarted,
        };
        Self::of_job(event_type, scene, kind, egress_id, EgressStatus::Starting)
    }

    /// What a move to another status is told as: `*.failed` for a failure, `*.ended` for the other final ones, else
    /// `*.updated` (decisions section 4).
    #[must_use]
    pub fn egress_updated(scene: EventContext, kind: EgressKind, egress_id: &EgressId, status: EgressStatus) -> Self {
        use EventType as E;
        let [updated, ended, failed] = match kind {
            EgressKind::Recording => [E::RecordingUpdated, E::RecordingEnded, E::RecordingFailed],
            EgressKind::Broadcast => [E::BroadcastUpdated, E::BroadcastEnded, E::BroadcastFailed],
        };
        let event_type = match status {
            EgressStatus::Failed => failed,
            status if status.is_final() => ended,
            _ => updated,
        };
        Self::of_job(event_type, scene, kind, egress_id, status)
    }

    /// `ingress.started` when an encoder publishes, `ingress.ended` when it does no more.
    #[must_use]
    pub fn ingress(scene: EventContext, ingress_id: &IngressId, identity: &Identity, status: IngressStatus) -> Self {
        let publishing = status == IngressStatus::Publishing;
        let event_type = if publishing { EventType::IngressStarted } else { EventType::IngressEnded };
        Self {
            participant_identity: Some(identity.clone()),
            ingress_id: Some(ingress_id.clone()),
            ingress_status: Some(status),
            ..Self::bare(event_type, scene)
        }
    }
}

/// A publishing bitrate that crossed its ceiling, one way or the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishLimit {
    /// Above the ceiling now, or back under it.
    pub exceeded: bool,
    /// Measured, in kilobits a second.
    pub kbps: u32,
    /// The ceiling, in kilobits a second.
    pub max_kbps: u32,
    /// The one track published, when there is exactly one.
    pub track: Option<TrackSid>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scene() -> EventContext {
        EventContext {
            project_id: "prj_0123456789ab".parse().unwrap(),
            room: "standup".parse().unwrap(),
            occurred_at: Timestamp::from_millis(0),
        }
    }

    fn who(role: Option<&str>) -> ParticipantRef {
        ParticipantRef {
            identity: "alice".parse().unwrap(),
            sid: "PA_1".parse().unwrap(),
            role: role.map(|r| r.parse().unwrap()),
        }
    }

    #[test]
    fn a_room_event_has_the_four_fields_that_are_always_there_and_no_other() {
        assert_eq!(
            serde_json::to_value(Event::room_started(scene())).unwrap(),
            json!({"type": "room.started", "project_id": "prj_0123456789ab", "room": "standup",
                   "occurred_at": "1970-01-01T00:00:00.000Z"})
        );
    }

    #[test]
    fn a_role_is_absent_where_none_is_held() {
        let event = serde_json::to_value(Event::participant_joined(scene(), &who(None))).unwrap();
        assert!(event.get("role").is_none());
        let event = serde_json::to_value(Event::participant_gone(scene(), &who(Some("host")), false)).unwrap();
        assert_eq!((&event["type"], &event["role"]), (&json!("participant.connection_aborted"), &json!("host")));
    }

    #[test]
    fn there_are_twenty_event_types_and_each_reads_back() {
        assert_eq!(EventType::ALL.len(), 20);
        for event_type in EventType::ALL {
            assert_eq!(event_type.as_str().parse(), Ok(*event_type));
        }
    }
}
