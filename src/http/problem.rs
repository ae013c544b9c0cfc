//! The one place where failures become the error envelope.

use std::borrow::Cow;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use actix_web::{HttpResponse, HttpResponseBuilder};
use conclave_actors::TreeError;
use conclave_db::StoreError;
use conclave_media::MediaError;
use conclave_model::ErrorCode;
use serde::Serialize;

pub use conclave_model::Problem;

use super::answer::Response;
use crate::billing::BillingError;

/// When to come again after something was away for a moment.
const SHORTLY: Duration = Duration::from_secs(1);

#[derive(Serialize)]
struct Envelope<'a> {
    error: Body<'a>,
}

#[derive(Serialize)]
struct Body<'a> {
    code: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
}

/// A problem as an answer.
#[must_use]
pub fn answer(problem: &Problem) -> Response {
    let body = Body { code: problem.code.as_str(), message: &problem.message, field: problem.field.as_deref() };
    // Three texts always serialise.
    let body = serde_json::to_vec(&Envelope { error: body }).unwrap_or_default();
    Response { status: problem.code.status(), body }
}

/// A problem as a response, with `Retry-After` where time cures it.
#[must_use]
pub fn response(problem: &Problem) -> HttpResponse {
    let mut response = send(answer(problem));
    if let Some(wait) = problem.retry_after {
        // Whole seconds, rounded up: coming a moment early would be refused again.
        let seconds = wait.as_millis().div_ceil(1_000).max(1);
        response.headers_mut().insert(RETRY_AFTER, seconds.to_string().parse().unwrap_or(HeaderValue::from(1)));
    }
    response
}

/// An answer as a response.
#[must_use]
pub fn send(answer: Response) -> HttpResponse {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut builder = HttpResponseBuilder::new(status);
    if answer.body.is_empty() {
        return builder.finish();
    }
    builder.insert_header((CONTENT_TYPE, HeaderValue::from_static("application/json"))).body(answer.body)
}

/// What a store's failure is to a client.
#[must_use]
pub fn of_store(error: StoreError) -> Problem {
    match error {
        StoreError::Refused(problem) => problem,
        StoreError::Unavailable(cause) => {
            let message = "the database cannot be reached or written now; retry with backoff";
            Problem::new(ErrorCode::DatabaseUnavailable, message).after(SHORTLY).because(cause)
        }
        error @ (StoreError::Fault(_) | StoreError::NewerSchema { .. }) => Problem::internal().because(error),
    }
}

/// What the tree's failure is to a client.
#[must_use]
pub fn of_tree(error: TreeError) -> Problem {
    match error {
        TreeError::Store(error) => of_store(error),
        TreeError::Media(error) => of_media(error),
        TreeError::NoAnswer => Problem::internal().because(error),
    }
}

/// What the billing service's failure is to a client.
#[must_use]
pub fn of_billing(error: &BillingError) -> Problem {
    let message = "the billing service did not confirm that work may start; retry with backoff";
    Problem::new(ErrorCode::BillingUnavailable, message).after(SHORTLY).because(error)
}

/// What the media plane's failure is to a client.
#[must_use]
pub fn of_media(error: MediaError) -> Problem {
    let unavailable = |message: Cow<'static, str>, wait| Problem::new(ErrorCode::MediaUnavailable, message).after(wait);
    match error {
        MediaError::Unavailable(cause) => {
            unavailable("the media plane did not answer; it is safe to retry".into(), SHORTLY).because(cause)
        }
        // What is to be done about it, so that whoever reads it need not look for the log.
        refused @ MediaError::Refused(_) => unavailable(refused.to_string().into(), SHORTLY),
        MediaError::CircuitOpen { retry_after } => {
            let message = "the media plane has not answered for a while; see Retry-After for when it is asked again";
            unavailable(message.into(), retry_after)
        }
    }
}
