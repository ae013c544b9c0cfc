//! The 20 events a project reports, each with its exact set of fields (contract "Events").
//!
//! An [`Event`] is made by the constructor of its event type, so that a field which belongs to an event type cannot be
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
        /// A participant connected.
        ParticipantJoined = "participant.joined",
        /// A participant left cleanly.
        ParticipantLeft = "participant.left",
        /// A join failed before completing, or the connection dropped without a clean leave.
        ParticipantConnectionAborted = "participant.connection_aborted",
        /// The role of a participant changed.
        ParticipantRoleChanged = "participant.role_changed",
        /// The publishing bitrate of a participant stayed above its limit.
        ParticipantPublishLimitExceeded = "participant.publish_limit_exceeded",
        /// The publishing bitrate of a participant stayed below its limit again.
        ParticipantPublishLimitCleared = "participant.publish_limit_cleared",
        /// A participant started to publish a track.
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
        /// An encoder disconnected or stopped publishing.
        IngressEnded = "ingress.ended",
    }
}

/// The participant that an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParticipantRef {
    /// The identity, unique in the room while the participant is connected.
    pub identity: Identity,
    /// The id of the join.
    pub sid: ParticipantSid,
    /// The role at the time of the event; absent if the participant has none.
    pub role: Option<RoleName>,
}

impl From<&Participant> for ParticipantRef {
    fn from(participant: &Participant) -> Self {
        Self { identity: participant.identity.clone(), sid: participant.sid.clone(), role: participant.role() }
    }
}

/// The room and the instant of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventContext {
    /// The project that owns the room.
    pub project_id: ProjectId,
    /// The name of the room, without the project.
    pub room: RoomName,
    /// The instant by the media plane's clock if it reports one, else by the server's.
    pub occurred_at: Timestamp,
}

/// The fields of a track that its events contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackSummary {
    /// The media plane's id of the track.
    pub sid: TrackSid,
    /// Audio, video or data.
    pub kind: TrackKind,
    /// The device or screen that the track captures.
    pub source: TrackSource,
    /// Whether the track was muted at the time of the event.
    pub muted: bool,
}

impl From<&Track> for TrackSummary {
    fn from(track: &Track) -> Self {
        Self { sid: track.sid.clone(), kind: track.kind, source: track.source, muted: track.muted }
    }
}

/// An event. Its JSON is the body of a webhook delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The type, which decides the fields that are present.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// The project that owns the room.
    pub project_id: ProjectId,
    /// Room name without the project prefix.
    pub room: RoomName,
    /// The instant of the event by the clock of its context.
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

/// The caller that changed a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangedBy {
    /// A participant with a room token.
    Identity(Identity),
    /// A server with a project API key.
    ApiKey(ApiKeyPrefix),
    /// An operator, by the console.
    Operator,
}

impl ChangedBy {
    /// What stands in the place of an API key's prefix for [`ChangedBy::Operator`]. It is no prefix of a key.
    pub const OPERATOR: &str = "operator";

    /// Returns the participant that made the change, if one did.
    #[must_use]
    pub const fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Identity(identity) => Some(identity),
            Self::ApiKey(_) | Self::Operator => None,
        }
    }

    /// Returns the prefix of the API key that made the change, or [`ChangedBy::OPERATOR`], unless a participant made it.
    #[must_use]
    pub fn api_key_prefix(&self) -> Option<&str> {
        match self {
            Self::Identity(_) => None,
            Self::ApiKey(prefix) => Some(prefix.as_str()),
            Self::Operator => Some(Self::OPERATOR),
        }
    }
}

impl Event {
    fn bare(event_type: EventType, context: EventContext) -> Self {
        Self {
            event_type,
            project_id: context.project_id,
            room: context.room,
            occurred_at: context.occurred_at,
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
    pub fn room_started(context: EventContext) -> Self {
        Self::bare(EventType::RoomStarted, context)
    }

    /// `room.finished`.
    #[must_use]
    pub fn room_finished(context: EventContext) -> Self {
        Self::bare(EventType::RoomFinished, context)
    }

    fn of_participant(event_type: EventType, context: EventContext, participant: &ParticipantRef) -> Self {
        Self {
            participant_identity: Some(participant.identity.clone()),
            participant_sid: Some(participant.sid.clone()),
            role: participant.role.clone(),
            ..Self::bare(event_type, context)
        }
    }

    /// `participant.joined`.
    #[must_use]
    pub fn participant_joined(context: EventContext, participant: &ParticipantRef) -> Self {
        Self::of_participant(EventType::ParticipantJoined, context, participant)
    }

    /// `participant.left` after a clean leave, else `participant.connection_aborted`.
    #[must_use]
    pub fn participant_gone(context: EventContext, participant: &ParticipantRef, clean: bool) -> Self {
        let event_type = if clean { EventType::ParticipantLeft } else { EventType::ParticipantConnectionAborted };
        Self::of_participant(event_type, context, participant)
    }

    /// `track.published` or `track.unpublished`.
    #[must_use]
    pub fn track(context: EventContext, participant: &ParticipantRef, track: &TrackSummary, published: bool) -> Self {
        let event_type = if published { EventType::TrackPublished } else { EventType::TrackUnpublished };
        Self {
            track_sid: Some(track.sid.clone()),
            track_kind: Some(track.kind),
            track_source: Some(track.source),
            track_muted: Some(track.muted),
            ..Self::of_participant(event_type, context, participant)
        }
    }

    /// `participant.publish_limit_exceeded` or `_cleared`; the track where the excess can be attributed to one.
    #[must_use]
    pub fn publish_limit(context: EventContext, participant: &ParticipantRef, limit: &PublishLimit) -> Self {
        let event_type = if limit.exceeded {
            EventType::ParticipantPublishLimitExceeded
        } else {
            EventType::ParticipantPublishLimitCleared
        };
        Self {
            track_sid: limit.track.clone(),
            publish_kbps: Some(limit.kbps),
            publish_max_kbps: Some(limit.max_kbps),
            ..Self::of_participant(event_type, context, participant)
        }
    }

    /// `participant.role_changed`; `participant` contains the new role.
    #[must_use]
    pub fn role_changed(
        context: EventContext,
        participant: &ParticipantRef,
        previous_role: Option<RoleName>,
        by: &ChangedBy,
    ) -> Self {
        Self {
            previous_role,
            changed_by_identity: by.identity().cloned(),
            changed_by_api_key_prefix: by.api_key_prefix().map(str::to_owned),
            ..Self::of_participant(EventType::ParticipantRoleChanged, context, participant)
        }
    }
}

// Egress and ingress endpoints.
impl Event {
    fn of_egress(
        event_type: EventType,
        context: EventContext,
        kind: EgressKind,
        egress_id: &EgressId,
        status: EgressStatus,
    ) -> Self {
        let (recording_status, broadcast_status) = match kind {
            EgressKind::Recording => (Some(status), None),
            EgressKind::Broadcast => (None, Some(status)),
        };
        Self {
            egress_id: Some(egress_id.clone()),
            recording_status,
            broadcast_status,
            ..Self::bare(event_type, context)
        }
    }

    /// `recording.started` or `broadcast.started`.
    #[must_use]
    pub fn egress_started(context: EventContext, kind: EgressKind, egress_id: &EgressId) -> Self {
        let event_type = match kind {
            EgressKind::Recording => EventType::RecordingStarted,
            EgressKind::Broadcast => EventType::BroadcastStarted,
        };
        Self::of_egress(event_type, context, kind, egress_id, EgressStatus::Starting)
    }

    /// The event of a change of status: `*.failed` for a failure, `*.ended` for the other final ones, else
    /// `*.updated`.
    #[must_use]
    pub fn egress_updated(context: EventContext, kind: EgressKind, egress_id: &EgressId, status: EgressStatus) -> Self {
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
        Self::of_egress(event_type, context, kind, egress_id, status)
    }

    /// `ingress.started` when an encoder begins to publish, `ingress.ended` when it stops.
    #[must_use]
    pub fn ingress(context: EventContext, ingress_id: &IngressId, identity: &Identity, status: IngressStatus) -> Self {
        let publishing = status == IngressStatus::Publishing;
        let event_type = if publishing { EventType::IngressStarted } else { EventType::IngressEnded };
        Self {
            participant_identity: Some(identity.clone()),
            ingress_id: Some(ingress_id.clone()),
            ingress_status: Some(status),
            ..Self::bare(event_type, context)
        }
    }
}

/// A publishing bitrate that rose above its limit, or fell below it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishLimit {
    /// Whether the bitrate is above the limit.
    pub exceeded: bool,
    /// The measured bitrate, in kilobits a second.
    pub kbps: u32,
    /// The limit, in kilobits a second.
    pub max_kbps: u32,
    /// The published track, if there is exactly one.
    pub track: Option<TrackSid>,
}

#[cfg(test)]
mod tests;
