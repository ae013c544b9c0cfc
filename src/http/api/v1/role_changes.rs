//! Role changes: giving a participant another role, and the log of it.

use conclave_actors::room::ChangeRoleRequest;
use conclave_model::event::ChangedBy;
use conclave_model::page::Page;
use conclave_model::participant::Participant;
use conclave_model::role::Permission;
use conclave_model::role_change::{RoleChange, RoleChanged};
use conclave_model::{
    ErrorCode, Identity, ParticipantSid, RoleChangeId, RoleName, RoomName, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use super::participants;
use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::path::{ParticipantPath, RoomPath};
use crate::http::api::input::{Input, NoBody, NoParams, Paged};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Json, Listed};
use crate::http::api::spec::Method;

const NOTE: &str = "The new role's grants and attributes apply at once, and tracks that it does not allow have been \
                    unpublished. Tracks that it does allow keep the codec, resolution and bitrate they were published \
                    with until the participant republishes them.";

/// The role that a participant is to hold.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRole {
    /// A role in the room's template.
    role: RoleName,
}

/// The filters of a room's role changes.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct RoleChangeFilter {
    /// Of this identity
    #[param(inline)]
    identity: Option<Identity>,
}

/// One change of a participant's role; exactly one of `changed_by_identity` and `changed_by_api_key_prefix` is present.
#[derive(Serialize, ToSchema)]
#[schema(as = RoleChange)]
pub struct RoleChangeJson {
    pub id: RoleChangeId,
    pub room: RoomName,
    pub participant_identity: Identity,
    pub participant_sid: ParticipantSid,
    pub role: RoleName,
    /// Absent when none was held.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub previous_role: Option<RoleName>,
    /// Set when a room token made the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub changed_by_identity: Option<Identity>,
    /// Set when a project API key made the change; `operator` for one made in the console.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub changed_by_api_key_prefix: Option<String>,
    pub created_at: Timestamp,
}

/// The result of a role change.
#[derive(Serialize, ToSchema)]
pub struct RoleChangeResult {
    pub role_change: RoleChangeJson,
    /// The participant after the change.
    pub participant: Participant,
    /// Whether the change applies without a new join; always true.
    pub applies_live: bool,
    /// What does not change until the participant republishes.
    pub note: &'static str,
}

impl From<RoleChange> for RoleChangeJson {
    fn from(change: RoleChange) -> Self {
        let (changed_by_identity, changed_by_api_key_prefix) = match change.changed_by {
            ChangedBy::Identity(identity) => (Some(identity), None),
            ChangedBy::ApiKey(prefix) => (None, Some(prefix.into())),
            ChangedBy::Operator => (None, Some(ChangedBy::OPERATOR.into())),
        };
        Self {
            id: change.id,
            room: change.room,
            participant_identity: change.participant_identity,
            participant_sid: change.participant_sid,
            role: change.role,
            previous_role: change.previous_role,
            changed_by_identity,
            changed_by_api_key_prefix,
            created_at: change.created_at,
        }
    }
}

impl From<RoleChanged> for RoleChangeResult {
    fn from(
        RoleChanged {
            change,
            participant,
        }: RoleChanged,
    ) -> Self {
        Self {
            role_change: change.into(),
            participant,
            applies_live: true,
            note: NOTE,
        }
    }
}

impl Listed for RoleChangeJson {
    const COLLECTION: &'static str = "role_changes";
}

fn example() -> serde_json::Value {
    json!({
        "id": "0191d2c4-b2f0-7a11-8e4c-6d20f1a9c3b7", "room": "standup", "participant_identity": "alice",
        "participant_sid": "PA_8fK2mQ0aLx7c", "role": "host", "previous_role": "guest",
        "changed_by_api_key_prefix": "vk_test_8Gh2", "created_at": "2026-01-31T12:10:00.000Z"
    })
}

/// The operations that change roles and list the changes.
pub fn operations() -> Vec<Operation> {
    vec![
        operation(Method::Post, "/v1/rooms/{name}/participants/{identity}/role", "change_role", change)
            .about("participants", "Give a participant another role, in place")
            .example(json!({"role": "host"}))
            .responds(json!({
                "role_change": example(), "participant": participants::example(), "applies_live": true, "note": NOTE
            }))
            .room_token(&[Permission::ChangeRole])
            .idempotent()
            .errors(&[
                ErrorCode::RoomNotFound,
                ErrorCode::ParticipantNotFound,
                ErrorCode::TemplateNotFound,
                ErrorCode::RoleNotFound,
                ErrorCode::MediaUnavailable,
            ])
            .build(),
        operation(Method::Get, "/v1/rooms/{name}/role-changes", "list_role_changes", list)
            .about("participants", "List a room's role changes, newest first")
            .responds(example())
            .errors(&[ErrorCode::RoomNotFound])
            .build(),
    ]
}

pub async fn change(
    context: RequestContext,
    input: Input<ParticipantPath, NoParams, ChangeRole>,
) -> Result<Json<RoleChangeResult>> {
    let room = context
        .state
        .store
        .rooms()
        .get(context.project(), input.path.name)
        .await?;
    let request = ChangeRoleRequest {
        identity: input.path.identity,
        role: input.body.role,
        by: context.changed_by()?,
    };
    let change = |recorder| {
        context
            .state
            .tree
            .change_role(room.project_id, room.name, request, recorder)
    };
    context.recorded(change).await
}

async fn list(
    context: RequestContext,
    input: Input<RoomPath, Paged<RoleChangeFilter>, NoBody>,
) -> Result<Page<RoleChangeJson>> {
    let Paged { page, filter } = input.query;
    let room = context
        .state
        .store
        .rooms()
        .get(context.project(), input.path.name)
        .await?;
    let changes = context
        .state
        .store
        .role_changes()
        .list(room.project_id, room.id, filter.identity, page)
        .await?;
    Ok(changes.map(RoleChangeJson::from))
}
