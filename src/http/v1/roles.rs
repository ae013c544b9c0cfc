//! Roles of a template (contract "Roles").

use conclave_model::ErrorCode;
use conclave_model::role::{Role, RoleInput};
use conclave_model::{RoleName, TemplateId};
use serde_json::json;

use crate::http::answer::{self, Response};
use crate::http::call::Call;
use crate::http::openapi::{Doc, Param};
use crate::http::operation::{Method, Operation};
use crate::http::problem::{Problem, of_store};

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

/// Roles.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "put_role",
        Method::Put,
        "/v1/templates/{id}/roles/{name}",
        &[200, 201],
        |call| Box::pin(put(call)),
        || {
            Doc::new("roles", "Create or replace a role")
                .path(Param::TEMPLATE)
                .path(Param::ROLE)
                .body::<RoleInput>(json!({"permissions": {"end_room": true}}))
                .answer::<Role>(example())
        },
    )
    .codes(&[ErrorCode::TemplateNotFound]),
    Operation::new(
        "get_role",
        Method::Get,
        "/v1/templates/{id}/roles/{name}",
        &[200],
        |call| Box::pin(get(call)),
        || Doc::new("roles", "Read a role").path(Param::TEMPLATE).path(Param::ROLE).answer::<Role>(example()),
    )
    .codes(&[ErrorCode::InvalidRequest, ErrorCode::TemplateNotFound, ErrorCode::RoleNotFound]),
    Operation::new(
        "delete_role",
        Method::Delete,
        "/v1/templates/{id}/roles/{name}",
        &[204],
        |call| Box::pin(delete(call)),
        || Doc::new("roles", "Delete a role").path(Param::TEMPLATE).path(Param::ROLE),
    )
    .codes(&[
        ErrorCode::InvalidRequest,
        ErrorCode::TemplateNotFound,
        ErrorCode::RoleNotFound,
        ErrorCode::RoleReferenced,
    ]),
];

/// The template and the role a path names.
fn named(call: &Call) -> Result<(TemplateId, RoleName), Problem> {
    let named = (call.path("id")?, call.path("name")?);
    call.no_query()?;
    Ok(named)
}

async fn put(call: Call) -> Result<Response, Problem> {
    let (template, name) = named(&call)?;
    let input: RoleInput = call.read()?;
    let role = input.with_defaults(name).map_err(|error| Problem::invalid("name", error.to_string()))?;
    let (role, created) = call.state.store.put_role(call.project(), template, role).await.map_err(of_store)?;
    Ok(answer::json(if created { 201 } else { 200 }, &role))
}

async fn get(call: Call) -> Result<Response, Problem> {
    let (template, name) = named(&call)?;
    let role = call.state.store.role(call.project(), template, name).await.map_err(of_store)?;
    Ok(answer::ok(&role))
}

async fn delete(call: Call) -> Result<Response, Problem> {
    let (template, name) = named(&call)?;
    call.state.store.delete_role(call.project(), template, name).await.map_err(of_store)?;
    Ok(answer::no_content())
}
