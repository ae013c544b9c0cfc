//! `GET /call/role`: what the holder of a room token may do to others now, so that the page offers nothing that would be refused. The
//! operations check the permissions themselves.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};
use conclave_media::token::Claims;
use conclave_model::role::RolePermissions;
use conclave_model::{ErrorCode, Problem, RoleName};
use serde::Serialize;

use crate::http::api::acting_role;
use crate::http::api::error::ApiError;
use crate::http::api::spec::Method;
use crate::http::frame::credential;
use crate::http::frame::origins::check_same_origin;
use crate::http::resource::public_resource;
use crate::http::state::AppState;

/// The abilities of a participant.
#[derive(Serialize)]
struct Abilities {
    /// The permissions of the role that it holds in the room, or would join with.
    permissions: RolePermissions,
    /// The roles of the room's template, in the order of their names; empty if it may not change roles.
    roles: Vec<RoleName>,
}

/// Routes the endpoint.
pub(super) fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
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
    let admitted = state.checks.admission.admit(Some(claims.room.split().0))?;
    let abilities = admitted
        .turn()
        .await?
        .handle(abilities(state, *claims))
        .await?;
    Ok(HttpResponse::Ok().json(abilities))
}

async fn abilities(state: &AppState, claims: Claims) -> Result<Abilities, ApiError> {
    let (project, name) = claims.room.split();
    let permissions = acting_role::permissions(state, &claims).await?;
    let roles = if permissions.change_role {
        let template = state
            .store
            .rooms()
            .get(project.clone(), name)
            .await?
            .template_id;
        state
            .store
            .rooms()
            .roles(project, template)
            .await?
            .into_keys()
            .collect()
    } else {
        Vec::new()
    };
    Ok(Abilities { permissions, roles })
}
