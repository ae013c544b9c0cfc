//! Endpoints for the call page, besides operations.
//!
//! `GET /call/role`: a room token holder's current permissions, so that the page offers nothing that would be refused, the call's
//! title, and the running recordings and broadcasts, all of it also before the join. The operations check the permissions themselves.
//!
//! `POST /call/rooms`, in `dev` only: opens a room in the development project, if it is not open, and returns a room code, which the
//! page exchanges like any other. Windows without a room name meet in one room. It needs no credential, so it responds only to a page
//! of this server at a loopback name or one of `admin.hosts`: another page could send requests through the developer's browser.

use std::iter;
use std::sync::Arc;

use actix_web::web::{self, Payload};
use actix_web::{HttpRequest, HttpResponse};
use conclave_actors::TreeError;
use conclave_db::{NewCode, NewRoom};
use conclave_media::token::Claims;
use conclave_model::code::DEFAULT_LIFE;
use conclave_model::egress::{Egress, EgressKind, EgressStatus};
use conclave_model::page::PageRequest;
use conclave_model::role::RolePermissions;
use conclave_model::room::DEFAULT_EMPTY_TIMEOUT_SECONDS;
use conclave_model::{EgressId, ErrorCode, Problem, ProjectId, RoleName, RoomName};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::api::context;
use crate::http::api::error::ApiError;
use crate::http::api::input::body;
use crate::http::api::spec::Method;
use crate::http::frame::credential;
use crate::http::frame::origins::{AllowedHosts, check_same_origin};
use crate::http::resource::public_resource;
use crate::http::state::AppState;

/// Name prefix for rooms that are opened without a name.
const PREFIX: &str = "call-";

/// A room to open, and the role for the room code.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OpenRoom {
    /// If absent, the shared room for all windows without a name.
    room: Option<RoomName>,
    role: RoleName,
}

/// Routes `POST /call/rooms`.
pub(super) fn configure_rooms(
    config: &mut web::ServiceConfig,
    state: &Arc<AppState>,
    project: &ProjectId,
) {
    let (state, project, fixed) = (
        Arc::clone(state),
        project.clone(),
        Arc::clone(&state.checks.fixed),
    );
    let route = web::post().to(move |request: HttpRequest, payload: Payload| {
        let (state, project) = (Arc::clone(&state), project.clone());
        async move {
            open(&state, project, &request, payload)
                .await
                .unwrap_or_else(|error| error.to_http())
        }
    });
    config.service(public_resource("/call/rooms", Method::Post, route, &fixed));
}

async fn open(
    state: &AppState,
    project: ProjectId,
    request: &HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    // First, so that a refused page does not even use up a rate.
    AllowedHosts(state.admin.hosts.clone()).check(request)?;
    state.checks.limits.check_address(request)?;
    let wanted: OpenRoom = body::read(&state.checks.bodies.collect(request, payload).await?)?;
    let room = match wanted.room {
        Some(room) => room,
        None => shared_room(state, &project).await?,
    };
    ensure_room(state, &project, &room).await?;
    let new = NewCode {
        project_id: project,
        room,
        role: wanted.role,
        // An open code: each window gets an identity of its own.
        identity: None,
        expires_at: state.clock.now().after(DEFAULT_LIFE),
        max_uses: None,
    };
    // No recorder: the page repeats nothing, so no response is stored.
    let created = state.store.codes().create(new, None).await?;
    Ok(HttpResponse::Created().json(json!({"code": created.code.reveal()})))
}

/// Returns the newest open room that was opened without a name, otherwise a new name.
async fn shared_room(state: &AppState, project: &ProjectId) -> Result<RoomName, ApiError> {
    // One page suffices in development.
    let page = PageRequest {
        limit: PageRequest::MAX_LIMIT,
        offset: 0,
    };
    let open = state
        .store
        .rooms()
        .list_open(project.clone(), page)
        .await?
        .items;
    let newest = open
        .into_iter()
        .filter(|room| room.name.as_str().starts_with(PREFIX))
        .max_by_key(|room| room.created_at);
    if let Some(room) = newest {
        return Ok(room.name);
    }
    // A name is used once per project, so each shared room needs a new one.
    let random: String = iter::repeat_with(|| fastrand::char('a'..='z'))
        .take(6)
        .collect();
    format!("{PREFIX}{random}")
        .parse()
        .map_err(ApiError::internal)
}

/// Creates the room, unless the name was used before: then the room is open, or creating the code fails.
async fn ensure_room(
    state: &AppState,
    project: &ProjectId,
    name: &RoomName,
) -> Result<(), ApiError> {
    let new = NewRoom {
        project_id: project.clone(),
        name: name.clone(),
        max_participants: 0,
        empty_timeout_seconds: DEFAULT_EMPTY_TIMEOUT_SECONDS,
        max_duration: None,
        metadata: None,
        template_id: None,
    };
    match state.tree.create_room(new, None, None).await {
        Err(TreeError::Refused(problem)) if problem.code == ErrorCode::RoomExists => Ok(()),
        created => Ok(created.map(drop)?),
    }
}

/// A participant's abilities in a call.
#[derive(Serialize)]
struct Abilities {
    /// Permissions of its current role, or of the role that it would join with.
    permissions: RolePermissions,
    /// Roles of the room's template, sorted by name; empty without the permission to change roles.
    roles: Vec<RoleName>,
    /// `title` in the room's metadata, if that is an object with such a string.
    title: Option<String>,
    /// Recordings and broadcasts in progress, oldest first.
    running: Vec<RunningEgress>,
}

/// Recording or broadcast in a room.
#[derive(Serialize)]
struct RunningEgress {
    kind: EgressKind,
    /// Absent if the participant may not stop it.
    #[serde(skip_serializing_if = "Option::is_none")]
    egress_id: Option<EgressId>,
}

/// Routes `GET /call/role`.
pub(super) fn configure_role(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let (state, fixed) = (Arc::clone(state), Arc::clone(&state.checks.fixed));
    let route = web::get().to(move |request: HttpRequest| {
        let state = Arc::clone(&state);
        async move {
            answer(&state, &request)
                .await
                .unwrap_or_else(|error| error.to_http())
        }
    });
    config.service(public_resource("/call/role", Method::Get, route, &fixed));
}

async fn answer(state: &AppState, request: &HttpRequest) -> Result<HttpResponse, ApiError> {
    state.checks.limits.check_address(request)?;
    check_same_origin(request)?;
    let claims = credential::room_token(state, request, None)
        .ok_or_else(|| Problem::new(ErrorCode::Unauthorized, "invalid room token"))?;
    // Admitted like an operation, because it reads the project's records.
    let admitted = state.checks.admission.admit(Some(claims.room.split().0))?;
    let abilities = admitted
        .acquire()
        .await?
        .handle(abilities(state, *claims))
        .await?;
    Ok(HttpResponse::Ok().json(abilities))
}

async fn abilities(state: &AppState, claims: Claims) -> Result<Abilities, ApiError> {
    let (project, name) = claims.room.split();
    let permissions = context::acting_permissions(state, &claims).await?;
    let room = state.store.rooms().get(project.clone(), name).await?;
    let roles = if permissions.change_role {
        state
            .store
            .rooms()
            .roles(project.clone(), room.template_id)
            .await?
            .into_keys()
            .collect()
    } else {
        Vec::new()
    };
    let title = room.metadata.as_deref().and_then(title_in);
    let running = state
        .store
        .egresses()
        // For everyone, whatever the permissions: participants must see that a recording runs.
        .running_in(project, room.name)
        .await?;
    Ok(Abilities {
        permissions,
        roles,
        title,
        running: running
            .into_iter()
            // An egress that is ending cannot be stopped.
            .filter(|egress| egress.status != EgressStatus::Ending)
            .map(|egress| running_egress(egress, permissions))
            .collect(),
    })
}

fn running_egress(egress: Egress, permissions: RolePermissions) -> RunningEgress {
    let kind = egress.kind();
    let may_stop = match kind {
        EgressKind::Recording => permissions.record,
        EgressKind::Broadcast => permissions.broadcast,
    };
    RunningEgress {
        kind,
        egress_id: may_stop.then_some(egress.egress_id),
    }
}

fn title_in(metadata: &str) -> Option<String> {
    // Metadata belongs to the backend and may have any shape, so anything else is no title.
    let metadata: Value = serde_json::from_str(metadata).ok()?;
    Some(metadata.get("title")?.as_str()?.to_owned())
}
