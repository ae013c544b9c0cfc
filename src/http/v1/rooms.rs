//! Rooms: create, list, read, end.

use conclave_db::NewRoom;
use conclave_model::non_null::non_null;
use conclave_model::role::Permission;
use conclave_model::room::{DEFAULT_EMPTY_TIMEOUT_SECONDS, Room, RoomStatus};
use conclave_model::{ErrorCode, NamespacedRoom, Problem, ProjectId, RoomId, RoomName, TemplateId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::http::context::RequestContext;
use crate::http::error::ApiError;
use crate::http::input::path::RoomPath;
use crate::http::input::{AnyBody, AnyQuery, Input, NoBody, NoParams, Paged};
use crate::http::operation::{Operation, operation};
use crate::http::response::{self, Response};
use crate::http::spec::Method;

/// A room to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRoom {
    /// Never used before in the project.
    name: RoomName,
    /// Cap on participants; 0, the default, means that the plan's limit applies.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    max_participants: Option<u32>,
    /// How long the room stays open with no participant in it; default 300.
    empty_timeout_seconds: Option<u32>,
    /// Any JSON, returned unchanged.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(value_type = Option<serde_json::Value>, nullable = false)]
    metadata: Option<Box<RawValue>>,
    /// The project's default template when absent.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    template_id: Option<TemplateId>,
}

/// A room.
#[derive(Serialize, ToSchema)]
#[schema(as = Room)]
pub struct RoomJson<'a> {
    id: RoomId,
    project_id: &'a ProjectId,
    name: &'a RoomName,
    /// The media plane's name: project id, a dot, then the room name.
    namespaced_name: NamespacedRoom,
    max_participants: u32,
    empty_timeout_seconds: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>, nullable = false)]
    metadata: Option<Box<RawValue>>,
    status: RoomStatus,
    /// Null when the project has no default template.
    template_id: Option<&'a TemplateId>,
    created_at: Timestamp,
    /// Absent until the first participant joins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    started_at: Option<Timestamp>,
    /// Absent while open.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    ended_at: Option<Timestamp>,
}

impl<'a> From<&'a Room> for RoomJson<'a> {
    fn from(room: &'a Room) -> Self {
        Self {
            id: room.id,
            project_id: &room.project_id,
            name: &room.name,
            namespaced_name: room.namespaced_name(),
            max_participants: room.max_participants,
            empty_timeout_seconds: room.empty_timeout_seconds,
            // It was JSON when it was stored.
            metadata: room.metadata.as_ref().and_then(|text| RawValue::from_string(text.to_string()).ok()),
            status: room.status,
            template_id: room.template_id.as_ref(),
            created_at: room.created_at,
            started_at: room.started_at,
            ended_at: room.ended_at,
        }
    }
}

fn example() -> serde_json::Value {
    json!({
        "id": "0191d2c4-7a54-7cc1-8b59-3f1c5a0e9d21", "project_id": "prj_5f2a9c01be34", "name": "standup",
        "namespaced_name": "prj_5f2a9c01be34.standup", "max_participants": 0, "empty_timeout_seconds": 300,
        "metadata": {"team": "blue"}, "status": "open", "template_id": "tpl_9b1d3e5f7a20",
        "created_at": "2026-01-31T12:00:00.000Z"
    })
}

/// The operations on rooms.
pub fn operations() -> Vec<Operation> {
    vec![
        operation(Method::Post, "/v1/rooms", "create_room", create)
            .about("rooms", "Create a room")
            .example(json!({"name": "standup", "metadata": {"team": "blue"}}))
            .responds::<RoomJson<'_>>(&[201], example())
            .links(
                &[
                    "get_room",
                    "end_room",
                    "list_participants",
                    "send_data",
                    "start_recording",
                    "list_room_recordings",
                    "start_broadcast",
                    "create_ingress",
                    "create_code",
                    "list_codes",
                    "list_room_sessions",
                    "list_role_changes",
                ],
                &[("name", "$response.body#/name")],
            )
            .idempotent()
            .starts_work()
            .errors(&[
                ErrorCode::InvalidRoomName,
                ErrorCode::QuotaExceeded,
                ErrorCode::InsufficientBalance,
                ErrorCode::RoomLimitReached,
                ErrorCode::TemplateNotFound,
                ErrorCode::RoomExists,
            ])
            .build(),
        operation(Method::Get, "/v1/rooms", "list_rooms", list)
            .about("rooms", "List rooms, newest first, ended ones too")
            .responds_page::<RoomJson<'_>>("rooms", example())
            .errors(&[ErrorCode::InvalidRequest])
            .build(),
        operation(Method::Get, "/v1/rooms/{name}", "get_room", get)
            .about("rooms", "Read a room's record")
            .malformed_path(Problem::room_not_found)
            .responds::<RoomJson<'_>>(&[200], example())
            .errors(&[ErrorCode::RoomNotFound])
            .build(),
        operation(Method::Delete, "/v1/rooms/{name}", "end_room", end)
            .about("rooms", "End a room and disconnect everyone")
            .room_token(&[Permission::EndRoom])
            .errors(&[ErrorCode::InvalidRoomName, ErrorCode::RoomNotFound, ErrorCode::MediaUnavailable])
            .build(),
    ]
}

fn render_created(room: &Room) -> Response {
    response::created(&RoomJson::from(room))
}

async fn create(context: RequestContext, input: Input<NoParams, NoParams, CreateRoom>) -> Result<Response, ApiError> {
    let body = input.body;
    let new = NewRoom {
        project_id: context.project(),
        name: body.name,
        max_participants: body.max_participants.unwrap_or(0),
        empty_timeout_seconds: body.empty_timeout_seconds.unwrap_or(DEFAULT_EMPTY_TIMEOUT_SECONDS),
        metadata: body.metadata.map(|json| json.get().into()),
        template_id: body.template_id,
    };
    let limits = context.plan().await?.limits;
    if let Some(cap) = limits.participants_per_room.filter(|cap| new.max_participants > *cap) {
        let message = format!("the plan lets {cap} people be in a room");
        return Err(Problem::new(ErrorCode::QuotaExceeded, message).at("max_participants").into());
    }
    let recorder = context.recorder(render_created);
    let room = context.state.tree.create_room(new, limits.concurrent_rooms, recorder).await?;
    Ok(render_created(&room))
}

async fn list(context: RequestContext, input: Input<NoParams, Paged<NoParams>, NoBody>) -> Result<Response, ApiError> {
    let rooms = context.state.store.rooms(context.project(), input.query.page).await?;
    Ok(response::page("rooms", &rooms.as_ref().map(RoomJson::from)))
}

async fn get(context: RequestContext, input: Input<RoomPath, AnyQuery, AnyBody>) -> Result<Response, ApiError> {
    let room = context.state.store.room(context.project(), input.path.name).await?;
    Ok(response::ok(&RoomJson::from(&room)))
}

async fn end(context: RequestContext, input: Input<RoomPath, NoParams, NoBody>) -> Result<Response, ApiError> {
    let room = context.state.store.room(context.project(), input.path.name).await?;
    context.state.tree.end_room(room.project_id, room.name).await?;
    Ok(response::no_content())
}
