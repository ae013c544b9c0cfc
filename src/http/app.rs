//! Routing for the public listeners.
//!
//! - The API listener of the active server ([`configure`]): operations and fixed paths.
//! - The unencrypted listener next to an API listener with TLS ([`configure_redirect`]): redirects to it, and serves responses to a
//!   CA's http-01 challenges.
//! - Both listeners of a standby, which reports that it is alive and not ready, and has no records.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{ContentType, LOCATION};
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_model::{ErrorCode, Problem};

use super::api::error::ApiError;
use super::api::routes::{PARTS, Route, find_route};
use super::frame::origins::{is_preflight, requested_host};
use super::listener::trace::ShownPath;
use super::measured::Measured;
use super::media::{livekit_webhook, signalling, whip};
use super::metrics::NO_OPERATION;
use super::resource::{
    fixed_handler, method_not_allowed, no_such_route, public_description, public_health,
};
use super::state::{AppState, StandbyState};
use super::{call, files, frame};

/// Default port of `https` URLs.
const HTTPS_PORT: u16 = 443;
/// Path at which a CA requests a challenge's response (RFC 8555, section 8.3); the token follows.
const CHALLENGE_PATH: &str = "/.well-known/acme-challenge/";
/// `Retry-After` of a standby, for requests that need the records.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Routes all operations and the fixed paths.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    for part in PARTS {
        let api = Arc::clone(state);
        // The path may contain a secret, so the log decides by the route.
        let operations = web::scope(part.prefix).app_data(ShownPath(shown_path));
        config.service(operations.default_service(web::to(move |request, payload| {
            respond(Arc::clone(&api), request, payload)
        })));
    }
    public_health(config, &state.checks.fixed);
    public_description(config, &state.checks.fixed);
    files::configure(config, state);
    if let Some(page) = &state.api.call_page {
        call::configure(config, state, page);
    }
    if let Some(plane) = &state.planes.signalling {
        signalling::configure(config, state, plane);
        whip::configure(config, state, plane);
    }
    if let Some(plane) = &state.planes.livekit {
        livekit_webhook::configure(config, state, plane);
    }
    let state = Arc::clone(state);
    config.default_service(web::to(move |request: HttpRequest| {
        let response = no_route(&state, &request);
        async move { response }
    }));
}

/// Responds to a request whose path has the operations' prefix.
async fn respond(
    state: Arc<AppState>,
    request: HttpRequest,
    payload: web::Payload,
) -> HttpResponse {
    // actix matched only the prefix; the path tree routes the rest (see `routes`).
    let Some(route) = find_route(request.match_info().as_str()) else {
        return no_route(&state, &request);
    };
    let Some(operation) = route.operation(request.method().as_str()) else {
        let response = other_method(&state, &request, route);
        // Without an operation's label, as the method is none of the path's.
        state.metrics.time(NO_OPERATION).answered(response.status());
        return response;
    };
    // Started here, so that the latency includes the time in queues.
    let timed = state.metrics.time(operation.spec().id);
    let handled = frame::handle(operation, &state, request, payload);
    let response = Measured::new(handled).await;
    timed.answered(response.status());
    response
}

/// Returns a request's path for the log.
fn shown_path(request: &HttpRequest) -> Option<Cow<'_, str>> {
    let route = find_route(request.match_info().as_str())?;
    Some(if route.is_secret() {
        route.path.into()
    } else {
        request.path().into()
    })
}

/// Responds to an unknown path.
fn no_route(state: &AppState, request: &HttpRequest) -> HttpResponse {
    // Counted, because scanners request many unknown paths.
    let counted = state.checks.limits.check_address(request);
    let response = ApiError::from(counted.err().unwrap_or_else(no_such_route)).to_http();
    state.metrics.time(NO_OPERATION).answered(response.status());
    response
}

/// Responds to a preflight, or to a method that the path does not accept.
fn other_method(state: &AppState, request: &HttpRequest, route: &Route) -> HttpResponse {
    if let Err(limited) = state.checks.limits.check_address(request) {
        return ApiError::from(limited).to_http();
    }
    if is_preflight(request) {
        let specs: Vec<_> = route
            .operations
            .iter()
            .map(|operation| operation.spec())
            .collect();
        return state.checks.origins.preflight(request, &specs);
    }
    let allowed: Vec<_> = route
        .operations
        .iter()
        .map(|operation| operation.spec().method.as_str())
        .collect();
    method_not_allowed(&allowed.join(", "))
}

/// Serves challenge responses, and redirects all other requests with 308 to their URL on the API listener.
pub fn configure_redirect(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let state = Arc::clone(state);
    config.default_service(web::to(move |request: HttpRequest| {
        let response = challenge(&request, &state).unwrap_or_else(|| {
            state
                .checks
                .fixed
                .respond(&request, || redirect(&request, state.api.port))
        });
        async move { response }
    }));
}

/// Responds to the pending challenge.
fn challenge(request: &HttpRequest, state: &AppState) -> Option<HttpResponse> {
    let token = request.path().strip_prefix(CHALLENGE_PATH)?;
    let text = state.api.tls.as_ref()?.challenges.text(token)?;
    Some(
        // As in RFC 8555, section 8.3.
        HttpResponse::Ok()
            .insert_header(ContentType::octet_stream())
            .body(text),
    )
}

/// Returns 308 with the request's URL on the API listener at this port. Unlike 301, it keeps method and body.
pub(super) fn redirect(request: &HttpRequest, port: u16) -> HttpResponse {
    let Some(host) = requested_host(request.headers()) else {
        // Without a name there is no URL to redirect to.
        let message = "the server requires https; the Host header must name it";
        return ApiError::from(Problem::new(ErrorCode::InvalidRequest, message)).to_http();
    };
    let port = if port == HTTPS_PORT {
        String::new()
    } else {
        format!(":{port}")
    };
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    HttpResponse::PermanentRedirect()
        // The request's own host: one server may have several names.
        .insert_header((LOCATION, format!("https://{host}{port}{path}")))
        .finish()
}

/// Routes a standby's API listener: every operation is unavailable.
pub fn configure_standby(config: &mut web::ServiceConfig, state: &Arc<StandbyState>) {
    public_health(config, &state.fixed);
    public_description(config, &state.fixed);
    config.default_service(web::to(fixed_handler(&state.fixed, |_| unavailable())));
}

/// Routes a standby's listener that redirects to `https`.
pub fn configure_standby_redirect(config: &mut web::ServiceConfig, state: &Arc<StandbyState>) {
    let port = state.port;
    config.default_service(web::to(fixed_handler(&state.fixed, move |request| {
        redirect(request, port)
    })));
}

/// Returns the response to each operation: 503 `database_unavailable` with `Retry-After`.
pub(super) fn unavailable() -> HttpResponse {
    let message = "this server is a standby, without the records; retry with backoff";
    ApiError::from(Problem::new(ErrorCode::DatabaseUnavailable, message).after(RETRY_AFTER))
        .to_http()
}
