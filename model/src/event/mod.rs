//! The 20 events that a project reports, each with its exact set of fields.
//!
//! An [`Event`] is made by the constructor of its event type, so that a field which belongs to an event type cannot be
//! forgotten and one which does not cannot slip in.

use serde::Serialize;

use crate::egress::{EgressKind, EgressStatus};
use crate::ingress::IngressStatus;
use crate::key::ApiKeyPrefix;
use crate::participant::{Participant, Track, TrackKind, TrackSource};
use crate::schema::word_enum;
use crate::{
    EgressId, Identity, IngressId, ParticipantSid, ProjectId, RoleName, RoomName, Timestamp,
    TrackSid,
};

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ParticipantRef {
    /// The identity, unique in the room while the participant is connected.
    #[serde(rename = "participant_identity")]
    pub identity: Identity,
    /// The id of the join.
    #[serde(rename = "participant_sid")]
    pub sid: ParticipantSid,
    /// The role at the time of the event; absent if the participant has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<RoleName>,
}

impl From<&Participant> for ParticipantRef {
    fn from(participant: &Participant) -> Self {
        Self {
            identity: participant.identity.clone(),
            sid: participant.sid.clone(),
            role: participant.role(),
        }
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrackSummary {
    /// The media plane's id of the track.
    #[serde(rename = "track_sid")]
    pub sid: TrackSid,
    /// Audio, video or data.
    #[serde(rename = "track_kind")]
    pub kind: TrackKind,
    /// The device or screen that the track captures.
    #[serde(rename = "track_source")]
    pub source: TrackSource,
    /// Whether the track was muted at the time of the event.
    #[serde(rename = "track_muted")]
    pub muted: bool,
}

impl From<&Track> for TrackSummary {
    fn from(track: &Track) -> Self {
        Self {
            sid: track.sid.clone(),
            kind: track.kind,
            source: track.source,
            muted: track.muted,
        }
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
    #[serde(flatten)]
    fields: Fields,
}

/// The fields of an event beside those that all have, by what the event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum Fields {
    Room {},
    Participant(ParticipantRef),
    RoleChange {
        #[serde(flatten)]
        participant: ParticipantRef,
        #[serde(skip_serializing_if = "Option::is_none")]
        previous_role: Option<RoleName>,
        #[serde(skip_serializing_if = "Option::is_none")]
        changed_by_identity: Option<Identity>,
        #[serde(skip_serializing_if = "Option::is_none")]
        changed_by_api_key_prefix: Option<String>,
    },
    Track {
        #[serde(flatten)]
        participant: ParticipantRef,
        #[serde(flatten)]
        track: TrackSummary,
    },
    PublishLimit {
        #[serde(flatten)]
        participant: ParticipantRef,
        #[serde(flatten)]
        limit: PublishLimit,
    },
    Recording {
        egress_id: EgressId,
        recording_status: EgressStatus,
    },
    Broadcast {
        egress_id: EgressId,
        broadcast_status: EgressStatus,
    },
    Ingress {
        participant_identity: Identity,
        ingress_id: IngressId,
        ingress_status: IngressStatus,
    },
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
    pub const fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Identity(identity) => Some(identity),
            Self::ApiKey(_) | Self::Operator => None,
        }
    }

    /// Returns the prefix of the API key that made the change, or [`ChangedBy::OPERATOR`], unless a participant made it.
    pub fn api_key_prefix(&self) -> Option<&str> {
        match self {
            Self::Identity(_) => None,
            Self::ApiKey(prefix) => Some(prefix.as_str()),
            Self::Operator => Some(Self::OPERATOR),
        }
    }
}

/// How a participant goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// It left on purpose, or was told to.
    Left,
    /// Its connection was lost.
    Lost,
}

/// What happens to a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackChange {
    /// The track begins.
    Published,
    /// The track ends.
    Unpublished,
}

impl Event {
    fn new(event_type: EventType, context: EventContext, fields: Fields) -> Self {
        let EventContext {
            project_id,
            room,
            occurred_at,
        } = context;
        Self {
            event_type,
            project_id,
            room,
            occurred_at,
            fields,
        }
    }

    /// Makes a `room.started` event.
    pub fn room_started(context: EventContext) -> Self {
        Self::new(EventType::RoomStarted, context, Fields::Room {})
    }

    /// Makes a `room.finished` event.
    pub fn room_finished(context: EventContext) -> Self {
        Self::new(EventType::RoomFinished, context, Fields::Room {})
    }

    /// Makes a `participant.joined` event.
    pub fn participant_joined(context: EventContext, participant: ParticipantRef) -> Self {
        Self::new(
            EventType::ParticipantJoined,
            context,
            Fields::Participant(participant),
        )
    }

    /// `participant.left`, or `participant.connection_aborted` if its connection was lost.
    pub fn participant_gone(
        context: EventContext,
        participant: ParticipantRef,
        departure: Departure,
    ) -> Self {
        let event_type = match departure {
            Departure::Left => EventType::ParticipantLeft,
            Departure::Lost => EventType::ParticipantConnectionAborted,
        };
        Self::new(event_type, context, Fields::Participant(participant))
    }

    /// `track.published` or `track.unpublished`.
    pub fn track(
        context: EventContext,
        participant: ParticipantRef,
        track: TrackSummary,
        change: TrackChange,
    ) -> Self {
        let event_type = match change {
            TrackChange::Published => EventType::TrackPublished,
            TrackChange::Unpublished => EventType::TrackUnpublished,
        };
        Self::new(event_type, context, Fields::Track { participant, track })
    }

    /// `participant.publish_limit_exceeded` or `_cleared`; the track where the excess can be attributed to one.
    pub fn publish_limit(
        context: EventContext,
        participant: ParticipantRef,
        limit: PublishLimit,
    ) -> Self {
        let event_type = if limit.exceeded {
            EventType::ParticipantPublishLimitExceeded
        } else {
            EventType::ParticipantPublishLimitCleared
        };
        Self::new(
            event_type,
            context,
            Fields::PublishLimit { participant, limit },
        )
    }

    /// `participant.role_changed`; `participant` contains the new role.
    pub fn role_changed(
        context: EventContext,
        participant: ParticipantRef,
        previous_role: Option<RoleName>,
        by: &ChangedBy,
    ) -> Self {
        let fields = Fields::RoleChange {
            participant,
            previous_role,
            changed_by_identity: by.identity().cloned(),
            changed_by_api_key_prefix: by.api_key_prefix().map(str::to_owned),
        };
        Self::new(EventType::ParticipantRoleChanged, context, fields)
    }

    /// `recording.started` or `broadcast.started`.
    pub fn egress_started(context: EventContext, kind: EgressKind, egress_id: EgressId) -> Self {
        let event_type = match kind {
            EgressKind::Recording => EventType::RecordingStarted,
            EgressKind::Broadcast => EventType::BroadcastStarted,
        };
        Self::new(
            event_type,
            context,
            Fields::of_egress(kind, egress_id, EgressStatus::Starting),
        )
    }

    /// The event of a change of status: `*.failed` for a failure, `*.ended` for the other final ones, else
    /// `*.updated`.
    pub fn egress_updated(
        context: EventContext,
        kind: EgressKind,
        egress_id: EgressId,
        status: EgressStatus,
    ) -> Self {
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
        Self::new(
            event_type,
            context,
            Fields::of_egress(kind, egress_id, status),
        )
    }

    /// `ingress.started` when an encoder begins to publish, `ingress.ended` when it stops.
    pub fn ingress(
        context: EventContext,
        ingress_id: IngressId,
        identity: Identity,
        status: IngressStatus,
    ) -> Self {
        let publishing = status == IngressStatus::Publishing;
        let event_type = if publishing {
            EventType::IngressStarted
        } else {
            EventType::IngressEnded
        };
        let fields = Fields::Ingress {
            participant_identity: identity,
            ingress_id,
            ingress_status: status,
        };
        Self::new(event_type, context, fields)
    }
}

impl Fields {
    const fn of_egress(kind: EgressKind, egress_id: EgressId, status: EgressStatus) -> Self {
        match kind {
            EgressKind::Recording => Self::Recording {
                egress_id,
                recording_status: status,
            },
            EgressKind::Broadcast => Self::Broadcast {
                egress_id,
                broadcast_status: status,
            },
        }
    }
}

/// A publishing bitrate that rose above its limit, or fell below it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PublishLimit {
    /// Whether the bitrate is above the limit.
    #[serde(skip)]
    pub exceeded: bool,
    /// The published track, if there is exactly one.
    #[serde(rename = "track_sid", skip_serializing_if = "Option::is_none")]
    pub track: Option<TrackSid>,
    /// The measured bitrate, in kilobits a second.
    #[serde(rename = "publish_kbps")]
    pub kbps: u32,
    /// The limit, in kilobits a second.
    #[serde(rename = "publish_max_kbps")]
    pub max_kbps: u32,
}

#[cfg(test)]
mod tests;
