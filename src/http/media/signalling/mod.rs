//! `/rtc`: signalling of WebRTC clients in LiveKit's protocol, outside the API's frame.
//!
//! A client is admitted before its websocket is opened, so a refusal is an HTTP status; browsers do not see that of a failed
//! upgrade and ask `validate`, which repeats it. Every response may be read by pages of any origin: a token is sent on
//! purpose, and no cookie counts. The token is in the url, which is therefore in no log and no message.

mod fragments;
mod response;
mod socket;

use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::http::header::{AUTHORIZATION, USER_AGENT};
use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_media::embedded::rtc::ConnectionMode;
use conclave_media::embedded::{ConnectRequest, EmbeddedPlane, Refusal};

use crate::http::api::error::ApiError;
use crate::http::frame::limits::FixedLimits;
use crate::http::listener::head::asks_for_head;
use crate::http::listener::request_boundary::opens_websocket;
use crate::http::resource::{fixed_handler, no_such_route};
use crate::http::state::AppState;
pub use response::any_origin;
use response::{plain, preflight, refused};

/// Its label in the metrics.
const OPERATION: &str = "signalling";
/// The paths, with the number of peer connections that their clients use if they send no join request.
const PATHS: [(&str, &str, ConnectionMode); 2] = [
    ("/rtc", "/rtc/validate", ConnectionMode::Dual),
    ("/rtc/v1", "/rtc/v1/validate", ConnectionMode::Single),
];

/// Routes the websocket, its dry run, and the probe that clients send when a network comes back.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>, plane: &EmbeddedPlane) {
    for (connect_path, validate_path, mode) in PATHS {
        let (of_state, of_plane) = (Arc::clone(state), plane.clone());
        let connecting = web::get().to(move |request: HttpRequest, payload: Payload| {
            let (state, plane) = (Arc::clone(&of_state), of_plane.clone());
            async move {
                counted(
                    &state,
                    &request,
                    connect(&state, &plane, mode, &request, payload),
                )
                .await
            }
        });
        let (of_state, of_plane) = (Arc::clone(state), plane.clone());
        let validating = web::get().to(move |request: HttpRequest| {
            let (state, plane) = (Arc::clone(&of_state), of_plane.clone());
            async move { counted(&state, &request, validate(&state, &plane, mode, &request)).await }
        });
        let fixed = &state.checks.fixed;
        config
            .service(resource(connect_path, connecting, fixed))
            .service(resource(validate_path, validating, fixed));
    }
    let probe = fixed_handler(&state.checks.fixed, |request| {
        let is_probe = asks_for_head(request);
        any_origin(if is_probe {
            HttpResponse::Ok().finish()
        } else {
            ApiError::from(no_such_route()).to_http()
        })
    });
    config.service(web::resource("/").default_service(web::to(probe)));
}

fn resource(path: &str, route: actix_web::Route, limits: &Arc<FixedLimits>) -> actix_web::Resource {
    let other = fixed_handler(limits, |_| {
        plain(StatusCode::METHOD_NOT_ALLOWED, "this path takes GET")
    });
    web::resource(path)
        .route(route)
        .route(
            web::method(actix_web::http::Method::OPTIONS)
                .to(fixed_handler(limits, |_| preflight())),
        )
        .default_service(web::to(other))
}

/// Counts a request by the client's address, and handles it if that is not over its rate.
async fn counted(
    state: &AppState,
    request: &HttpRequest,
    handled: impl Future<Output = HttpResponse>,
) -> HttpResponse {
    let timed = state.metrics.time(OPERATION);
    let response = match state.checks.limits.check_signalling(request) {
        Ok(()) => handled.await,
        Err(problem) => ApiError::from(problem).to_http(),
    };
    let response = any_origin(response);
    timed.answered(response.status());
    response
}

/// Admits a client and opens its websocket.
async fn connect(
    state: &AppState,
    plane: &EmbeddedPlane,
    mode: ConnectionMode,
    request: &HttpRequest,
    payload: Payload,
) -> HttpResponse {
    if !opens_websocket(request) {
        return plain(StatusCode::NOT_FOUND, "this path takes websockets");
    }
    let admitted = async { plane.connect(connect_request(state, mode, request)?).await };
    match admitted.await {
        Ok(connection) => socket::open(request, payload, connection),
        Err(refusal) => refused(&refusal),
    }
}

/// Repeats the verdict of [`connect`], without joining.
async fn validate(
    state: &AppState,
    plane: &EmbeddedPlane,
    mode: ConnectionMode,
    request: &HttpRequest,
) -> HttpResponse {
    let validated = async {
        plane
            .validate(&connect_request(state, mode, request)?)
            .await
    };
    match validated.await {
        Ok(()) => plain(StatusCode::OK, "success"),
        Err(refusal) => refused(&refusal),
    }
}

/// Reads the token of a request. What else it asks for is read once that is verified.
fn connect_request(
    state: &AppState,
    mode: ConnectionMode,
    request: &HttpRequest,
) -> Result<ConnectRequest, Refusal> {
    let header = |name| {
        request
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let read = ConnectRequest::new(mode, request.query_string(), header(AUTHORIZATION))
        .map_err(Refusal::from)?;
    let read = read.by_user_agent(header(USER_AGENT));
    Ok(read.from_address(state.checks.limits.client_address(request)))
}
