//! Room tokens, minted for a server with its API key, and for the holder of a room code. Minting reads a consistent snapshot of the
//! records and writes nothing.

use std::sync::Arc;
use std::time::Duration;

use conclave_db::TokenContext;
use conclave_media::RoleGrant;
use conclave_media::token::{ExchangeId, Grants, TokenRequest};
use conclave_model::non_null::{non_null, non_null_object};
use conclave_model::plan::Plan;
use conclave_model::role::RolePublish;
use conclave_model::room::{LONGEST_TOKEN_LIFE, RoomStatus};
use conclave_model::text::Text;
use conclave_model::{ErrorCode, Identity, Problem, RoleName, RoomName, Secret, Timestamp};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;
use utoipa::ToSchema;

use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::{Input, NoParams};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Created, Json, revealed};
use crate::http::api::spec::Method;
use crate::http::state::AppState;

/// A token to mint.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// An existing room.
    room: RoomName,
    /// The participant's identity.
    identity: Identity,
    /// The participant's display name.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    // `Text` rather than `DisplayName`, since the backend vouches for it.
    name: Option<Text>,
    /// Forwarded to the media plane unchanged.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    metadata: Option<Text>,
    /// Default 3600, clamped to 60..86400; 0 means the default.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(
        nullable = false,
        format = "uint64",
        minimum = 0,
        maximum = 18_446_744_073_709_551_615_u64
    )]
    // Any `u64`, because the contract clamps instead of refusing.
    ttl_seconds: Option<u64>,
    /// A role in the room's template; it replaces `permissions`.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    role: Option<RoleName>,
    /// Used only when no role is named.
    #[serde(default, deserialize_with = "non_null_object")]
    #[schema(nullable = false)]
    permissions: Option<Permissions>,
}

/// Plain grants; each defaults to true.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Permissions {
    can_publish: Option<bool>,
    can_subscribe: Option<bool>,
    can_publish_data: Option<bool>,
}

impl From<Permissions> for Grants {
    fn from(permissions: Permissions) -> Self {
        Self {
            can_publish: permissions.can_publish.unwrap_or(true),
            can_subscribe: permissions.can_subscribe.unwrap_or(true),
            can_publish_data: permissions.can_publish_data.unwrap_or(true),
            ..Self::default()
        }
    }
}

/// Returns the operation that mints tokens.
pub fn operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(Method::Post, "/v1/tokens", "create_token", create)
            .about("tokens", "Mint a room token")
            .example(json!({"room": "standup", "identity": "alice", "role": "host"}))
            .responds(Token::example())
            .idempotent()
            .secret_response()
            // Nothing is written, so a request without `Idempotency-Key` needs no task of its own (`frame`).
            .only_reads()
            .starts_work()
            .errors(&[
                ErrorCode::RoomNotFound,
                ErrorCode::TemplateNotFound,
                ErrorCode::RoleNotFound,
                ErrorCode::RoomEnded,
                ErrorCode::RoleCapacityReached,
                ErrorCode::IdentityBanned,
                ErrorCode::BillingUnavailable,
                // Listed by the contract for this operation.
                ErrorCode::DatabaseUnavailable,
            ])
            .build(),
    ]
}

async fn create(
    context: RequestContext,
    input: Input<NoParams, NoParams, CreateToken>,
) -> Result<Created<Token>> {
    let body = input.body;
    let holder = TokenHolder {
        identity: body.identity,
        name: body.name.map(String::from).unwrap_or_default(),
        metadata: body.metadata.map(String::from).unwrap_or_default(),
        ttl: ttl(body.ttl_seconds),
        grants: body.permissions.unwrap_or_default().into(),
        // Only tokens from open room codes name one (S-47).
        exchange: None,
        url: context.media_url(),
    };
    let plan = context.plan().await?;
    let (store, identity) = (&context.state.store, holder.identity.clone());
    // A single read, so that room, role and counts are of the same moment.
    let token = store
        .rooms()
        .token_context(context.project(), body.room, body.role, identity)
        .await?;
    ensure_can_join(&token, plan)?;
    mint(&context.state, token, plan, holder)
}

// The contract's default and range ("Token lifetime").
const DEFAULT_TTL_SECONDS: u64 = 3_600;
const SHORTEST_TTL_SECONDS: u64 = 60;
const LONGEST_TTL_SECONDS: u64 = LONGEST_TOKEN_LIFE.as_secs();

/// A room token.
#[derive(Serialize, ToSchema)]
pub struct Token {
    /// The token, a JWT, safe for a browser.
    #[serde(serialize_with = "revealed")]
    #[schema(value_type = String)]
    pub token: Secret,
    /// WebSocket URL that the client connects to.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub url: Arc<str>,
    pub expires_at: Timestamp,
    /// Absent when no role was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub role: Option<RoleName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub publish_profile: Option<RolePublish>,
}

impl Token {
    /// Returns an example for the description.
    pub(super) fn example() -> serde_json::Value {
        json!({
            // `{"alg":"HS256"}`, `{}` and the word "signature" in base64url.
            "token": "eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl", "url": "ws://127.0.0.1:8080",
            "expires_at": "2026-01-31T13:00:00.000Z"
        })
    }
}

/// Participant that a token is for.
pub(super) struct TokenHolder {
    pub(super) identity: Identity,
    pub(super) name: String,
    pub(super) metadata: String,
    pub(super) ttl: Duration,
    /// Grants of a token without a role; a role has its own.
    pub(super) grants: Grants,
    /// Exchange that a token from a room code names, if the code is not locked to an identity.
    pub(super) exchange: Option<ExchangeId>,
    /// WebSocket URL for the client.
    pub(super) url: Arc<str>,
}

/// Returns a token's time to live. 0 means the default; a value outside the range is clamped, not refused.
pub(super) fn ttl(seconds: Option<u64>) -> Duration {
    let seconds = seconds
        .filter(|seconds| *seconds > 0)
        .unwrap_or(DEFAULT_TTL_SECONDS);
    Duration::from_secs(seconds.clamp(SHORTEST_TTL_SECONDS, LONGEST_TTL_SECONDS))
}

/// Refuses a token if the room has ended, the identity is banned, or the room or the role is full.
///
/// # Errors
/// 402 `quota_exceeded`, 409 `room_ended`, 409 `identity_banned`, 409 `role_capacity_reached`.
pub(super) fn ensure_can_join(context: &TokenContext, plan: &Plan) -> Result<(), Problem> {
    // In the contract's order of checks, the plan's 402 goes before the room's 409.
    if let Some(cap) = plan
        .limits
        .participants_per_room
        .filter(|cap| context.participant_count >= *cap)
    {
        let message =
            format!("the room is full: the plan allows at most {cap} participants per room");
        return Err(Problem::new(ErrorCode::QuotaExceeded, message).at("max_participants"));
    }
    if context.room.status == RoomStatus::Ended {
        return Err(Problem::room_ended());
    }
    if context.exclusion.is_banned {
        return Err(Problem::identity_banned());
    }
    let full = context
        .role
        .as_ref()
        // A negative maximum admits nobody, 0 means unlimited (contract).
        .is_some_and(|role| match u32::try_from(role.max_peer_count.get()) {
            Err(_) => true,
            Ok(0) => false,
            Ok(cap) => context.holders >= cap,
        });
    if full {
        Err(Problem::role_capacity_reached())
    } else {
        Ok(())
    }
}

fn as_text<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// Mints a token.
///
/// # Errors
/// 500 if it cannot be signed.
pub(super) fn mint(
    state: &AppState,
    context: TokenContext,
    plan: &Plan,
    holder: TokenHolder,
) -> Result<Created<Token>> {
    // A role replaces the plain permissions (contract).
    let (max_kbps, mut grants) = match context.role.as_deref().map(RoleGrant::from) {
        Some(grant) => (grant.max_kbps, grant.grants),
        None => (None, holder.grants),
    };
    // On some media planes, a client that may change its own attributes could also change its role's attribute.
    grants.can_update_own_metadata &= state.media.permits_own_metadata();
    let request = TokenRequest {
        room: context.room.namespaced_name(),
        identity: holder.identity,
        name: holder.name,
        metadata: holder.metadata,
        attributes: context
            .role
            .as_ref()
            .map(|role| role.attributes.clone().into())
            .unwrap_or_default(),
        role: context.role.as_ref().map(|role| role.name.clone()),
        // With the last role change in it, the token counts as newer than that change (S-46).
        role_change: context.role_change,
        // Likewise newer than the last revocation.
        revocation: context.exclusion.revocation,
        exchange: holder.exchange,
        max_kbps,
        grants,
        ttl: holder.ttl,
        // With timeout and cap, a room that the media plane opens by itself agrees with the record.
        empty_timeout_seconds: context.room.empty_timeout_seconds,
        max_participants: plan.effective_cap(context.room.max_participants),
    };
    let minted = state.signer.mint(&request, state.clock.now())?;
    Ok(Json(Token {
        token: minted.token,
        url: holder.url,
        expires_at: minted.expires_at,
        role: request.role,
        // Present if and only if a role was named.
        publish_profile: context.role.map(|role| role.publish.clone()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_clamped_and_zero_takes_the_default() {
        let seconds = |ttl_seconds| ttl(ttl_seconds).as_secs();
        assert_eq!((seconds(None), seconds(Some(0))), (3_600, 3_600));
        assert_eq!((seconds(Some(1)), seconds(Some(u64::MAX))), (60, 86_400));
    }
}
