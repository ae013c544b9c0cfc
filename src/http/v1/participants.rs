//! Live participants, as the media plane sees them (contract "Participants and data").

use conclave_model::ErrorCode;
use conclave_model::page::Page;
use conclave_model::participant::Participant;
use conclave_model::room::{Room, RoomStatus};
use serde_json::json;

use crate::http::answer::{self, Response};
use crate::http::call::Call;
use crate::http::openapi::{Doc, Param};
use crate::http::operation::{Method, Operation};
use crate::http::problem::{Problem, of_media, of_store};

/// An example, for the description.
pub(super) fn example() -> serde_json::Value {
    json!({
        "sid": "PA_8fK2mQ0aLx7c", "identity": "alice", "name": "Alice", "state": "active", "kind": "standard",
        "metadata": "", "attributes": {"svc.role": "host"}, "is_publisher": true,
        "joined_at": "2026-01-31T12:00:05.120Z",
        "tracks": [{"sid": "TR_3cD9xY1kQmZb", "kind": "audio", "source": "microphone", "muted": false}]
    })
}

/// Live participants.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "list_participants",
        Method::Get,
        "/v1/rooms/{name}/participants",
        &[200],
        |call| Box::pin(list(call)),
        || {
            Doc::new("participants", "List who is in a room").path(Param::ROOM).page::<Participant>(
                "participants",
                example(),
                &[],
            )
        },
    )
    .codes(&[
        ErrorCode::InvalidRequest,
        ErrorCode::InvalidRoomName,
        ErrorCode::RoomNotFound,
        ErrorCode::MediaUnavailable,
    ]),
    Operation::new(
        "get_participant",
        Method::Get,
        "/v1/rooms/{name}/participants/{identity}",
        &[200],
        |call| Box::pin(get(call)),
        || {
            Doc::new("participants", "Read one participant")
                .path(Param::ROOM)
                .path(Param::IDENTITY)
                .answer::<Participant>(example())
        },
    )
    .codes(&[
        ErrorCode::InvalidRequest,
        ErrorCode::InvalidRoomName,
        ErrorCode::InvalidIdentity,
        ErrorCode::RoomNotFound,
        ErrorCode::ParticipantNotFound,
        ErrorCode::MediaUnavailable,
    ]),
];

async fn room(call: &Call) -> Result<Room, Problem> {
    call.state.store.room(call.project(), call.room()?).await.map_err(of_store)
}

async fn list(call: Call) -> Result<Response, Problem> {
    call.room()?;
    let mut query = call.query()?;
    let page = query.page()?;
    query.finish()?;
    let room = room(&call).await?;
    let mut people = match room.status {
        RoomStatus::Open => call.state.media.participants(&room.namespaced_name()).await.map_err(of_media)?,
        RoomStatus::Ended => Vec::new(),
    };
    // The media plane promises no order, and pages need a total one.
    people.sort_by(|a, b| (a.joined_at, &a.sid).cmp(&(b.joined_at, &b.sid)));
    Ok(answer::page("participants", &Page::from_all(people, page)))
}

async fn get(call: Call) -> Result<Response, Problem> {
    call.room()?;
    let identity = call.identity()?;
    call.no_query()?;
    let room = room(&call).await?;
    let found = match room.status {
        RoomStatus::Open => call.state.media.participant(&room.namespaced_name(), &identity).await.map_err(of_media)?,
        RoomStatus::Ended => None,
    };
    found.map(|participant| answer::ok(&participant)).ok_or_else(Problem::participant_not_found)
}
