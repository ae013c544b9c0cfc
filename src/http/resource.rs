//! Resources beside the operations: paths with one method, and the responses to a path or a method that does not exist.

use std::sync::LazyLock;

use actix_web::http::header::{ALLOW, HeaderValue};
use actix_web::{HttpResponse, web};
use conclave_model::{ErrorCode, Problem};

use super::error::ApiError;
use super::spec::Method;
use super::{openapi, v1};

/// Routes `/healthz`, which answers while the process serves.
pub fn health(config: &mut web::ServiceConfig) {
    let alive = web::get().to(async || HttpResponse::Ok().json(serde_json::json!({"ok": true})));
    config.service(single_method_resource("/healthz", Method::Get, alive));
}

/// The OpenAPI description, written when it is first asked for.
static DESCRIPTION: LazyLock<web::Bytes> = LazyLock::new(|| openapi::text(v1::operations()).into());

/// Routes the OpenAPI description, which needs no credential.
pub fn describe(config: &mut web::ServiceConfig) {
    let described =
        web::get().to(async || HttpResponse::Ok().content_type("application/json").body(DESCRIPTION.clone()));
    config.service(single_method_resource("/openapi.json", Method::Get, described));
}

/// 405 `method_not_allowed`, with the methods that the path takes.
pub fn method_not_allowed(allowed: &str) -> HttpResponse {
    let message = format!("this path takes {allowed}");
    let mut response = ApiError::from(Problem::new(ErrorCode::MethodNotAllowed, message)).to_http();
    if let Ok(allowed) = HeaderValue::from_str(allowed) {
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
