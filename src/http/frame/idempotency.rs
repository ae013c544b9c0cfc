//! Idempotent requests: the first one runs, repeated ones replay its response, byte for byte, even after a restart.
//!
//! # Parts
//!
//! - The *slot*: project, operation and `Idempotency-Key`. A key belongs to the whole project, because a backend may repeat a request
//!   from another process.
//! - The *fingerprint*: a hash of path and body. The same key with another fingerprint is 409 `idempotency_key_reuse`.
//! - `KeyLocks` ([`super::key_locks`]): requests with one key run one after another in this process. The database needs no lock,
//!   because one server is active.
//! - The *record* ([`IdempotencyRecord`]): carried in the request's context. A handler whose write takes a `ResponseRecorder` stores
//!   the response in its change's transaction.
//! - `responses` in the store: stored responses, for 24 hours, encrypted if they contain a secret.
//!
//! # The usual course
//!
//! 1. [`run_idempotent`] locks the key and looks for a stored response. If there is one, it is returned.
//! 2. Otherwise the operation runs. A change of records stores its response in the same transaction: after a crash, both exist or
//!    neither.
//! 3. Other responses are stored right after the operation: 2xx, and 4xx that depend on the request alone. 5xx, 401, 413, 415 and 429
//!    are never stored, since a retry may succeed.
//! 4. An operation that acts on the media plane first reserves the row, which proves that the database is writable, then acts.
//!
//! # Access to a replay
//!
//! A backend server gets every replay of its project. A participant always gets the replay of its own request, and another caller's
//! only if it may make the request itself. A participant's refusal is stored for that participant alone.
//!
//! # Failures
//!
//! - The server is killed after the change and before the response is sent: the repeated request finds the stored response.
//! - The server is killed after an act on the media plane and before its response is stored: the repeated request finds only the
//!   reservation, so it runs again.
//! - The response cannot be stored: if the media plane has acted, the response is a success, and the failure is logged. A response
//!   that would differ per request, such as a token, is withheld: 503, and the client retries.
//! - The client disconnects: the operation runs to its end in a task of its own, and its response is stored.
//!
//! # Why not simpler
//!
//! If every response were stored after the operation, a crash in between would lose it, and the repeated request would fail with
//! `room_exists`. A mere marker before the operation could not give a repeated request its result.

use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::http::header::{HeaderName, HeaderValue};
use conclave_db::{StoreError, StoredResponse};
use conclave_model::idempotency::{
    IdempotencyKey, IdempotencyRecord, IdempotencySlot, ParticipantCaller,
};
use conclave_model::{ErrorCode, Problem};

use crate::http::api::context::{Caller, RequestContext};
use crate::http::api::error::ApiError;
use crate::http::api::operation::Operation;
use crate::http::api::response::Response;
use crate::http::state::AppState;

/// Request header with the key.
pub const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Response header of a replay.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Returns the value of [`REPLAYED`].
pub fn replayed() -> HeaderValue {
    HeaderValue::from_static("true")
}

/// Response to a request.
pub struct IdempotentResponse {
    /// Status and body.
    pub response: Response,
    /// Whether it was stored by an earlier request.
    pub is_replay: bool,
}

impl IdempotentResponse {
    const fn new(response: Response) -> Self {
        Self {
            response,
            is_replay: false,
        }
    }

    const fn replay(response: Response) -> Self {
        Self {
            response,
            is_replay: true,
        }
    }
}

/// Runs a request, or replays its stored response.
///
/// # Errors
/// Errors of the operation, and 409 `idempotency_key_reuse`.
pub async fn run_idempotent(
    operation: &'static dyn Operation,
    context: RequestContext,
) -> Result<IdempotentResponse, ApiError> {
    match slot(&context)? {
        Some(slot) => Box::pin(run_once(operation, context, slot)).await,
        None => operation.run(context).await.map(IdempotentResponse::new),
    }
}

/// Runs a request with an `Idempotency-Key`, or replays its stored response.
async fn run_once(
    operation: &'static dyn Operation,
    mut context: RequestContext,
    slot: IdempotencySlot,
) -> Result<IdempotentResponse, ApiError> {
    let state = Arc::clone(&context.state);
    let fingerprint = fingerprint(&context);
    // Held until the response is stored, so that a concurrent request with the key waits, then replays it.
    let _guard = state.checks.key_locks.lock(slot.clone()).await;
    let participant = participant(&context.caller);
    // A participant without the permission must not block the key for a participant that has it, so its refusal goes to a slot of its own.
    let own = participant.clone().map(|refused| IdempotencySlot {
        refused: Some(refused),
        ..slot.clone()
    });
    if let Some(refusals) = &own
        && let Some(refused) = stored(&state, refusals, fingerprint).await?
    {
        return Ok(IdempotentResponse::replay(refused.response));
    }
    if let Some(stored) = stored(&state, &slot, fingerprint).await? {
        // A participant that repeats its own request needs no new check: its role may have changed since.
        if stored.made_by.as_deref() != participant.as_ref().map(ParticipantCaller::as_str) {
            operation.permit_replay(&context).await?;
        }
        return Ok(IdempotentResponse::replay(stored.response));
    }
    let record = IdempotencyRecord::new(slot, fingerprint, operation.spec().secret_response)
        .made_by(participant);
    // The clones share the flag that the handler's recorder sets.
    context.record = Some(record.clone());
    // The reservation fails with 503 while the database is not writable, before the media plane acts.
    let acts = operation.spec().acts_on_media_plane();
    if acts {
        state.store.responses().reserve(record.clone()).await?;
    }
    let result = operation.run(context).await;
    // A handler with a recorder has stored its response already.
    if let Some(response) = storable(&result).filter(|_| !record.is_stored()) {
        let refused = own
            .filter(|_| result.is_err())
            .map(|own| IdempotencyRecord::new(own, fingerprint, false));
        if let Err(error) = state
            .store
            .responses()
            .store(refused.unwrap_or(record), response)
            .await
        {
            return without_stored_response(operation, result, error);
        }
    }
    result.map(IdempotentResponse::new)
}

/// Returns the result of a request whose response cannot be stored. A completed act on the media plane succeeds all the same: an error
/// would make the client repeat it. A malformed request is refused the same way each time. Otherwise nothing has happened, and the
/// client retries.
fn without_stored_response(
    operation: &dyn Operation,
    result: Result<Response, ApiError>,
    error: StoreError,
) -> Result<IdempotentResponse, ApiError> {
    let is_done = result.is_ok() && operation.spec().acts_on_media_plane();
    if is_done {
        log::error!(operation = operation.spec().id; "a response was not stored, so its Idempotency-Key will run again: {error}");
    }
    let is_malformed = result
        .as_ref()
        .is_err_and(|refusal| refusal.status() == 400);
    if is_done || is_malformed {
        result.map(IdempotentResponse::new)
    } else {
        Err(error.into())
    }
}

/// Returns the response stored in a slot for the same fingerprint.
async fn stored(
    state: &AppState,
    slot: &IdempotencySlot,
    fingerprint: [u8; 32],
) -> Result<Option<StoredResponse>, ApiError> {
    match state.store.responses().find(slot.clone()).await? {
        Some(stored) if stored.fingerprint != fingerprint => {
            let message = "this Idempotency-Key was used with another body";
            Err(Problem::new(ErrorCode::IdempotencyKeyReuse, message).into())
        }
        stored => Ok(stored),
    }
}

/// Returns the participant that calls with a room token.
fn participant(caller: &Caller) -> Option<ParticipantCaller> {
    let Caller::RoomToken(claims) = caller else {
        return None;
    };
    Some(
        ParticipantCaller::new(&claims.room.split().1, &claims.identity)
            .with_exchange(claims.exchange()),
    )
}

/// Returns the slot of the request's response; `None` if the request has no key or the operation accepts none.
fn slot(context: &RequestContext) -> Result<Option<IdempotencySlot>, Problem> {
    let Some(request) = context.source.http() else {
        return Ok(None);
    };
    let mut headers = request
        .headers()
        .get_all(KEY)
        // Other operations ignore the header, like any unknown one.
        .filter(|_| context.spec.idempotent);
    let Some(header) = headers.next() else {
        return Ok(None);
    };
    let invalid = |reason: String| Problem::invalid("Idempotency-Key", reason);
    // Refused, because proxies and servers differ in which of two values counts.
    if headers.next().is_some() {
        return Err(invalid("must be sent once".into()));
    }
    let text = header
        .to_str()
        .map_err(|_| invalid("must be printable ASCII".into()))?;
    let key: IdempotencyKey = text.parse().map_err(|error| invalid(format!("{error}")))?;
    Ok(Some(IdempotencySlot {
        project_id: context.project(),
        // The contract scopes a key to project and operation: the same key for two operations is no reuse.
        operation: context.spec.id,
        key,
        refused: None,
    }))
}

/// Returns the BLAKE3 hash of path and body: with the path, one key cannot stand for two rooms.
fn fingerprint(context: &RequestContext) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(
        context
            .source
            .http()
            .map_or("", HttpRequest::path)
            .as_bytes(),
    );
    // Separates the two: a path contains no NUL byte.
    hasher.update(&[0]);
    hasher.update(&context.body);
    hasher.finalize().into()
}

/// Returns the response, if a repeated request would get the same.
fn storable(result: &Result<Response, ApiError>) -> Option<Response> {
    match result {
        Ok(response) => Some(response.clone()),
        // These errors depend on more than the request itself, so a retry may succeed.
        Err(error) if matches!(error.status(), 401 | 413 | 415 | 429 | 500..) => None,
        Err(error) => Some(error.to_response()),
    }
}
