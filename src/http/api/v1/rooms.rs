//! Rooms: create, list, read, end.

use conclave_db::{NewRoom, RoomFilter};
use conclave_model::bounded::MaxDuration;
use conclave_model::non_null::non_null;
use conclave_model::page::Page;
use conclave_model::role::Permission;
use conclave_model::room::{DEFAULT_EMPTY_TIMEOUT_SECONDS, Room, RoomStatus};
use conclave_model::{
    ErrorCode, NamePrefix, NamespacedRoom, Problem, ProjectId, RoomId, RoomName, TemplateId,
    Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::body::shallow;
use crate::http::api::input::parameters::RoomPath;
use crate::http::api::input::{AnyBody, AnyQuery, BeyondContract, Input, NoBody, NoParams, Paged};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Created, Json, Listed, NoContent};
use crate::http::api::spec::{Method, extension};

/// A room to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRoom {
    /// Never used before in the project.
    name: RoomName,
    /// Maximum number of participants; default 0, the plan's limit.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    max_participants: Option<u32>,
    /// Time in seconds that the room stays open without participants; default 300.
    // Null is allowed, and means the default (contract).
    empty_timeout_seconds: Option<u32>,
    /// The template's when absent.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(schema_with = extension::<MaxDuration>)]
    max_duration_seconds: Option<MaxDuration>,
    /// Any JSON, returned unchanged.
    // As text, to return it with its order of keys and spelling of numbers.
    #[serde(default, deserialize_with = "shallow")]
    #[schema(value_type = Option<serde_json::Value>, nullable = false)]
    metadata: Option<Box<RawValue>>,
    /// The project's default template when absent.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    template_id: Option<TemplateId>,
}

/// Filters for a project's rooms.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct RoomQuery {
    /// Only with this status
    #[param(inline)]
    status: Option<RoomStatus>,
    /// Only with a name that starts with this text; the list is then in the order of the names
    #[param(inline)]
    name_prefix: Option<NamePrefix>,
    /// Created at or after this instant
    #[param(inline)]
    created_after: Option<Timestamp>,
    /// Created at or before this instant
    #[param(inline)]
    created_before: Option<Timestamp>,
}

impl From<RoomQuery> for RoomFilter {
    fn from(query: RoomQuery) -> Self {
        // Destructured, so that a new filter cannot be forgotten here.
        let RoomQuery {
            status,
            name_prefix,
            created_after,
            created_before,
        } = query;
        Self {
            status,
            name_prefix,
            created_after,
            created_before,
        }
    }
}

/// A room.
#[derive(Serialize, ToSchema)]
#[schema(as = Room)]
pub struct RoomJson {
    pub id: RoomId,
    pub project_id: ProjectId,
    pub name: RoomName,
    /// The media plane's name: project id, a dot, then the room name.
    pub namespaced_name: NamespacedRoom,
    pub max_participants: u32,
    pub empty_timeout_seconds: u32,
    /// Absent if unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = extension::<MaxDuration>)]
    pub max_duration_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>, nullable = false)]
    pub metadata: Option<Box<RawValue>>,
    pub status: RoomStatus,
    /// Null when the project has no default template.
    pub template_id: Option<TemplateId>,
    pub created_at: Timestamp,
    /// Absent until the first participant joins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub started_at: Option<Timestamp>,
    /// Absent while open.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ended_at: Option<Timestamp>,
}

impl From<Room> for RoomJson {
    fn from(room: Room) -> Self {
        Self {
            id: room.id,
            namespaced_name: room.namespaced_name(),
            project_id: room.project_id,
            name: room.name,
            max_participants: room.max_participants,
            empty_timeout_seconds: room.empty_timeout_seconds,
            max_duration_seconds: room.max_duration_seconds,
            // Metadata was validated as JSON before it was stored.
            metadata: room
                .metadata
                .and_then(|text| RawValue::from_string(text.into()).ok()),
            status: room.status,
            template_id: room.template_id,
            created_at: room.created_at,
            started_at: room.started_at,
            ended_at: room.ended_at,
        }
    }
}

impl Listed for RoomJson {
    const COLLECTION: &'static str = "rooms";
}

/// Returns an example of a room.
pub fn example() -> serde_json::Value {
    json!({
        "id": "0191d2c4-7a54-7cc1-8b59-3f1c5a0e9d21", "project_id": "prj_5f2a9c01be34", "name": "standup",
        "namespaced_name": "prj_5f2a9c01be34.standup", "max_participants": 0, "empty_timeout_seconds": 300,
        "metadata": {"team": "blue"}, "status": "open", "template_id": "tpl_9b1d3e5f7a20",
        "created_at": "2026-01-31T12:00:00.000Z"
    })
}

/// Returns the operations on rooms.
pub fn operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(Method::Post, "/v1/rooms", "create_room", create)
            .about("rooms", "Create a room")
            .example(json!({"name": "standup", "metadata": {"team": "blue"}}))
            .responds(example())
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
                ErrorCode::RoomLimitReached,
                ErrorCode::TemplateNotFound,
                // Also for a room that has ended: names are never released.
                ErrorCode::RoomExists,
            ])
            .build(),
        operation(Method::Get, "/v1/rooms", "list_rooms", list)
            .about("rooms", "List rooms, newest first, including ended ones")
            .responds(example())
            .build(),
        operation(Method::Get, "/v1/rooms/{name}", "get_room", get)
            .about("rooms", "Read a room's record")
            .malformed_path(Problem::room_not_found)
            .responds(example())
            .errors(&[ErrorCode::RoomNotFound])
            .build(),
        operation(Method::Delete, "/v1/rooms/{name}", "end_room", end)
            .about("rooms", "End a room and disconnect its participants")
            .room_token(&[Permission::EndRoom])
            .errors(&[ErrorCode::RoomNotFound, ErrorCode::MediaUnavailable])
            .build(),
    ]
}

pub async fn create(
    context: RequestContext,
    input: Input<NoParams, NoParams, CreateRoom>,
) -> Result<Created<RoomJson>> {
    let body = input.body;
    let new = NewRoom {
        project_id: context.project(),
        name: body.name,
        // The plan's limit (contract).
        max_participants: body.max_participants.unwrap_or(0),
        empty_timeout_seconds: body
            .empty_timeout_seconds
            .unwrap_or(DEFAULT_EMPTY_TIMEOUT_SECONDS),
        max_duration: body.max_duration_seconds,
        metadata: body.metadata.map(|json| json.get().into()),
        template_id: body.template_id,
    };
    // The number of open rooms is checked where the room is written; a check here would race with other requests.
    let limits = context.plan().await?.limits;
    if let Some(cap) = limits
        .participants_per_room
        .filter(|cap| new.max_participants > *cap)
    {
        let message = format!("the plan allows at most {cap} participants per room");
        return Err(Problem::new(ErrorCode::QuotaExceeded, message)
            .at("max_participants")
            .into());
    }
    context
        .recorded(|recorder| {
            context
                // Through the project's actor, which counts the open rooms (S-65).
                .state
                .tree
                .create_room(new, limits.concurrent_rooms, recorder)
        })
        .await
}

pub async fn list(
    context: RequestContext,
    input: Input<NoParams, Paged<BeyondContract<RoomQuery>>, NoBody>,
) -> Result<Page<RoomJson>> {
    let Paged {
        page,
        filter: BeyondContract(filter),
    } = input.query;
    let rooms = context
        .state
        .store
        .rooms()
        .list(context.project(), filter.into(), page)
        .await?;
    Ok(rooms.map(RoomJson::from))
}

pub async fn get(
    context: RequestContext,
    // This operation lists no 400, so query and body are not parsed, and an invalid name is a 404 (`malformed_path`).
    input: Input<RoomPath, AnyQuery, AnyBody>,
) -> Result<Json<RoomJson>> {
    let room = context
        .state
        .store
        .rooms()
        .get(context.project(), input.path.name)
        .await?;
    Ok(Json(room.into()))
}

pub async fn end(
    context: RequestContext,
    input: Input<RoomPath, NoParams, NoBody>,
) -> Result<NoContent> {
    // For the 404 of an unknown room.
    let room = context
        .state
        .store
        .rooms()
        .get(context.project(), input.path.name)
        .await?;
    context
        .state
        .tree
        // Succeeds for a room that has ended, so a client can repeat the request.
        .end_room(room.project_id, room.name)
        .await?;
    Ok(NoContent)
}
