//! Responses to clients that are not connected: plain text, readable from every origin.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ContentType, HeaderValue,
};
use conclave_media::embedded::Refusal;

use crate::http::api::error::DatabaseFailed;

/// Lets pages of any origin read a response.
pub fn any_origin(mut response: HttpResponse) -> HttpResponse {
    response
        .headers_mut()
        .insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

/// Returns a response with a text.
pub fn plain(status: StatusCode, text: impl Into<String>) -> HttpResponse {
    any_origin(
        HttpResponse::build(status)
            .content_type(ContentType::plaintext())
            .body(text.into()),
    )
}

/// Returns the response to a client that may not join.
pub fn refused(refusal: &Refusal) -> HttpResponse {
    let status = match refusal {
        Refusal::BadRequest(_) => StatusCode::BAD_REQUEST,
        Refusal::Unauthorized(_) => StatusCode::UNAUTHORIZED,
        Refusal::NoRoom => StatusCode::NOT_FOUND,
        Refusal::Forbidden(_) => StatusCode::FORBIDDEN,
        Refusal::TooMuch(_) => StatusCode::TOO_MANY_REQUESTS,
        Refusal::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response = plain(status, refusal.to_string());
    if *refusal == Refusal::Unavailable {
        response.extensions_mut().insert(DatabaseFailed);
    }
    response
}

/// Responds to a preflight: a bearer token may be sent.
pub fn preflight() -> HttpResponse {
    let mut response = any_origin(HttpResponse::NoContent().finish());
    let headers = response.headers_mut();
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, HEAD"),
    );
    headers.insert(
        ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static("Authorization"),
    );
    response
}
