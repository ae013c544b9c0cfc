//! Authentication: a project API key, or on moderation calls a room token.

use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::http::header::AUTHORIZATION;
use conclave_db::Credential;
use conclave_media::token::Claims;
use conclave_model::key::ApiKeyLookup;
use conclave_model::usage::Day;
use conclave_model::{ErrorCode, NamespacedRoom, Problem};

use crate::http::api::context::Caller;
use crate::http::api::error::ApiError;
use crate::http::api::input::parameters::parameter;
use crate::http::api::spec::{Access, OperationSpec};
use crate::http::state::AppState;

/// Request header with a browser's room token.
pub const ROOM_TOKEN: &str = "x-svc-room-token";

/// Authenticates a request. A request without a valid key is counted by the client's address. A client over that rate is refused
/// before its key is looked up, unless the key was valid before. An open operation ignores credentials, and has a rate of its own per
/// address.
///
/// # Errors
/// 401, or 429 if the address is over its rate.
pub async fn identify(
    spec: &OperationSpec,
    state: &AppState,
    request: &HttpRequest,
) -> Result<Caller, ApiError> {
    // Before the key: a key that is sent along must cost no look-up.
    if let Access::Open(open) = spec.access {
        state
            .checks
            .limits
            .check_open_address(open.rates, request)?;
        return Ok(Caller::Anonymous);
    }
    match sent_key(state, request).await? {
        Some(credential) if credential.is_valid(state.clock.now()) => Ok(Caller::Key(credential)),
        found => {
            // A room token counts only without a valid key.
            let token = if spec.permissions().is_empty() {
                None
            } else {
                room_token_for_path(state, spec.path, request)
            };
            token
                .map(Caller::RoomToken)
                .ok_or_else(|| refusal(found.as_deref()).into())
        }
    }
}

/// Authenticates a request that requires an API key.
///
/// # Errors
/// See [`identify`].
pub async fn require_key(
    state: &AppState,
    request: &HttpRequest,
) -> Result<Arc<Credential>, ApiError> {
    match sent_key(state, request).await? {
        Some(credential) if credential.is_valid(state.clock.now()) => Ok(credential),
        found => Err(refusal(found.as_deref()).into()),
    }
}

/// Looks up a request's API key, if the request has a well-formed one.
async fn sent_key(
    state: &AppState,
    request: &HttpRequest,
) -> Result<Option<Arc<Credential>>, ApiError> {
    match bearer(request).and_then(|text| text.parse().ok()) {
        Some(key) => look_up(state, request, key).await,
        None => {
            // Requests without a key count, too, even if they end in a 401: a room token is a guess like any other until it is verified.
            state.checks.limits.check_address(request)?;
            Ok(None)
        }
    }
}

/// Looks up a key, and counts the request by its address if the key is invalid.
async fn look_up(
    state: &AppState,
    request: &HttpRequest,
    key: ApiKeyLookup,
) -> Result<Option<Arc<Credential>>, ApiError> {
    let limits = &state.checks.limits;
    let hash = key.hash;
    let was_valid = limits.check_lookup(&hash, request)?;
    let found = state.store.api_keys().authenticate(key).await?;
    let now = state.clock.now();
    match found.as_ref().filter(|credential| credential.is_valid(now)) {
        Some(credential) => {
            if !was_valid {
                limits.record_valid(&hash);
            }
            record_use(state, credential, now.into());
        }
        None => limits.check_invalid_key(&hash, request)?,
    }
    Ok(found)
}

/// Records that a key was used today. The write does not delay the request, and there is one per key and day.
fn record_use(state: &AppState, credential: &Credential, today: Day) {
    let is_recorded = credential.last_used_on.is_some_and(|day| day >= today);
    if is_recorded || !state.checks.key_uses.is_first(&credential.prefix, today) {
        return;
    }
    let (keys, project, prefix) = (
        state.store.api_keys().clone(),
        credential.project_id.clone(),
        credential.prefix.clone(),
    );
    actix_web::rt::spawn(async move {
        // Not repeated: the next day's use is recorded, and requests must not write while the database is in trouble.
        if let Err(error) = keys.record_use(project, prefix, today).await {
            log::debug!("the last use of an API key was not recorded: {error}");
        }
    });
}

/// Returns one refusal for missing, malformed and unknown keys, which reveals nothing; for a revoked or an expired key, the message names
/// the reason.
fn refusal(found: Option<&Credential>) -> Problem {
    let message = match found {
        Some(credential) if credential.revoked => "api key revoked",
        Some(_) => "api key expired",
        None => "invalid api key",
    };
    Problem::new(ErrorCode::Unauthorized, message)
}

fn bearer(request: &HttpRequest) -> Option<&str> {
    let value = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    // RFC 9110, section 11.1: the scheme is case-insensitive.
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}

/// Returns the claims of a room token, if it is for the room in the path. If the path names no room, the handler searches in the
/// token's room only.
fn room_token_for_path(
    state: &AppState,
    pattern: &'static str,
    request: &HttpRequest,
) -> Option<Box<Claims>> {
    let claims = room_token(state, request, bearer(request))?;
    let matches_path = match parameter(pattern, request, "name") {
        Some(name) => {
            let (project, _) = claims.room.split();
            // An invalid room name matches no token, so the response is 401.
            claims.room == NamespacedRoom::new(&project, &name.parse().ok()?)
        }
        None => true,
    };
    matches_path.then_some(claims)
}

/// Returns the claims of the room token in a request's own header, otherwise of this bearer token.
pub fn room_token(
    state: &AppState,
    request: &HttpRequest,
    bearer: Option<&str>,
) -> Option<Box<Claims>> {
    let header = request
        .headers()
        .get(ROOM_TOKEN)
        .and_then(|value| value.to_str().ok());
    // Browsers send the token in its own header, because calls with `Authorization` are refused across origins. Other clients may
    // send it in either.
    let claims = state
        .signer
        .verify(header.or(bearer)?, state.clock.now())
        .ok()?;
    Some(Box::new(claims))
}
