//! Routing of the API listener: a resource for each path of the operations, and the fixed paths beside them.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};

use super::error::ApiError;
use super::metrics::NO_OPERATION;
use super::operation::Operation;
use super::origins::is_preflight;
use super::resource::{method_not_allowed, no_such_route, public_description, public_health};
use super::spec::Method;
use super::state::AppState;
use super::trace::SecretPath;
use super::{call, files, frame, livekit_webhook, signalling, v1, whip};

/// Routes every operation and the fixed paths.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    for (path, operations) in by_path() {
        config.service(resource(path, operations, state));
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
        let counted = state.checks.limits.check_address(&request);
        let response = ApiError::from(counted.err().unwrap_or_else(no_such_route)).to_http();
        state.metrics.time(NO_OPERATION).answered(response.status());
        async move { response }
    }));
}

/// The operations of each path, in the order of the OpenAPI description.
fn by_path() -> Vec<(&'static str, Vec<&'static Operation>)> {
    let mut paths: Vec<(&str, Vec<&Operation>)> = Vec::new();
    for operation in v1::operations() {
        match paths
            .iter_mut()
            .find(|(path, _)| *path == operation.spec.path)
        {
            Some((_, operations)) => operations.push(operation),
            None => paths.push((operation.spec.path, vec![operation])),
        }
    }
    paths
}

fn resource(
    path: &str,
    operations: Vec<&'static Operation>,
    state: &Arc<AppState>,
) -> actix_web::Resource {
    let mut resource = web::resource(path);
    if operations
        .iter()
        .any(|operation| operation.spec.secret_parameter().is_some())
    {
        resource = resource.app_data(SecretPath);
    }
    for &operation in &operations {
        let state = Arc::clone(state);
        let route =
            method(operation.spec.method).to(move |request: HttpRequest, payload: web::Payload| {
                let state = Arc::clone(&state);
                async move {
                    let timed = state.metrics.time(operation.spec.id);
                    let response =
                        frame::handle(operation, Arc::clone(&state), request, payload).await;
                    timed.answered(response.status());
                    response
                }
            });
        resource = resource.route(route);
    }
    let state = Arc::clone(state);
    resource.default_service(web::to(move |request: HttpRequest| {
        let response = other_method(&state, &request, &operations);
        state.metrics.time(NO_OPERATION).answered(response.status());
        async { response }
    }))
}

fn method(method: Method) -> actix_web::Route {
    match method {
        Method::Get => web::get(),
        Method::Post => web::post(),
        Method::Put => web::put(),
        Method::Patch => web::patch(),
        Method::Delete => web::delete(),
    }
}

/// Responds to a preflight, or to a method that the path does not take.
fn other_method(
    state: &AppState,
    request: &HttpRequest,
    operations: &[&'static Operation],
) -> HttpResponse {
    if let Err(limited) = state.checks.limits.check_address(request) {
        return ApiError::from(limited).to_http();
    }
    if is_preflight(request) {
        let specs: Vec<_> = operations.iter().map(|operation| &operation.spec).collect();
        return state.checks.origins.preflight(request, &specs);
    }
    let allowed: Vec<_> = operations
        .iter()
        .map(|operation| operation.spec.method.as_str())
        .collect();
    method_not_allowed(&allowed.join(", "))
}
