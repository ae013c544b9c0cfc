//! Resources beside the operations: paths with one method, the responses to a path or a method that does not exist, and those with pages
//! and files that are part of the program. Of a page, the browser may load and embed what its policy allows, and nothing else.

use std::future::{Ready, ready};
use std::sync::{Arc, LazyLock};

use actix_web::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, EntityTag, HeaderValue, IfNoneMatch,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use actix_web::{HttpMessage, HttpRequest, HttpResponse, HttpResponseBuilder, web};
use conclave_model::{ErrorCode, Problem};

use super::api::error::ApiError;
use super::api::openapi;
use super::api::routes::{CONTRACT, EXTENSIONS, PARTS};
use super::api::spec::Method;
use super::frame::limits::FixedLimits;
use super::listener::trace::with_head;

const HEALTH: &str = "/healthz";

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

/// The OpenAPI descriptions, each written when it is first asked for.
static DESCRIPTIONS: [LazyLock<web::Bytes>; 2] = [
    LazyLock::new(|| openapi::text(&CONTRACT).into()),
    LazyLock::new(|| openapi::text(&EXTENSIONS).into()),
];

/// Routes the OpenAPI descriptions on the admin listener, without a rate.
pub fn describe(config: &mut web::ServiceConfig) {
    for (part, text) in PARTS.into_iter().zip(&DESCRIPTIONS) {
        config.service(single_method_resource(
            part.description,
            Method::Get,
            web::get().to(move || {
                let response = description(text);
                async { response }
            }),
        ));
    }
}

fn description(text: &web::Bytes) -> HttpResponse {
    HttpResponse::Ok()
        .content_type("application/json")
        .body(text.clone())
}

/// Routes `/healthz` on a public listener.
pub fn public_health(config: &mut web::ServiceConfig, limits: &Arc<FixedLimits>) {
    config.service(fixed_resource(HEALTH, limits, |_| alive()));
}

/// Routes the OpenAPI descriptions on a public listener.
pub fn public_description(config: &mut web::ServiceConfig, limits: &Arc<FixedLimits>) {
    for (part, text) in PARTS.into_iter().zip(&DESCRIPTIONS) {
        config.service(fixed_resource(part.description, limits, move |_| {
            description(text)
        }));
    }
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
        "no such route; /openapi.json and /ext/openapi.json describe those that exist",
    )
}

/// A 200 for a page, or for a file that it loads, with the given `Content-Security-Policy`. A new version of the program takes
/// effect at once: browsers ask before they show what they have stored.
pub fn page_response(policy: &str) -> HttpResponseBuilder {
    let mut response = framed_page_response(policy);
    response.insert_header((X_FRAME_OPTIONS, "DENY"));
    response
}

/// The same for a page that others may show in a frame. The `frame-ancestors` of its policy name them, as `X-Frame-Options` cannot.
pub fn framed_page_response(policy: &str) -> HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    response
        .insert_header((CONTENT_SECURITY_POLICY, policy))
        .insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((REFERRER_POLICY, "no-referrer"))
        .insert_header((CACHE_CONTROL, "no-cache"));
    response
}

/// Whether the client has the content with this tag.
pub fn client_has(request: &HttpRequest, tag: &EntityTag) -> bool {
    match request.get_header::<IfNoneMatch>() {
        Some(IfNoneMatch::Any) => true,
        Some(IfNoneMatch::Items(tags)) => tags.iter().any(|known| known.weak_eq(tag)),
        None => false,
    }
}
