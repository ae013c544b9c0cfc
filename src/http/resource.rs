//! Resources beside the operations: paths with one method, and the responses to a path or a method that does not exist.

use std::future::{Ready, ready};
use std::sync::{Arc, LazyLock};

use actix_web::http::header::{ALLOW, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_model::{ErrorCode, Problem};

use crate::http::api::error::ApiError;
use crate::http::api::spec::Method;
use crate::http::api::{openapi, v1};
use crate::http::frame::limits::FixedLimits;
use crate::http::listener::head::with_head;

const HEALTH: &str = "/healthz";
const OPENAPI: &str = "/openapi.json";

/// Routes `/healthz` on the admin listener, without a rate. It answers while the process serves.
pub fn health(config: &mut web::ServiceConfig) {
    config.service(single_method_resource(
        HEALTH,
        Method::Get,
        web::get().to(async || alive()),
    ));
}

fn alive() -> HttpResponse {
    HttpResponse::Ok().json(serde_json::json!({"ok": true}))
}

/// The OpenAPI description, written when it is first asked for.
static DESCRIPTION: LazyLock<web::Bytes> = LazyLock::new(|| openapi::text(v1::operations()).into());

/// Routes the OpenAPI description on the admin listener, without a rate.
pub fn describe(config: &mut web::ServiceConfig) {
    config.service(single_method_resource(
        OPENAPI,
        Method::Get,
        web::get().to(async || description()),
    ));
}

fn description() -> HttpResponse {
    HttpResponse::Ok()
        .content_type("application/json")
        .body(DESCRIPTION.clone())
}

/// Routes `/healthz` on a public listener.
pub fn public_health(config: &mut web::ServiceConfig, limits: &Arc<FixedLimits>) {
    config.service(fixed_resource(HEALTH, limits, |_| alive()));
}

/// Routes the OpenAPI description on a public listener.
pub fn public_description(config: &mut web::ServiceConfig, limits: &Arc<FixedLimits>) {
    config.service(fixed_resource(OPENAPI, limits, |_| description()));
}

/// A path whose response to a GET needs no credential and no record.
pub fn fixed_resource(
    path: &str,
    limits: &Arc<FixedLimits>,
    respond: impl Fn(&HttpRequest) -> HttpResponse + Clone + 'static,
) -> actix_web::Resource {
    let route = web::get().to(fixed_handler(limits, respond));
    public_resource(path, Method::Get, route, limits)
}

/// A path of a public listener that takes one method.
pub fn public_resource(
    path: &str,
    method: Method,
    route: actix_web::Route,
    limits: &Arc<FixedLimits>,
) -> actix_web::Resource {
    let other = fixed_handler(limits, move |_| method_not_allowed(method.as_str()));
    web::resource(path)
        .route(route)
        .default_service(web::to(other))
}

/// A handler whose response needs no credential and no record. Each client address has a rate of such responses.
pub fn fixed_handler(
    limits: &Arc<FixedLimits>,
    respond: impl Fn(&HttpRequest) -> HttpResponse + Clone + 'static,
) -> impl Fn(HttpRequest) -> Ready<HttpResponse> + Clone + 'static {
    let limits = Arc::clone(limits);
    move |request| ready(limits.respond(&request, || respond(&request)))
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

/// A path of the admin listener that takes one method.
pub fn single_method_resource(
    path: &str,
    method: Method,
    route: actix_web::Route,
) -> actix_web::Resource {
    let other = web::to(move || async move { method_not_allowed(method.as_str()) });
    web::resource(path).route(route).default_service(other)
}

/// Returns 404 `not_found`, for a path that has no operation.
pub fn no_such_route() -> Problem {
    Problem::new(
        ErrorCode::NotFound,
        "no such route; /openapi.json describes those that exist",
    )
}
