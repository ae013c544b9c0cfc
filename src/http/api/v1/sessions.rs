//! Sessions: one row per participant and join.

use conclave_db::SessionFilter;
use conclave_model::page::{Page, PageRequest};
use conclave_model::participant::{Session, SessionTrack, TrackKind, TrackSource};
use conclave_model::{
    ErrorCode, Identity, NamespacedRoom, ParticipantSid, RoleName, RoomName, SessionId, Timestamp,
    TrackSid,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::parameters::RoomPath;
use crate::http::api::input::{Input, NoBody, NoParams, Paged};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Json, Listed};
use crate::http::api::spec::Method;

/// Session path.
#[derive(Deserialize, IntoParams)]
pub struct SessionPath {
    /// The session's id.
    #[param(inline)]
    id: SessionId,
}

impl SessionPath {
    /// Returns the session's id.
    pub const fn id(&self) -> SessionId {
        self.id
    }
}

/// Filters for a room's sessions.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct RoomSessionQuery {
    // The project's filters without `room`, which the path names.
    /// Only with this identity
    #[param(inline)]
    identity: Option<Identity>,
    /// Only with this role
    #[param(inline)]
    role: Option<RoleName>,
    /// true: only connected; false: only ended
    active: Option<bool>,
    /// Joined at or after this instant
    #[param(inline)]
    after: Option<Timestamp>,
    /// Joined at or before this instant
    #[param(inline)]
    before: Option<Timestamp>,
}

/// Filters for a project's sessions.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct SessionQuery {
    /// Only in this room
    #[param(inline)]
    room: Option<RoomName>,
    /// Only with this identity
    #[param(inline)]
    identity: Option<Identity>,
    /// Only with this role
    #[param(inline)]
    role: Option<RoleName>,
    /// true: only connected; false: only ended
    active: Option<bool>,
    /// Joined at or after this instant
    #[param(inline)]
    after: Option<Timestamp>,
    /// Joined at or before this instant
    #[param(inline)]
    before: Option<Timestamp>,
}

impl From<SessionQuery> for SessionFilter {
    fn from(query: SessionQuery) -> Self {
        // Destructured, so that a new filter cannot be forgotten here.
        let SessionQuery {
            room,
            identity,
            role,
            active,
            after,
            before,
        } = query;
        Self {
            room,
            identity,
            role,
            active,
            after,
            before,
        }
    }
}

impl RoomSessionQuery {
    fn in_room(self, room: RoomName) -> SessionFilter {
        // Destructured, so that a new filter cannot be forgotten here.
        let Self {
            identity,
            role,
            active,
            after,
            before,
        } = self;
        SessionFilter {
            room: Some(room),
            identity,
            role,
            active,
            after,
            before,
        }
    }
}

/// A session, as lists show it.
#[derive(Serialize, ToSchema)]
#[schema(as = Session)]
pub struct SessionJson {
    pub id: SessionId,
    pub room: RoomName,
    pub namespaced_room: NamespacedRoom,
    pub participant_identity: Identity,
    pub participant_sid: ParticipantSid,
    /// Null if the token had no role.
    // Serialised even if null (contract).
    #[schema(required = true)]
    pub role: Option<RoleName>,
    pub joined_at: Timestamp,
    /// Absent while connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub left_at: Option<Timestamp>,
    /// Measured until `left_at`, or until now for an open session.
    pub duration_seconds: u64,
    /// Tracks published during the session.
    pub track_count: u32,
}

/// A session with its tracks.
#[derive(Serialize, ToSchema)]
pub struct SessionDetail {
    #[serde(flatten)]
    pub session: SessionJson,
    /// In order of start.
    pub tracks: Vec<SessionTrackJson>,
}

/// A track published during a session.
#[derive(Serialize, ToSchema)]
#[schema(as = SessionTrack)]
pub struct SessionTrackJson {
    pub track_sid: TrackSid,
    pub kind: TrackKind,
    pub source: TrackSource,
    pub started_at: Timestamp,
    /// Absent while published.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ended_at: Option<Timestamp>,
}

impl SessionJson {
    /// Converts a record; an open session lasts until `now`.
    pub fn new(session: Session, now: Timestamp) -> Self {
        Self {
            id: session.id,
            namespaced_room: NamespacedRoom::new(&session.project_id, &session.room),
            // Before the room's name is moved; an open session counts until now.
            duration_seconds: session.duration_seconds(now),
            room: session.room,
            participant_identity: session.participant_identity,
            participant_sid: session.participant_sid,
            role: session.role,
            joined_at: session.joined_at,
            left_at: session.left_at,
            track_count: session.track_count,
        }
    }
}

impl From<SessionTrack> for SessionTrackJson {
    fn from(track: SessionTrack) -> Self {
        Self {
            track_sid: track.track_sid,
            kind: track.kind,
            source: track.source,
            started_at: track.started_at,
            ended_at: track.ended_at,
        }
    }
}

impl Listed for SessionJson {
    const COLLECTION: &'static str = "sessions";
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

/// Returns the operations that read sessions.
pub fn operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(Method::Get, "/v1/sessions", "list_sessions", list)
            .about("sessions", "List sessions, newest first")
            .responds(example())
            .links(&["get_session"], &[("id", "$response.body#/sessions/0/id")])
            .build(),
        operation(Method::Get, "/v1/sessions/{id}", "get_session", get)
            .about("sessions", "Read a session with its tracks")
            .responds(detail_example())
            .errors(&[ErrorCode::SessionNotFound])
            .build(),
        operation(
            Method::Get,
            "/v1/rooms/{name}/sessions",
            "list_room_sessions",
            list_in_room,
        )
        .about("sessions", "List a room's sessions, newest first")
        .responds(example())
        .errors(&[ErrorCode::RoomNotFound])
        .build(),
    ]
}

pub async fn list(
    context: RequestContext,
    input: Input<NoParams, Paged<SessionQuery>, NoBody>,
) -> Result<Page<SessionJson>> {
    let Paged { page, filter } = input.query;
    read(&context, filter.into(), page).await
}

async fn list_in_room(
    context: RequestContext,
    input: Input<RoomPath, Paged<RoomSessionQuery>, NoBody>,
) -> Result<Page<SessionJson>> {
    let Paged { page, filter } = input.query;
    let room = context
        .state
        .store
        .rooms()
        .get(context.project(), input.path.name)
        .await?;
    read(&context, filter.in_room(room.name), page).await
}

async fn read(
    context: &RequestContext,
    filter: SessionFilter,
    page: PageRequest,
) -> Result<Page<SessionJson>> {
    let sessions = context
        .state
        .store
        .sessions()
        .list(context.project(), filter, page)
        .await?;
    // One instant for the whole page.
    let now = context.state.clock.now();
    Ok(sessions.map(|session| SessionJson::new(session, now)))
}

pub async fn get(
    context: RequestContext,
    input: Input<SessionPath, NoParams, NoBody>,
) -> Result<Json<SessionDetail>> {
    let found = context
        .state
        .store
        .sessions()
        .get(context.project(), input.path.id)
        .await?;
    Ok(Json(SessionDetail {
        session: SessionJson::new(found.session, context.state.clock.now()),
        tracks: found
            .tracks
            .into_iter()
            .map(SessionTrackJson::from)
            .collect(),
    }))
}
