//! Room codes: short texts that a client without a credential exchanges for a room token.

use std::time::Duration;

use conclave_db::{CodeExchange, CreatedCode, NewCode};
use conclave_media::token::{ExchangeId, Grants};
use conclave_model::code::{DEFAULT_LIFE, LONGEST_LIFE, RoomCode, RoomCodeRecord, SHORTEST_LIFE};
use conclave_model::non_null::non_null;
use conclave_model::page::Page;
use conclave_model::usage::{BillingVerdict, QuotaDecision};
use conclave_model::{
    CodeId, DisplayName, ErrorCode, Identity, Problem, ProjectId, RoleName, RoomName, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use super::tokens::{Token, TokenHolder, ensure_can_join, mint, ttl};
use crate::billing::BillingError;
use crate::config::Plans;
use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::parameters::RoomPath;
use crate::http::api::input::{
    AnyBody, AnyQuery, Input, NoBody, NoParams, OptionalBody, Paged, from_text, refusal_at,
};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::quota;
use crate::http::api::response::{Created, Listed, NoContent};
use crate::http::api::spec::{Method, OpenRates, extension};

/// Room code path.
#[derive(Deserialize, IntoParams)]
pub struct CodePath {
    /// The room code
    #[serde(deserialize_with = "from_text")]
    // Without i, l, 0 and 1, which are easily confused: 32 characters of five bits, 60 bits in all (S-36).
    #[param(value_type = String, pattern = "^[a-hjkm-z2-9]{4}(-[a-hjkm-z2-9]{4}){2}$")]
    code: RoomCode,
}

/// A room code to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateCode {
    /// A role of the room's template, which the tokens get.
    role: RoleName,
    /// 60 seconds to 30 days from now. Mutually exclusive with `ttl_seconds`.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    expires_at: Option<Timestamp>,
    /// Default 86400. Mutually exclusive with `expires_at`.
    #[serde(default, deserialize_with = "non_null")]
    // 60 seconds to 30 days (contract).
    #[schema(minimum = 60, maximum = 2_592_000, nullable = false)]
    ttl_seconds: Option<u64>,
    /// Maximum number of exchanges; null or omitted: unlimited.
    #[schema(minimum = 1)]
    // An explicit null is allowed, and means unlimited (contract).
    max_uses: Option<u32>,
    /// Locks the code to one identity.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    identity: Option<Identity>,
}

/// The participant that joins with the token.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExchangeCode {
    /// Must not be connected to the room, nor have a role there. Ignored if the code is locked to an identity. Default: `guest-` and
    /// eight random characters.
    // Text, because a locked code also ignores a value that is no identity.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(value_type = Option<Identity>, nullable = false)]
    identity: Option<String>,
    #[serde(default, deserialize_with = "non_null")]
    #[schema(schema_with = extension::<DisplayName>)]
    name: Option<DisplayName>,
}

/// A room code.
#[derive(Serialize, ToSchema)]
#[schema(as = RoomCode)]
pub struct RoomCodeJson {
    pub id: CodeId,
    pub project_id: ProjectId,
    /// The room that its tokens are for.
    pub room: RoomName,
    /// The role of its tokens.
    pub role: RoleName,
    /// Complete only in the response that creates it, otherwise masked: `abcd-****-****`.
    pub code: String,
    /// If set, tokens are always for this identity.
    // Serialised even if null.
    #[schema(required = true)]
    pub identity: Option<Identity>,
    pub expires_at: Timestamp,
    /// Null: unlimited.
    pub max_uses: Option<u32>,
    /// Number of exchanges so far.
    pub uses: u32,
    pub disabled: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl RoomCodeJson {
    fn new(record: RoomCodeRecord, code: String) -> Self {
        Self {
            id: record.id,
            project_id: record.project_id,
            room: record.room,
            role: record.role,
            code,
            identity: record.identity,
            expires_at: record.expires_at,
            max_uses: record.max_uses,
            uses: record.uses,
            disabled: record.disabled,
            created_at: record.created_at,
            updated_at: record.updated_at,
        }
    }
}

impl From<RoomCodeRecord> for RoomCodeJson {
    fn from(record: RoomCodeRecord) -> Self {
        // Only the first four characters are stored in clear.
        let masked = record.prefix.masked();
        Self::new(record, masked)
    }
}

impl From<CreatedCode> for RoomCodeJson {
    fn from(CreatedCode { record, code }: CreatedCode) -> Self {
        // Only now: the store keeps the code's hash.
        Self::new(record, code.reveal().to_owned())
    }
}

impl Listed for RoomCodeJson {
    const COLLECTION: &'static str = "codes";
}

fn example(code: &str) -> serde_json::Value {
    json!({
        "id": "0191d2c4-6d1f-7b0a-9e51-c2a4f80d7713", "project_id": "prj_5f2a9c01be34", "room": "standup",
        "role": "guest", "code": code, "identity": null, "expires_at": "2026-02-01T12:00:00.000Z", "max_uses": 10,
        "uses": 0, "disabled": false, "created_at": "2026-01-31T12:00:00.000Z",
        "updated_at": "2026-01-31T12:00:00.000Z"
    })
}

/// Returns a schema that matches bodies with both ways to set the expiry.
fn both_lives() -> serde_json::Value {
    json!({"required": ["expires_at", "ttl_seconds"], "properties": {"expires_at": {}, "ttl_seconds": {}}})
}

/// Returns the operations on room codes.
pub fn operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(Method::Get, "/v1/rooms/{name}/codes", "list_codes", list)
            .about(
                "codes",
                "List a room's codes, newest first, including unusable ones",
            )
            .responds(example("abcd-****-****"))
            .errors(&[ErrorCode::RoomNotFound])
            .build(),
        operation(
            Method::Post,
            "/v1/rooms/{name}/codes",
            "create_code",
            create,
        )
        .about(
            "codes",
            "Create a room code; the complete code is shown only in this response",
        )
        .example(json!({"role": "guest", "ttl_seconds": 86_400, "max_uses": 10}))
        .body_rule("not", both_lives())
        .responds(example("abcd-efgh-jkmn"))
        .links(
            &["exchange_code", "disable_code"],
            &[("code", "$response.body#/code")],
        )
        .idempotent()
        .secret_response()
        .errors(&[
            ErrorCode::RoomNotFound,
            ErrorCode::TemplateNotFound,
            ErrorCode::RoleNotFound,
        ])
        .build(),
        operation(Method::Delete, "/v1/codes/{code}", "disable_code", disable)
            .about(
                "codes",
                "Disable a room code; tokens from earlier exchanges stay valid",
            )
            // A key is required, too, but no log may show the code.
            .secret_path("code")
            // The contract lists no 400 here: a malformed code is an unknown one.
            .malformed_path(Problem::code_not_found)
            .errors(&[ErrorCode::CodeNotFound])
            .build(),
        operation(
            Method::Post,
            "/v1/codes/{code}/exchange",
            "exchange_code",
            exchange,
        )
        .about("codes", "Exchange a room code for a room token")
        .example(json!({"identity": "alice", "name": "Alice"}))
        .responds(Token::example())
        // The code is the credential.
        .open("code", OpenRates::Exchange)
        .malformed_path(Problem::code_not_found)
        .secret_response()
        .errors(&[
            ErrorCode::QuotaExceeded,
            ErrorCode::InsufficientBalance,
            ErrorCode::CodeNotFound,
            ErrorCode::RoleNotFound,
            ErrorCode::RoomEnded,
            ErrorCode::RoleCapacityReached,
            ErrorCode::IdentityTaken,
            ErrorCode::IdentityBanned,
            ErrorCode::BillingUnavailable,
            ErrorCode::DatabaseUnavailable,
        ])
        .build(),
    ]
}

/// Returns the expiry of a code created now. Unlike a token's, a lifetime outside the range is refused, in either field.
fn expiry(
    now: Timestamp,
    expires_at: Option<Timestamp>,
    ttl_seconds: Option<u64>,
) -> Result<Timestamp, Problem> {
    let (shortest, longest) = (SHORTEST_LIFE.as_secs(), LONGEST_LIFE.as_secs());
    match (expires_at, ttl_seconds) {
        (Some(_), Some(_)) => Err(Problem::invalid(
            "expires_at",
            "must not be combined with ttl_seconds",
        )),
        (None, None) => Ok(now.after(DEFAULT_LIFE)),
        (None, Some(seconds)) if (shortest..=longest).contains(&seconds) => {
            Ok(now.after(Duration::from_secs(seconds)))
        }
        (None, Some(_)) => Err(Problem::invalid(
            "ttl_seconds",
            format!("must be an integer from {shortest} to {longest}"),
        )),
        (Some(at), None) => {
            let allowed = now.after(SHORTEST_LIFE)..=now.after(LONGEST_LIFE);
            let message = "must be from 60 seconds to 30 days from now";
            if allowed.contains(&at) {
                Ok(at)
            } else {
                Err(Problem::invalid("expires_at", message))
            }
        }
    }
}

pub async fn list(
    context: RequestContext,
    input: Input<RoomPath, Paged<NoParams>, NoBody>,
) -> Result<Page<RoomCodeJson>> {
    let codes = context
        .state
        .store
        .codes()
        .list(context.project(), input.path.name, input.query.page)
        .await?;
    Ok(codes.map(RoomCodeJson::from))
}

pub async fn create(
    context: RequestContext,
    input: Input<RoomPath, NoParams, CreateCode>,
) -> Result<Created<RoomCodeJson>> {
    let body = input.body;
    // `u32` alone would accept 0, a code that nobody can use.
    if body.max_uses == Some(0) {
        return Err(
            Problem::invalid("max_uses", "must be at least 1, or null for unlimited use").into(),
        );
    }
    let new = NewCode {
        project_id: context.project(),
        room: input.path.name,
        role: body.role,
        identity: body.identity,
        expires_at: expiry(context.state.clock.now(), body.expires_at, body.ttl_seconds)?,
        max_uses: body.max_uses,
    };
    context
        .recorded(|recorder| context.state.store.codes().create(new, recorder))
        .await
}

pub async fn disable(
    context: RequestContext,
    input: Input<CodePath, AnyQuery, AnyBody>,
) -> Result<NoContent> {
    context
        .state
        .store
        .codes()
        .disable(context.project(), input.path.code.hash())
        .await?;
    Ok(NoContent)
}

async fn exchange(
    context: RequestContext,
    input: Input<CodePath, NoParams, OptionalBody<ExchangeCode>>,
) -> Result<Created<Token>> {
    let (code, OptionalBody(body)) = (input.path.code, input.body);
    // Parsed, but refused later: a code that is locked to an identity ignores it.
    let requested = body
        .identity
        .map(|text| text.parse().map_err(|error| refusal_at("identity", &error)))
        .transpose();
    let exchange = match (
        take_use(&context, &code, requested.clone()).await,
        &requested,
    ) {
        // The store cannot see a malformed identity. An unknown code with one is a 400, as parsing goes before lookups.
        (Err(error), Err(malformed)) if error.problem.code == ErrorCode::CodeNotFound => {
            return Err(malformed.clone().into());
        }
        (taken, _) => taken?,
    };
    let plan = quota::plan(&context.state.plans, &exchange.plan)?;
    // A malformed identity gets here only with a locked code, which ignores it.
    let requested = requested.unwrap_or_default();
    let holder = TokenHolder {
        identity: exchange
            .identity
            .clone()
            .or(requested)
            .unwrap_or_else(Identity::guest),
        name: body.name.map(String::from).unwrap_or_default(),
        // Metadata comes from the backend alone, by `POST /v1/tokens`.
        metadata: String::new(),
        // The default: the contract gives the exchange no lifetime.
        ttl: ttl(None),
        // Unused: without a role, the exchange was refused.
        grants: Grants::default(),
        // Marks the token, so that it cannot take over a participant that joined with another token.
        exchange: exchange.identity.is_none().then(ExchangeId::new),
        url: context.media_url(),
    };
    mint(&context.state, exchange.context, plan, holder)
}

/// Counts one use of the code, if it can be exchanged. A malformed identity is refused only by a code that would use it: a code locked to
/// an identity ignores the request's.
async fn take_use(
    context: &RequestContext,
    code: &RoomCode,
    requested: Result<Option<Identity>, Problem>,
) -> Result<CodeExchange> {
    // Only the plans are cloned, not the state: a write can outlive its request and must not keep the store open.
    let plans = context.state.plans.clone();
    let project = context.state.store.codes().project_of(code.hash()).await?;
    // Requested before the write: the store's writer must not wait for another service.
    let billing = quota::billing_verdict(&context.state, &project, context.spec).await;
    let (requested, malformed) = match requested {
        Ok(requested) => (requested, None),
        Err(malformed) => (None, Some(malformed)),
    };
    // Runs in the transaction that counts the use: of two concurrent exchanges, only one gets the last use or the last seat.
    let check = move |exchange: &CodeExchange| match malformed
        .filter(|_| exchange.identity.is_none())
    {
        Some(malformed) => Err(malformed),
        None if exchange.identity.as_ref().is_some_and(is_refused_now) => {
            let message =
                "the code is locked to an identity that is no longer valid; create another code";
            Err(Problem::new(ErrorCode::InvalidIdentity, message).at("identity"))
        }
        None => ensure_can_exchange(&plans, exchange, billing).map_err(|error| error.problem),
    };
    Ok(context
        .state
        .store
        .codes()
        .exchange(&project, code.hash(), requested, check)
        .await?)
}

/// Returns whether a recorded identity would be refused in a request. The rules may have become stricter since it was recorded.
fn is_refused_now(identity: &Identity) -> bool {
    identity.as_str().parse::<Identity>().is_err()
}

/// Refuses a token to the holder of a usable code if its project, room or role does not allow it.
fn ensure_can_exchange(
    plans: &Plans,
    exchange: &CodeExchange,
    billing: Option<Result<BillingVerdict, BillingError>>,
) -> Result<()> {
    let plan = quota::plan(plans, &exchange.plan)?;
    let ledger = QuotaDecision::from_ledger(plan, exchange.project_status, &exchange.month);
    quota::with_billing(ledger, billing)?.ensure_can_start_work()?;
    ensure_can_join(&exchange.context, plan)?;
    if exchange.context.role.is_none() {
        let message = "the room's template no longer has the code's role";
        return Err(Problem::new(ErrorCode::RoleNotFound, message).into());
    }
    // An open code gives no identity that is connected or has had its role changed (S-47).
    if exchange.is_identity_taken {
        Err(Problem::identity_taken().into())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_codes_life_belong_to_it() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let refused = |at: Option<Timestamp>, ttl| expiry(now, at, ttl).unwrap_err().field;
        for seconds in [60, 2_592_000] {
            let at = now.after(Duration::from_secs(seconds));
            assert_eq!(expiry(now, None, Some(seconds)), Ok(at));
            assert_eq!(expiry(now, Some(at), None), Ok(at));
        }
        for seconds in [0, 59, 2_592_001, u64::MAX] {
            let at = now.after(Duration::from_secs(seconds));
            assert_eq!(refused(None, Some(seconds)).as_deref(), Some("ttl_seconds"));
            assert_eq!(refused(Some(at), None).as_deref(), Some("expires_at"));
        }
        assert_eq!(
            expiry(now, None, None),
            Ok(now.after(Duration::from_secs(86_400)))
        );
        assert_eq!(
            refused(Some(now.after(DEFAULT_LIFE)), Some(60)).as_deref(),
            Some("expires_at")
        );
    }
}
