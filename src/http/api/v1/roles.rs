//! A template's roles.

use conclave_db::PutRole;
use conclave_model::role::{Role, RoleInput};
use conclave_model::{ErrorCode, Problem, RoleName, TemplateId};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::{Input, NoBody, NoParams};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Json, NoContent, Put};
use crate::http::api::spec::Method;

const PATH: &str = "/v1/templates/{id}/roles/{name}";

/// Role path.
#[derive(Deserialize, IntoParams)]
pub struct RolePath {
    /// The template's id.
    #[param(inline)]
    id: TemplateId,
    /// The role's name.
    #[param(inline)]
    name: RoleName,
}

fn example() -> serde_json::Value {
    json!({
        "name": "host",
        "publish": {
            "allowed": ["audio", "video", "screen", "data"], "max_kbps": null,
            "audio": {"max_kbps": 32, "codec": "opus"},
            "video": {"max_kbps": 1200, "codec": "vp8", "frame_rate": 25, "width": 1280, "height": 720},
            "screen": {"max_kbps": 2500, "codec": "vp8", "frame_rate": 10, "width": 1920, "height": 1080},
            "simulcast": true
        },
        "subscribe": {"to_roles": null, "max_kbps": null},
        "permissions": {
            "end_room": true, "remove_others": false, "mute_others": false, "unmute_others": false,
            "change_role": false, "send_data": false, "record": false, "broadcast": false
        },
        "priority": 3, "max_peer_count": 0, "hidden": false
    })
}

/// Returns the operations on roles.
pub fn operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(Method::Put, PATH, "put_role", put)
            // Not idempotent by a key: a repeated PUT has the same effect.
            .about("roles", "Create or replace a role")
            .example(json!({"permissions": {"end_room": true}}))
            .responds(example())
            .links(
                &["get_role", "delete_role"],
                &[("id", "$request.path.id"), ("name", "$request.path.name")],
            )
            .errors(&[ErrorCode::TemplateNotFound])
            .build(),
        operation(Method::Get, PATH, "get_role", get)
            .about("roles", "Read a role")
            .responds(example())
            .errors(&[ErrorCode::TemplateNotFound, ErrorCode::RoleNotFound])
            .build(),
        operation(Method::Delete, PATH, "delete_role", delete)
            .about("roles", "Delete a role")
            .errors(&[
                ErrorCode::TemplateNotFound,
                ErrorCode::RoleNotFound,
                // A live participant holds it, or another role's `subscribe.to_roles` lists it (contract).
                ErrorCode::RoleReferenced,
            ])
            .build(),
    ]
}

pub async fn put(
    context: RequestContext,
    input: Input<RolePath, NoParams, RoleInput>,
) -> Result<Put<Role>> {
    let RolePath { id, name } = input.path;
    let role = input
        .body
        .with_defaults(name)
        // A name in the body must be the path's (contract).
        .map_err(|error| Problem::invalid("name", error.to_string()))?;
    let PutRole { role, is_new } = context
        .state
        .store
        .templates()
        .put_role(context.project(), id, role)
        .await?;
    // By the store's transaction: of two concurrent requests, one creates the role.
    Ok(if is_new {
        Put::Created(role)
    } else {
        Put::Replaced(role)
    })
}

async fn get(
    context: RequestContext,
    input: Input<RolePath, NoParams, NoBody>,
) -> Result<Json<Role>> {
    let role = context
        .state
        .store
        .templates()
        .role(context.project(), input.path.id, input.path.name)
        .await?;
    Ok(Json(role))
}

pub async fn delete(
    context: RequestContext,
    input: Input<RolePath, NoParams, NoBody>,
) -> Result<NoContent> {
    context
        .state
        .store
        .templates()
        .delete_role(context.project(), input.path.id, input.path.name)
        .await?;
    Ok(NoContent)
}
