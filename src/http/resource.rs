//! Resources beside the operations: paths with one method, and the responses to a path or a method that does not exist.

use std::sync::{Arc, LazyLock};

use actix_web::http::header::{ALLOW, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_model::{ErrorCode, Problem};

use super::error::ApiError;
use super::head::with_head;
use super::spec::Method;
use super::state::AppState;
use super::{openapi, v1};

const HEALTH: &str = "/healthz";
const OPENAPI: &str = "/openapi.json";

/// Routes `/healthz`, which answers while the process serves.
pub fn health(config: &mut web::ServiceConfig) {
    config.service(single_method_resource(HEALTH, Method::Get, web::get().to(async || alive())));
}

fn alive() -> HttpResponse {
    HttpResponse::Ok().json(serde_json::json!({"ok": true}))
}

/// The OpenAPI description, written when it is first asked for.
static DESCRIPTION: LazyLock<web::Bytes> = LazyLock::new(|| openapi::text(v1::operations()).into());

/// Routes the OpenAPI description, which needs no credential.
pub fn describe(config: &mut web::ServiceConfig) {
    config.service(single_method_resource(OPENAPI, Method::Get, web::get().to(async || description())));
}

fn description() -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(DESCRIPTION.clone())
}

/// Routes both on a listener for everyone, where each address has a rate of them.
pub fn health_and_description(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    config.service(fixed_resource(HEALTH, state, |_| alive()));
    config.service(fixed_resource(OPENAPI, state, |_| description()));
}

/// A path whose response to a GET needs no credential and no record. Each address has a rate of them.
pub fn fixed_resource(
    path: &str,
    state: &Arc<AppState>,
    respond: impl Fn(&HttpRequest) -> HttpResponse + Clone + 'static,
) -> actix_web::Resource {
    let state = Arc::clone(state);
    let route = web::get().to(move |request: HttpRequest| {
        let checked = state.checks.limits.check_fixed(&request);
        let response = checked.map_or_else(|limited| ApiError::from(limited).to_http(), |()| respond(&request));
        async { response }
    });
    single_method_resource(path, Method::Get, route)
}

/// 405 `method_not_allowed`, with the methods that the path takes: those listed, and `HEAD` where `GET` is.
pub fn method_not_allowed(allowed: &str) -> HttpResponse {
    let allowed = with_head(allowed);
    let message = format!("this path takes {allowed}");
    let mut response = ApiError::from(Problem::new(ErrorCode::MethodNotAllowed, message)).to_http();
    if let Ok(allowed) = HeaderValue::from_str(&allowed) {
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}

/// A path beside the operations that takes one method.
pub fn single_method_resource(path: &str, method: Method, route: actix_web::Route) -> actix_web::Resource {
    let other = web::to(move || async move { method_not_allowed(method.as_str()) });
    web::resource(path).route(route).default_service(other)
}

/// Returns 404 `not_found`, for a path that has no operation.
pub fn no_such_route() -> Problem {
    Problem::new(ErrorCode::NotFound, "no such route; /openapi.json describes those that exist")
}
