//! The outermost middleware: an id for each request, in its response and in its log lines, a 500 for a panic, a delay for
//! refusals of clients that ask for too much, `HEAD`, and responses in pieces.
//!
//! `HEAD` is handled as the `GET` of the same path, with the same checks, and its response has the same headers and no body
//! (RFC 9110, section 9.3.2). Operations therefore declare `GET` alone.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::InternalError;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::http::{ConnectionType, Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage, HttpRequest};
use conclave_model::Problem;
use futures_util::FutureExt;
use tokio::time::sleep;
use uuid::Uuid;

use super::client_stream::ResponseBody;
use super::connections;
use super::request_boundary::opens_websocket;
use crate::http::api::error::ApiError;
use crate::http::measured::Measured;

/// The response header that carries the id.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// How long a 429 is kept until it is sent. A client that asks again at once would take much of the processors with its refusals: over
/// 16 connections it was sent 50,000 a second. Beside so many switches between threads, Linux lets the kernel's own threads that
/// complete writes to a file wait for hundreds of milliseconds, and commits with them.
const REFUSAL_DELAY: Duration = Duration::from_millis(100);

/// The path of a request that no route takes, in the log.
const NO_ROUTE: &str = "(no such route)";

/// Marks the response of another node, in its extensions. That node has given it an id, and has delayed it if it refuses.
#[derive(Debug, Clone, Copy)]
pub struct PassedOn;

/// Wraps every request of a listener.
///
/// # Errors
/// What went wrong below, as the response it is.
pub async fn trace(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let id = Uuid::now_v7();
    let (exchange, _handling) = connections::begin(request.request(), id).unzip();
    let asks_for_head = handle_as_get(&mut request);
    // The request itself cannot be kept for the case of a panic: the router wants it for its own.
    let Ok(result) = AssertUnwindSafe(Measured::new(next.call(request)))
        .catch_unwind()
        .await
    else {
        log::error!(request_id = id.to_string().as_str(); "a handler panicked");
        let mut response = ApiError::from(Problem::internal()).to_http();
        stamp(id, response.headers_mut());
        return Err(InternalError::from_response("a handler panicked", response).into());
    };
    let mut response = result?;
    let is_passed_on = response.response().extensions().get::<PassedOn>().is_some();
    if must_wait(&response) && !is_passed_on {
        Box::pin(sleep(REFUSAL_DELAY)).await;
    }
    if log::log_enabled!(log::Level::Debug) {
        let (status, http) = (response.status().as_u16(), response.request());
        log::debug!(request_id = id.to_string().as_str(), status = status; "{} {}", sent_method(http), shown(http));
    }
    if !(is_passed_on && response.headers().contains_key(REQUEST_ID)) {
        stamp(id, response.headers_mut());
    }
    Ok(response.map_body(|_, body| ResponseBody::new(body, asks_for_head, exchange)))
}

/// Whether a response refuses what is too much. One that closes its connection is sent at once: to ask again costs a new connection.
fn must_wait<B>(response: &ServiceResponse<B>) -> bool {
    let is_closed = response.response().head().connection_type() == ConnectionType::Close;
    response.status() == StatusCode::TOO_MANY_REQUESTS && !is_closed
}

/// Marks a resource whose path holds a secret, as its `app_data`.
#[derive(Debug, Clone, Copy)]
pub struct SecretPath;

/// How the log shows the path of a request, as the `app_data` of a scope that has routes of its own. `None` if no route takes it.
#[derive(Clone, Copy)]
pub struct ShownPath(pub fn(&HttpRequest) -> Option<Cow<'_, str>>);

/// A path as the log may show it. One that holds a secret is shown as its pattern, and one that no route takes, which may hold
/// a secret all the same, not at all.
fn shown(request: &HttpRequest) -> Cow<'_, str> {
    if let Some(ShownPath(show)) = request.app_data() {
        return show(request).unwrap_or(NO_ROUTE.into());
    }
    match request.match_pattern() {
        Some(pattern) if request.app_data::<SecretPath>().is_some() => pattern.into(),
        Some(_) => request.path().into(),
        None => NO_ROUTE.into(),
    }
}

fn stamp(id: Uuid, headers: &mut HeaderMap) {
    let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
    let text = id.hyphenated().encode_lower(&mut text);
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(REQUEST_ID, value);
    }
}

/// Marks a request in its extensions: it was a `HEAD`.
#[derive(Clone, Copy)]
struct AsksForHead;

/// Makes a `HEAD` a `GET`, and returns whether it was one. A websocket is opened by `GET` only.
fn handle_as_get(request: &mut ServiceRequest) -> bool {
    let is_head = request.method() == Method::HEAD && !opens_websocket(request.request());
    if is_head {
        request.head_mut().method = Method::GET;
        request.extensions_mut().insert(AsksForHead);
    }
    is_head
}

/// Whether a request was a `HEAD`.
pub fn asks_for_head(request: &HttpRequest) -> bool {
    request.extensions().get::<AsksForHead>().is_some()
}

/// Returns the method that the client sent.
pub fn sent_method(request: &HttpRequest) -> Method {
    if asks_for_head(request) {
        Method::HEAD
    } else {
        request.method().clone()
    }
}

/// Adds `HEAD` to the methods of a path that takes `GET`, which are separated by commas.
pub fn with_head(methods: &str) -> String {
    let names = methods.split(", ").flat_map(|method| match method {
        "GET" => vec!["GET", "HEAD"],
        "HEAD" => Vec::new(),
        other => vec![other],
    });
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_takes_get_takes_head() {
        for (methods, expected) in [
            ("GET", "GET, HEAD"),
            ("GET, POST", "GET, HEAD, POST"),
            ("POST", "POST"),
            ("GET, HEAD", "GET, HEAD"),
        ] {
            assert_eq!(with_head(methods), expected);
        }
    }
}
