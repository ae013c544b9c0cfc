//! The outermost frame: an id for each request, in its response and in every log line about it, and a 500 for a panic.

use std::panic::AssertUnwindSafe;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::InternalError;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage};
use futures_util::FutureExt;
use uuid::Uuid;

use super::problem::{self, Problem};

/// The response header that carries the id.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A request's id.
#[derive(Clone, Copy)]
pub struct RequestId(pub Uuid);

/// Wraps every request of a listener.
///
/// # Errors
/// What went wrong below, as the response it is.
pub async fn trace(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let id = Uuid::now_v7();
    request.extensions_mut().insert(RequestId(id));
    // The request itself cannot be kept for the case of a panic: the router wants it for its own.
    let Ok(result) = AssertUnwindSafe(next.call(request)).catch_unwind().await else {
        log::error!(request_id = id.to_string().as_str(); "a handler panicked");
        let mut response = problem::response(&Problem::internal());
        stamp(id, response.headers_mut());
        return Err(InternalError::from_response("a handler panicked", response).into());
    };
    let mut response = result?;
    if log::log_enabled!(log::Level::Debug) {
        let (status, http) = (response.status().as_u16(), response.request());
        // The pattern, not the path: a path can hold a room code or a stream key.
        let path = http.match_pattern().unwrap_or_else(|| "no route".to_owned());
        log::debug!(request_id = id.to_string().as_str(), status = status; "{} {path}", http.method());
    }
    stamp(id, response.headers_mut());
    Ok(response)
}

fn stamp(id: Uuid, headers: &mut HeaderMap) {
    let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
    let text = id.hyphenated().encode_lower(&mut text);
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(REQUEST_ID, value);
    }
}
