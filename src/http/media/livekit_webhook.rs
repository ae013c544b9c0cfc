//! `/media/livekit/webhook`: LiveKit's reports. Outside the API's frame: signed with the media plane's API key, without a request
//! rate, and acknowledged after the report is durable.

use std::sync::Arc;

use actix_web::http::header::AUTHORIZATION;
use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_media::livekit::{LivekitPlane, WebhookOutcome};
use conclave_model::{ErrorCode, Problem};
use serde_json::json;

use crate::http::api::error::ApiError;
use crate::http::api::spec::Method;
use crate::http::frame::payload::BodyError;
use crate::http::resource::public_resource;
use crate::http::state::AppState;

/// Maximum report size in bytes.
// Far above the API's limit: a report may contain the whole metadata of a room or a participant.
pub const LIMIT: usize = 16 * 1024 * 1024;
/// Label in the metrics.
const OPERATION: &str = "livekit_webhook";

/// Routes the webhook.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>, plane: &LivekitPlane) {
    let (state, plane, fixed) = (
        Arc::clone(state),
        plane.clone(),
        Arc::clone(&state.checks.fixed),
    );
    let route = web::post().to(move |request: HttpRequest, payload: Payload| {
        let (state, plane) = (Arc::clone(&state), plane.clone());
        async move {
            // Outside the frame, so measured here.
            let timed = state.metrics.time(OPERATION);
            let response = match handle(&state, plane, &request, payload).await {
                Ok(()) => HttpResponse::Ok().json(json!({})),
                Err(refused) => ApiError::from(refused).to_http(),
            };
            timed.answered(response.status());
            response
        }
    });
    config.service(public_resource(
        "/media/livekit/webhook",
        Method::Post,
        route,
        &fixed,
    ));
}

/// Verifies the signature before reading the report.
async fn handle(
    state: &AppState,
    plane: LivekitPlane,
    request: &HttpRequest,
    payload: Payload,
) -> Result<(), Problem> {
    let header = request
        .headers()
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    // Checked first: only a signed request may occupy memory for a report.
    let signature = plane.verify_webhook(header).ok_or_else(unsigned)?;
    let report = state
        .checks
        .reports
        .within(LIMIT, request, payload)
        .await
        .map_err(unread)?;
    // In a task of its own, because actix drops a handler's future when the client disconnects: a report in progress is written to its
    // end.
    let handled =
        actix_web::rt::spawn(async move { plane.handle_webhook(&signature, &report).await });
    // A panic in the handler counts as not recorded, so LiveKit sends the report again.
    match handled.await.unwrap_or(WebhookOutcome::Unavailable) {
        WebhookOutcome::Accepted | WebhookOutcome::Ignored => Ok(()),
        // The header was signed, but for another body: the signature contains its hash.
        WebhookOutcome::Unsigned => Err(unsigned()),
        WebhookOutcome::Malformed => Err(Problem::new(
            ErrorCode::InvalidRequest,
            "the request is signed, but its body is not a report",
        )),
        WebhookOutcome::Unavailable => Err(unavailable()),
    }
}

fn unsigned() -> Problem {
    Problem::new(
        ErrorCode::Unauthorized,
        "not signed with the media plane's API key",
    )
}

/// Returns a 503: LiveKit repeats a report after a 5xx.
fn unavailable() -> Problem {
    Problem::new(
        ErrorCode::DatabaseUnavailable,
        "the report was not written; send it again",
    )
}

fn unread(error: BodyError) -> Problem {
    match error {
        // A 5xx, so that LiveKit repeats the report.
        BodyError::NoMemory => unavailable(),
        BodyError::TooLarge(_) | BodyError::Late(_) | BodyError::Incomplete => error.into(),
    }
}
