//! Bans: identities that may not join a room, until a time or until the ban is lifted. A banned identity gets no token, exchanges no room
//! code, joins on no media plane, and is disconnected at once.

use conclave_db::{NewBan, PutBan};
use conclave_model::ban::Ban;
use conclave_model::non_null::non_null;
use conclave_model::page::Page;
use conclave_model::role::Permission;
use conclave_model::text::Text;
use conclave_model::{BanId, ErrorCode, Identity, Problem, RoomName, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

use crate::http::api::context::{Caller, RequestContext};
use crate::http::api::error::Result;
use crate::http::api::input::parameters::{ParticipantPath, RoomPath};
use crate::http::api::input::{Input, NoBody, NoParams, OptionalBody, Paged};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Listed, NoContent, Put};
use crate::http::api::spec::Method;

/// Maximum length of a reason, in characters.
const LONGEST_REASON: usize = 500;

/// A ban's terms.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BanParticipant {
    /// The end of the ban, in the future; absent: until it is lifted.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    until: Option<Timestamp>,
    /// The reason, for your own records; participants do not see it.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(schema_with = reason_schema)]
    reason: Option<Text>,
}

fn reason_schema() -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(Text::PATTERN))
        .max_length(Some(LONGEST_REASON))
        .into()
}

/// An identity that may not join a room.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Ban)]
pub struct BanJson {
    pub id: BanId,
    pub room: RoomName,
    pub identity: Identity,
    /// The identity may join again from this time on; absent: the ban lasts until it is lifted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub until: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl From<Ban> for BanJson {
    fn from(ban: Ban) -> Self {
        Self {
            id: ban.id,
            room: ban.room,
            identity: ban.identity,
            until: ban.until,
            reason: ban.reason,
            created_at: ban.created_at,
            updated_at: ban.updated_at,
        }
    }
}

impl Listed for BanJson {
    const COLLECTION: &'static str = "bans";
}

fn example() -> serde_json::Value {
    json!({
        "id": "0191d2c4-8e03-7d55-a1b6-90c3e57f2d14", "room": "standup", "identity": "mallory",
        "until": "2026-02-01T12:00:00.000Z", "reason": "spam in the chat",
        "created_at": "2026-01-31T12:00:00.000Z", "updated_at": "2026-01-31T12:00:00.000Z"
    })
}

/// Returns the operations on bans.
pub fn operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(
            Method::Get,
            "/ext/v1/rooms/{name}/bans",
            "list_bans",
            list,
        )
        .about("participants", "List a room's bans, newest first, including bans that are over")
        .responds(example())
        .links(
            &["lift_ban"],
            &[
                ("name", "$request.path.name"),
                ("identity", "$response.body#/bans/0/identity"),
            ],
        )
        .errors(&[ErrorCode::RoomNotFound])
        .build(),
        operation(
            Method::Put,
            "/ext/v1/rooms/{name}/bans/{identity}",
            "ban_participant",
            ban,
        )
        .about(
            "participants",
            "Ban an identity from a room, and disconnect its participant; change the terms of its ban",
        )
        .example(json!({"reason": "spam in the chat"}))
        .responds(example())
        // As for a removal: a ban is a removal that lasts.
        .room_token(&[Permission::RemoveOthers])
        .errors(&[
            ErrorCode::RoomNotFound,
            ErrorCode::RoomEnded,
            ErrorCode::BanLimitReached,
            ErrorCode::MediaUnavailable,
        ])
        .build(),
        operation(
            Method::Delete,
            "/ext/v1/rooms/{name}/bans/{identity}",
            "lift_ban",
            lift,
        )
        .about("participants", "Lift a ban; the identity's tokens are valid again, unless they were revoked")
        .errors(&[ErrorCode::RoomNotFound, ErrorCode::BanNotFound])
        .build(),
    ]
}

pub async fn list(
    context: RequestContext,
    input: Input<RoomPath, Paged<NoParams>, NoBody>,
) -> Result<Page<BanJson>> {
    let bans = context
        .state
        .store
        .bans()
        .list(context.project(), input.path.name, input.query.page)
        .await?;
    Ok(bans.map(BanJson::from))
}

pub async fn ban(
    context: RequestContext,
    input: Input<ParticipantPath, NoParams, OptionalBody<BanParticipant>>,
) -> Result<Put<BanJson>> {
    let OptionalBody(BanParticipant { until, reason }) = input.body;
    // A ban that is over would remove the participant and keep nobody out.
    if until.is_some_and(|until| until <= context.state.clock.now()) {
        return Err(Problem::invalid("until", "must be in the future").into());
    }
    if reason
        .as_deref()
        .is_some_and(|reason| reason.chars().count() > LONGEST_REASON)
    {
        let message = format!("must be at most {LONGEST_REASON} characters");
        return Err(Problem::invalid("reason", message).into());
    }
    let new = NewBan {
        project_id: context.project(),
        room: input.path.name,
        identity: input.path.identity,
        until,
        reason: reason.map(String::from),
        // Otherwise a participant could lift a ban, which only the server may: by an end a moment from now.
        may_shorten: !matches!(context.caller, Caller::RoomToken(_)),
    };
    let PutBan { ban, is_new } = context.state.tree.ban(new).await?;
    Ok(if is_new {
        Put::Created(ban.into())
    } else {
        Put::Replaced(ban.into())
    })
}

pub async fn lift(
    context: RequestContext,
    input: Input<ParticipantPath, NoParams, NoBody>,
) -> Result<NoContent> {
    context
        .state
        .store
        .bans()
        .lift(context.project(), input.path.name, input.path.identity)
        .await?;
    Ok(NoContent)
}
