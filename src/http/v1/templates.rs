//! Templates and their settings (contract "Templates").

use std::collections::BTreeMap;

use conclave_db::{NewTemplate, TemplateChange};
use conclave_model::non_null::{Object, non_null, non_null_object};
use conclave_model::role::{Role, RoleInput};
use conclave_model::template::{Region, Template};
use conclave_model::{ErrorCode, RoleName, TemplateId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::http::answer::{self, Response};
use crate::http::call::{Call, id};
use crate::http::openapi::{Doc, Param};
use crate::http::operation::{Method, Operation};
use crate::http::problem::{Problem, of_store};

const REGION_NOTE: &str =
    "The region is stored and validated; a single media region runs today, so it does not change where traffic goes.";

/// A template to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTemplate {
    /// Unique in the project: `^[a-zA-Z0-9_-]{1,64}$`.
    #[schema(pattern = "^[a-zA-Z0-9_-]{1,64}$")]
    name: String,
    #[serde(default, deserialize_with = "non_null_object")]
    #[schema(nullable = false)]
    settings: Option<TemplateSettingsInput>,
    /// Keyed by role name.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(value_type = Option<BTreeMap<String, RoleInput>>, nullable = false)]
    roles: Option<RoleInputs>,
}

/// What is changed of a template. Roles sent are written whole, roles left out are untouched.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateTemplate {
    #[schema(pattern = "^[a-zA-Z0-9_-]{1,64}$")]
    name: Option<String>,
    #[serde(default, deserialize_with = "non_null_object")]
    #[schema(nullable = false)]
    settings: Option<TemplateSettingsInput>,
    /// Keyed by role name.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(value_type = Option<BTreeMap<String, RoleInput>>, nullable = false)]
    roles: Option<RoleInputs>,
}

type RoleInputs = BTreeMap<String, Object<RoleInput>>;

/// A template's settings.
#[derive(Serialize, ToSchema)]
pub struct TemplateSettings {
    region: Region,
}

/// Settings as a caller sends them.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateSettingsInput {
    /// `auto` when a template is made without it; a change without it leaves the region as it is.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(value_type = Option<Region>, nullable = false)]
    region: Option<Region>,
}

/// A region to be set.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateTemplateSettings {
    region: Region,
}

/// A template's settings, and what can be set.
#[derive(Serialize, ToSchema)]
pub struct TemplateSettingsDetail {
    region: Region,
    allowed_regions: &'static [Region],
    /// False while a single media region runs.
    region_enforced: bool,
    region_note: &'static str,
}

/// A template.
#[derive(Serialize, ToSchema)]
#[schema(as = Template)]
pub struct TemplateJson {
    id: String,
    project_id: String,
    name: String,
    /// Used by rooms created without a template; cannot be deleted.
    is_default: bool,
    settings: TemplateSettings,
    #[schema(value_type = BTreeMap<String, Role>)]
    roles: BTreeMap<RoleName, Role>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl From<&Template> for TemplateJson {
    fn from(template: &Template) -> Self {
        Self {
            id: template.id.to_string(),
            project_id: template.project_id.to_string(),
            name: template.name.to_string(),
            is_default: template.is_default,
            settings: TemplateSettings { region: template.region },
            roles: template.roles.clone(),
            created_at: template.created_at,
            updated_at: template.updated_at,
        }
    }
}

impl From<Region> for TemplateSettingsDetail {
    fn from(region: Region) -> Self {
        Self { region, allowed_regions: Region::ALL, region_enforced: false, region_note: REGION_NOTE }
    }
}

fn example() -> serde_json::Value {
    json!({
        "id": "tpl_9b1d3e5f7a20", "project_id": "prj_5f2a9c01be34", "name": "meeting", "is_default": true,
        "settings": {"region": "auto"}, "roles": {}, "created_at": "2026-01-31T12:00:00.000Z",
        "updated_at": "2026-01-31T12:00:00.000Z"
    })
}

fn settings_example() -> serde_json::Value {
    json!({
        "region": "auto", "allowed_regions": ["auto", "af-east", "eu-west", "us-east"], "region_enforced": false,
        "region_note": REGION_NOTE
    })
}

/// Templates and their settings.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "create_template",
        Method::Post,
        "/v1/templates",
        &[201],
        |call| Box::pin(create(call)),
        || {
            Doc::new("templates", "Create a template and its roles")
                .body::<CreateTemplate>(json!({
                    "name": "meeting",
                    "roles": {"host": {"permissions": {"end_room": true}}, "guest": {"priority": 5}}
                }))
                .answer::<TemplateJson>(example())
        },
    )
    .idempotent()
    .codes(&[ErrorCode::TemplateExists]),
    Operation::new(
        "list_templates",
        Method::Get,
        "/v1/templates",
        &[200],
        |call| Box::pin(list(call)),
        || Doc::new("templates", "List templates").page::<TemplateJson>("templates", example(), &[]),
    )
    .codes(&[ErrorCode::InvalidRequest]),
    Operation::new(
        "get_template",
        Method::Get,
        "/v1/templates/{id}",
        &[200],
        |call| Box::pin(get(call)),
        || Doc::new("templates", "Read a template").path(Param::TEMPLATE).answer::<TemplateJson>(example()),
    )
    .codes(&[ErrorCode::InvalidRequest, ErrorCode::TemplateNotFound]),
    Operation::new(
        "update_template",
        Method::Patch,
        "/v1/templates/{id}",
        &[200],
        |call| Box::pin(update(call)),
        || {
            Doc::new("templates", "Change what is sent of a template")
                .path(Param::TEMPLATE)
                .body::<UpdateTemplate>(json!({"name": "all-hands"}))
                .answer::<TemplateJson>(example())
        },
    )
    .codes(&[ErrorCode::TemplateNotFound, ErrorCode::TemplateExists]),
    Operation::new(
        "delete_template",
        Method::Delete,
        "/v1/templates/{id}",
        &[204],
        |call| Box::pin(delete(call)),
        || Doc::new("templates", "Delete a template with its roles").path(Param::TEMPLATE),
    )
    .codes(&[
        ErrorCode::InvalidRequest,
        ErrorCode::TemplateNotFound,
        ErrorCode::TemplateInUse,
        ErrorCode::TemplateIsDefault,
    ]),
    Operation::new(
        "get_template_settings",
        Method::Get,
        "/v1/templates/{id}/settings",
        &[200],
        |call| Box::pin(get_settings(call)),
        || {
            Doc::new("templates", "Read a template's settings")
                .path(Param::TEMPLATE)
                .answer::<TemplateSettingsDetail>(settings_example())
        },
    )
    .codes(&[ErrorCode::InvalidRequest, ErrorCode::TemplateNotFound]),
    Operation::new(
        "update_template_settings",
        Method::Patch,
        "/v1/templates/{id}/settings",
        &[200],
        |call| Box::pin(update_settings(call)),
        || {
            Doc::new("templates", "Set a template's region")
                .path(Param::TEMPLATE)
                .body::<UpdateTemplateSettings>(json!({"region": "eu-west"}))
                .answer::<TemplateSettingsDetail>(settings_example())
        },
    )
    .codes(&[ErrorCode::TemplateNotFound]),
];

fn render_created(template: &Template) -> Response {
    answer::created(&TemplateJson::from(template))
}

/// Completes the roles of a body.
fn roles(inputs: Option<RoleInputs>) -> Result<BTreeMap<RoleName, Role>, Problem> {
    let complete = |(key, Object(input)): (String, Object<RoleInput>)| {
        let name: RoleName =
            key.parse().map_err(|error| Problem::invalid(format!("roles.{key}"), format!("a role's name {error}")))?;
        let role = input.with_defaults(name.clone());
        let role = role.map_err(|error| Problem::invalid(format!("roles.{key}.name"), error.to_string()))?;
        Ok((name, role))
    };
    inputs.unwrap_or_default().into_iter().map(complete).collect()
}

async fn create(call: Call) -> Result<Response, Problem> {
    call.no_query()?;
    let body: CreateTemplate = call.read()?;
    let new = NewTemplate {
        project_id: call.project(),
        name: id("name", &body.name)?,
        region: body.settings.and_then(|settings| settings.region).unwrap_or_default(),
        roles: roles(body.roles)?,
    };
    let template = call.state.store.create_template(new, call.keep(render_created)).await.map_err(of_store)?;
    Ok(render_created(&template))
}

async fn list(call: Call) -> Result<Response, Problem> {
    let mut query = call.query()?;
    let page = query.page()?;
    query.finish()?;
    let templates = call.state.store.templates(call.project(), page).await.map_err(of_store)?;
    Ok(answer::page("templates", &templates.map(|template| TemplateJson::from(&template))))
}

/// The template a path names.
async fn named(call: &Call) -> Result<Template, Problem> {
    let id: TemplateId = call.path("id")?;
    call.no_query()?;
    call.state.store.template(call.project(), id).await.map_err(of_store)
}

async fn get(call: Call) -> Result<Response, Problem> {
    Ok(answer::ok(&TemplateJson::from(&named(&call).await?)))
}

async fn update(call: Call) -> Result<Response, Problem> {
    let template: TemplateId = call.path("id")?;
    call.no_query()?;
    let body: UpdateTemplate = call.read()?;
    let change = TemplateChange {
        name: body.name.map(|name| id("name", &name)).transpose()?,
        region: body.settings.and_then(|settings| settings.region),
        roles: roles(body.roles)?,
    };
    let template = call.state.store.update_template(call.project(), template, change).await.map_err(of_store)?;
    Ok(answer::ok(&TemplateJson::from(&template)))
}

async fn delete(call: Call) -> Result<Response, Problem> {
    let template = call.path("id")?;
    call.no_query()?;
    call.state.store.delete_template(call.project(), template).await.map_err(of_store)?;
    Ok(answer::no_content())
}

async fn get_settings(call: Call) -> Result<Response, Problem> {
    Ok(answer::ok(&TemplateSettingsDetail::from(named(&call).await?.region)))
}

async fn update_settings(call: Call) -> Result<Response, Problem> {
    let template = call.path("id")?;
    call.no_query()?;
    let body: UpdateTemplateSettings = call.read()?;
    let change = TemplateChange { region: Some(body.region), ..TemplateChange::default() };
    let template = call.state.store.update_template(call.project(), template, change).await.map_err(of_store)?;
    Ok(answer::ok(&TemplateSettingsDetail::from(template.region)))
}
