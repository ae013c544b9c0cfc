//! The frame around every operation: the checks of a request, idempotency, and the response.
//!
//! # Order of checks
//!
//! The first check that fails decides the response:
//!
//! 1. 429 by address, for requests without a valid key. Then the key is looked up in the database: 401.
//! 2. 403 `origin_rejected`, for browser calls with a credential.
//! 3. 429 by key. An open operation has rates of its own: by address instead of check 1, by its secret path parameter here.
//! 4. 503 or 429 by admission, which limits concurrent requests in total and per project.
//! 5. 408, 413 and 415 by the body.
//! 6. Idempotency: a stored response is replayed. Everything below runs once per `Idempotency-Key`.
//! 7. 400 by the input, 403 `permission_denied` by the role, 402 by the plan's quota: the operation's declaration.
//! 8. 404, 409, 402 `feature_not_in_plan` and 503: the handler.
//!
//! Lower layers' errors become responses in [`error`](super::api::error); a 5xx is logged once, here.
//!
//! The modules in the same order: [`credential`] with [`key_uses`], [`origins`], [`limits`], [`admission`], [`payload`], and
//! [`idempotency`] with [`key_locks`].

pub mod admission;
pub mod credential;
pub mod idempotency;
pub mod key_locks;
pub mod key_uses;
pub mod limits;
pub mod origins;
pub mod payload;

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::AUTHORIZATION;
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_model::{ErrorCode, Problem};

use super::api::context::{Caller, RequestContext, RequestParts};
use super::api::error::ApiError;
use super::api::input::parameters::{RequestSource, decode_segment, parameter};
use super::api::operation::Operation;
use super::api::response;
use super::api::spec::{Access, OperationSpec};
use super::listener::connections::request_id;
use super::measured::Measured;
use super::state::AppState;
use admission::Admitted;
use idempotency::IdempotentResponse;

/// `Retry-After` from a server that may have been replaced.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Handles a request for an operation, from its first check to its response.
pub async fn handle(
    operation: &'static dyn Operation,
    state: &Arc<AppState>,
    request: HttpRequest,
    payload: web::Payload,
) -> HttpResponse {
    let mut http = match run_checks(operation, state, &request, payload).await {
        Ok(IdempotentResponse {
            response,
            is_replay,
        }) => {
            let mut http = response::send(response);
            if is_replay {
                http.headers_mut()
                    .insert(idempotency::REPLAYED, idempotency::replayed());
            }
            http
        }
        Err(error) => {
            // Logged before it is replaced, so that the log has the actual failure.
            log_fault(operation.spec(), &request, &error);
            without_faults_of_deposed(state, error).to_http()
        }
    };
    // Refusals need the CORS headers, too: without them, a browser hides status and body from the page.
    state
        .checks
        .origins
        .admit_response(operation.spec(), &request, http.headers_mut());
    http
}

/// Runs the checks, then the operation.
async fn run_checks(
    operation: &'static dyn Operation,
    state: &Arc<AppState>,
    request: &HttpRequest,
    payload: web::Payload,
) -> Result<IdempotentResponse, ApiError> {
    let spec = operation.spec();
    let caller = credential::identify(spec, state, request).await?;
    // Only this header: API keys must not be used by web pages, whereas a room token in its own header is meant for them.
    if request.headers().contains_key(AUTHORIZATION) {
        state.checks.origins.check(request)?;
    }
    match (&caller, spec.access) {
        (Caller::Key(credential), _) => state.checks.limits.check_key(&credential.prefix)?,
        (Caller::Anonymous, Access::Open(open)) => {
            let secret = parameter(spec.path, request, open.secret).unwrap_or_default();
            state
                .checks
                .limits
                // Decoded, because each spelling of a code, such as `%61` for `a`, would otherwise have a rate of its own.
                .check_open_secret(open.rates, &decode_segment(secret))?;
        }
        // A room token's request was counted by its client's address in `identify`; an operator calls through the console.
        (Caller::Anonymous | Caller::RoomToken(_) | Caller::Operator(_), _) => {}
    }
    // Before the body is read, so that a refused request takes no memory for it.
    let admitted = state.checks.admission.admit(caller.project())?;
    let body = state.checks.bodies.collect(request, payload).await?;
    let context = RequestContext::new(RequestParts {
        spec,
        state: Arc::clone(state),
        caller,
        source: RequestSource::Http {
            request: request.clone(),
            pattern: spec.path,
        },
        body,
        record: None,
        owner: None,
    });
    // Storing a response is a write.
    let only_reads = spec.only_reads && !request.headers().contains_key(idempotency::KEY);
    if only_reads {
        return Measured::new(run_admitted(admitted, operation, context)).await;
    }
    // In a task of its own, because actix drops a handler's future when the client disconnects: a change that has started must finish.
    let run = Measured::new(run_admitted(admitted, operation, context));
    actix_web::rt::spawn(run).await?
}

/// Runs the operation when it has its project's permit.
async fn run_admitted(
    admitted: Admitted,
    operation: &'static dyn Operation,
    context: RequestContext,
) -> Result<IdempotentResponse, ApiError> {
    admitted
        .acquire()
        .await?
        .handle(idempotency::run_idempotent(operation, context))
        .await
}

/// Replaces a 500 while this server's lease is unconfirmed. Another server has taken over, or is about to: the failure is no fault,
/// and a retry succeeds there.
fn without_faults_of_deposed(state: &AppState, error: ApiError) -> ApiError {
    let is_confirmed = state
        .lease
        .as_ref()
        .is_none_or(|lease| lease.is_confirmed());
    if is_confirmed || error.status() != 500 {
        return error;
    }
    let message = "this server may no longer be the active one; retry with backoff";
    Problem::new(ErrorCode::DatabaseUnavailable, message)
        .after(RETRY_AFTER)
        .into()
}

/// Logs a 5xx, once, with the request's id.
fn log_fault(spec: &OperationSpec, request: &HttpRequest, error: &ApiError) {
    // A failure that was logged where it occurred is not logged again.
    if error.status() < 500 || error.problem.is_logged {
        return;
    }
    let id = request_id(request).map_or_else(String::new, |id| id.to_string());
    match &error.problem.cause {
        Some(cause) => {
            log::error!(request_id = id.as_str(), operation = spec.id; "{error}; cause: {cause}");
        }
        // Without a cause, the message is complete; an open circuit, for example, is logged where it opens.
        None => log::warn!(request_id = id.as_str(), operation = spec.id; "{error}"),
    }
}
