//! Idempotent calls: the first runs, the others replay its answer, byte for byte, also after a restart.
//!
//! Two requests with one key at once take turns in this process; the second finds the answer of the first in the store. A
//! handler whose write carries the request to keep its answer makes both durable in one transaction; the answers of the
//! others are kept here. Kept are 2xx and those 4xx that depend on the request alone; 5xx never.
//!
//! A key belongs to the whole project. A participant has a replay of its own answer always, and of somebody else's only where
//! it might have made the call itself; what it is refused is kept for it alone: nobody else is answered with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use actix_web::http::header::{HeaderName, HeaderValue};
use conclave_db::StoredResponse;
use conclave_model::ErrorCode;
use conclave_model::idempotency::{IdempotencyKey, IdempotencyRecord, IdempotencySlot, ParticipantCaller};
use tokio::sync::OwnedMutexGuard;

use crate::http::answer::Response;
use crate::http::call::{Call, Caller};
use crate::http::operation::Operation;
use crate::http::problem::{self, Problem, of_store};
use crate::http::state::AppState;

const KEY: &str = "idempotency-key";
/// The response header of a replay.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The value of [`REPLAYED`].
#[must_use]
pub fn replayed() -> HeaderValue {
    HeaderValue::from_static("true")
}

/// Calls that are on, by the key they came with. An entry lives as long as somebody holds or waits for it.
#[derive(Debug, Default)]
pub struct Turns(Mutex<HashMap<IdempotencySlot, Arc<tokio::sync::Mutex<()>>>>);

/// One call's turn with its key.
struct Turn<'a> {
    turns: &'a Turns,
    slot: IdempotencySlot,
    held: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits until nobody else runs with this key. The wait is the very purpose here: it is a queue, not a lock on data.
    async fn take(&self, slot: IdempotencySlot) -> Turn<'_> {
        let queue = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(turns.entry(slot.clone()).or_default())
        };
        Turn { turns: self, slot, held: Some(queue.lock_owned().await) }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.held = None;
        let mut turns = self.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.get(&self.slot).is_some_and(|queue| Arc::strong_count(queue) == 1) {
            turns.remove(&self.slot);
        }
    }
}

/// Runs a call, or replays its answer. Says whether it is a replay.
///
/// # Errors
/// The handler's own, and 409 `idempotency_key_reuse`.
pub async fn once(operation: &'static Operation, mut call: Call) -> Result<(Response, bool), Problem> {
    let Some(slot) = slot(operation, &call)? else {
        return (operation.handler)(call).await.map(|answer| (answer, false));
    };
    let state = Arc::clone(&call.state);
    let fingerprint = fingerprint(&call);
    let _turn = state.turns.take(slot.clone()).await;
    let participant = participant(&call.caller);
    let own = participant.clone().map(|refused| IdempotencySlot { refused: Some(refused), ..slot.clone() });
    if let Some(refusals) = &own
        && let Some(refused) = kept(&state, refusals, fingerprint).await?
    {
        return Ok((refused.response, true));
    }
    if let Some(kept) = kept(&state, &slot, fingerprint).await? {
        if kept.made_by.as_deref() != participant.as_ref().map(ParticipantCaller::as_str) {
            (operation.replays_to)(&call).await?;
        }
        return Ok((kept.response, true));
    }
    let keep = IdempotencyRecord::new(slot, fingerprint, operation.secret_answer).made_by(participant);
    call.keep = Some(keep.clone());
    let result = (operation.handler)(call).await;
    if let Some(answer) = to_keep(&result).filter(|_| !keep.is_stored()) {
        let refused = own.filter(|_| result.is_err()).map(|own| IdempotencyRecord::new(own, fingerprint, false));
        state.store.store_response(refused.unwrap_or(keep), answer).await.map_err(of_store)?;
    }
    result.map(|answer| (answer, false))
}

/// The answer kept in a slot for a body like this one.
async fn kept(
    state: &AppState,
    slot: &IdempotencySlot,
    fingerprint: [u8; 32],
) -> Result<Option<StoredResponse>, Problem> {
    match state.store.stored_response(slot.clone()).await.map_err(of_store)? {
        Some(kept) if kept.fingerprint != fingerprint => {
            let message = "this Idempotency-Key was used with another body";
            Err(Problem::new(ErrorCode::IdempotencyKeyReuse, message))
        }
        kept => Ok(kept),
    }
}

/// Who calls with a room token.
fn participant(caller: &Caller) -> Option<ParticipantCaller> {
    let Caller::RoomToken(claims) = caller else { return None };
    Some(ParticipantCaller::new(&claims.room.split().1, &claims.identity))
}

/// Which kept answer the call could have; `None` when it did not ask for one.
fn slot(operation: &Operation, call: &Call) -> Result<Option<IdempotencySlot>, Problem> {
    let mut headers = call.request.headers().get_all(KEY).filter(|_| operation.idempotent);
    let Some(header) = headers.next() else { return Ok(None) };
    let invalid = |reason: String| Problem::invalid("Idempotency-Key", reason);
    if headers.next().is_some() {
        return Err(invalid("must be sent once".into()));
    }
    let text = header.to_str().map_err(|_| invalid("must be printable ASCII".into()))?;
    let key: IdempotencyKey = text
        .parse()
        .map_err(|error: conclave_model::idempotency::ParseIdempotencyKeyError| invalid(error.to_string()))?;
    Ok(Some(IdempotencySlot { project_id: call.project(), operation: operation.id, key, refused: None }))
}

/// The same key with the same body means the same path, too.
fn fingerprint(call: &Call) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(call.request.path().as_bytes());
    hasher.update(&[0]);
    hasher.update(&call.body);
    hasher.finalize().into()
}

/// The answer, if it is one that repeating the request would give again.
fn to_keep(result: &Result<Response, Problem>) -> Option<Response> {
    match result {
        Ok(answer) => Some(answer.clone()),
        Err(problem) if matches!(problem.code.status(), 401 | 413 | 415 | 429 | 500..) => None,
        Err(problem) => Some(problem::answer(problem)),
    }
}
