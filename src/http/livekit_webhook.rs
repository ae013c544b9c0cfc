//! `/media/livekit/webhook`: LiveKit's reports. Outside the API's frame: signed with the media plane's API key, without a
//! request rate, and answered once the report is durable (decisions section 5).

use std::sync::Arc;

use actix_web::http::header::AUTHORIZATION;
use actix_web::web::{Bytes, Payload};
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_media::livekit::{LivekitPlane, WebhookOutcome};
use conclave_model::{ErrorCode, Problem};
use serde_json::json;

use super::error::ApiError;
use super::frame::payload;
use super::resource::single_method_resource;
use super::spec::Method;
use super::state::AppState;

/// The largest report, in bytes.
const LIMIT: usize = 16 * 1024 * 1024;
/// Its label in the metrics.
const OPERATION: &str = "livekit_webhook";

/// Routes the webhook.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>, plane: &LivekitPlane) {
    let (state, plane) = (Arc::clone(state), plane.clone());
    let route = web::post().to(move |request: HttpRequest, payload: Payload| {
        let (state, plane) = (Arc::clone(&state), plane.clone());
        async move {
            let timed = state.metrics.time(OPERATION);
            let response = match payload::within(LIMIT, &request, payload).await {
                Ok(raw) => respond(plane, &request, raw).await,
                Err(refused) => ApiError::from(refused).to_http(),
            };
            timed.answered(response.status());
            response
        }
    });
    config.service(single_method_resource("/media/livekit/webhook", Method::Post, route));
}

async fn respond(plane: LivekitPlane, request: &HttpRequest, raw: Bytes) -> HttpResponse {
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let authorization = header.to_owned();
    // A task of its own: a report that is being written is written to its end, also when LiveKit hangs up.
    let taken = actix_web::rt::spawn(async move { plane.handle_webhook(&authorization, &raw).await });
    match taken.await.unwrap_or(WebhookOutcome::Unavailable) {
        WebhookOutcome::Accepted | WebhookOutcome::Ignored => HttpResponse::Ok().json(json!({})),
        WebhookOutcome::Unsigned => refuse(ErrorCode::Unauthorized, "not signed with the media plane's API key"),
        WebhookOutcome::Malformed => refuse(ErrorCode::InvalidRequest, "signed, and no report"),
        WebhookOutcome::Unavailable => refuse(ErrorCode::DatabaseUnavailable, "not written; send it again"),
    }
}

fn refuse(code: ErrorCode, message: &'static str) -> HttpResponse {
    ApiError::from(Problem::new(code, message)).to_http()
}
