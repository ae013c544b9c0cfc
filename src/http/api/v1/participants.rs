//! Live participants, as reported by the media plane, and moderation.
//!
//! Moderation (removing, muting, sending data) leaves no record. The room's actor serialises it with joins and leaves; the media plane
//! reports its effects like every other event of the room. A role change is logged.

use conclave_actors::room::{ChangeRoleRequest, MuteTrackRequest};
use conclave_media::{MuteOutcome, ServerData};
use conclave_model::event::ChangedBy;
use conclave_model::non_null::non_null;
use conclave_model::page::Page;
use conclave_model::participant::{DataKind, Participant, Track};
use conclave_model::role::Permission;
use conclave_model::role_change::{RoleChange, RoleChanged};
use conclave_model::room::{Room, RoomStatus};
use conclave_model::text::Text;
use conclave_model::{
    ErrorCode, Identity, ParticipantSid, Problem, RoleChangeId, RoleName, RoomName, Timestamp,
    TrackSid,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::parameters::{ParticipantPath, RoomPath};
use crate::http::api::input::{Base64Bytes, BeyondContract, Input, NoBody, NoParams, Paged};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Json, Listed, NoContent};
use crate::http::api::spec::Method;

/// Returns an example participant for the description.
pub(super) fn example() -> serde_json::Value {
    json!({
        "sid": "PA_8fK2mQ0aLx7c", "identity": "alice", "name": "Alice", "state": "active", "kind": "standard",
        "metadata": "", "attributes": {"svc.role": "host"}, "is_publisher": true,
        "joined_at": "2026-01-31T12:00:05.120Z",
        "tracks": [{"sid": "TR_3cD9xY1kQmZb", "kind": "audio", "source": "microphone", "muted": false}]
    })
}

impl Listed for Participant {
    const COLLECTION: &'static str = "participants";
}

/// Returns the operations on participants: reading, moderation, role changes.
pub fn operations() -> Vec<Box<dyn Operation>> {
    let mut operations = reading_operations();
    operations.extend(moderation_operations());
    operations.extend(role_change_operations());
    operations
}

fn reading_operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(
            Method::Get,
            "/v1/rooms/{name}/participants",
            "list_participants",
            list,
        )
        .about("participants", "List a room's participants")
        .responds(example())
        .links(
            &[
                "get_participant",
                "remove_participant",
                "mute_track",
                "change_role",
            ],
            &[
                ("name", "$request.path.name"),
                ("identity", "$response.body#/participants/0/identity"),
            ],
        )
        .errors(&[ErrorCode::RoomNotFound, ErrorCode::MediaUnavailable])
        .build(),
        operation(
            Method::Get,
            "/v1/rooms/{name}/participants/{identity}",
            "get_participant",
            get,
        )
        .about("participants", "Read one participant")
        .responds(example())
        .errors(&[
            ErrorCode::RoomNotFound,
            ErrorCode::ParticipantNotFound,
            ErrorCode::MediaUnavailable,
        ])
        .build(),
    ]
}

pub async fn list(
    context: RequestContext,
    input: Input<RoomPath, Paged<NoParams>, NoBody>,
) -> Result<Page<Participant>> {
    let room = context
        .state
        .store
        .rooms()
        .get(context.project(), input.path.name)
        .await?;
    let mut participants = match room.status {
        RoomStatus::Open => {
            context
                .state
                .media
                .participants(&room.namespaced_name())
                .await?
        }
        // Empty even while the media plane is still disconnecting participants.
        RoomStatus::Ended => Vec::new(),
    };
    // The media plane guarantees no order, and pages need a total one.
    participants.sort_by(|a, b| (a.joined_at, &a.sid).cmp(&(b.joined_at, &b.sid)));
    Ok(Page::from_all(participants, input.query.page))
}

async fn get(
    context: RequestContext,
    input: Input<ParticipantPath, NoParams, NoBody>,
) -> Result<Json<Participant>> {
    let room = context
        .state
        .store
        .rooms()
        .get(context.project(), input.path.name)
        .await?;
    let found = match room.status {
        RoomStatus::Open => {
            context
                .state
                .media
                .participant(&room.namespaced_name(), &input.path.identity)
                .await?
        }
        // The media plane is not queried: it may still be disconnecting the last participants.
        RoomStatus::Ended => None,
    };
    Ok(Json(found.ok_or_else(Problem::participant_not_found)?))
}

/// A track to mute or unmute.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MuteTrack {
    /// A track that the participant publishes.
    track_sid: TrackSid,
    /// true mutes, false unmutes.
    // Required: with a default, a forgotten field would mute or unmute (contract).
    muted: bool,
}

/// A track that was muted or unmuted.
#[derive(Serialize, ToSchema)]
pub struct MutedTrack {
    /// The track after the change.
    pub track: Track,
}

/// Options for a removal.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct RemoveOptions {
    /// If true, the identity's tokens for the room minted until now are refused, also if it is not connected; room codes give new ones
    revoke: Option<bool>,
}

/// A message from the server.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendData {
    /// Message bytes in standard base64.
    data: Base64Bytes,
    /// Delivery mode; default reliable.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    kind: Option<DataKind>,
    /// Receivers; absent or empty means all participants.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    destination_identities: Option<Vec<Identity>>,
    /// Topic that clients can filter by.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    topic: Option<Text>,
}

/// Response to a sent message.
#[derive(Serialize, ToSchema)]
pub struct DataSent {
    /// Whether the media plane accepted the message; always true.
    pub sent: bool,
    /// Size of the decoded message.
    pub bytes: usize,
}

/// Returns the operations that moderate a room.
fn moderation_operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(Method::Delete, "/v1/rooms/{name}/participants/{identity}", "remove_participant", remove)
            .about("participants", "Disconnect a participant; its token stays valid, unless `revoke` is true")
            .room_token(&[Permission::RemoveOthers])
            .errors(&[ErrorCode::RoomNotFound, ErrorCode::ParticipantNotFound, ErrorCode::MediaUnavailable])
            .build(),
        operation(Method::Post, "/v1/rooms/{name}/participants/{identity}/mute", "mute_track", mute)
            .about("participants", "Mute or unmute a participant's track")
            .example(json!({"track_sid": "TR_3cD9xY1kQmZb", "muted": true}))
            .responds(muted_example())
            // Muting and unmuting are separate permissions.
            .room_token_by(&[Permission::MuteOthers, Permission::UnmuteOthers], |input| {
                if input.body.muted { Permission::MuteOthers } else { Permission::UnmuteOthers }
            })
            .idempotent()
            .errors(&[
                ErrorCode::RoomNotFound,
                ErrorCode::ParticipantNotFound,
                ErrorCode::TrackNotFound,
                ErrorCode::MediaUnavailable,
            ])
            .build(),
        operation(Method::Post, "/v1/rooms/{name}/send-data", "send_data", send_data)
            .about("participants", "Send data to all or some of a room's participants")
            .example(json!({
                "data": "aGVsbG8=", "kind": "reliable", "destination_identities": ["alice"], "topic": "chat"
            }))
            .responds(json!({"sent": true, "bytes": 5}))
            .room_token(&[Permission::SendData])
            .idempotent()
            .errors(&[ErrorCode::RoomNotFound, ErrorCode::MediaUnavailable])
            .build(),
    ]
}

fn muted_example() -> serde_json::Value {
    json!({"track": {"sid": "TR_3cD9xY1kQmZb", "kind": "audio", "source": "microphone", "muted": true}})
}

/// Returns an open room.
///
/// # Errors
/// `participant_not_found` if the room has ended.
async fn live_room(context: &RequestContext, name: RoomName) -> Result<Room> {
    let room = context
        .state
        .store
        .rooms()
        .get(context.project(), name)
        .await?;
    if room.status == RoomStatus::Open {
        Ok(room)
    } else {
        Err(Problem::participant_not_found().into())
    }
}

pub async fn remove(
    context: RequestContext,
    input: Input<ParticipantPath, BeyondContract<RemoveOptions>, NoBody>,
) -> Result<NoContent> {
    let room = live_room(&context, input.path.name).await?;
    let BeyondContract(RemoveOptions { revoke }) = input.query;
    if revoke == Some(true) {
        context
            .state
            .tree
            .revoke_participant(room.project_id, room.name, input.path.identity)
            .await?;
        // Also if the participant was not connected: its tokens are revoked.
        return Ok(NoContent);
    }
    let removed = context
        .state
        .tree
        .remove_participant(room.project_id, room.name, input.path.identity)
        .await?;
    // Known only after the call: the participant may have left a moment ago.
    if removed {
        Ok(NoContent)
    } else {
        Err(Problem::participant_not_found().into())
    }
}

pub async fn mute(
    context: RequestContext,
    input: Input<ParticipantPath, NoParams, MuteTrack>,
) -> Result<Json<MutedTrack>> {
    let MuteTrack { track_sid, muted } = input.body;
    let room = live_room(&context, input.path.name).await?;
    let request = MuteTrackRequest {
        identity: input.path.identity,
        track: track_sid,
        muted,
    };
    match context
        .state
        .tree
        .mute_track(room.project_id, room.name, request)
        .await?
    {
        MuteOutcome::Done(track) => Ok(Json(MutedTrack { track })),
        MuteOutcome::NoSuchParticipant => Err(Problem::participant_not_found().into()),
        MuteOutcome::NoSuchTrack => Err(Problem::track_not_found().into()),
    }
}

pub async fn send_data(
    context: RequestContext,
    input: Input<RoomPath, NoParams, SendData>,
) -> Result<Json<DataSent>> {
    let body = input.body;
    let message = ServerData {
        data: body.data.into(),
        topic: body.topic.map(String::from),
        kind: body.kind.unwrap_or(DataKind::Reliable),
        // Empty means all participants (contract).
        to: body.destination_identities.unwrap_or_default(),
    };
    let room = context
        .state
        .store
        .rooms()
        .get(context.project(), input.path.name)
        .await?;
    // 404 as for an unknown room (contract), but with a message that the room has ended.
    if room.status == RoomStatus::Ended {
        return Err(Problem::no_room_for_data().into());
    }
    let bytes = message.data.len();
    context
        .state
        .tree
        // Through the room's actor, which orders the message after earlier joins.
        .send_data(room.project_id, room.name, message)
        .await?;
    // True even if no participant receives it (contract).
    Ok(Json(DataSent { sent: true, bytes }))
}

const NOTE: &str = "The new role's grants and attributes apply at once, and tracks that it does not allow have been \
                    unpublished. Tracks that it does allow keep the codec, resolution and bitrate they were published \
                    with until the participant republishes them.";

/// A participant's new role.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRole {
    /// A role in the room's template.
    role: RoleName,
}

/// Filters for a room's role changes.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct RoleChangeFilter {
    /// Only with this identity
    #[param(inline)]
    identity: Option<Identity>,
}

/// One change of a participant's role; exactly one of `changed_by_identity` and `changed_by_api_key_prefix` is present.
#[derive(Serialize, ToSchema)]
#[schema(as = RoleChange)]
pub struct RoleChangeJson {
    pub id: RoleChangeId,
    pub room: RoomName,
    pub participant_identity: Identity,
    pub participant_sid: ParticipantSid,
    pub role: RoleName,
    /// Absent if the participant had no role.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub previous_role: Option<RoleName>,
    /// Set if a room token made the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub changed_by_identity: Option<Identity>,
    /// Set if a project API key made the change; `operator` for a change in the console.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub changed_by_api_key_prefix: Option<String>,
    pub created_at: Timestamp,
}

/// Response to a role change.
#[derive(Serialize, ToSchema)]
pub struct RoleChangeResult {
    pub role_change: RoleChangeJson,
    /// The participant after the change.
    pub participant: Participant,
    /// Whether the change applies without a new join; always true.
    pub applies_live: bool,
    /// Explains what does not change until the participant republishes.
    pub note: &'static str,
}

impl From<RoleChange> for RoleChangeJson {
    fn from(change: RoleChange) -> Self {
        let (changed_by_identity, changed_by_api_key_prefix) = match change.changed_by {
            ChangedBy::Identity(identity) => (Some(identity), None),
            ChangedBy::ApiKey(prefix) => (None, Some(prefix.into())),
            // An operator has no key; the word cannot be a prefix, which starts with `vk_`.
            ChangedBy::Operator => (None, Some(ChangedBy::OPERATOR.into())),
        };
        Self {
            id: change.id,
            room: change.room,
            participant_identity: change.participant_identity,
            participant_sid: change.participant_sid,
            role: change.role,
            previous_role: change.previous_role,
            changed_by_identity,
            changed_by_api_key_prefix,
            created_at: change.created_at,
        }
    }
}

impl From<RoleChanged> for RoleChangeResult {
    fn from(
        RoleChanged {
            change,
            participant,
        }: RoleChanged,
    ) -> Self {
        Self {
            role_change: change.into(),
            participant,
            // Grants and attributes change without a new join (contract).
            applies_live: true,
            note: NOTE,
        }
    }
}

impl Listed for RoleChangeJson {
    const COLLECTION: &'static str = "role_changes";
}

fn role_change_example() -> serde_json::Value {
    json!({
        "id": "0191d2c4-b2f0-7a11-8e4c-6d20f1a9c3b7", "room": "standup", "participant_identity": "alice",
        "participant_sid": "PA_8fK2mQ0aLx7c", "role": "host", "previous_role": "guest",
        "changed_by_api_key_prefix": "vk_test_8Gh2", "created_at": "2026-01-31T12:10:00.000Z"
    })
}

/// Returns the operations that change roles and list the changes.
fn role_change_operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(Method::Post, "/v1/rooms/{name}/participants/{identity}/role", "change_role", change)
            .about("participants", "Change a connected participant's role")
            .example(json!({"role": "host"}))
            .responds(json!({
                "role_change": role_change_example(), "participant": example(), "applies_live": true, "note": NOTE
            }))
            .room_token(&[Permission::ChangeRole])
            .idempotent()
            .errors(&[
                ErrorCode::RoomNotFound,
                ErrorCode::ParticipantNotFound,
                ErrorCode::TemplateNotFound,
                ErrorCode::RoleNotFound,
                ErrorCode::MediaUnavailable,
            ])
            .build(),
        operation(Method::Get, "/v1/rooms/{name}/role-changes", "list_role_changes", list_role_changes)
            .about("participants", "List a room's role changes, newest first")
            .responds(role_change_example())
            .errors(&[ErrorCode::RoomNotFound])
            .build(),
    ]
}

pub async fn change(
    context: RequestContext,
    input: Input<ParticipantPath, NoParams, ChangeRole>,
) -> Result<Json<RoleChangeResult>> {
    let room = context
        .state
        .store
        .rooms()
        .get(context.project(), input.path.name)
        .await?;
    let request = ChangeRoleRequest {
        identity: input.path.identity,
        role: input.body.role,
        by: context.changed_by()?,
    };
    // The actor decides on the role, because the participant may leave or rejoin meanwhile.
    let change = |recorder| {
        context
            .state
            .tree
            .change_role(room.project_id, room.name, request, recorder)
    };
    context.recorded(change).await
}

async fn list_role_changes(
    context: RequestContext,
    input: Input<RoomPath, Paged<RoleChangeFilter>, NoBody>,
) -> Result<Page<RoleChangeJson>> {
    let Paged { page, filter } = input.query;
    let room = context
        .state
        .store
        .rooms()
        .get(context.project(), input.path.name)
        .await?;
    let changes = context
        .state
        .store
        .role_changes()
        .list(room.project_id, room.id, filter.identity, page)
        .await?;
    Ok(changes.map(RoleChangeJson::from))
}
