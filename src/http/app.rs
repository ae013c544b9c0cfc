//! Routing of the API listener, made from the operations.

use std::sync::Arc;

use actix_web::http::header::{ALLOW, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_model::ErrorCode;

use super::gate::origin::is_preflight;
use super::metrics::NO_OPERATION;
use super::operation::{Method, Operation, all};
use super::problem::{self, Problem};
use super::state::AppState;
use super::{gate, intake, openapi};

/// Routes every operation, and what stands beside them.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    for (path, operations) in by_path() {
        config.service(resource(path, operations, state));
    }
    health(config);
    describe(config);
    if let Some(plane) = &state.livekit {
        intake::configure(config, state, plane);
    }
    let state = Arc::clone(state);
    config.default_service(web::to(move |request: HttpRequest| {
        let counted = state.limits.check_address(&request);
        let response = problem::response(&counted.err().unwrap_or_else(no_such_route));
        state.metrics.time(NO_OPERATION).answered(response.status());
        async move { response }
    }));
}

/// Routes `/healthz`, which answers while the process serves.
pub fn health(config: &mut web::ServiceConfig) {
    let alive = web::get().to(async || HttpResponse::Ok().json(serde_json::json!({"ok": true})));
    config.service(place("/healthz", Method::Get, alive));
}

/// Routes the description, which needs no credential: it shows what everybody's calls look like, and nothing of anybody's.
pub fn describe(config: &mut web::ServiceConfig) {
    let description: web::Bytes = openapi::text().into();
    let described = web::get().to(move || {
        let description = description.clone();
        async { HttpResponse::Ok().content_type("application/json").body(description) }
    });
    config.service(place("/openapi.json", Method::Get, described));
}

/// The operations of each path, in the order of the contract.
fn by_path() -> Vec<(&'static str, Vec<&'static Operation>)> {
    let mut paths: Vec<(&str, Vec<&Operation>)> = Vec::new();
    for operation in all() {
        match paths.iter_mut().find(|(path, _)| *path == operation.path) {
            Some((_, operations)) => operations.push(operation),
            None => paths.push((operation.path, vec![operation])),
        }
    }
    paths
}

fn resource(path: &str, operations: Vec<&'static Operation>, state: &Arc<AppState>) -> actix_web::Resource {
    let mut resource = web::resource(path);
    for &operation in &operations {
        let state = Arc::clone(state);
        let route = method(operation.method).to(move |request: HttpRequest, payload: web::Payload| {
            let state = Arc::clone(&state);
            async move {
                let timed = state.metrics.time(operation.id);
                let response = gate::enter(operation, Arc::clone(&state), request, payload).await;
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

/// A preflight, or a method that the path does not have.
fn other_method(state: &AppState, request: &HttpRequest, operations: &[&'static Operation]) -> HttpResponse {
    if let Err(limited) = state.limits.check_address(request) {
        return problem::response(&limited);
    }
    if is_preflight(request) {
        return state.origins.preflight(request, operations);
    }
    let allowed: Vec<_> = operations.iter().map(|operation| operation.method.as_str()).collect();
    method_not_allowed(&allowed.join(", "))
}

/// 405 `method_not_allowed`, with the methods that the path takes.
fn method_not_allowed(allowed: &str) -> HttpResponse {
    let message = format!("this path takes {allowed}");
    let mut response = problem::response(&Problem::new(ErrorCode::MethodNotAllowed, message));
    if let Ok(allowed) = HeaderValue::from_str(allowed) {
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}

/// A path beside the operations that takes one method.
pub fn place(path: &str, method: Method, route: actix_web::Route) -> actix_web::Resource {
    let other = web::to(move || async move { method_not_allowed(method.as_str()) });
    web::resource(path).route(route).default_service(other)
}

/// 404 `not_found`.
#[must_use]
pub fn no_such_route() -> Problem {
    Problem::new(ErrorCode::NotFound, "no such route; /openapi.json describes those that exist")
}
