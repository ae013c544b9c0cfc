//! `/healthz` says that the process serves, `/readyz` that what it needs answers. Neither needs the admin token.

use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpResponse, web};
use serde_json::json;
use tokio::time::timeout;

use crate::http::resource::{health, single_method_resource};
use crate::http::spec::Method;
use crate::http::state::AppState;

/// A part that takes longer than this does not answer.
const CHECK_TIMEOUT: Duration = Duration::from_secs(3);

/// Adds `/healthz` and `/readyz`.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    health(config);
    let state = Arc::clone(state);
    config.service(single_method_resource("/readyz", Method::Get, web::get().to(move || ready(Arc::clone(&state)))));
}

async fn ready(state: Arc<AppState>) -> HttpResponse {
    let database = timeout(CHECK_TIMEOUT, state.store.ping()).await.is_ok_and(|answer| answer.is_ok());
    let media = timeout(CHECK_TIMEOUT, state.media.health()).await.is_ok_and(|answer| answer.is_ok());
    let actors = state.tree.ping(CHECK_TIMEOUT).await.is_ok();
    let ready = database && media && actors;
    let mut parts = json!({"database": word(database), "media": word(media), "actors": word(actors)});
    // Not a question of readiness: a request that needs a missing setting of LiveKit is refused by itself.
    if let Some(monitor) = &state.livekit_config {
        parts["media_settings"] = json!(monitor.status());
    }
    let body = json!({"ready": ready, "parts": parts});
    if ready { HttpResponse::Ok().json(body) } else { HttpResponse::ServiceUnavailable().json(body) }
}

const fn word(answers: bool) -> &'static str {
    if answers { "ok" } else { "unavailable" }
}
