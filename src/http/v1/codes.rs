//! Room codes (contract "Room codes"): short texts that whoever holds one exchanges for a room token, without a
//! credential.

use std::time::Duration;

use conclave_db::{CodeExchange, CreatedCode, NewCode};
use conclave_media::token::Grants;
use conclave_model::code::{DEFAULT_LIFE, LONGEST_LIFE, RoomCode, RoomCodeRecord, SHORTEST_LIFE};
use conclave_model::non_null::non_null;
use conclave_model::usage::{BillingVerdict, QuotaDecision};
use conclave_model::{ErrorCode, Identity, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::minting::{Token, Wanted, mint, refuse_if_full, ttl};
use crate::billing::BillingError;
use crate::config::Plans;
use crate::http::answer::{self, Response};
use crate::http::call::{Call, id, identity};
use crate::http::openapi::{Doc, Param};
use crate::http::operation::{Auth, Method, Operation};
use crate::http::problem::{Problem, of_store};
use crate::http::standing;

/// A code to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateCode {
    /// A role of the room's template; tokens carry it.
    #[schema(pattern = "^[a-zA-Z0-9_-]{1,64}$")]
    role: String,
    /// From 60 seconds to 30 days from now. Not beside `ttl_seconds`.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(format = DateTime, nullable = false)]
    expires_at: Option<String>,
    /// Default 86400. Not beside `expires_at`.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(minimum = 60, maximum = 2_592_000, nullable = false)]
    ttl_seconds: Option<u64>,
    /// How often it can be exchanged; null or left out, there is no cap.
    #[schema(minimum = 1)]
    max_uses: Option<u32>,
    /// Locks the code to one identity.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(pattern = "^[a-zA-Z0-9_.@-]{1,128}$", nullable = false)]
    identity: Option<String>,
}

/// Who wants to come in by a code.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExchangeCode {
    /// Ignored when the code is locked to an identity; left out, it is `guest-` and eight random characters.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(pattern = "^[a-zA-Z0-9_.@-]{1,128}$", nullable = false)]
    identity: Option<String>,
}

/// A room code.
#[derive(Serialize, ToSchema)]
#[schema(as = RoomCode)]
pub struct RoomCodeJson {
    id: uuid::Uuid,
    project_id: String,
    /// The room it admits to.
    room: String,
    /// The role its tokens carry.
    role: String,
    /// Whole in the answer that creates it, and in no other: `abcd-****-****`.
    code: String,
    /// When set, the code always mints for this identity.
    #[schema(required = true)]
    identity: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// Null means no cap.
    max_uses: Option<u32>,
    /// Times exchanged.
    uses: u32,
    disabled: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl RoomCodeJson {
    fn of(record: &RoomCodeRecord, code: String) -> Self {
        Self {
            id: record.id.0,
            project_id: record.project_id.to_string(),
            room: record.room.to_string(),
            role: record.role.to_string(),
            code,
            identity: record.identity.as_ref().map(ToString::to_string),
            expires_at: record.expires_at,
            max_uses: record.max_uses,
            uses: record.uses,
            disabled: record.disabled,
            created_at: record.created_at,
            updated_at: record.updated_at,
        }
    }
}

fn example(code: &str) -> serde_json::Value {
    json!({
        "id": "0191d2c4-6d1f-7b0a-9e51-c2a4f80d7713", "project_id": "prj_5f2a9c01be34", "room": "standup",
        "role": "guest", "code": code, "identity": null, "expires_at": "2026-02-01T12:00:00.000Z", "max_uses": 10,
        "uses": 0, "disabled": false, "created_at": "2026-01-31T12:00:00.000Z",
        "updated_at": "2026-01-31T12:00:00.000Z"
    })
}

/// Room codes.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "list_codes",
        Method::Get,
        "/v1/rooms/{name}/codes",
        &[200],
        |call| Box::pin(list(call)),
        || {
            Doc::new("codes", "List a room's codes, newest first, those that cannot be used any more too")
                .path(Param::ROOM)
                .page::<RoomCodeJson>("codes", example("abcd-****-****"), &[])
        },
    )
    .codes(&[ErrorCode::InvalidRoomName, ErrorCode::RoomNotFound]),
    Operation::new(
        "create_code",
        Method::Post,
        "/v1/rooms/{name}/codes",
        &[201],
        |call| Box::pin(create(call)),
        || {
            Doc::new("codes", "Create a room code; the answer shows it whole, this once")
                .path(Param::ROOM)
                .body::<CreateCode>(json!({"role": "guest", "ttl_seconds": 86_400, "max_uses": 10}))
                .answer::<RoomCodeJson>(example("abcd-efgh-jkmn"))
        },
    )
    .idempotent()
    .secret_answer()
    .codes(&[
        ErrorCode::InvalidRoomName,
        ErrorCode::InvalidIdentity,
        ErrorCode::RoomNotFound,
        ErrorCode::TemplateNotFound,
        ErrorCode::RoleNotFound,
    ]),
    Operation::new(
        "disable_code",
        Method::Delete,
        "/v1/codes/{code}",
        &[204],
        |call| Box::pin(disable(call)),
        || Doc::new("codes", "Disable a room code; tokens it has given stay valid").path(Param::CODE),
    )
    .codes(&[ErrorCode::CodeNotFound]),
    Operation::new(
        "exchange_code",
        Method::Post,
        "/v1/codes/{code}/exchange",
        &[201],
        |call| Box::pin(exchange(call)),
        || {
            Doc::new("codes", "Exchange a room code for a room token")
                .path(Param::CODE)
                .optional_body::<ExchangeCode>(json!({"identity": "alice"}))
                .answer::<Token<'_>>(Token::example())
        },
    )
    .auth(Auth::Open)
    .secret_answer()
    .codes(&[
        ErrorCode::InvalidIdentity,
        ErrorCode::QuotaExceeded,
        ErrorCode::InsufficientBalance,
        ErrorCode::CodeNotFound,
        ErrorCode::RoleNotFound,
        ErrorCode::RoomEnded,
        ErrorCode::RoleCapacityReached,
        ErrorCode::BillingUnavailable,
        ErrorCode::DatabaseUnavailable,
    ]),
];

fn render_created(created: &CreatedCode) -> Response {
    answer::created(&RoomCodeJson::of(&created.record, created.code.reveal().to_owned()))
}

/// The code a path names. One that cannot be is one that is not.
fn code(call: &Call) -> Result<RoomCode, Problem> {
    call.path("code").map_err(|_| Problem::code_not_found())
}

/// When a code made now expires. A life outside the range is refused whichever way it was given.
fn expiry(now: Timestamp, expires_at: Option<&str>, ttl_seconds: Option<u64>) -> Result<Timestamp, Problem> {
    let (shortest, longest) = (SHORTEST_LIFE.as_secs(), LONGEST_LIFE.as_secs());
    match (expires_at, ttl_seconds) {
        (Some(_), Some(_)) => Err(Problem::invalid("expires_at", "must not be sent beside ttl_seconds")),
        (None, None) => Ok(now.after(DEFAULT_LIFE)),
        (None, Some(seconds)) if (shortest..=longest).contains(&seconds) => Ok(now.after(Duration::from_secs(seconds))),
        (None, Some(_)) => {
            Err(Problem::invalid("ttl_seconds", format!("must be an integer from {shortest} to {longest}")))
        }
        (Some(text), None) => {
            let at: Timestamp = id("expires_at", text)?;
            let allowed = now.after(SHORTEST_LIFE)..=now.after(LONGEST_LIFE);
            let message = "must be from 60 seconds to 30 days from now";
            if allowed.contains(&at) { Ok(at) } else { Err(Problem::invalid("expires_at", message)) }
        }
    }
}

async fn list(call: Call) -> Result<Response, Problem> {
    let room = call.room()?;
    let mut query = call.query()?;
    let page = query.page()?;
    query.finish()?;
    let codes = call.state.store.codes(call.project(), room, page).await.map_err(of_store)?;
    Ok(answer::page("codes", &codes.map(|code| RoomCodeJson::of(&code, code.prefix.masked()))))
}

async fn create(call: Call) -> Result<Response, Problem> {
    let room = call.room()?;
    call.no_query()?;
    let body: CreateCode = call.read()?;
    if body.max_uses == Some(0) {
        return Err(Problem::invalid("max_uses", "must be at least 1, or null for no cap"));
    }
    let new = NewCode {
        project_id: call.project(),
        room,
        role: id("role", &body.role)?,
        identity: body.identity.map(|text| identity("identity", &text)).transpose()?,
        expires_at: expiry(call.state.clock.now(), body.expires_at.as_deref(), body.ttl_seconds)?,
        max_uses: body.max_uses,
    };
    let created = call.state.store.create_code(new, call.keep(render_created)).await.map_err(of_store)?;
    Ok(render_created(&created))
}

async fn disable(call: Call) -> Result<Response, Problem> {
    let code = code(&call)?;
    call.state.store.disable_code(call.project(), code.hash()).await.map_err(of_store)?;
    Ok(answer::no_content())
}

async fn exchange(call: Call) -> Result<Response, Problem> {
    call.no_query()?;
    let body: ExchangeCode = call.read_if_sent()?;
    let asked = body.identity.map(|text| identity("identity", &text)).transpose();
    let code = code(&call)?;
    let exchange = match (take_use(&call, &code, asked.as_ref().err().cloned()).await, &asked) {
        (Err(problem), Err(malformed)) if problem.code == ErrorCode::CodeNotFound => return Err(malformed.clone()),
        (taken, _) => taken?,
    };
    let plan = standing::plan(&call.state.plans, &exchange.plan)?;
    let asked = asked.unwrap_or_default();
    let wanted = Wanted {
        identity: exchange.identity.clone().or(asked).unwrap_or_else(Identity::guest),
        name: String::new(),
        metadata: String::new(),
        ttl: ttl(None),
        grants: Grants::default(),
    };
    mint(&call.state, &exchange.context, plan, wanted)
}

/// Uses the code once, if it admits. An identity that is malformed is refused only by a code that would look at it: one that
/// is locked to an identity ignores what is sent.
async fn take_use(call: &Call, code: &RoomCode, malformed: Option<Problem>) -> Result<CodeExchange, Problem> {
    // The plans are cloned and not the state: a write that outlives its request must not hold the store open.
    let plans = call.state.plans.clone();
    let said = ask_billing(call, code).await?;
    let admitted = move |exchange: &CodeExchange| match malformed.filter(|_| exchange.identity.is_none()) {
        Some(malformed) => Err(malformed),
        None => admit(&plans, exchange, said),
    };
    call.state.store.exchange_code(code.hash(), admitted).await.map_err(of_store)
}

/// What the billing service says of the code's project, asked before the write, which waits for nobody.
async fn ask_billing(call: &Call, code: &RoomCode) -> Result<Option<Result<BillingVerdict, BillingError>>, Problem> {
    if call.state.billing.is_none() {
        return Ok(None);
    }
    let project = call.state.store.project_of_code(code.hash()).await.map_err(of_store)?;
    Ok(standing::ask_billing(&call.state, &project, call.operation).await)
}

/// Whether a token may be minted for the holder of a usable code.
fn admit(
    plans: &Plans,
    exchange: &CodeExchange,
    said: Option<Result<BillingVerdict, BillingError>>,
) -> Result<(), Problem> {
    let plan = standing::plan(plans, &exchange.plan)?;
    let ledger = QuotaDecision::from_ledger(plan, exchange.project_status, &exchange.month);
    standing::with_billing(ledger, said)?.ensure_can_start_work()?;
    refuse_if_full(&exchange.context, plan)?;
    if exchange.context.role.is_none() {
        let message = "the room's template does not have the code's role any more";
        return Err(Problem::new(ErrorCode::RoleNotFound, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_codes_life_belong_to_it() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let refused = |at: Option<&str>, ttl| expiry(now, at, ttl).unwrap_err().field;
        for seconds in [60, 2_592_000] {
            let at = now.after(Duration::from_secs(seconds));
            assert_eq!(expiry(now, None, Some(seconds)), Ok(at));
            assert_eq!(expiry(now, Some(&at.to_string()), None), Ok(at));
        }
        for seconds in [0, 59, 2_592_001, u64::MAX] {
            let at = now.after(Duration::from_secs(seconds)).to_string();
            assert_eq!(refused(None, Some(seconds)).as_deref(), Some("ttl_seconds"));
            assert_eq!(refused(Some(&at), None).as_deref(), Some("expires_at"));
        }
        assert_eq!(expiry(now, None, None), Ok(now.after(Duration::from_secs(86_400))));
        assert_eq!(refused(Some("tomorrow"), None).as_deref(), Some("expires_at"));
        assert_eq!(refused(Some("tomorrow"), Some(60)).as_deref(), Some("expires_at"));
    }
}
