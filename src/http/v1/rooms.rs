//! Rooms: create, list, read, end (contract "Rooms").

use conclave_db::NewRoom;
use conclave_model::non_null::non_null;
use conclave_model::role::Permission;
use conclave_model::room::{DEFAULT_EMPTY_TIMEOUT_SECONDS, Room, RoomStatus};
use conclave_model::{ErrorCode, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::http::answer::{self, Response};
use crate::http::call::{Call, id, room_name};
use crate::http::openapi::{Doc, Param};
use crate::http::operation::{Auth, Method, Operation};
use crate::http::problem::{Problem, of_store, of_tree};

/// A room to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRoom {
    /// Never used before in the project: `^[a-zA-Z0-9_-]{1,128}$`.
    #[schema(pattern = "^[a-zA-Z0-9_-]{1,128}$")]
    name: String,
    /// Cap on people; 0, the default, means that the plan's limit applies.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(value_type = Option<u32>, nullable = false)]
    max_participants: Option<u32>,
    /// How long the room stays open with nobody in it; default 300.
    empty_timeout_seconds: Option<u32>,
    /// Any JSON, returned unchanged.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(value_type = Option<serde_json::Value>, nullable = false)]
    metadata: Option<Box<RawValue>>,
    /// The project's default template when absent.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(pattern = "^tpl_[0-9a-f]{12}$", nullable = false)]
    template_id: Option<String>,
}

/// A room.
#[derive(Serialize, ToSchema)]
#[schema(as = Room)]
pub struct RoomJson {
    id: uuid::Uuid,
    project_id: String,
    name: String,
    /// The media plane's name: project id, a dot, then the room name.
    namespaced_name: String,
    max_participants: u32,
    empty_timeout_seconds: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>, nullable = false)]
    metadata: Option<Box<RawValue>>,
    /// `open` or `ended`.
    #[schema(value_type = RoomStatus)]
    status: &'static str,
    /// Null when the project has no default template.
    template_id: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Absent until the first participant joins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    started_at: Option<Timestamp>,
    /// Absent while open.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    ended_at: Option<Timestamp>,
}

impl From<&Room> for RoomJson {
    fn from(room: &Room) -> Self {
        Self {
            id: room.id.0,
            project_id: room.project_id.to_string(),
            name: room.name.to_string(),
            namespaced_name: room.namespaced_name().to_string(),
            max_participants: room.max_participants,
            empty_timeout_seconds: room.empty_timeout_seconds,
            // It was JSON when it was stored.
            metadata: room.metadata.as_ref().and_then(|text| RawValue::from_string(text.to_string()).ok()),
            status: room.status.as_str(),
            template_id: room.template_id.as_ref().map(ToString::to_string),
            created_at: room.created_at,
            started_at: room.started_at,
            ended_at: room.ended_at,
        }
    }
}

/// An example, for the description.
fn example() -> serde_json::Value {
    json!({
        "id": "0191d2c4-7a54-7cc1-8b59-3f1c5a0e9d21", "project_id": "prj_5f2a9c01be34", "name": "standup",
        "namespaced_name": "prj_5f2a9c01be34.standup", "max_participants": 0, "empty_timeout_seconds": 300,
        "metadata": {"team": "blue"}, "status": "open", "template_id": "tpl_9b1d3e5f7a20",
        "created_at": "2026-01-31T12:00:00.000Z"
    })
}

/// Rooms.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "create_room",
        Method::Post,
        "/v1/rooms",
        &[201],
        |call| Box::pin(create(call)),
        || {
            Doc::new("rooms", "Create a room")
                .body::<CreateRoom>(json!({"name": "standup", "metadata": {"team": "blue"}}))
                .answer::<RoomJson>(example())
        },
    )
    .idempotent()
    .codes(&[
        ErrorCode::InvalidRoomName,
        ErrorCode::QuotaExceeded,
        ErrorCode::InsufficientBalance,
        ErrorCode::RoomLimitReached,
        ErrorCode::TemplateNotFound,
        ErrorCode::RoomExists,
    ]),
    Operation::new(
        "list_rooms",
        Method::Get,
        "/v1/rooms",
        &[200],
        |call| Box::pin(list(call)),
        || Doc::new("rooms", "List rooms, newest first, ended ones too").page::<RoomJson>("rooms", example(), &[]),
    )
    .codes(&[ErrorCode::InvalidRequest]),
    Operation::new(
        "get_room",
        Method::Get,
        "/v1/rooms/{name}",
        &[200],
        |call| Box::pin(get(call)),
        || Doc::new("rooms", "Read a room's record").path(Param::ROOM).answer::<RoomJson>(example()),
    )
    .codes(&[ErrorCode::RoomNotFound]),
    END,
];

const END: Operation = Operation::new(
    "end_room",
    Method::Delete,
    "/v1/rooms/{name}",
    &[204],
    |call| Box::pin(end(call)),
    || Doc::new("rooms", "End a room and disconnect everyone").path(Param::ROOM),
)
.auth(Auth::KeyOrRoomToken(&[Permission::EndRoom]))
.codes(&[ErrorCode::InvalidRoomName, ErrorCode::RoomNotFound, ErrorCode::MediaUnavailable]);

fn render_created(room: &Room) -> Response {
    answer::created(&RoomJson::from(room))
}

async fn create(call: Call) -> Result<Response, Problem> {
    call.no_query()?;
    let body: CreateRoom = call.read()?;
    let new = NewRoom {
        project_id: call.project(),
        name: room_name("name", &body.name)?,
        max_participants: body.max_participants.unwrap_or(0),
        empty_timeout_seconds: body.empty_timeout_seconds.unwrap_or(DEFAULT_EMPTY_TIMEOUT_SECONDS),
        metadata: body.metadata.map(|json| json.get().into()),
        template_id: body.template_id.map(|text| id("template_id", &text)).transpose()?,
    };
    let plan = call.plan_for_new_work().await?;
    if let Some(cap) = plan.limits.participants_per_room.filter(|cap| new.max_participants > *cap) {
        let message = format!("the plan lets {cap} people be in a room");
        return Err(Problem::new(ErrorCode::QuotaExceeded, message).at("max_participants"));
    }
    let (limit, keep) = (plan.limits.concurrent_rooms, call.keep(render_created));
    let room = call.state.tree.create_room(new, limit, keep).await.map_err(of_tree)?;
    Ok(render_created(&room))
}

async fn list(call: Call) -> Result<Response, Problem> {
    let mut query = call.query()?;
    let page = query.page()?;
    query.finish()?;
    let rooms = call.state.store.rooms(call.project(), page).await.map_err(of_store)?;
    Ok(answer::page("rooms", &rooms.map(|room| RoomJson::from(&room))))
}

async fn get(call: Call) -> Result<Response, Problem> {
    // This call lists no 400: a name that cannot be is a room that is not.
    let name = call.room().map_err(|_| Problem::room_not_found())?;
    let room = call.state.store.room(call.project(), name).await.map_err(of_store)?;
    Ok(answer::ok(&RoomJson::from(&room)))
}

async fn end(call: Call) -> Result<Response, Problem> {
    let name = call.room()?;
    call.no_query()?;
    call.permit(Permission::EndRoom).await?;
    let room = call.state.store.room(call.project(), name).await.map_err(of_store)?;
    call.state.tree.end_room(room.project_id, room.name).await.map_err(of_tree)?;
    Ok(answer::no_content())
}
