//! Moderation of live participants that leaves no record: removing, muting, sending data.
//! The room's actor orders it with joins and leaves; the media plane reports its effects like every other event of the room.

use conclave_actors::room::MuteTrackRequest;
use conclave_media::{MuteOutcome, ServerData};
use conclave_model::non_null::non_null;
use conclave_model::participant::{DataKind, Track};
use conclave_model::role::Permission;
use conclave_model::room::{Room, RoomStatus};
use conclave_model::text::Text;
use conclave_model::{ErrorCode, Identity, Problem, RoomName, TrackSid};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::path::{ParticipantPath, RoomPath};
use crate::http::api::input::{Base64Bytes, Input, NoBody, NoParams};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Json, NoContent};
use crate::http::api::spec::Method;

/// A track to mute or unmute.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MuteTrack {
    /// A track that the participant publishes.
    track_sid: TrackSid,
    /// true mutes, false unmutes.
    muted: bool,
}

/// A track that was muted or unmuted.
#[derive(Serialize, ToSchema)]
pub struct MutedTrack {
    /// The track after the change.
    pub track: Track,
}

/// A message from the server.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendData {
    /// The bytes, in standard base64.
    data: Base64Bytes,
    /// The delivery of the message; default reliable.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    kind: Option<DataKind>,
    /// The receivers; absent or empty is everyone.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    destination_identities: Option<Vec<Identity>>,
    /// A topic that the receivers' clients can filter by.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    topic: Option<Text>,
}

/// The result of sending a message.
#[derive(Serialize, ToSchema)]
pub struct DataSent {
    /// Whether the media plane accepted the message; always true.
    pub sent: bool,
    /// Size of the decoded message.
    pub bytes: usize,
}

/// The operations that moderate a room.
pub fn operations() -> Vec<Operation> {
    vec![
        operation(Method::Delete, "/v1/rooms/{name}/participants/{identity}", "remove_participant", remove)
            .about("participants", "Disconnect a participant; the token stays valid")
            .room_token(&[Permission::RemoveOthers])
            .errors(&[ErrorCode::RoomNotFound, ErrorCode::ParticipantNotFound, ErrorCode::MediaUnavailable])
            .build(),
        operation(Method::Post, "/v1/rooms/{name}/participants/{identity}/mute", "mute_track", mute)
            .about("participants", "Mute or unmute a participant's track")
            .example(json!({"track_sid": "TR_3cD9xY1kQmZb", "muted": true}))
            .responds(muted_example())
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
            .about("participants", "Send data to everyone in a room, or to some")
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

/// The room of a participant: no participant is in one that has ended.
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
    input: Input<ParticipantPath, NoParams, NoBody>,
) -> Result<NoContent> {
    let room = live_room(&context, input.path.name).await?;
    let removed = context
        .state
        .tree
        .remove_participant(room.project_id, room.name, input.path.identity)
        .await?;
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
        to: body.destination_identities.unwrap_or_default(),
    };
    let room = context
        .state
        .store
        .rooms()
        .get(context.project(), input.path.name)
        .await?;
    if room.status == RoomStatus::Ended {
        return Err(Problem::no_room_for_data().into());
    }
    let bytes = message.data.len();
    context
        .state
        .tree
        .send_data(room.project_id, room.name, message)
        .await?;
    Ok(Json(DataSent { sent: true, bytes }))
}
