//! The outermost frame: an id for each request, in its response and in every log line about it, and a 500 for a panic.

use std::panic::AssertUnwindSafe;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{HeaderName, HeaderValue};
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
/// None of its own: whatever goes wrong below becomes a response.
pub async fn trace(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let id = RequestId(Uuid::now_v7());
    request.extensions_mut().insert(id);
    let http = request.request().clone();
    let mut response = match AssertUnwindSafe(next.call(request)).catch_unwind().await {
        Ok(Ok(response)) => response.map_into_boxed_body(),
        Ok(Err(error)) => ServiceResponse::new(http, error.error_response()),
        Err(_) => {
            log::error!(request_id = id.0.to_string().as_str(); "a handler panicked: {} {}", http.method(), http.path());
            ServiceResponse::new(http, problem::response(&Problem::internal()))
        }
    };
    if log::log_enabled!(log::Level::Debug) {
        let (status, http) = (response.status().as_u16(), response.request());
        log::debug!(request_id = id.0.to_string().as_str(), status = status; "{} {}", http.method(), http.path());
    }
    let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
    let text = id.0.hyphenated().encode_lower(&mut text);
    if let Ok(value) = HeaderValue::from_str(text) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    Ok(response)
}
