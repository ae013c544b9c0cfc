//! Routing of the API listener: the operations, and the fixed paths beside them.

use std::borrow::Cow;
use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};

use super::metrics::NO_OPERATION;
use super::resource::{method_not_allowed, no_such_route, public_description, public_health};
use super::state::AppState;
use super::{call, files, frame};
use crate::http::api::error::ApiError;
use crate::http::api::routes::{self, Route};
use crate::http::frame::origins::is_preflight;
use crate::http::listener::trace::ShownPath;
use crate::http::media::{livekit_webhook, signalling, whip};

/// Routes every operation and the fixed paths.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let api = Arc::clone(state);
    let operations = web::scope(routes::PREFIX).app_data(ShownPath(shown_path));
    config.service(operations.default_service(web::to(move |request, payload| {
        respond(Arc::clone(&api), request, payload)
    })));
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

/// Responds to a request whose path begins as those of the operations do.
async fn respond(
    state: Arc<AppState>,
    request: HttpRequest,
    payload: web::Payload,
) -> HttpResponse {
    let Some(route) = routes::find(request.match_info().as_str()) else {
        return no_route(&state, &request);
    };
    let Some(operation) = route.operation(request.method().as_str()) else {
        let response = other_method(&state, &request, route);
        state.metrics.time(NO_OPERATION).answered(response.status());
        return response;
    };
    let timed = state.metrics.time(operation.spec.id);
    let response = frame::handle(operation, Arc::clone(&state), request, payload).await;
    timed.answered(response.status());
    response
}

/// The path of a request as the log may show it.
fn shown_path(request: &HttpRequest) -> Option<Cow<'_, str>> {
    let route = routes::find(request.match_info().as_str())?;
    Some(if route.is_secret() {
        route.path.into()
    } else {
        request.path().into()
    })
}

/// Responds to a path that nothing is at.
fn no_route(state: &AppState, request: &HttpRequest) -> HttpResponse {
    let counted = state.checks.limits.check_address(request);
    let response = ApiError::from(counted.err().unwrap_or_else(no_such_route)).to_http();
    state.metrics.time(NO_OPERATION).answered(response.status());
    response
}

/// Responds to a preflight, or to a method that the path does not take.
fn other_method(state: &AppState, request: &HttpRequest, route: &Route) -> HttpResponse {
    if let Err(limited) = state.checks.limits.check_address(request) {
        return ApiError::from(limited).to_http();
    }
    if is_preflight(request) {
        let specs: Vec<_> = route
            .operations
            .iter()
            .map(|operation| &operation.spec)
            .collect();
        return state.checks.origins.preflight(request, &specs);
    }
    let allowed: Vec<_> = route
        .operations
        .iter()
        .map(|operation| operation.spec.method.as_str())
        .collect();
    method_not_allowed(&allowed.join(", "))
}
