//! Payloads: at most 65536 bytes, JSON or nothing.

use actix_web::HttpRequest;
use actix_web::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use actix_web::web::{Bytes, BytesMut, Payload};
use conclave_model::{ErrorCode, Problem};
use futures_util::StreamExt;

/// The contract's cap, in bytes.
pub const LIMIT: usize = 65_536;

/// Collects a request's body.
///
/// # Errors
/// 413 past the cap, 415 for another media type than JSON, 400 for a body that breaks off.
pub async fn collect(request: &HttpRequest, payload: Payload) -> Result<Bytes, Problem> {
    let body = within(LIMIT, request, payload).await?;
    if !body.is_empty() && !is_json(request) {
        let message = "the body must be sent as application/json";
        return Err(Problem::new(ErrorCode::UnsupportedMediaType, message));
    }
    Ok(body)
}

/// Collects a body of at most `limit` bytes, of any media type.
///
/// # Errors
/// 413 past the limit, 400 for a body that breaks off.
pub async fn within(limit: usize, request: &HttpRequest, mut payload: Payload) -> Result<Bytes, Problem> {
    let announced = request.headers().get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limit as u64) {
        return Err(too_large(limit));
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = payload.next().await {
        let broken = |_| Problem::new(ErrorCode::InvalidRequest, "the body could not be read to its end");
        let chunk = chunk.map_err(broken)?;
        if body.len() + chunk.len() > limit {
            return Err(too_large(limit));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

fn too_large(limit: usize) -> Problem {
    Problem::new(ErrorCode::PayloadTooLarge, format!("the body exceeds {limit} bytes"))
}

fn is_json(request: &HttpRequest) -> bool {
    let value = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next()).map(str::trim);
    essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"))
}
