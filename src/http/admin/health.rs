//! `/healthz` says that the process serves, `/readyz` that what it needs answers. Neither needs the admin token.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::json;

use super::readiness::Readiness;
use crate::http::api::error::ApiError;
use crate::http::api::spec::Method;
use crate::http::lease::{asked_role, role_of};
use crate::http::resource::{health, single_method_resource};
use crate::http::state::AppState;

/// Adds `/healthz` and `/readyz`.
pub fn configure(
    config: &mut web::ServiceConfig,
    state: &Arc<AppState>,
    readiness: &Arc<Readiness>,
) {
    health(config);
    let (state, readiness) = (Arc::clone(state), Arc::clone(readiness));
    let ready = web::get()
        .to(move |request: HttpRequest| ready(Arc::clone(&state), Arc::clone(&readiness), request));
    config.service(single_method_resource("/readyz", Method::Get, ready));
}

async fn ready(
    state: Arc<AppState>,
    readiness: Arc<Readiness>,
    request: HttpRequest,
) -> HttpResponse {
    let asked = match asked_role(&request) {
        Ok(asked) => asked,
        Err(problem) => return ApiError::from(problem).to_http(),
    };
    let (parts, role) = (readiness.parts().await, role_of(state.lease.as_ref()));
    let mut shown = json!({"database": word(parts.database), "media": word(parts.media), "actors": word(parts.actors)});
    // Not a question of readiness: a request that needs a missing setting of LiveKit is refused by itself.
    if let Some(monitor) = &state.admin.livekit_config {
        shown["media_settings"] = json!(monitor.status());
    }
    // Nor is this: a recording without ffmpeg is refused by itself.
    if let Some(plane) = &state.planes.signalling
        && let Some(ffmpeg) = plane.ffmpeg().await
    {
        shown["egress"] =
            json!(ffmpeg.map_or_else(|error| error.to_string(), |ffmpeg| ffmpeg.to_string()));
    }
    // Nor is this: the database and the media plane show whether it matters.
    if let Some(lease) = &state.lease {
        shown["lease"] = json!(lease.status());
    }
    // Nor is this: a CA that verifies the domain needs the listeners.
    if let Some(tls) = &state.api.tls {
        shown["tls"] = json!(tls.to_string());
    }
    // Nor is this: calls go on without a copy.
    if let Some(backups) = &state.admin.backups {
        shown["backup"] = json!(backups.to_string());
    }
    let stops = state
        .passed_on
        .as_ref()
        .is_some_and(|gate| gate.is_closed());
    let ready = parts.are_ready() && !stops && asked.is_none_or(|asked| asked == role);
    let body = json!({"ready": ready, "role": role.as_str(), "parts": shown});
    if ready {
        HttpResponse::Ok().json(body)
    } else {
        HttpResponse::ServiceUnavailable().json(body)
    }
}

pub(super) const fn word(answers: bool) -> &'static str {
    if answers { "ok" } else { "unavailable" }
}
