//! The HTTP layer's error: the error envelope, converted from the lower layers' errors.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt::{self, Display};
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderValue, RETRY_AFTER};
use actix_web::{HttpResponse, ResponseError};
use conclave_actors::TreeError;
use conclave_db::StoreError;
use conclave_media::embedded::{EncoderRefusal, SandboxError, WhipPatchError};
use conclave_media::token::TokenError;
use conclave_media::{MediaError, ReportError};
use conclave_model::idempotency::Response;
use conclave_model::{ErrorCode, Problem};
use serde::Serialize;

use super::response;
use crate::billing::BillingError;

/// `Retry-After` for a failure that usually passes within moments.
const SHORT_WAIT: Duration = Duration::from_secs(1);

/// Marks a response (as an extension) that failed because the database was unavailable.
#[derive(Debug, Clone, Copy)]
pub struct DatabaseFailed;

/// Result type for request handling.
pub type Result<T, E = ApiError> = std::result::Result<T, E>;

/// Request failure: code, message and field for the client, and the cause for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// Content for the error envelope.
    pub problem: Problem,
}

impl ApiError {
    /// Returns 500 `internal_error`. `cause` goes to the log only.
    // General on purpose: a cause may name the operator's tables, paths and hosts.
    pub fn internal(cause: impl ToString) -> Self {
        Problem::internal().because(cause).into()
    }

    /// Returns the HTTP status.
    pub fn status(&self) -> u16 {
        self.problem.code.status()
    }

    /// Returns the error envelope with its status.
    pub fn to_response(&self) -> Response {
        envelope(&self.problem)
    }

    /// Returns the HTTP response, with `Retry-After` if retrying helps.
    pub fn to_http(&self) -> HttpResponse {
        let mut http = response::send(self.to_response());
        if let Some(wait) = self.problem.retry_after {
            // Whole seconds (RFC 9110, section 10.2.3), rounded up: a request that comes a moment early would be refused again.
            let seconds = wait.as_millis().div_ceil(1_000).max(1);
            http.headers_mut().insert(
                RETRY_AFTER,
                // Digits always parse; the fallback only avoids a panic.
                seconds.to_string().parse().unwrap_or(HeaderValue::from(1)),
            );
        }
        // A refusal without a cause was decided before any query, such as admission's; it is no evidence about the database.
        if self.problem.code == ErrorCode::DatabaseUnavailable && self.problem.cause.is_some() {
            http.extensions_mut().insert(DatabaseFailed);
        }
        http
    }
}

impl Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl std::error::Error for ApiError {}

/// Makes actix-web send the envelope if a handler or an extractor fails.
impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        self.to_http()
    }
}

#[derive(Serialize)]
struct Envelope<'a> {
    error: Body<'a>,
}

#[derive(Serialize)]
struct Body<'a> {
    code: &'static str,
    message: &'a str,
    // Omitted rather than null (contract).
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
}

/// Serialises a problem as the error envelope.
pub fn envelope(problem: &Problem) -> Response {
    let body = Body {
        code: problem.code.as_str(),
        message: &problem.message,
        field: problem.field.as_deref(),
    };
    // Three strings always serialise.
    let body = serde_json::to_vec(&Envelope { error: body }).unwrap_or_default();
    Response {
        code: problem.code.status(),
        body,
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self { problem }
    }
}

impl From<Infallible> for ApiError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            // A rule of the records, such as a unique name, has chosen code and field.
            StoreError::Refused(problem) => problem.into(),
            // A damaged table fails only the operations that need it, like an outage (F-5).
            StoreError::Unavailable(cause) | StoreError::Damaged(cause) => {
                let message = "the database cannot be reached or written now; retry with backoff";
                Problem::new(ErrorCode::DatabaseUnavailable, message)
                    .after(SHORT_WAIT)
                    .because(cause)
                    .into()
            }
            error @ (StoreError::Fault(_)
            | StoreError::OlderSchema { .. }
            | StoreError::NewerSchema { .. }) => Self::internal(error),
        }
    }
}

impl From<TreeError> for ApiError {
    fn from(error: TreeError) -> Self {
        match error {
            TreeError::Refused(problem) => problem.into(),
            TreeError::Store(error) => error.into(),
            TreeError::Media(error) => error.into(),
            // Not a 503, which means that a retry is safe: the actor may have acted.
            TreeError::NoReply => Self::internal(error),
        }
    }
}

impl From<MediaError> for ApiError {
    fn from(error: MediaError) -> Self {
        let unavailable = |message: Cow<'static, str>, wait| {
            Problem::new(ErrorCode::MediaUnavailable, message).after(wait)
        };
        let problem = match error {
            MediaError::Unavailable(cause) => unavailable(
                "the media plane did not answer; it is safe to retry".into(),
                SHORT_WAIT,
            )
            .because(cause),
            // The message names the remedy, so that the client's developer does not need the server's log.
            refused @ MediaError::Refused(_) => unavailable(refused.to_string().into(), SHORT_WAIT),
            // The participant may have unpublished the track meanwhile.
            MediaError::NoSuchTrack => Problem::track_not_found(),
            MediaError::Encrypted { field } => {
                Problem::new(ErrorCode::InvalidRequest, error.to_string()).at(field)
            }
            MediaError::InvalidFilepath(problem) => {
                Problem::new(ErrorCode::InvalidFilepath, problem).at("filepath")
            }
            MediaError::Busy { retry_after } => unavailable(error.to_string().into(), retry_after),
            // No call was made (`media/src/monitor`), so nothing is repeated by a retry.
            MediaError::CircuitOpen { retry_after } => {
                let message = "the media plane is unreachable; retry after the time in Retry-After";
                unavailable(message.into(), retry_after)
            }
        };
        problem.into()
    }
}

impl From<BillingError> for ApiError {
    // Only operations that list the code get here; others go on without a verdict (`quota`).
    fn from(error: BillingError) -> Self {
        let message = "the billing service did not confirm that work may start; retry with backoff";
        Problem::new(ErrorCode::BillingUnavailable, message)
            .after(SHORT_WAIT)
            .because(error)
            .into()
    }
}

/// Failure to sign a token.
impl From<TokenError> for ApiError {
    fn from(error: TokenError) -> Self {
        Self::internal(error)
    }
}

/// Refusal by the sandbox.
impl From<SandboxError> for ApiError {
    fn from(error: SandboxError) -> Self {
        let message = error.to_string();
        let problem = match error {
            SandboxError::Refused(ReportError::Banned) => Problem::identity_banned(),
            SandboxError::BadToken(_) | SandboxError::Refused(_) => {
                Problem::new(ErrorCode::Unauthorized, message)
            }
            SandboxError::NoSuchParticipant => {
                Problem::new(ErrorCode::ParticipantNotFound, message)
            }
            SandboxError::NoSuchTrack => Problem::new(ErrorCode::TrackNotFound, message),
            SandboxError::NoSuchEgress => Problem::new(ErrorCode::NotFound, message),
            SandboxError::NoSuchIngress => Problem::new(ErrorCode::IngressNotFound, message),
            SandboxError::Forbidden(_) => Problem::new(ErrorCode::PermissionDenied, message),
            SandboxError::RoomFull | SandboxError::RoleFull => {
                Problem::new(ErrorCode::RoleCapacityReached, message)
            }
            SandboxError::IdentityTaken => Problem::identity_taken(),
            SandboxError::RoomEnded => Problem::room_ended(),
            SandboxError::Unavailable => Problem::new(ErrorCode::MediaUnavailable, message),
        };
        problem.into()
    }
}

/// Refused encoder.
impl From<EncoderRefusal> for ApiError {
    fn from(refusal: EncoderRefusal) -> Self {
        let message = refusal.to_string();
        let problem = match refusal {
            EncoderRefusal::UnknownKey => Problem::new(ErrorCode::IngressNotFound, message),
            // Counted per address and per key, so that stream keys cannot be guessed (S-78).
            EncoderRefusal::TooManyTries { retry_after } => {
                Problem::new(ErrorCode::RateLimited, message).after(retry_after)
            }
            EncoderRefusal::AlreadyConnected => Problem::new(ErrorCode::EncoderConnected, message),
            EncoderRefusal::RoomEnded => Problem::room_ended(),
            EncoderRefusal::Banned => Problem::identity_banned(),
            EncoderRefusal::RoomFull => Problem::new(ErrorCode::RoleCapacityReached, message),
            EncoderRefusal::BadStream(_) => Problem::new(ErrorCode::InvalidRequest, message),
            EncoderRefusal::Unavailable => {
                Problem::new(ErrorCode::MediaUnavailable, message).after(SHORT_WAIT)
            }
        };
        problem.into()
    }
}

/// Refusal to change a WHIP session.
impl From<WhipPatchError> for ApiError {
    fn from(error: WhipPatchError) -> Self {
        let code = match error {
            WhipPatchError::NoSession => ErrorCode::NotFound,
            // WHIP requires 428 without an entity tag and 412 with an outdated one (RFC 9725, section 4.3).
            WhipPatchError::NoCondition => ErrorCode::PreconditionRequired,
            WhipPatchError::Stale => ErrorCode::PreconditionFailed,
            WhipPatchError::BadFragment(_) => ErrorCode::InvalidRequest,
            WhipPatchError::Unavailable => ErrorCode::MediaUnavailable,
        };
        let problem = Problem::new(code, error.to_string());
        if code == ErrorCode::MediaUnavailable {
            problem.after(SHORT_WAIT).into()
        } else {
            problem.into()
        }
    }
}

/// Panicked or cancelled task on the blocking pool.
impl From<tokio::task::JoinError> for ApiError {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::internal(error)
    }
}
