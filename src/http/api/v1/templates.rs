//! Templates and their settings.

use std::collections::BTreeMap;

use conclave_db::{NewTemplate, TemplateChange};
use conclave_model::bounded::MaxDuration;
use conclave_model::non_null::{Object, non_null, non_null_object, removable_object};
use conclave_model::page::Page;
use conclave_model::role::{Role, RoleInput};
use conclave_model::template::{AutoRecord, Region, Template};
use conclave_model::{
    ErrorCode, Problem, ProjectId, RoleName, TemplateId, TemplateName, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Schema, SchemaType, Type};

use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::parameters::TemplatePath;
use crate::http::api::input::{Input, NoBody, NoParams, Paged};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Created, Json, Listed, NoContent};
use crate::http::api::spec::{Method, extension};

const REGION_NOTE: &str = "The region is stored and validated; a single media region runs today, so it does not change where traffic goes.";

/// A template to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTemplate {
    /// Unique in the project.
    name: TemplateName,
    #[serde(default, deserialize_with = "non_null_object")]
    #[schema(nullable = false)]
    settings: Option<TemplateSettingsInput>,
    /// Keyed by role name.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(value_type = Option<BTreeMap<RoleName, RoleInput>>, nullable = false)]
    roles: Option<RoleInputs>,
}

/// The changes of a template. A sent role is replaced as a whole; an omitted role stays unchanged.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateTemplate {
    // Null is allowed, and changes nothing (contract).
    name: Option<TemplateName>,
    #[serde(default, deserialize_with = "non_null_object")]
    #[schema(nullable = false)]
    settings: Option<TemplateSettingsInput>,
    /// Keyed by role name.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(value_type = Option<BTreeMap<RoleName, RoleInput>>, nullable = false)]
    roles: Option<RoleInputs>,
}

// Keys as texts, so that a malformed one is refused at `roles.{key}`.
type RoleInputs = BTreeMap<String, Object<RoleInput>>;

/// A template's settings.
#[derive(Serialize, ToSchema)]
pub struct TemplateSettings {
    pub region: Region,
    /// Recording that starts by itself; absent if there is none.
    // Absent rather than null: the contract's responses do not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = extension::<AutoRecord>)]
    pub auto_record: Option<AutoRecord>,
    /// Absent if unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = extension::<MaxDuration>)]
    pub max_duration_seconds: Option<u32>,
}

/// Settings of a template to create or change.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateSettingsInput {
    /// Default `auto`; an update without it leaves the region unchanged.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(value_type = Option<Region>, nullable = false)]
    region: Option<Region>,
    /// Recording that starts by itself in rooms created from now on; null removes it.
    #[serde(default, deserialize_with = "removable_object")]
    #[schema(schema_with = auto_record_input)]
    auto_record: AutoRecordInput,
    /// For new rooms that state none. Default 0; an update without it leaves it unchanged.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(schema_with = extension::<MaxDuration>)]
    max_duration_seconds: Option<MaxDuration>,
}

/// A region to set.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateTemplateSettings {
    region: Region,
    /// For new rooms that state none. Unchanged when absent.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(schema_with = extension::<MaxDuration>)]
    max_duration_seconds: Option<MaxDuration>,
    /// Recording that starts by itself in rooms created from now on; null removes it.
    #[serde(default, deserialize_with = "removable_object")]
    #[schema(schema_with = auto_record_input)]
    auto_record: AutoRecordInput,
}

/// Recording that starts by itself, to set: `None` leaves the stored one unchanged, `Some(None)` removes it.
type AutoRecordInput = Option<Option<AutoRecord>>;

/// Describes [`AutoRecordInput`], which may be null, with the rule of [`AutoRecord::check`].
fn auto_record_input() -> RefOr<Schema> {
    let mut schema = extension::<AutoRecord>();
    if let RefOr::T(Schema::Object(object)) = &mut schema {
        object.schema_type = SchemaType::from_iter([Type::Object, Type::Null]);
        // `type` here, because the other keywords ignore null, and `not` would refuse it.
        let contradiction = json!({
            "type": "object", "required": ["layout"],
            "properties": {"type": {"const": "participant"}, "layout": true}
        });
        let keywords = object.extensions.get_or_insert_default();
        keywords.insert("not".to_owned(), contradiction);
    }
    schema
}

/// Refuses fields of a recording that starts by itself that contradict each other.
fn check_auto_record(auto_record: Option<&AutoRecord>, path: &str) -> Result<(), Problem> {
    let checked = auto_record.map(AutoRecord::check);
    checked.transpose().map(drop).map_err(|problem| {
        let field = problem.field.clone().unwrap_or_default();
        problem.at(format!("{path}auto_record.{field}"))
    })
}

/// A template's settings, and the values they can have.
#[derive(Serialize, ToSchema)]
pub struct TemplateSettingsDetail {
    pub region: Region,
    /// Recording that starts by itself; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = extension::<AutoRecord>)]
    pub auto_record: Option<AutoRecord>,
    pub allowed_regions: &'static [Region],
    /// False while a single media region runs.
    pub region_enforced: bool,
    pub region_note: &'static str,
    /// Absent if unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = extension::<MaxDuration>)]
    pub max_duration_seconds: Option<u32>,
}

/// A template.
#[derive(Serialize, ToSchema)]
#[schema(as = Template)]
pub struct TemplateJson {
    pub id: TemplateId,
    pub project_id: ProjectId,
    pub name: TemplateName,
    /// Used by rooms created without a template; cannot be deleted.
    pub is_default: bool,
    pub settings: TemplateSettings,
    #[schema(value_type = BTreeMap<RoleName, Role>)]
    pub roles: BTreeMap<RoleName, Role>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl From<Template> for TemplateJson {
    fn from(template: Template) -> Self {
        Self {
            id: template.id,
            project_id: template.project_id,
            name: template.name,
            is_default: template.is_default,
            settings: TemplateSettings {
                region: template.region,
                auto_record: template.auto_record,
                max_duration_seconds: template.max_duration_seconds,
            },
            roles: template.roles,
            created_at: template.created_at,
            updated_at: template.updated_at,
        }
    }
}

impl From<Template> for TemplateSettingsDetail {
    fn from(template: Template) -> Self {
        Self {
            region: template.region,
            auto_record: template.auto_record,
            max_duration_seconds: template.max_duration_seconds,
            allowed_regions: Region::ALL,
            // False while a single media region runs (contract).
            region_enforced: false,
            region_note: REGION_NOTE,
        }
    }
}

impl Listed for TemplateJson {
    const COLLECTION: &'static str = "templates";
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

/// Returns the operations on templates and their settings.
pub fn operations() -> Vec<Box<dyn Operation>> {
    let mut operations = template_operations();
    operations.extend(settings_operations());
    operations
}

fn template_operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(Method::Post, "/v1/templates", "create_template", create)
            .about("templates", "Create a template and its roles")
            .example(json!({
                "name": "meeting",
                "roles": {"host": {"permissions": {"end_room": true}}, "guest": {"priority": 5}}
            }))
            .responds(example())
            .links(
                &[
                    "get_template",
                    "update_template",
                    "delete_template",
                    "get_template_settings",
                    "update_template_settings",
                    "create_destination",
                    "list_destinations",
                ],
                &[("id", "$response.body#/id")],
            )
            .idempotent()
            .errors(&[ErrorCode::TemplateExists])
            .build(),
        operation(Method::Get, "/v1/templates", "list_templates", list)
            .about("templates", "List templates")
            .responds(example())
            .build(),
        operation(Method::Get, "/v1/templates/{id}", "get_template", get)
            .about("templates", "Read a template")
            .responds(example())
            .errors(&[ErrorCode::TemplateNotFound])
            .build(),
        operation(
            Method::Patch,
            "/v1/templates/{id}",
            "update_template",
            update,
        )
        .about(
            "templates",
            "Change a template; omitted fields stay unchanged",
        )
        .example(json!({"name": "all-hands"}))
        .responds(example())
        .errors(&[ErrorCode::TemplateNotFound, ErrorCode::TemplateExists])
        .build(),
        operation(
            Method::Delete,
            "/v1/templates/{id}",
            "delete_template",
            delete,
        )
        .about("templates", "Delete a template with its roles")
        .errors(&[
            ErrorCode::TemplateNotFound,
            ErrorCode::TemplateInUse,
            ErrorCode::TemplateIsDefault,
        ])
        .build(),
    ]
}

fn settings_operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(
            Method::Get,
            "/v1/templates/{id}/settings",
            "get_template_settings",
            get_settings,
        )
        .about("templates", "Read a template's settings")
        .responds(settings_example())
        .errors(&[ErrorCode::TemplateNotFound])
        .build(),
        operation(
            Method::Patch,
            "/v1/templates/{id}/settings",
            "update_template_settings",
            update_settings,
        )
        .about("templates", "Set a template's region")
        .example(json!({"region": "eu-west"}))
        .responds(settings_example())
        .errors(&[ErrorCode::TemplateNotFound])
        .build(),
    ]
}

/// Completes the roles of a body with defaults.
fn roles(inputs: Option<RoleInputs>) -> Result<BTreeMap<RoleName, Role>, Problem> {
    let complete = |(key, Object(input)): (String, Object<RoleInput>)| {
        let name: RoleName = key.parse().map_err(|error| {
            Problem::invalid(format!("roles.{key}"), format!("a role's name {error}"))
        })?;
        // A name in the role must be its key (contract).
        let role = input.with_defaults(name.clone());
        let role =
            role.map_err(|error| Problem::invalid(format!("roles.{key}.name"), error.to_string()))?;
        Ok((name, role))
    };
    inputs
        .unwrap_or_default()
        .into_iter()
        .map(complete)
        .collect()
}

/// Settings of a template in a request; `None` leaves the stored one unchanged.
#[derive(Default)]
struct SentSettings {
    region: Option<Region>,
    max_duration: Option<MaxDuration>,
    auto_record: AutoRecordInput,
}

/// Returns the sent settings, after checking their fields against each other.
fn settings(sent: Option<TemplateSettingsInput>) -> Result<SentSettings, Problem> {
    let Some(sent) = sent else {
        return Ok(SentSettings::default());
    };
    check_auto_record(sent.auto_record.iter().flatten().next(), "settings.")?;
    Ok(SentSettings {
        region: sent.region,
        max_duration: sent.max_duration_seconds,
        auto_record: sent.auto_record,
    })
}

pub async fn create(
    context: RequestContext,
    input: Input<NoParams, NoParams, CreateTemplate>,
) -> Result<Created<TemplateJson>> {
    let body = input.body;
    let SentSettings {
        region,
        max_duration,
        auto_record,
    } = settings(body.settings)?;
    let new = NewTemplate {
        project_id: context.project(),
        name: body.name,
        // `auto`, the contract's default.
        region: region.unwrap_or_default(),
        max_duration: max_duration.unwrap_or(MaxDuration::known(0)),
        auto_record: auto_record.flatten(),
        roles: roles(body.roles)?,
    };
    context
        .recorded(|recorder| context.state.store.templates().create(new, recorder))
        .await
}

pub async fn list(
    context: RequestContext,
    input: Input<NoParams, Paged<NoParams>, NoBody>,
) -> Result<Page<TemplateJson>> {
    let templates = context
        .state
        .store
        .templates()
        .list(context.project(), input.query.page)
        .await?;
    Ok(templates.map(TemplateJson::from))
}

pub async fn get(
    context: RequestContext,
    input: Input<TemplatePath, NoParams, NoBody>,
) -> Result<Json<TemplateJson>> {
    let template = context
        .state
        .store
        .templates()
        .get(context.project(), input.path.id)
        .await?;
    Ok(Json(template.into()))
}

pub async fn update(
    context: RequestContext,
    input: Input<TemplatePath, NoParams, UpdateTemplate>,
) -> Result<Json<TemplateJson>> {
    let body = input.body;
    let SentSettings {
        region,
        max_duration,
        auto_record,
    } = settings(body.settings)?;
    let change = TemplateChange {
        name: body.name,
        region,
        max_duration,
        auto_record,
        // Sent roles are completed with defaults, because they replace stored ones as a whole (contract).
        roles: roles(body.roles)?,
    };
    let template = context
        .state
        .store
        .templates()
        .update(context.project(), input.path.id, change)
        .await?;
    Ok(Json(template.into()))
}

pub async fn delete(
    context: RequestContext,
    input: Input<TemplatePath, NoParams, NoBody>,
) -> Result<NoContent> {
    context
        .state
        .store
        .templates()
        .delete(context.project(), input.path.id)
        .await?;
    Ok(NoContent)
}

pub async fn get_settings(
    context: RequestContext,
    input: Input<TemplatePath, NoParams, NoBody>,
) -> Result<Json<TemplateSettingsDetail>> {
    let template = context
        .state
        .store
        .templates()
        .get(context.project(), input.path.id)
        .await?;
    Ok(Json(template.into()))
}

async fn update_settings(
    context: RequestContext,
    input: Input<TemplatePath, NoParams, UpdateTemplateSettings>,
) -> Result<Json<TemplateSettingsDetail>> {
    let UpdateTemplateSettings {
        region,
        max_duration_seconds,
        auto_record,
    } = input.body;
    check_auto_record(auto_record.iter().flatten().next(), "")?;
    let change = TemplateChange {
        region: Some(region),
        max_duration: max_duration_seconds,
        auto_record,
        ..TemplateChange::default()
    };
    let template = context
        .state
        .store
        .templates()
        .update(context.project(), input.path.id, change)
        .await?;
    Ok(Json(template.into()))
}
