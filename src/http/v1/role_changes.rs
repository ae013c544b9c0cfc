//! Role changes: giving somebody in a room another role, and the log of it (contract "Participants and data").

use conclave_actors::room::ChangeRoleRequest;
use conclave_model::key::ApiKeyPrefix;
use conclave_model::page::Page;
use conclave_model::participant::Participant;
use conclave_model::role::Permission;
use conclave_model::role_change::{RoleChange, RoleChanged};
use conclave_model::{ErrorCode, Identity, RoleName, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::participants;
use crate::http::answer::{self, Response};
use crate::http::call::{Call, identity};
use crate::http::openapi::{Doc, Param};
use crate::http::operation::{Auth, Method, Operation};
use crate::http::problem::{Problem, of_store, of_tree};

const NOTE: &str = "The new role's grants and attributes apply at once, and tracks that it does not allow have been \
                    unpublished. Tracks that it does allow keep the codec, resolution and bitrate they were published \
                    with until the participant republishes them.";

/// The role somebody is to get.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRole {
    /// A role in the room's template.
    #[schema(value_type = String, pattern = "^[a-zA-Z0-9_-]{1,64}$")]
    role: RoleName,
}

/// One change of somebody's role; exactly one of `changed_by_identity` and `changed_by_api_key_prefix` is there.
#[derive(Serialize, ToSchema)]
#[schema(as = RoleChange)]
pub struct RoleChangeJson<'a> {
    id: uuid::Uuid,
    room: &'a str,
    participant_identity: &'a str,
    participant_sid: &'a str,
    role: &'a str,
    /// Absent when none was held.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    previous_role: Option<&'a str>,
    /// Set when a room token made the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    changed_by_identity: Option<&'a str>,
    /// Set when a project API key made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    changed_by_api_key_prefix: Option<&'a str>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// What a change came to.
#[derive(Serialize, ToSchema)]
pub struct RoleChangeResult<'a> {
    role_change: RoleChangeJson<'a>,
    /// As it is since.
    participant: &'a Participant,
    /// Always true.
    applies_live: bool,
    /// What does not change until the participant republishes.
    note: &'static str,
}

impl<'a> From<&'a RoleChange> for RoleChangeJson<'a> {
    fn from(change: &'a RoleChange) -> Self {
        Self {
            id: change.id.0,
            room: change.room.as_str(),
            participant_identity: change.participant_identity.as_str(),
            participant_sid: change.participant_sid.as_str(),
            role: change.role.as_str(),
            previous_role: change.previous_role.as_ref().map(RoleName::as_str),
            changed_by_identity: change.changed_by_identity().map(Identity::as_str),
            changed_by_api_key_prefix: change.changed_by_api_key_prefix().map(ApiKeyPrefix::as_str),
            created_at: change.created_at,
        }
    }
}

fn example() -> serde_json::Value {
    json!({
        "id": "0191d2c4-b2f0-7a11-8e4c-6d20f1a9c3b7", "room": "standup", "participant_identity": "alice",
        "participant_sid": "PA_8fK2mQ0aLx7c", "role": "host", "previous_role": "guest",
        "changed_by_api_key_prefix": "vk_test_8Gh2", "created_at": "2026-01-31T12:10:00.000Z"
    })
}

/// Role changes.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "change_role",
        Method::Post,
        "/v1/rooms/{name}/participants/{identity}/role",
        &[200],
        |call| Box::pin(change(call)),
        || {
            let result = json!({
                "role_change": example(), "participant": participants::example(), "applies_live": true, "note": NOTE
            });
            Doc::new("participants", "Give a participant another role, in place")
                .path(Param::ROOM)
                .path(Param::IDENTITY)
                .body::<ChangeRole>(json!({"role": "host"}))
                .answer::<RoleChangeResult<'_>>(result)
        },
    )
    .auth(Auth::KeyOrRoomToken(&[Permission::ChangeRole]))
    .idempotent()
    .codes(&[
        ErrorCode::InvalidRoomName,
        ErrorCode::InvalidIdentity,
        ErrorCode::RoomNotFound,
        ErrorCode::ParticipantNotFound,
        ErrorCode::TemplateNotFound,
        ErrorCode::RoleNotFound,
        ErrorCode::MediaUnavailable,
    ]),
    Operation::new(
        "list_role_changes",
        Method::Get,
        "/v1/rooms/{name}/role-changes",
        &[200],
        |call| Box::pin(list(call)),
        || {
            Doc::new("participants", "List a room's role changes, newest first")
                .path(Param::ROOM)
                .page::<RoleChangeJson<'_>>("role_changes", example(), &[Param::query("identity", "Of this identity")])
        },
    )
    .codes(&[ErrorCode::InvalidRoomName, ErrorCode::InvalidIdentity, ErrorCode::RoomNotFound]),
];

fn render(changed: &RoleChanged) -> Response {
    answer::ok(&RoleChangeResult {
        role_change: RoleChangeJson::from(&changed.change),
        participant: &changed.participant,
        applies_live: true,
        note: NOTE,
    })
}

async fn change(call: Call) -> Result<Response, Problem> {
    let name = call.room()?;
    let identity = call.identity()?;
    call.no_query()?;
    let ChangeRole { role } = call.read()?;
    call.permit(Permission::ChangeRole).await?;
    let room = call.state.store.room(call.project(), name).await.map_err(of_store)?;
    let wanted = ChangeRoleRequest { identity, role, by: call.changed_by()? };
    let changed = call.state.tree.change_role(room.project_id, room.name, wanted, call.keep(render)).await;
    changed.map(|changed| render(&changed)).map_err(of_tree)
}

async fn list(call: Call) -> Result<Response, Problem> {
    let name = call.room()?;
    let mut query = call.query()?;
    let page = query.page()?;
    let who = query.text("identity").map(|text| identity("identity", &text)).transpose()?;
    query.finish()?;
    let room = call.state.store.room(call.project(), name).await.map_err(of_store)?;
    let changes = call.state.store.role_changes(room.project_id, room.id, who, page).await.map_err(of_store)?;
    let page = Page {
        items: changes.items.iter().map(RoleChangeJson::from).collect(),
        request: changes.request,
        has_more: changes.has_more,
    };
    Ok(answer::page("role_changes", &page))
}
