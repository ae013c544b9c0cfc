//! The outermost middleware: an id per request, in the response and in log lines; a 500 for a panic; a challenge for 401s; a delay for
//! 429s; `HEAD`; and bodies in pieces.
//!
//! `HEAD` is handled like `GET` of the same path, with the same checks; the response has the same headers and no body (RFC 9110,
//! section 9.3.2). Operations therefore declare only `GET`.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::InternalError;
use actix_web::http::header::{
    AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE,
};
use actix_web::http::{ConnectionType, Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage, HttpRequest};
use conclave_model::Problem;
use futures_util::FutureExt;
use tokio::time::sleep;
use uuid::{NoContext, Timestamp, Uuid};

use super::client_stream::ResponseBody;
use super::connections;
use super::request_boundary::opens_websocket;
use crate::http::api::error::ApiError;
use crate::http::measured::Measured;

/// Response header with the id.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Delay of a 429. A client that repeats at once would use much of the processors with its refusals: over 16 connections it got 50,000
/// per second. With that many context switches, Linux schedules the kernel threads that complete file writes (ext4) up to 400 ms late,
/// and commits wait for them. With the delay, a connection gets ten refusals per second.
const REFUSAL_DELAY: Duration = Duration::from_millis(100);

/// Shown in the log for a path without a route.
const NO_ROUTE: &str = "(no such route)";

/// Marks another node's response, in its extensions. That node has set the id, and delayed a refusal.
#[derive(Debug, Clone, Copy)]
pub struct ForwardedResponse;

/// Wraps every request on a listener.
///
/// # Errors
/// A failure in an inner service, as its response.
pub async fn trace(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    // Version 7, so that ids sort by time. Without the counter of `now_v7` for ids of the same millisecond, whose lock all threads share.
    let id = Uuid::new_v7(Timestamp::now(NoContext));
    // Held until this function returns, so that the connection's timeout does not run while the request is handled.
    let (exchange, _handling) = connections::start_exchange(request.request(), id).unzip();
    let asks_for_head = handle_as_get(&mut request);
    // A panic consumes the request, and no clone can be kept: the router needs exclusive access to it.
    let Ok(result) = AssertUnwindSafe(Measured::new(next.call(request)))
        .catch_unwind()
        .await
    else {
        log::error!(request_id = id.to_string().as_str(); "a handler panicked");
        let mut response = ApiError::from(Problem::internal()).to_http();
        // Set here, because an error does not reach the end of this function.
        stamp(id, response.headers_mut());
        return Err(InternalError::from_response("a handler panicked", response).into());
    };
    let mut response = result?;
    let is_forwarded = response
        .response()
        .extensions()
        .get::<ForwardedResponse>()
        .is_some();
    if must_wait(&response) && !is_forwarded {
        // Boxed, since nearly all requests skip it and would carry the timer's space in their future.
        Box::pin(sleep(REFUSAL_DELAY)).await;
    }
    if response.status() == StatusCode::UNAUTHORIZED && !is_forwarded {
        let challenge = challenge(response.request().headers());
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    if log::log_enabled!(log::Level::Debug) {
        let (status, http) = (response.status().as_u16(), response.request());
        log::debug!(request_id = id.to_string().as_str(), status = status; "{} {}", sent_method(http), shown(http));
    }
    // Over a cluster, the active node's id stays: its log has the details.
    if !(is_forwarded && response.headers().contains_key(REQUEST_ID)) {
        stamp(id, response.headers_mut());
    }
    Ok(response.map_body(|_, body| ResponseBody::new(body, asks_for_head, exchange)))
}

/// Returns whether a refusal must be delayed. A response that closes its connection is sent at once: a retry costs a new connection.
fn must_wait<B>(response: &ServiceResponse<B>) -> bool {
    let is_closed = response.response().head().connection_type() == ConnectionType::Close;
    response.status() == StatusCode::TOO_MANY_REQUESTS && !is_closed
}

/// Returns the challenge of a 401 (RFC 9110, section 11.6.1, and RFC 6750, section 3). The contract demands the same body for a missing and
/// for an unknown key, so this header shows which it was.
fn challenge(sent: &HeaderMap) -> HeaderValue {
    HeaderValue::from_static(if sent.contains_key(AUTHORIZATION) {
        r#"Bearer realm="conclave", error="invalid_token""#
    } else {
        r#"Bearer realm="conclave", error_description="the request has no Authorization header""#
    })
}

/// Marks a resource whose path contains a secret, as its `app_data`.
#[derive(Debug, Clone, Copy)]
pub struct SecretPath;

/// How the log shows a request's path, as the `app_data` of a scope with its own routing. `None` if no route matches.
#[derive(Clone, Copy)]
pub struct ShownPath(pub fn(&HttpRequest) -> Option<Cow<'_, str>>);

/// Returns a path for the log. A path with a secret is shown as its pattern. A path without a route is not shown at all: a mistyped
/// one may contain a secret, too.
fn shown(request: &HttpRequest) -> Cow<'_, str> {
    // Such a scope routes by itself, so actix knows no pattern for its paths.
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
    // Formatted on the stack, as this runs for every request.
    let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
    let text = id.hyphenated().encode_lower(&mut text);
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(REQUEST_ID, value);
    }
}

/// Marks a request, in its extensions, as a `HEAD`.
#[derive(Clone, Copy)]
struct AsksForHead;

/// Turns a `HEAD` into a `GET`, and returns whether it was one. A WebSocket is opened only by `GET`.
fn handle_as_get(request: &mut ServiceRequest) -> bool {
    let is_head = request.method() == Method::HEAD && !opens_websocket(request.request());
    if is_head {
        request.head_mut().method = Method::GET;
        // For routes with a `HEAD` of their own: a download reads no file, and at `/` it is a client's probe.
        request.extensions_mut().insert(AsksForHead);
    }
    is_head
}

/// Returns whether a request was a `HEAD`.
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

/// Adds `HEAD` to a comma-separated list of methods with `GET`.
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
