//! Idempotent requests: the first runs, the others replay its response, byte for byte, also after a restart.
//!
//! Two requests with one key at once run one after the other; the second finds the first's response in the store. A handler
//! whose write carries a `ResponseRecorder` makes change and response durable in one transaction; the responses of the others
//! are stored here. Stored are 2xx and those 4xx that depend on the request alone; 5xx never.
//!
//! An operation that acts on the media plane runs only once the database has taken a row for its response. The response of another
//! that cannot be stored, such as a token, is not given away either: 503, since the same key would give another one.
//!
//! A key belongs to the whole project. A participant always gets the replay of its own request, and that of another caller only
//! where it might have made the request itself. A refusal of a participant is stored for that participant alone.

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

/// The request header with the key.
pub const KEY: &str = "idempotency-key";
/// The response header of a replay.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The value of [`REPLAYED`].
pub fn replayed() -> HeaderValue {
    HeaderValue::from_static("true")
}

/// The response to a request.
pub struct Answer {
    /// Its status and body.
    pub response: Response,
    /// Whether it was stored at an earlier request.
    pub is_replay: bool,
}

impl Answer {
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
/// The operation's own, and 409 `idempotency_key_reuse`.
pub async fn run_idempotent(
    operation: &'static dyn Operation,
    mut context: RequestContext,
) -> Result<Answer, ApiError> {
    let Some(slot) = slot(&context)? else {
        return operation.run(context).await.map(Answer::new);
    };
    let state = Arc::clone(&context.state);
    let fingerprint = fingerprint(&context);
    let _held = state.checks.key_locks.lock(slot.clone()).await;
    let participant = participant(&context.caller);
    let own = participant.clone().map(|refused| IdempotencySlot {
        refused: Some(refused),
        ..slot.clone()
    });
    if let Some(refusals) = &own
        && let Some(refused) = stored(&state, refusals, fingerprint).await?
    {
        return Ok(Answer::replay(refused.response));
    }
    if let Some(stored) = stored(&state, &slot, fingerprint).await? {
        if stored.made_by.as_deref() != participant.as_ref().map(ParticipantCaller::as_str) {
            operation.permit_replay(&context).await?;
        }
        return Ok(Answer::replay(stored.response));
    }
    let record = IdempotencyRecord::new(slot, fingerprint, operation.spec().secret_response)
        .made_by(participant);
    context.record = Some(record.clone());
    let acts = operation.spec().acts_on_media_plane();
    if acts {
        state.store.responses().reserve(record.clone()).await?;
    }
    let result = operation.run(context).await;
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
    result.map(Answer::new)
}

/// The answer to a request whose response cannot be stored. What has been done is answered all the same: an error would make the client
/// do it again. So is a malformed request, which is refused alike each time. Otherwise nothing has happened, and the client tries again.
fn without_stored_response(
    operation: &dyn Operation,
    result: Result<Response, ApiError>,
    error: StoreError,
) -> Result<Answer, ApiError> {
    let is_done = result.is_ok() && operation.spec().acts_on_media_plane();
    if is_done {
        log::error!(operation = operation.spec().id; "a response was not stored, so its Idempotency-Key will run again: {error}");
    }
    let is_malformed = result
        .as_ref()
        .is_err_and(|refusal| refusal.status() == 400);
    if is_done || is_malformed {
        result.map(Answer::new)
    } else {
        Err(error.into())
    }
}

/// The response stored in a slot for a body like this one.
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

/// The participant that calls with a room token.
fn participant(caller: &Caller) -> Option<ParticipantCaller> {
    let Caller::RoomToken(claims) = caller else {
        return None;
    };
    Some(
        ParticipantCaller::new(&claims.room.split().1, &claims.identity)
            .with_exchange(claims.exchange()),
    )
}

/// The slot of the request's stored response; `None` when it sent no key or the operation takes none.
fn slot(context: &RequestContext) -> Result<Option<IdempotencySlot>, Problem> {
    let Some(request) = context.source.http() else {
        return Ok(None);
    };
    let mut headers = request
        .headers()
        .get_all(KEY)
        .filter(|_| context.spec.idempotent);
    let Some(header) = headers.next() else {
        return Ok(None);
    };
    let invalid = |reason: String| Problem::invalid("Idempotency-Key", reason);
    if headers.next().is_some() {
        return Err(invalid("must be sent once".into()));
    }
    let text = header
        .to_str()
        .map_err(|_| invalid("must be printable ASCII".into()))?;
    let key: IdempotencyKey = text.parse().map_err(|error| invalid(format!("{error}")))?;
    Ok(Some(IdempotencySlot {
        project_id: context.project(),
        operation: context.spec.id,
        key,
        refused: None,
    }))
}

/// BLAKE3 of path and body: the same key with the same body means the same path, too.
fn fingerprint(context: &RequestContext) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(
        context
            .source
            .http()
            .map_or("", HttpRequest::path)
            .as_bytes(),
    );
    hasher.update(&[0]);
    hasher.update(&context.body);
    hasher.finalize().into()
}

/// The response, if repeating the request would give it again.
fn storable(result: &Result<Response, ApiError>) -> Option<Response> {
    match result {
        Ok(response) => Some(response.clone()),
        Err(error) if matches!(error.status(), 401 | 413 | 415 | 429 | 500..) => None,
        Err(error) => Some(error.to_response()),
    }
}
