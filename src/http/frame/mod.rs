//! The frame around every operation, in the "Order of checks" of ARCHITECTURE.md.
//!
//! 429 by address for requests without a valid key, 401, 403 `origin_rejected`, 429 by key, 503 or 429 by admission, 408, 413 and
//! 415 are decided here. The operation then gives 400, 403 `permission_denied`, 402, 404, 409 and 503. Idempotency is around the
//! operation. An open operation has rates of its own in the same two places: by address, and by secret where a key would be
//! counted.

pub mod credential;
pub mod idempotency;
pub mod payload;

use std::sync::Arc;

use actix_web::http::header::AUTHORIZATION;
use actix_web::{HttpMessage, HttpRequest, HttpResponse, web};

use super::admission::Admitted;
use super::context::{Caller, RequestContext};
use super::error::ApiError;
use super::input::path::segment;
use super::operation::Operation;
use super::response::{self, Response};
use super::source::RequestSource;
use super::spec::{Access, Method, OperationSpec};
use super::state::AppState;
use super::trace::RequestId;

/// Handles a request for an operation, from its first check to its response.
pub async fn handle(
    operation: &'static Operation,
    state: Arc<AppState>,
    request: HttpRequest,
    payload: web::Payload,
) -> HttpResponse {
    let mut http = match run_checks(operation, &state, &request, payload).await {
        Ok((response, replayed)) => {
            let mut http = response::send(response);
            if replayed {
                http.headers_mut().insert(idempotency::REPLAYED, idempotency::replayed());
            }
            http
        }
        Err(error) => {
            log_fault(&operation.spec, &request, &error);
            error.to_http()
        }
    };
    state.origins.admit_response(&operation.spec, &request, http.headers_mut());
    http
}

/// Runs the checks, then the operation. The flag says whether the response is a replay.
async fn run_checks(
    operation: &'static Operation,
    state: &Arc<AppState>,
    request: &HttpRequest,
    payload: web::Payload,
) -> Result<(Response, bool), ApiError> {
    let spec = &operation.spec;
    let caller = credential::identify(spec, state, request).await?;
    if request.headers().contains_key(AUTHORIZATION) {
        state.origins.check(request)?;
    }
    match (&caller, spec.access) {
        (Caller::Key(credential), _) => state.limits.check_key(&credential.prefix)?,
        (Caller::Anonymous, Access::Open(open)) => {
            state.limits.check_open_secret(open.rates, &segment(request, open.secret))?;
        }
        (Caller::Anonymous | Caller::RoomToken(_) | Caller::Operator(_), _) => {}
    }
    let admitted = state.admission.admit(caller.project()).await?;
    let body = state.bodies.collect(request, payload).await?;
    let context = RequestContext {
        spec,
        state: Arc::clone(state),
        caller,
        source: RequestSource::Http(request.clone()),
        body,
        record: None,
        owner: None,
    };
    if spec.method == Method::Get {
        return run_in_turn(admitted, operation, context).await;
    }
    // A task of its own: a change that has begun runs to its end, also when the client hangs up.
    actix_web::rt::spawn(run_in_turn(admitted, operation, context)).await?
}

/// Runs the operation when it is the request's turn.
async fn run_in_turn(
    admitted: Admitted,
    operation: &'static Operation,
    context: RequestContext,
) -> Result<(Response, bool), ApiError> {
    admitted.turn().await?.handle(idempotency::run_idempotent(operation, context)).await
}

/// Logs a 5xx, once, with the request's id.
fn log_fault(spec: &OperationSpec, request: &HttpRequest, error: &ApiError) {
    if error.status() < 500 || error.problem.is_logged {
        return;
    }
    let id = request.extensions().get::<RequestId>().map_or_else(String::new, |id| id.0.to_string());
    match &error.problem.cause {
        Some(cause) => log::error!(request_id = id.as_str(), operation = spec.id; "{error}; cause: {cause}"),
        // Without a cause the message says it all, as for a circuit that is open, which is logged where it opens.
        None => log::warn!(request_id = id.as_str(), operation = spec.id; "{error}"),
    }
}
