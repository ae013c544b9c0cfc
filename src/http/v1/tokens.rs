//! Room tokens (contract "Tokens"). Minting reads the records of one moment and writes nothing.

use std::time::Duration;

use conclave_db::TokenContext;
use conclave_media::RoleGrant;
use conclave_media::token::{Grants, TokenRequest};
use conclave_model::plan::Plan;
use conclave_model::role::RolePublish;
use conclave_model::room::RoomStatus;
use conclave_model::sent::{sent, sent_object};
use conclave_model::{ErrorCode, Identity, RoleName, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::http::answer::{self, Answer};
use crate::http::call::{Call, id, identity, room_name};
use crate::http::openapi::Doc;
use crate::http::operation::{Auth, Method, Operation};
use crate::http::problem::{Problem, of_store};

const DEFAULT_TTL_SECONDS: u64 = 3_600;
const SHORTEST_TTL_SECONDS: u64 = 60;
const LONGEST_TTL_SECONDS: u64 = 86_400;

/// A token to be minted.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// An existing room.
    room: String,
    /// Who the token admits.
    #[schema(pattern = "^[a-zA-Z0-9_.@-]{1,128}$")]
    identity: String,
    /// Display name.
    #[serde(default, deserialize_with = "sent")]
    #[schema(nullable = false)]
    name: Option<String>,
    /// Carried along, unread.
    #[serde(default, deserialize_with = "sent")]
    #[schema(nullable = false)]
    metadata: Option<String>,
    /// Default 3600, clamped to 60..86400; 0 takes the default.
    #[serde(default, deserialize_with = "sent")]
    #[schema(nullable = false)]
    ttl_seconds: Option<u64>,
    /// A role in the room's template; it replaces `permissions`.
    #[serde(default, deserialize_with = "sent")]
    #[schema(nullable = false)]
    role: Option<String>,
    /// Used only when no role is named.
    #[serde(default, deserialize_with = "sent_object")]
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

/// A room token.
#[derive(Serialize, ToSchema)]
pub struct Token<'a> {
    /// The token, a JWT, safe for a browser.
    token: &'a str,
    /// Websocket url the client connects to.
    url: &'a str,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// Absent when no role was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, nullable = false)]
    role: Option<&'a RoleName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    publish_profile: Option<&'a RolePublish>,
}

/// Tokens.
pub const OPERATIONS: &[Operation] = &[Operation {
    id: "create_token",
    method: Method::Post,
    path: "/v1/tokens",
    auth: Auth::Key,
    idempotent: true,
    secret_answer: true,
    success: &[201],
    codes: &[
        ErrorCode::InvalidRoomName,
        ErrorCode::InvalidIdentity,
        ErrorCode::QuotaExceeded,
        ErrorCode::RoomNotFound,
        ErrorCode::TemplateNotFound,
        ErrorCode::RoleNotFound,
        ErrorCode::RoomEnded,
        ErrorCode::RoleCapacityReached,
        ErrorCode::DatabaseUnavailable,
    ],
    handler: |call| Box::pin(create(call)),
    doc: || {
        Doc::new("tokens", "Mint a room token")
            .body::<CreateToken>(json!({"room": "standup", "identity": "alice", "role": "host"}))
            .answer::<Token<'_>>(json!({
                "token": "eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl", "url": "ws://127.0.0.1:8080",
                "expires_at": "2026-01-31T13:00:00.000Z"
            }))
    },
}];

/// A request that parsed.
struct Wanted {
    identity: Identity,
    name: String,
    metadata: String,
    ttl: Duration,
    permissions: Permissions,
}

async fn create(call: Call) -> Result<Answer, Problem> {
    call.no_query()?;
    let body: CreateToken = call.read()?;
    let room = room_name("room", &body.room)?;
    let wanted = Wanted {
        identity: identity("identity", &body.identity)?,
        name: body.name.unwrap_or_default(),
        metadata: body.metadata.unwrap_or_default(),
        ttl: ttl(body.ttl_seconds),
        permissions: body.permissions.unwrap_or_default(),
    };
    let role: Option<RoleName> = body.role.map(|role| id("role", &role)).transpose()?;
    let plan = call.plan_for_new_work()?;
    let context = call.state.store.token_context(call.project(), room, role).await.map_err(of_store)?;
    refuse_if_full(&context, plan)?;
    mint(&call, &context, plan, wanted)
}

/// 0 takes the default; what lies outside the range is clamped, not refused.
fn ttl(seconds: Option<u64>) -> Duration {
    let seconds = seconds.filter(|seconds| *seconds > 0).unwrap_or(DEFAULT_TTL_SECONDS);
    Duration::from_secs(seconds.clamp(SHORTEST_TTL_SECONDS, LONGEST_TTL_SECONDS))
}

fn refuse_if_full(context: &TokenContext, plan: &Plan) -> Result<(), Problem> {
    if let Some(cap) = plan.limits.participants_per_room.filter(|cap| context.people >= *cap) {
        let message = format!("the plan lets {cap} people be in a room, and they are");
        return Err(Problem::new(ErrorCode::QuotaExceeded, message).at("max_participants"));
    }
    if context.room.status == RoomStatus::Ended {
        return Err(Problem::room_ended());
    }
    let full = context.role.as_ref().is_some_and(|role| match u32::try_from(role.max_peer_count.get()) {
        Err(_) => true,
        Ok(0) => false,
        Ok(cap) => context.holders >= cap,
    });
    if full { Err(Problem::role_capacity_reached()) } else { Ok(()) }
}

fn mint(call: &Call, context: &TokenContext, plan: &Plan, wanted: Wanted) -> Result<Answer, Problem> {
    let role = context.role.as_ref();
    let (max_kbps, grants) = match role.map(RoleGrant::from) {
        Some(grant) => (grant.max_kbps, grant.grants),
        None => (
            None,
            Grants {
                can_publish: wanted.permissions.can_publish.unwrap_or(true),
                can_subscribe: wanted.permissions.can_subscribe.unwrap_or(true),
                can_publish_data: wanted.permissions.can_publish_data.unwrap_or(true),
                ..Grants::default()
            },
        ),
    };
    let request = TokenRequest {
        room: context.room.namespaced_name(),
        identity: wanted.identity,
        name: wanted.name,
        metadata: wanted.metadata,
        role: role.map(|role| role.name.clone()),
        max_kbps,
        grants,
        ttl: wanted.ttl,
        empty_timeout_seconds: context.room.empty_timeout_seconds,
        max_participants: plan.effective_cap(context.room.max_participants),
    };
    let minted = call.state.signer.mint(&request, call.state.clock.now()).map_err(|error| {
        log::error!("a token could not be signed: {error}");
        Problem::internal()
    })?;
    Ok(answer::created(&Token {
        token: minted.token.reveal(),
        url: &call.state.media_url,
        expires_at: minted.expires_at,
        role: role.map(|role| &role.name),
        publish_profile: role.map(|role| &role.publish),
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
