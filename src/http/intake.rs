//! `/media/livekit/webhook`: what LiveKit reports. Outside the API's frame: signed by LiveKit and by nobody else, under no
//! request rate, and answered once what it reports is durable (decisions section 5).

use std::sync::Arc;

use actix_web::http::header::AUTHORIZATION;
use actix_web::web::{Bytes, Payload};
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_media::livekit::{LivekitPlane, WebhookOutcome};
use conclave_model::ErrorCode;
use serde_json::json;

use super::app::place;
use super::gate::body;
use super::operation::Method;
use super::problem::{self, Problem};
use super::state::AppState;

/// Bytes of a report at most.
const LIMIT: usize = 16 * 1024 * 1024;
/// What the numbers call it.
const OPERATION: &str = "livekit_webhook";

/// Routes it.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>, plane: &LivekitPlane) {
    let (state, plane) = (Arc::clone(state), plane.clone());
    let intake = web::post().to(move |request: HttpRequest, payload: Payload| {
        let (state, plane) = (Arc::clone(&state), plane.clone());
        async move {
            let timed = state.metrics.time(OPERATION);
            let response = match body::within(LIMIT, &request, payload).await {
                Ok(raw) => answer(plane, &request, raw).await,
                Err(refused) => problem::response(&refused),
            };
            timed.answered(response.status());
            response
        }
    });
    config.service(place("/media/livekit/webhook", Method::Post, intake));
}

async fn answer(plane: LivekitPlane, request: &HttpRequest, raw: Bytes) -> HttpResponse {
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let authorization = header.to_owned();
    // A task of its own: what has begun to be written is written, also when LiveKit hangs up.
    let taken = actix_web::rt::spawn(async move { plane.handle_webhook(&authorization, &raw).await });
    match taken.await.unwrap_or(WebhookOutcome::Unavailable) {
        WebhookOutcome::Accepted | WebhookOutcome::Ignored => HttpResponse::Ok().json(json!({})),
        WebhookOutcome::Unsigned => refuse(ErrorCode::Unauthorized, "not signed with the media plane's API key"),
        WebhookOutcome::Malformed => refuse(ErrorCode::InvalidRequest, "signed, and no report"),
        WebhookOutcome::Unavailable => refuse(ErrorCode::DatabaseUnavailable, "not written; send it again"),
    }
}

fn refuse(code: ErrorCode, message: &'static str) -> HttpResponse {
    problem::response(&Problem::new(code, message))
}
