//! What is done to live participants and leaves no record: removing, muting, sending data (contract "Participants and
//! data"). The media plane does it; what it causes is reported like everything else that happens in a room.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conclave_actors::room::MuteTrackRequest;
use conclave_media::{MuteOutcome, ServerData};
use conclave_model::non_null::non_null;
use conclave_model::participant::{DataKind, Track};
use conclave_model::role::Permission;
use conclave_model::room::{Room, RoomStatus};
use conclave_model::{ErrorCode, Identity, TrackSid};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::http::answer::{self, Response};
use crate::http::call::{Call, identity};
use crate::http::openapi::{Doc, Param};
use crate::http::operation::{Auth, Method, Operation};
use crate::http::problem::{Problem, of_store, of_tree};

/// Which way a track is to be muted.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MuteTrack {
    /// A track that the participant publishes.
    #[schema(value_type = String)]
    track_sid: TrackSid,
    /// true mutes, false unmutes.
    muted: bool,
}

/// A track that was muted or unmuted.
#[derive(Serialize, ToSchema)]
pub struct MutedTrack {
    /// As it is now.
    track: Track,
}

/// A message from the server.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendData {
    /// The bytes, in standard base64.
    #[schema(content_encoding = "base64")]
    data: String,
    /// Default reliable.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    kind: Option<DataKind>,
    /// Whom it is meant for; absent or empty is everyone.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    destination_identities: Option<Vec<String>>,
    /// What it is about, for its receivers.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    topic: Option<String>,
}

/// A message that was sent.
#[derive(Serialize, ToSchema)]
pub struct DataSent {
    /// Always true.
    sent: bool,
    /// Size of the decoded message.
    bytes: usize,
}

/// What the server does to people inside.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "remove_participant",
        Method::Delete,
        "/v1/rooms/{name}/participants/{identity}",
        &[204],
        |call| Box::pin(remove(call)),
        || {
            Doc::new("participants", "Disconnect a participant; the token stays valid")
                .path(Param::ROOM)
                .path(Param::IDENTITY)
        },
    )
    .auth(Auth::KeyOrRoomToken(&[Permission::RemoveOthers]))
    .codes(&[
        ErrorCode::InvalidRoomName,
        ErrorCode::InvalidIdentity,
        ErrorCode::RoomNotFound,
        ErrorCode::ParticipantNotFound,
        ErrorCode::MediaUnavailable,
    ]),
    Operation::new(
        "mute_track",
        Method::Post,
        "/v1/rooms/{name}/participants/{identity}/mute",
        &[200],
        |call| Box::pin(mute(call)),
        || {
            let track = json!({"sid": "TR_3cD9xY1kQmZb", "kind": "audio", "source": "microphone", "muted": true});
            Doc::new("participants", "Mute or unmute a participant's track")
                .path(Param::ROOM)
                .path(Param::IDENTITY)
                .body::<MuteTrack>(json!({"track_sid": "TR_3cD9xY1kQmZb", "muted": true}))
                .answer::<MutedTrack>(json!({"track": track}))
        },
    )
    .auth(Auth::KeyOrRoomToken(&[Permission::MuteOthers, Permission::UnmuteOthers]))
    .idempotent()
    .replays_to(|call| Box::pin(async move { permit_mute(call, &call.read()?).await }))
    .codes(&[
        ErrorCode::InvalidRoomName,
        ErrorCode::InvalidIdentity,
        ErrorCode::RoomNotFound,
        ErrorCode::ParticipantNotFound,
        ErrorCode::TrackNotFound,
        ErrorCode::MediaUnavailable,
    ]),
    Operation::new(
        "send_data",
        Method::Post,
        "/v1/rooms/{name}/send-data",
        &[200],
        |call| Box::pin(send_data(call)),
        || {
            let example = json!({
                "data": "aGVsbG8=", "kind": "reliable", "destination_identities": ["alice"], "topic": "chat"
            });
            Doc::new("participants", "Send data to everyone in a room, or to some")
                .path(Param::ROOM)
                .body::<SendData>(example)
                .answer::<DataSent>(json!({"sent": true, "bytes": 5}))
        },
    )
    .auth(Auth::KeyOrRoomToken(&[Permission::SendData]))
    .idempotent()
    .codes(&[
        ErrorCode::InvalidRoomName,
        ErrorCode::InvalidIdentity,
        ErrorCode::RoomNotFound,
        ErrorCode::MediaUnavailable,
    ]),
];

async fn room(call: &Call) -> Result<Room, Problem> {
    call.state.store.room(call.project(), call.room()?).await.map_err(of_store)
}

/// The room that somebody is said to be in: nobody is in one that has ended.
async fn live_room(call: &Call) -> Result<Room, Problem> {
    let room = room(call).await?;
    if room.status == RoomStatus::Open { Ok(room) } else { Err(Problem::participant_not_found()) }
}

async fn remove(call: Call) -> Result<Response, Problem> {
    call.room()?;
    let identity = call.identity()?;
    call.no_query()?;
    call.permit(Permission::RemoveOthers).await?;
    let room = live_room(&call).await?;
    let removed = call.state.tree.remove_participant(room.project_id, room.name, identity).await.map_err(of_tree)?;
    if removed { Ok(answer::no_content()) } else { Err(Problem::participant_not_found()) }
}

async fn permit_mute(call: &Call, wanted: &MuteTrack) -> Result<(), Problem> {
    call.permit(if wanted.muted { Permission::MuteOthers } else { Permission::UnmuteOthers }).await
}

async fn mute(call: Call) -> Result<Response, Problem> {
    call.room()?;
    let identity = call.identity()?;
    call.no_query()?;
    let wanted: MuteTrack = call.read()?;
    permit_mute(&call, &wanted).await?;
    let MuteTrack { track_sid, muted } = wanted;
    let room = live_room(&call).await?;
    let request = MuteTrackRequest { identity, track: track_sid, muted };
    let outcome = call.state.tree.mute_track(room.project_id, room.name, request).await.map_err(of_tree)?;
    match outcome {
        MuteOutcome::Done(track) => Ok(answer::ok(&MutedTrack { track })),
        MuteOutcome::NoSuchParticipant => Err(Problem::participant_not_found()),
        MuteOutcome::NoSuchTrack => Err(Problem::track_not_found()),
    }
}

fn destinations(given: &[String]) -> Result<Vec<Identity>, Problem> {
    let each = given.iter().enumerate();
    each.map(|(at, text)| identity(format!("destination_identities[{at}]"), text)).collect()
}

async fn send_data(call: Call) -> Result<Response, Problem> {
    call.room()?;
    call.no_query()?;
    let body: SendData = call.read()?;
    let message = ServerData {
        data: STANDARD.decode(&body.data).map_err(|_| Problem::invalid("data", "must be standard base64"))?,
        topic: body.topic,
        kind: body.kind.unwrap_or(DataKind::Reliable),
        to: destinations(body.destination_identities.as_deref().unwrap_or_default())?,
    };
    call.permit(Permission::SendData).await?;
    let room = room(&call).await?;
    if room.status == RoomStatus::Ended {
        let message = "the room has ended, so nobody is there to receive data";
        return Err(Problem::new(ErrorCode::RoomNotFound, message));
    }
    let bytes = message.data.len();
    call.state.tree.send_data(room.project_id, room.name, message).await.map_err(of_tree)?;
    Ok(answer::ok(&DataSent { sent: true, bytes }))
}
