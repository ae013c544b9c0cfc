//! The gate: what every operation stands behind, in the order of precedence that the decisions give.
//!
//! 429 by address for calls without a valid key, 401, 403 `origin_rejected`, 429 by key, 413, 415, then the handler with
//! its 400, 403 `permission_denied`, 402, 404, 409 and 503. Idempotency stands around the handler. The open operation, which
//! exchanges a room code, has rates of its own in the same two places: by address, and by code where a key would be counted.

pub mod body;
pub mod credential;
pub mod idempotency;
pub mod limits;
pub mod origin;

use std::sync::Arc;

use actix_web::http::header::AUTHORIZATION;
use actix_web::{HttpMessage, HttpRequest, HttpResponse, web};
use conclave_model::code::RoomCode;

use super::answer::Response;
use super::call::{Call, Caller, segment};
use super::operation::{Method, Operation};
use super::problem::{self, Problem};
use super::state::AppState;
use super::trace::RequestId;

/// Takes a request for an operation, from its first check to its response.
pub async fn enter(
    operation: &'static Operation,
    state: Arc<AppState>,
    request: HttpRequest,
    payload: web::Payload,
) -> HttpResponse {
    let mut response = match pass(operation, &state, &request, payload).await {
        Ok((answer, replayed)) => {
            let mut response = problem::send(answer);
            if replayed {
                response.headers_mut().insert(idempotency::REPLAYED, idempotency::replayed());
            }
            response
        }
        Err(problem) => refuse(operation, &request, &problem),
    };
    state.origins.admit_response(operation, &request, response.headers_mut());
    response
}

/// Runs the checks, then the operation. Says whether the answer is a replay.
async fn pass(
    operation: &'static Operation,
    state: &Arc<AppState>,
    request: &HttpRequest,
    payload: web::Payload,
) -> Result<(Response, bool), Problem> {
    let caller = credential::identify(operation, state, request).await?;
    if request.headers().contains_key(AUTHORIZATION) {
        state.origins.check(request)?;
    }
    match &caller {
        Caller::Key(credential) => state.limits.check_key(&credential.prefix)?,
        Caller::Anyone => check_code(state, request)?,
        Caller::RoomToken(_) => {}
    }
    let body = body::collect(request, payload).await?;
    let call = Call { operation, state: Arc::clone(state), caller, body, request: request.clone(), keep: None };
    if operation.method == Method::Get {
        return idempotency::once(operation, call).await;
    }
    // A task of its own: what has begun to change something runs to its end, also when the client hangs up.
    actix_web::rt::spawn(idempotency::once(operation, call))
        .await
        .unwrap_or_else(|error| Err(Problem::internal().because(error)))
}

/// Counts an exchange of the code that the path names. What is no code is not counted: there is nothing to find by it.
fn check_code(state: &AppState, request: &HttpRequest) -> Result<(), Problem> {
    match segment(request, "code").parse::<RoomCode>() {
        Ok(code) => state.limits.check_exchanged_code(code.hash()),
        Err(_) => Ok(()),
    }
}

/// A refusal as a response. A fault is logged here, once, with the request's id.
fn refuse(operation: &Operation, request: &HttpRequest, problem: &Problem) -> HttpResponse {
    if problem.code.status() >= 500 {
        let id = request.extensions().get::<RequestId>().map_or_else(String::new, |id| id.0.to_string());
        match &problem.cause {
            Some(cause) => log::error!(request_id = id.as_str(), operation = operation.id; "{problem}; cause: {cause}"),
            // What it says is all there is, and whoever left a media plane alone has said so once.
            None => log::warn!(request_id = id.as_str(), operation = operation.id; "{problem}"),
        }
    }
    problem::response(problem)
}
