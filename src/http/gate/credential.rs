//! Who calls: a project API key, or on moderation calls a room token.

use actix_web::HttpRequest;
use actix_web::http::header::AUTHORIZATION;
use conclave_db::Credential;
use conclave_model::key::ApiKey;
use conclave_model::{ErrorCode, NamespacedRoom};

use crate::http::call::Caller;
use crate::http::operation::{Auth, Operation};
use crate::http::problem::{Problem, of_store};
use crate::http::state::AppState;

/// The header a browser sends its room token in.
const ROOM_TOKEN: &str = "x-svc-room-token";

/// Says who calls. Whoever has no valid key counts against the client's address first. On an open operation nobody is
/// asked, whatever they carry, and the address has a rate of its own.
///
/// # Errors
/// 401, or 429 when the address is over its rate.
pub async fn identify(operation: &Operation, state: &AppState, request: &HttpRequest) -> Result<Caller, Problem> {
    if operation.auth == Auth::Open {
        state.limits.check_exchanging_address(request)?;
        return Ok(Caller::Anyone);
    }
    let bearer = bearer(request);
    let key = bearer.and_then(|text| text.parse::<ApiKey>().ok());
    let found = match key {
        Some(key) => state.store.authenticate(key).await.map_err(of_store)?,
        None => None,
    };
    match found {
        Some(credential) if !credential.revoked => Ok(Caller::Key(credential)),
        found => {
            state.limits.check_address(request)?;
            match operation.auth {
                Auth::KeyOrRoomToken(_) => room_token(state, request, bearer).ok_or_else(|| refusal(found.as_ref())),
                Auth::Key | Auth::Open => Err(refusal(found.as_ref())),
            }
        }
    }
}

/// Missing, malformed and unknown keys are refused alike; a revoked one is told so.
fn refusal(found: Option<&Credential>) -> Problem {
    let message = if found.is_some() { "api key revoked" } else { "invalid api key" };
    Problem::new(ErrorCode::Unauthorized, message)
}

fn bearer(request: &HttpRequest) -> Option<&str> {
    let value = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// A room token for the very room that the path names. A path that names a job instead says nothing of rooms here: its
/// handler finds the job in the token's room or nowhere.
fn room_token(state: &AppState, request: &HttpRequest, bearer: Option<&str>) -> Option<Caller> {
    let header = request.headers().get(ROOM_TOKEN).and_then(|value| value.to_str().ok());
    let claims = state.signer.verify(header.or(bearer)?, state.clock.now()).ok()?;
    let (project, _) = claims.room.split();
    let admits = match request.match_info().get("name") {
        Some(name) => claims.room == NamespacedRoom::new(&project, &name.parse().ok()?),
        None => true,
    };
    admits.then(|| Caller::RoomToken(Box::new(claims)))
}
