//! Events that a project reports by webhooks: one declaration (`events!`) of each, with its name, meaning, fields and example.
//!
//! An event has four common fields and the fields of its parts, such as a [`ParticipantRef`]. From
//! the declaration come the names ([`EventType`]), the bodies of deliveries ([`Event`]), and their
//! description ([`EventDoc`]): the OpenAPI document has it in its section `webhooks`, from which
//! the types and tables of the SDKs and the tables of the documentation are generated.
//!
//! [`TestEvent`] and [`EndpointDisabledEvent`] are separate: they concern no room, and only one webhook endpoint receives them.

mod doc;

use serde::Serialize;
use utoipa::ToSchema;

use crate::egress::{EgressKind, EgressStatus};
use crate::ingress::IngressStatus;
use crate::key::ApiKeyPrefix;
use crate::participant::{Participant, Track, TrackKind, TrackSource};
use crate::schema::word_enum;
use crate::{
    EgressId, EndpointId, Identity, IngressId, ParticipantSid, ProjectId, RoleName, RoomName,
    Timestamp, TrackSid,
};

use doc::BodySchema;
pub use doc::EventDoc;

/// Declares the events: the enum of their names, the enum of their bodies, and their descriptions.
///
/// The comment of an event states when it is sent, and is shown to users. The parts of an event are
/// types with a function `example`, which takes what stands behind `=`.
macro_rules! events {
    ($(
        $(#[doc = $doc:literal])+
        $event:ident = $name:literal { $($part:ident: $type:ty $(= $variant:expr)?),* },
    )+) => {
        word_enum! {
            /// The name of an event.
            EventType { $($(#[doc = $doc])+ $event = $name),+ }
        }

        /// An event. Its JSON is the body of a webhook delivery.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
        // The name is the field `type`, first in the body.
        #[serde(tag = "type")]
        pub enum Event {
            $(
                $(#[doc = $doc])+
                #[serde(rename = $name)]
                $event {
                    /// Its project, room and instant.
                    #[serde(flatten)]
                    context: EventContext,
                    $(
                        #[doc = concat!("Its fields about the ", stringify!($part), ".")]
                        #[serde(flatten)]
                        $part: $type,
                    )*
                },
            )+
        }

        impl Event {
            /// Returns the name of the event.
            pub const fn event_type(&self) -> EventType {
                match self {
                    $(Self::$event { .. } => EventType::$event,)+
                }
            }

            /// Returns the fields that every event has.
            pub const fn context(&self) -> &EventContext {
                match self {
                    $(Self::$event { context, .. })|+ => context,
                }
            }

            /// Returns the identity of the participant that the event is about; `None` if it is about none.
            pub fn identity(&self) -> Option<&Identity> {
                match self {
                    // The first part that names a participant; an event has at most one.
                    $(Self::$event { $($part,)* .. } => None$(.or_else(|| $part.identity()))*,)+
                }
            }

            /// Returns an example of an event; `None` if an id in it is not valid.
            pub fn example(event_type: EventType, context: EventContext) -> Option<Self> {
                Some(match event_type {
                    $(EventType::$event => Self::$event { context, $($part: <$type>::example($($variant)?)?),* },)+
                })
            }
        }

        impl EventType {
            /// Returns when the event is sent, as a sentence.
            pub fn summary(self) -> &'static str {
                match self {
                    $(Self::$event => concat!($($doc, "\n"),+).trim(),)+
                }
            }

            fn body(self) -> BodySchema {
                let body = BodySchema::new(self.as_str()).with::<EventContext>();
                match self {
                    $(Self::$event => body$(.with::<$type>())*,)+
                }
            }
        }
    };
}

// The contract's twenty events, in its order.
events! {
    /// The first participant has joined.
    RoomStarted = "room.started" {},
    /// The room has ended, and all its sessions are closed.
    RoomFinished = "room.finished" {},
    /// A participant has connected.
    ParticipantJoined = "participant.joined" { participant: ParticipantRef },
    /// A participant has left cleanly.
    ParticipantLeft = "participant.left" { participant: ParticipantRef },
    // A join that fails gets only this event, without a session.
    /// A join failed, or a connection broke without a clean leave.
    ParticipantConnectionAborted = "participant.connection_aborted" { participant: ParticipantRef },
    /// A participant has been given another role.
    ParticipantRoleChanged = "participant.role_changed" {
        participant: ParticipantRef,
        change: RoleChangeSummary
    },
    /// A participant's bitrate has stayed above its role's limit.
    ParticipantPublishLimitExceeded = "participant.publish_limit_exceeded" {
        participant: ParticipantRef,
        limit: PublishLimit = true
    },
    /// The bitrate has stayed below the limit again.
    ParticipantPublishLimitCleared = "participant.publish_limit_cleared" {
        participant: ParticipantRef,
        limit: PublishLimit = false
    },
    /// A participant has started to publish a track.
    TrackPublished = "track.published" {
        participant: ParticipantRef,
        track: TrackSummary
    },
    /// A track has stopped.
    TrackUnpublished = "track.unpublished" {
        participant: ParticipantRef,
        track: TrackSummary
    },
    /// A recording has started.
    RecordingStarted = "recording.started" { recording: RecordingSummary = EgressStatus::Starting },
    /// The status of a recording has changed, and is not final.
    RecordingUpdated = "recording.updated" { recording: RecordingSummary = EgressStatus::Active },
    /// A recording is final.
    RecordingEnded = "recording.ended" { recording: RecordingSummary = EgressStatus::Complete },
    /// A recording has failed; sent instead of `recording.ended`.
    RecordingFailed = "recording.failed" { recording: RecordingSummary = EgressStatus::Failed },
    /// A broadcast has started.
    BroadcastStarted = "broadcast.started" { broadcast: BroadcastSummary = EgressStatus::Starting },
    /// The status of a broadcast has changed, and is not final.
    BroadcastUpdated = "broadcast.updated" { broadcast: BroadcastSummary = EgressStatus::Active },
    /// A broadcast is final.
    BroadcastEnded = "broadcast.ended" { broadcast: BroadcastSummary = EgressStatus::Complete },
    /// A broadcast has failed; sent instead of `broadcast.ended`.
    BroadcastFailed = "broadcast.failed" { broadcast: BroadcastSummary = EgressStatus::Failed },
    /// An encoder has connected and publishes.
    IngressStarted = "ingress.started" { ingress: IngressSummary = IngressStatus::Publishing },
    /// An encoder has disconnected or stopped publishing.
    IngressEnded = "ingress.ended" { ingress: IngressSummary = IngressStatus::Inactive },
}

/// A part of an event.
trait EventPart {
    /// Returns the identity of the participant that the event is about, if the part names it.
    fn identity(&self) -> Option<&Identity> {
        None
    }
}

impl EventPart for RoleChangeSummary {}
impl EventPart for TrackSummary {}
impl EventPart for PublishLimit {}
impl EventPart for RecordingSummary {}
impl EventPart for BroadcastSummary {}

impl EventPart for ParticipantRef {
    fn identity(&self) -> Option<&Identity> {
        Some(&self.identity)
    }
}

impl EventPart for IngressSummary {
    fn identity(&self) -> Option<&Identity> {
        // The encoder's participant.
        Some(&self.participant_identity)
    }
}

/// The fields that every event has: its project, room and instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct EventContext {
    /// The project that owns the room.
    pub project_id: ProjectId,
    /// The name of the room, without the project.
    pub room: RoomName,
    /// The instant by the media plane's clock if it reports one, else by the server's.
    pub occurred_at: Timestamp,
}

impl EventContext {
    fn example() -> Option<Self> {
        Some(Self {
            project_id: "prj_5f2a9c01be34".parse().ok()?,
            room: "standup".parse().ok()?,
            occurred_at: "2026-01-31T12:00:00.000Z".parse().ok()?,
        })
    }
}

/// The participant that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ParticipantRef {
    /// The identity, unique in the room while the participant is connected.
    // With the prefix, because all parts share one flat object.
    #[serde(rename = "participant_identity")]
    pub identity: Identity,
    /// The id of the join.
    #[serde(rename = "participant_sid")]
    pub sid: ParticipantSid,
    /// The role at the time of the event; absent if the participant has none.
    // Absent rather than null (contract).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub role: Option<RoleName>,
}

impl ParticipantRef {
    fn example() -> Option<Self> {
        Some(Self {
            identity: "alice".parse().ok()?,
            sid: "PA_7uXkTq2m".parse().ok()?,
            role: Some("host".parse().ok()?),
        })
    }
}

impl From<&Participant> for ParticipantRef {
    fn from(participant: &Participant) -> Self {
        Self {
            identity: participant.identity.clone(),
            sid: participant.sid.clone(),
            // As of now: a later change must not alter the event.
            role: participant.role(),
        }
    }
}

/// The change in an event about a role; the role after it is in [`ParticipantRef::role`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RoleChangeSummary {
    /// The role before the change; absent if the participant had none.
    // Absent rather than null (contract).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub previous_role: Option<RoleName>,
    /// The participant that made the change; absent unless a room token made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub changed_by_identity: Option<Identity>,
    /// The prefix of the API key that made the change, or `operator` for the console; absent if a room token made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub changed_by_api_key_prefix: Option<String>,
}

impl RoleChangeSummary {
    /// Returns the change from a role by a caller.
    pub fn new(previous_role: Option<RoleName>, by: &ChangedBy) -> Self {
        Self {
            previous_role,
            // At most one of the two is set.
            changed_by_identity: by.identity().cloned(),
            changed_by_api_key_prefix: by.api_key_prefix().map(str::to_owned),
        }
    }

    fn example() -> Option<Self> {
        let by = ChangedBy::Identity("bob".parse().ok()?);
        Some(Self::new(Some("guest".parse().ok()?), &by))
    }
}

/// The fields of a track that its events contain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
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

impl TrackSummary {
    fn example() -> Option<Self> {
        Some(Self {
            sid: "TR_3cD9xY1kQmZb".parse().ok()?,
            kind: TrackKind::Video,
            source: TrackSource::Camera,
            muted: false,
        })
    }
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

/// A publishing bitrate that rose above its limit, or fell below it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PublishLimit {
    /// Whether the bitrate is above the limit.
    #[serde(skip)]
    pub exceeded: bool,
    /// The published track; absent unless there is exactly one.
    // Absent rather than null (contract).
    #[serde(rename = "track_sid", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub track: Option<TrackSid>,
    /// The measured bitrate, in kilobits a second.
    #[serde(rename = "publish_kbps")]
    #[schema(value_type = i32, minimum = 0, maximum = 2_147_483_647)]
    pub kbps: u32,
    /// The limit, in kilobits a second.
    #[serde(rename = "publish_max_kbps")]
    #[schema(value_type = i32, minimum = 0, maximum = 2_147_483_647)]
    pub max_kbps: u32,
}

impl PublishLimit {
    fn example(exceeded: bool) -> Option<Self> {
        Some(Self {
            exceeded,
            track: Some("TR_3cD9xY1kQmZb".parse().ok()?),
            // On either side of the limit below.
            kbps: if exceeded { 1800 } else { 900 },
            max_kbps: 1500,
        })
    }
}

/// The recording that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RecordingSummary {
    /// The id of the recording.
    pub egress_id: EgressId,
    /// Its status at the time of the event.
    pub recording_status: EgressStatus,
}

impl RecordingSummary {
    fn example(recording_status: EgressStatus) -> Option<Self> {
        Some(Self {
            egress_id: "EG_1".parse().ok()?,
            recording_status,
        })
    }
}

/// The broadcast that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct BroadcastSummary {
    /// The id of the broadcast.
    pub egress_id: EgressId,
    /// Its status at the time of the event.
    pub broadcast_status: EgressStatus,
}

impl BroadcastSummary {
    fn example(broadcast_status: EgressStatus) -> Option<Self> {
        Some(Self {
            egress_id: "EG_1".parse().ok()?,
            broadcast_status,
        })
    }
}

/// The ingress endpoint that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct IngressSummary {
    /// The identity of the encoder's participant.
    pub participant_identity: Identity,
    /// The id of the ingress endpoint.
    pub ingress_id: IngressId,
    /// Its status at the time of the event.
    pub ingress_status: IngressStatus,
}

impl IngressSummary {
    fn example(ingress_status: IngressStatus) -> Option<Self> {
        Some(Self {
            participant_identity: "encoder".parse().ok()?,
            ingress_id: "IN_1".parse().ok()?,
            ingress_status,
        })
    }
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
    /// Replacement for an API key's prefix for [`ChangedBy::Operator`]. No key has it as its
    /// prefix.
    pub const OPERATOR: &str = "operator";

    /// Returns the participant that made the change, if one did.
    pub const fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Identity(identity) => Some(identity),
            // Neither is a participant.
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

/// Way in which a participant leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// It left on purpose, or was removed.
    Left,
    /// Its connection was lost.
    Lost,
}

/// Change of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackChange {
    /// The track is published.
    Published,
    /// The track is unpublished.
    Unpublished,
}

impl Event {
    /// `participant.left`, or `participant.connection_aborted` if its connection was lost.
    pub fn participant_gone(
        context: EventContext,
        participant: ParticipantRef,
        departure: Departure,
    ) -> Self {
        match departure {
            Departure::Left => Self::ParticipantLeft {
                context,
                participant,
            },
            Departure::Lost => Self::ParticipantConnectionAborted {
                context,
                participant,
            },
        }
    }

    /// `track.published` or `track.unpublished`.
    pub fn track(
        context: EventContext,
        participant: ParticipantRef,
        track: TrackSummary,
        change: TrackChange,
    ) -> Self {
        match change {
            TrackChange::Published => Self::TrackPublished {
                context,
                participant,
                track,
            },
            TrackChange::Unpublished => Self::TrackUnpublished {
                context,
                participant,
                track,
            },
        }
    }

    /// `participant.publish_limit_exceeded` or `_cleared`; the track where the excess can be attributed to one.
    pub fn publish_limit(
        context: EventContext,
        participant: ParticipantRef,
        limit: PublishLimit,
    ) -> Self {
        // The flag is not sent: the event's name shows it.
        if limit.exceeded {
            Self::ParticipantPublishLimitExceeded {
                context,
                participant,
                limit,
            }
        } else {
            Self::ParticipantPublishLimitCleared {
                context,
                participant,
                limit,
            }
        }
    }

    /// `participant.role_changed`; `participant` contains the new role.
    pub fn role_changed(
        context: EventContext,
        participant: ParticipantRef,
        previous_role: Option<RoleName>,
        by: &ChangedBy,
    ) -> Self {
        let change = RoleChangeSummary::new(previous_role, by);
        Self::ParticipantRoleChanged {
            context,
            participant,
            change,
        }
    }

    /// `recording.started` or `broadcast.started`.
    pub fn egress_started(context: EventContext, kind: EgressKind, egress_id: EgressId) -> Self {
        let status = EgressStatus::Starting;
        match kind {
            EgressKind::Recording => {
                let recording = RecordingSummary {
                    egress_id,
                    recording_status: status,
                };
                Self::RecordingStarted { context, recording }
            }
            EgressKind::Broadcast => {
                let broadcast = BroadcastSummary {
                    egress_id,
                    broadcast_status: status,
                };
                Self::BroadcastStarted { context, broadcast }
            }
        }
    }

    /// The event of a change of status: `*.failed` for a failure, `*.ended` for the other final ones, else
    /// `*.updated`.
    pub fn egress_updated(
        context: EventContext,
        kind: EgressKind,
        egress_id: EgressId,
        status: EgressStatus,
    ) -> Self {
        match kind {
            EgressKind::Recording => {
                let recording = RecordingSummary {
                    egress_id,
                    recording_status: status,
                };
                match status {
                    // Instead of `recording.ended`, so that receivers need not compare statuses.
                    EgressStatus::Failed => Self::RecordingFailed { context, recording },
                    // Also for `aborted` and `limit_reached`: the body has the status.
                    status if status.is_final() => Self::RecordingEnded { context, recording },
                    _ => Self::RecordingUpdated { context, recording },
                }
            }
            EgressKind::Broadcast => {
                let broadcast = BroadcastSummary {
                    egress_id,
                    broadcast_status: status,
                };
                match status {
                    EgressStatus::Failed => Self::BroadcastFailed { context, broadcast },
                    status if status.is_final() => Self::BroadcastEnded { context, broadcast },
                    _ => Self::BroadcastUpdated { context, broadcast },
                }
            }
        }
    }

    /// `ingress.started` when an encoder starts to publish, `ingress.ended` when it stops.
    pub fn ingress(
        context: EventContext,
        ingress_id: IngressId,
        participant_identity: Identity,
        ingress_status: IngressStatus,
    ) -> Self {
        let ingress = IngressSummary {
            participant_identity,
            ingress_id,
            ingress_status,
        };
        // Whatever ended the stream, receivers get the same event with another status.
        if ingress_status == IngressStatus::Publishing {
            Self::IngressStarted { context, ingress }
        } else {
            Self::IngressEnded { context, ingress }
        }
    }
}

/// Sent by the console to test an endpoint. It is about no room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct TestEvent {
    // The fields keep the order in which receivers have always seen them.
    /// The instant by the server's clock.
    pub occurred_at: Timestamp,
    /// The project that owns the webhook endpoint.
    pub project_id: ProjectId,
    #[serde(rename = "type")]
    #[schema(ignore)]
    name: &'static str,
}

impl TestEvent {
    /// The name of the event.
    pub const NAME: &str = "webhook.test";
    /// When it is sent, as a sentence.
    const SUMMARY: &str = "Sent by the console to test an endpoint. It is about no room.";

    /// Returns the test event of a project.
    pub const fn new(project_id: ProjectId, occurred_at: Timestamp) -> Self {
        Self {
            occurred_at,
            project_id,
            name: Self::NAME,
        }
    }
}

/// Sent once to an endpoint that the server has disabled. It is about no room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct EndpointDisabledEvent {
    /// The instant by the server's clock.
    pub occurred_at: Timestamp,
    /// The project that owns the webhook endpoint.
    pub project_id: ProjectId,
    /// The webhook endpoint's id.
    pub endpoint_id: EndpointId,
    /// Since when attempts have failed, and the last error.
    pub reason: String,
    #[serde(rename = "type")]
    #[schema(ignore)]
    name: &'static str,
}

impl EndpointDisabledEvent {
    /// The name of the event.
    pub const NAME: &str = "webhook.endpoint_disabled";
    /// When it is sent, as a sentence.
    const SUMMARY: &str = "Sent once to an endpoint that the server has disabled, because no delivery was accepted for days. It is about no room.";

    /// Returns the event for an endpoint.
    pub const fn new(
        project_id: ProjectId,
        endpoint_id: EndpointId,
        reason: String,
        occurred_at: Timestamp,
    ) -> Self {
        Self {
            occurred_at,
            project_id,
            endpoint_id,
            reason,
            name: Self::NAME,
        }
    }

    fn example() -> Option<Self> {
        let context = EventContext::example()?;
        let reason = "every attempt since 2026-01-26T12:00:00.000Z has failed, the last with: the receiver answered 500";
        let endpoint = "0191d2c4-3b60-7a11-a1c2-0f6d2e9b7c55".parse().ok()?;
        Some(Self::new(
            context.project_id,
            endpoint,
            reason.to_owned(),
            context.occurred_at,
        ))
    }
}

/// Returns the descriptions of all events in the order of their declaration, then those for a single endpoint.
pub fn docs() -> Vec<EventDoc> {
    let event = |event_type: &EventType| {
        let example = EventContext::example().and_then(|at| Event::example(*event_type, at));
        let (name, summary) = (event_type.as_str(), event_type.summary());
        event_type.body().doc(name, summary, example)
    };
    // With the other examples' project and time.
    let example = EventContext::example().map(|at| TestEvent::new(at.project_id, at.occurred_at));
    // Last, since it is not among the events that a project can cause.
    let test = BodySchema::new(TestEvent::NAME).with::<TestEvent>();
    let test = test.doc(TestEvent::NAME, TestEvent::SUMMARY, example);
    let disabled = BodySchema::new(EndpointDisabledEvent::NAME).with::<EndpointDisabledEvent>();
    let mut disabled = disabled.doc(
        EndpointDisabledEvent::NAME,
        EndpointDisabledEvent::SUMMARY,
        EndpointDisabledEvent::example(),
    );
    // The contract has no endpoint that disables itself.
    disabled.is_extension = true;
    EventType::ALL
        .iter()
        .map(event)
        .chain([test, disabled])
        .collect()
}

#[cfg(test)]
mod tests;
