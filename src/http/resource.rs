//! Resources besides the operations: paths with one method, responses for unknown paths and methods, and pages and files that are
//! compiled into the program. A browser may load only what a page's content security policy permits.

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

/// Routes `/healthz` on the admin listener, without a rate limit. The route responds while the process serves.
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

/// OpenAPI descriptions, each generated at its first request.
static DESCRIPTIONS: [LazyLock<web::Bytes>; 2] = [
    // Lazily, since rendering takes a while.
    LazyLock::new(|| openapi::text(&CONTRACT).into()),
    LazyLock::new(|| openapi::text(&EXTENSIONS).into()),
];

/// Routes the OpenAPI descriptions on the admin listener, without a rate limit.
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
        // Standbys serve the description, too, since it depends on the version only.
        config.service(fixed_resource(part.description, limits, move |_| {
            description(text)
        }));
    }
}

/// Creates a resource whose response to a GET needs no credential and no record.
pub fn fixed_resource(
    path: &str,
    limits: &Arc<FixedLimits>,
    respond: impl Fn(&HttpRequest) -> HttpResponse + Clone + 'static,
) -> actix_web::Resource {
    let route = web::get().to(fixed_handler(limits, respond));
    public_resource(path, Method::Get, route, limits)
}

/// Creates a resource with one method on a public listener.
pub fn public_resource(
    path: &str,
    method: Method,
    route: actix_web::Route,
    limits: &Arc<FixedLimits>,
) -> actix_web::Resource {
    // A 405 needs no credential either, so it has the same rate limit.
    let other = fixed_handler(limits, move |_| method_not_allowed(method.as_str()));
    web::resource(path)
        .route(route)
        .default_service(web::to(other))
}

/// Creates a handler whose response needs no credential and no record. Such responses have a rate limit per client address.
pub fn fixed_handler(
    limits: &Arc<FixedLimits>,
    respond: impl Fn(&HttpRequest) -> HttpResponse + Clone + 'static,
) -> impl Fn(HttpRequest) -> Ready<HttpResponse> + Clone + 'static {
    let limits = Arc::clone(limits);
    move |request| ready(limits.respond(&request, || respond(&request)))
}

/// Returns 405 `method_not_allowed` with the allowed methods: those given, and `HEAD` if `GET` is among them.
pub fn method_not_allowed(allowed: &str) -> HttpResponse {
    let allowed = with_head(allowed);
    let message = format!("this path accepts {allowed}");
    let mut response = ApiError::from(Problem::new(ErrorCode::MethodNotAllowed, message)).to_http();
    // RFC 9110, section 15.5.6, requires `Allow`.
    if let Ok(allowed) = HeaderValue::from_str(&allowed) {
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}

/// Creates a resource with one method on the admin listener.
pub fn single_method_resource(
    path: &str,
    method: Method,
    route: actix_web::Route,
) -> actix_web::Resource {
    let other = web::to(move || async move { method_not_allowed(method.as_str()) });
    web::resource(path).route(route).default_service(other)
}

/// Returns 404 `not_found`, for a path without an operation.
pub fn no_such_route() -> Problem {
    Problem::new(
        ErrorCode::NotFound,
        // Without the path: it may contain a secret.
        "no such route; see /openapi.json and /ext/openapi.json",
    )
}

/// Returns a 200 for a page, or for a file that a page loads, with the given `Content-Security-Policy`. Browsers revalidate a cached
/// copy before they use it, so a new version of the program takes effect at once.
pub fn page_response(policy: &str) -> HttpResponseBuilder {
    let mut response = framed_page_response(policy);
    // For browsers that do not support `frame-ancestors`.
    response.insert_header((X_FRAME_OPTIONS, "DENY"));
    response
}

/// Like [`page_response`], but other pages may frame the page. The policy's `frame-ancestors` names them; `X-Frame-Options` cannot.
pub fn framed_page_response(policy: &str) -> HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    response
        .insert_header((CONTENT_SECURITY_POLICY, policy))
        // Content types are exact, and a browser's guess could turn text into a script.
        .insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"))
        // A URL of the console names projects and rooms, which other sites must not see.
        .insert_header((REFERRER_POLICY, "no-referrer"))
        .insert_header((CACHE_CONTROL, "no-cache"));
    response
}

/// Returns whether the client has the content with this tag.
pub fn client_has(request: &HttpRequest, tag: &EntityTag) -> bool {
    match request.get_header::<IfNoneMatch>() {
        // `*` matches every version.
        Some(IfNoneMatch::Any) => true,
        // `If-None-Match` compares weakly (RFC 9110, section 13.1.2).
        Some(IfNoneMatch::Items(tags)) => tags.iter().any(|known| known.weak_eq(tag)),
        None => false,
    }
}
