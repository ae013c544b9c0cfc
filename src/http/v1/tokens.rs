//! Room tokens (contract "Tokens"). Minting reads the records of one moment and writes nothing.

use conclave_media::token::Grants;
use conclave_model::non_null::{non_null, non_null_object};
use conclave_model::{ErrorCode, RoleName};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::minting::{Token, Wanted, mint, refuse_if_full, ttl};
use crate::http::answer::Response;
use crate::http::call::{Call, id, identity, room_name};
use crate::http::openapi::Doc;
use crate::http::operation::{Method, Operation};
use crate::http::problem::{Problem, of_store};

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
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    name: Option<String>,
    /// Carried along, unread.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    metadata: Option<String>,
    /// Default 3600, clamped to 60..86400; 0 takes the default.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    ttl_seconds: Option<u64>,
    /// A role in the room's template; it replaces `permissions`.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    role: Option<String>,
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

impl Permissions {
    fn grants(&self) -> Grants {
        Grants {
            can_publish: self.can_publish.unwrap_or(true),
            can_subscribe: self.can_subscribe.unwrap_or(true),
            can_publish_data: self.can_publish_data.unwrap_or(true),
            ..Grants::default()
        }
    }
}

/// Tokens.
pub const OPERATIONS: &[Operation] = &[Operation::new(
    "create_token",
    Method::Post,
    "/v1/tokens",
    &[201],
    |call| Box::pin(create(call)),
    || {
        Doc::new("tokens", "Mint a room token")
            .body::<CreateToken>(json!({"room": "standup", "identity": "alice", "role": "host"}))
            .answer::<Token<'_>>(Token::example())
    },
)
.idempotent()
.secret_answer()
.codes(&[
    ErrorCode::InvalidRoomName,
    ErrorCode::InvalidIdentity,
    ErrorCode::QuotaExceeded,
    ErrorCode::InsufficientBalance,
    ErrorCode::RoomNotFound,
    ErrorCode::TemplateNotFound,
    ErrorCode::RoleNotFound,
    ErrorCode::RoomEnded,
    ErrorCode::RoleCapacityReached,
    ErrorCode::BillingUnavailable,
    ErrorCode::DatabaseUnavailable,
])];

async fn create(call: Call) -> Result<Response, Problem> {
    call.no_query()?;
    let body: CreateToken = call.read()?;
    let room = room_name("room", &body.room)?;
    let wanted = Wanted {
        identity: identity("identity", &body.identity)?,
        name: body.name.unwrap_or_default(),
        metadata: body.metadata.unwrap_or_default(),
        ttl: ttl(body.ttl_seconds),
        grants: body.permissions.unwrap_or_default().grants(),
    };
    let role: Option<RoleName> = body.role.map(|role| id("role", &role)).transpose()?;
    let plan = call.plan_for_new_work().await?;
    let context = call.state.store.token_context(call.project(), room, role).await.map_err(of_store)?;
    refuse_if_full(&context, plan)?;
    mint(&call.state, &context, plan, wanted)
}
