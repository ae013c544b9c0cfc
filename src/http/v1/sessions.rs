//! Sessions: one row per participant per join (contract "Sessions").

use conclave_db::SessionFilter;
use conclave_model::participant::{TrackKind, TrackSource};
use conclave_model::session::{Session, SessionTrack};
use conclave_model::{ErrorCode, NamespacedRoom, RoomName, Timestamp};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::http::answer::{self, Response};
use crate::http::call::{Call, identity, room_name};
use crate::http::openapi::{Doc, Param};
use crate::http::operation::{Method, Operation};
use crate::http::problem::{Problem, of_store};
use crate::http::query::Query;

/// A session, as lists show it.
#[derive(Serialize, ToSchema)]
#[schema(as = Session)]
pub struct SessionJson {
    id: uuid::Uuid,
    room: String,
    namespaced_room: String,
    participant_identity: String,
    participant_sid: String,
    /// Null when the token carried no role.
    #[schema(required = true)]
    role: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    joined_at: Timestamp,
    /// Absent while connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    left_at: Option<Timestamp>,
    /// Measured to `left_at`, or to now while open.
    duration_seconds: u64,
    /// Tracks published during the session.
    track_count: u32,
}

/// A session with its tracks.
#[derive(Serialize, ToSchema)]
pub struct SessionDetail {
    #[serde(flatten)]
    session: SessionJson,
    /// In order of start.
    tracks: Vec<SessionTrackJson>,
}

/// A track published during a session.
#[derive(Serialize, ToSchema)]
#[schema(as = SessionTrack)]
pub struct SessionTrackJson {
    track_sid: String,
    kind: TrackKind,
    source: TrackSource,
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// Absent while published.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    ended_at: Option<Timestamp>,
}

impl SessionJson {
    fn of(session: &Session, now: Timestamp) -> Self {
        Self {
            id: session.id.0,
            room: session.room.to_string(),
            namespaced_room: NamespacedRoom::new(&session.project_id, &session.room).to_string(),
            participant_identity: session.participant_identity.to_string(),
            participant_sid: session.participant_sid.to_string(),
            role: session.role.as_ref().map(ToString::to_string),
            joined_at: session.joined_at,
            left_at: session.left_at,
            duration_seconds: session.duration_seconds(now),
            track_count: session.track_count,
        }
    }
}

impl From<&SessionTrack> for SessionTrackJson {
    fn from(track: &SessionTrack) -> Self {
        Self {
            track_sid: track.track_sid.to_string(),
            kind: track.kind,
            source: track.source,
            started_at: track.started_at,
            ended_at: track.ended_at,
        }
    }
}

fn example() -> serde_json::Value {
    json!({
        "id": "0191d2c4-9c11-7e02-9d3b-58a1c07be4f0", "room": "standup",
        "namespaced_room": "prj_5f2a9c01be34.standup", "participant_identity": "alice",
        "participant_sid": "PA_8fK2mQ0aLx7c", "role": "host", "joined_at": "2026-01-31T12:00:05.120Z",
        "left_at": "2026-01-31T12:30:05.120Z", "duration_seconds": 1800, "track_count": 0
    })
}

fn detail_example() -> serde_json::Value {
    let mut example = example();
    example["tracks"] = json!([]);
    example
}

const FILTERS: &[Param] = &[
    Param::query("identity", "Of this identity"),
    Param::query("role", "Holding this role"),
    Param::flag("active", "true: still connected; false: gone"),
    Param::formatted("after", "Joined at or after this instant", "date-time"),
    Param::formatted("before", "Joined at or before this instant", "date-time"),
];

const PROJECT_FILTERS: &[Param] =
    &[Param::query("room", "In this room"), FILTERS[0], FILTERS[1], FILTERS[2], FILTERS[3], FILTERS[4]];

/// Sessions.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "list_sessions",
        Method::Get,
        "/v1/sessions",
        &[200],
        |call| Box::pin(list(call)),
        || {
            Doc::new("sessions", "List sessions, newest first").page::<SessionJson>(
                "sessions",
                example(),
                PROJECT_FILTERS,
            )
        },
    )
    .codes(&[ErrorCode::InvalidRequest, ErrorCode::InvalidRoomName, ErrorCode::InvalidIdentity]),
    Operation::new(
        "get_session",
        Method::Get,
        "/v1/sessions/{id}",
        &[200],
        |call| Box::pin(get(call)),
        || {
            Doc::new("sessions", "Read a session with its tracks")
                .path(Param::UUID)
                .answer::<SessionDetail>(detail_example())
        },
    )
    .codes(&[ErrorCode::InvalidRequest, ErrorCode::SessionNotFound]),
    Operation::new(
        "list_room_sessions",
        Method::Get,
        "/v1/rooms/{name}/sessions",
        &[200],
        |call| Box::pin(list_of_room(call)),
        || {
            Doc::new("sessions", "List a room's sessions, newest first").path(Param::ROOM).page::<SessionJson>(
                "sessions",
                example(),
                FILTERS,
            )
        },
    )
    .codes(&[
        ErrorCode::InvalidRequest,
        ErrorCode::InvalidRoomName,
        ErrorCode::InvalidIdentity,
        ErrorCode::RoomNotFound,
    ]),
];

fn filter(query: &mut Query, room: Option<RoomName>) -> Result<SessionFilter, Problem> {
    Ok(SessionFilter {
        room,
        identity: query.text("identity").map(|text| identity("identity", &text)).transpose()?,
        role: query.parsed("role")?,
        active: query.word("active", boolean, "true, false")?,
        after: query.parsed("after")?,
        before: query.parsed("before")?,
    })
}

fn boolean(text: &str) -> Option<bool> {
    text.parse().ok()
}

async fn list(call: Call) -> Result<Response, Problem> {
    let mut query = call.query()?;
    let page = query.page()?;
    let room = query.text("room").map(|text| room_name("room", &text)).transpose()?;
    let filter = filter(&mut query, room)?;
    query.finish()?;
    answer_page(&call, filter, page).await
}

async fn list_of_room(call: Call) -> Result<Response, Problem> {
    let name = call.room()?;
    let mut query = call.query()?;
    let page = query.page()?;
    let filter = filter(&mut query, Some(name.clone()))?;
    query.finish()?;
    call.state.store.room(call.project(), name).await.map_err(of_store)?;
    answer_page(&call, filter, page).await
}

async fn answer_page(
    call: &Call,
    filter: SessionFilter,
    page: conclave_model::page::PageRequest,
) -> Result<Response, Problem> {
    let sessions = call.state.store.sessions(call.project(), filter, page).await.map_err(of_store)?;
    let now = call.state.clock.now();
    Ok(answer::page("sessions", &sessions.map(|session| SessionJson::of(&session, now))))
}

async fn get(call: Call) -> Result<Response, Problem> {
    let id = call.path("id")?;
    call.no_query()?;
    let (session, tracks) = call.state.store.session(call.project(), id).await.map_err(of_store)?;
    Ok(answer::ok(&SessionDetail {
        session: SessionJson::of(&session, call.state.clock.now()),
        tracks: tracks.iter().map(SessionTrackJson::from).collect(),
    }))
}
