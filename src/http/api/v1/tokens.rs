//! Room tokens. Minting reads the records of one moment and writes nothing.

use conclave_media::token::Grants;
use conclave_model::non_null::{non_null, non_null_object};
use conclave_model::text::Text;
use conclave_model::{ErrorCode, Identity, RoleName, RoomName};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::minting::{Token, TokenHolder, mint, refuse_if_full, ttl};
use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::{Input, NoParams};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::Created;
use crate::http::api::spec::Method;

/// A token to mint.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// An existing room.
    room: RoomName,
    /// The participant that the token admits.
    identity: Identity,
    /// The display name of the participant.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    name: Option<Text>,
    /// Passed on to the media plane unread.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    metadata: Option<Text>,
    /// Default 3600, clamped to 60..86400; 0 takes the default.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(
        nullable = false,
        format = "uint64",
        minimum = 0,
        maximum = 18_446_744_073_709_551_615_u64
    )]
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

/// The operation that mints tokens.
pub fn operations() -> Vec<Operation> {
    vec![
        operation(Method::Post, "/v1/tokens", "create_token", create)
            .about("tokens", "Mint a room token")
            .example(json!({"room": "standup", "identity": "alice", "role": "host"}))
            .responds(Token::example())
            .idempotent()
            .secret_response()
            .starts_work()
            .errors(&[
                ErrorCode::RoomNotFound,
                ErrorCode::TemplateNotFound,
                ErrorCode::RoleNotFound,
                ErrorCode::RoomEnded,
                ErrorCode::RoleCapacityReached,
                ErrorCode::BillingUnavailable,
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
        exchange: None,
        url: context.media_url(),
    };
    let plan = context.plan().await?;
    let (store, identity) = (&context.state.store, holder.identity.clone());
    let token = store
        .rooms()
        .token_context(context.project(), body.room, body.role, identity)
        .await?;
    refuse_if_full(&token, plan)?;
    mint(&context.state, token, plan, holder)
}
