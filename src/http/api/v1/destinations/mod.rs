//! A template's destinations.

pub mod shapes;

use conclave_db::NewDestination;
use conclave_model::destination::{
    ConfigInput, Destination, DestinationKind, RecordingInput, RtmpConfig, S3Input, StorageType,
};
use conclave_model::non_null::non_null;
use conclave_model::rtmp::parse_urls;
use conclave_model::{DestinationId, DestinationName, ErrorCode, Problem, TemplateId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::http::api::context::RequestContext;
use crate::http::api::error::{ApiError, Result};
use crate::http::api::input::body::read_at;
use crate::http::api::input::parameters::TemplatePath;
use crate::http::api::input::{Input, NoBody, NoParams};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Created, Json, NoContent};
use crate::http::api::spec::Method;
use crate::http::media::egress_address::{check_hosts, http_host, rtmp_hosts};

const LIST_PATH: &str = "/v1/templates/{id}/destinations";
const PATH: &str = "/v1/templates/{id}/destinations/{name}";

/// Destination path.
#[derive(Deserialize, IntoParams)]
pub struct DestinationPath {
    /// The template's id.
    #[param(inline)]
    id: TemplateId,
    /// The destination's name.
    #[param(inline)]
    name: DestinationName,
}

/// Destination to create; its schema is [`shapes::CreateDestination`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateDestination {
    name: DestinationName,
    kind: DestinationKind,
    // Parsed later: the type depends on `kind`, which may follow it in the body.
    config: Box<RawValue>,
}

/// New configuration. It replaces the stored one as a whole, except for omitted credentials.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateDestination {
    /// Must be the stored kind.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    kind: Option<DestinationKind>,
    #[schema(value_type = shapes::DestinationConfig)]
    config: Box<RawValue>,
}

/// Broadcast URLs, before they are parsed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RtmpUrls {
    urls: Vec<String>,
}

/// A destination.
#[derive(Serialize, ToSchema)]
#[schema(as = Destination)]
pub struct DestinationJson {
    pub id: DestinationId,
    pub template_id: TemplateId,
    pub name: DestinationName,
    pub kind: DestinationKind,
    /// Without its secrets.
    #[schema(value_type = shapes::ShownDestinationConfig)]
    pub config: serde_json::Value,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// All of a template's destinations, newest first.
#[derive(Serialize, ToSchema)]
pub struct DestinationList {
    pub destinations: Vec<DestinationJson>,
}

impl From<Destination> for DestinationJson {
    fn from(destination: Destination) -> Self {
        Self {
            id: destination.id,
            template_id: destination.template_id,
            name: destination.name,
            kind: destination.kind,
            config: destination.config,
            created_at: destination.created_at,
            updated_at: destination.updated_at,
        }
    }
}

fn example() -> serde_json::Value {
    json!({
        "id": "dst_4c1e9a7b2d60", "template_id": "tpl_9b1d3e5f7a20", "name": "archive", "kind": "recording",
        "config": {
            "type": "s3", "bucket": "calls", "region": "eu-west-1", "access_key": "AKIAIOSFODNN7EXAMPLE",
            "secret": "***"
        },
        "created_at": "2026-01-31T12:00:00.000Z", "updated_at": "2026-01-31T12:00:00.000Z"
    })
}

fn create_example() -> serde_json::Value {
    json!({
        "name": "archive", "kind": "recording",
        "config": {
            "type": "s3", "bucket": "calls", "region": "eu-west-1", "access_key": "AKIAIOSFODNN7EXAMPLE",
            "secret": "wJalrXUtnFEMI"
        }
    })
}

/// Returns the operations on destinations.
pub fn operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(Method::Post, LIST_PATH, "create_destination", create)
            .about("destinations", "Create a destination")
            .example(create_example())
            .responds(example())
            .links(
                &[
                    "get_destination",
                    "update_destination",
                    "delete_destination",
                ],
                &[("id", "$request.path.id"), ("name", "$response.body#/name")],
            )
            .idempotent()
            .errors(&[
                ErrorCode::InvalidUrl,
                ErrorCode::BlockedUrl,
                ErrorCode::FeatureNotInPlan,
                ErrorCode::TemplateNotFound,
                ErrorCode::DestinationExists,
                ErrorCode::EncryptionUnavailable,
            ])
            .build(),
        operation(Method::Get, LIST_PATH, "list_destinations", list)
            .about("destinations", "List a template's destinations")
            .responds(json!({"destinations": [example()]}))
            .errors(&[ErrorCode::TemplateNotFound])
            .build(),
        operation(Method::Get, PATH, "get_destination", get)
            .about("destinations", "Read a destination, without its secrets")
            .responds(example())
            .errors(&[ErrorCode::TemplateNotFound, ErrorCode::DestinationNotFound])
            .build(),
        operation(Method::Patch, PATH, "update_destination", update)
            .about(
                "destinations",
                "Replace a destination's configuration; credentials left out are kept",
            )
            .example(json!({"config": {"type": "s3", "bucket": "more-calls"}}))
            .body_rule("oneOf", shapes::configs_by_kind())
            .responds(example())
            .errors(&[
                ErrorCode::InvalidUrl,
                ErrorCode::BlockedUrl,
                ErrorCode::FeatureNotInPlan,
                ErrorCode::TemplateNotFound,
                ErrorCode::DestinationNotFound,
                ErrorCode::EncryptionUnavailable,
                // Kept credentials cannot be decrypted after their key was lost.
                ErrorCode::DestinationUnusable,
            ])
            .build(),
        operation(Method::Delete, PATH, "delete_destination", delete)
            .about(
                "destinations",
                "Delete a destination that no running egress uses",
            )
            .errors(&[
                ErrorCode::TemplateNotFound,
                ErrorCode::DestinationNotFound,
                // A running egress writes there until it ends.
                ErrorCode::DestinationInUse,
            ])
            .build(),
    ]
}

/// Parses a configuration by its kind.
fn config(kind: DestinationKind, raw: &RawValue) -> Result<ConfigInput, Problem> {
    match kind {
        DestinationKind::Recording => recording_config(raw).map(ConfigInput::Recording),
        DestinationKind::Rtmp => {
            let sent: RtmpUrls = read_at("config", raw)?;
            Ok(ConfigInput::Rtmp(RtmpConfig {
                urls: parse_urls("config.urls", &sent.urls)?,
            }))
        }
    }
}

fn recording_config(raw: &RawValue) -> Result<RecordingInput, Problem> {
    #[derive(Deserialize)]
    // Parsed in two steps: an untagged enum would report "no variant matched" instead of the invalid field.
    struct Tag {
        r#type: StorageType,
    }
    let tag: Tag = read_at("config", raw)?;
    match tag.r#type {
        StorageType::S3 => read_at("config", raw).map(RecordingInput::S3),
        StorageType::Gcp => read_at("config", raw).map(RecordingInput::Gcp),
        StorageType::Azure => read_at("config", raw).map(RecordingInput::Azure),
    }
}

/// Infers a configuration's kind if none is sent: only a broadcast's has `urls`, only a recording's has `type`.
fn kind_of(raw: &RawValue) -> Option<DestinationKind> {
    #[derive(Deserialize)]
    struct Shape {
        // Presence is enough here; `config` checks the values.
        r#type: Option<serde::de::IgnoredAny>,
        urls: Option<serde::de::IgnoredAny>,
    }
    match serde_json::from_str(raw.get()) {
        Ok(Shape {
            r#type: None,
            urls: Some(_),
        }) => Some(DestinationKind::Rtmp),
        Ok(Shape {
            r#type: Some(_),
            urls: None,
        }) => Some(DestinationKind::Recording),
        // Both or neither: the stored kind decides.
        _ => None,
    }
}

/// Refuses hosts inside the operator's network.
async fn check_addresses(context: &RequestContext, config: &ConfigInput) -> Result<()> {
    let hosts = match config {
        ConfigInput::Rtmp(config) => rtmp_hosts("config.urls", &config.urls),
        ConfigInput::Recording(RecordingInput::S3(S3Input {
            endpoint: Some(endpoint),
            ..
        })) => {
            vec![http_host("config.endpoint", endpoint)?]
        }
        // Other storage has fixed public hosts.
        ConfigInput::Recording(_) => Vec::new(),
    };
    check_hosts(&context.state.egress_addresses, hosts).await
}

pub async fn create(
    context: RequestContext,
    input: Input<TemplatePath, NoParams, CreateDestination>,
) -> Result<Created<DestinationJson>> {
    let body = input.body;
    let new = NewDestination {
        project_id: context.project(),
        template_id: input.path.id,
        name: body.name,
        kind: Some(body.kind),
        config: config(body.kind, &body.config)?,
        // For the store, which checks the feature after the template: 404, if both fail.
        features: context.plan().await?.features,
    };
    check_addresses(&context, &new.config).await?;
    context
        .recorded(|recorder| context.state.store.destinations().create(new, recorder))
        .await
}

pub async fn list(
    context: RequestContext,
    input: Input<TemplatePath, NoParams, NoBody>,
) -> Result<Json<DestinationList>> {
    let destinations = context
        .state
        .store
        .destinations()
        .list(context.project(), input.path.id)
        .await?;
    Ok(Json(DestinationList {
        destinations: destinations
            .into_iter()
            .map(DestinationJson::from)
            .collect(),
    }))
}

async fn get(
    context: RequestContext,
    input: Input<DestinationPath, NoParams, NoBody>,
) -> Result<Json<DestinationJson>> {
    let DestinationPath { id, name } = input.path;
    let destination = context
        .state
        .store
        .destinations()
        .get(context.project(), id, name)
        .await?;
    Ok(Json(destination.into()))
}

/// Returns the kind that a new configuration is parsed as: inferred from its fields, otherwise the destination's. The body is
/// validated before a missing destination is reported.
async fn kind_to_read(
    context: &RequestContext,
    path: &DestinationPath,
    body: &UpdateDestination,
) -> Result<DestinationKind> {
    let stored = context
        .state
        .store
        .destinations()
        .get(context.project(), path.id.clone(), path.name.clone())
        .await;
    match (stored.map_err(ApiError::from), body.kind) {
        (Ok(stored), Some(sent)) if sent != stored.kind => {
            // The kind is immutable (contract).
            Err(stored.kind.immutable_kind("kind").into())
        }
        (Ok(stored), Some(_)) => Ok(stored.kind),
        (Ok(stored), None) => Ok(kind_of(&body.config).unwrap_or(stored.kind)),
        // Any kind will do: the update fails with 404, unless the body is refused before.
        (Err(error), sent) if error.status() == 404 => Ok(sent
            .or_else(|| kind_of(&body.config))
            .unwrap_or(DestinationKind::Recording)),
        (Err(error), _) => Err(error),
    }
}

pub async fn update(
    context: RequestContext,
    input: Input<DestinationPath, NoParams, UpdateDestination>,
) -> Result<Json<DestinationJson>> {
    let (path, body) = (input.path, input.body);
    let kind = kind_to_read(&context, &path, &body).await?;
    let new = NewDestination {
        project_id: context.project(),
        template_id: path.id,
        name: path.name,
        kind: body.kind,
        config: config(kind, &body.config)?,
        features: context.plan().await?.features,
    };
    // At each update, because the new configuration may have another endpoint.
    check_addresses(&context, &new.config).await?;
    let destination = context.state.store.destinations().update(new).await?;
    Ok(Json(destination.into()))
}

pub async fn delete(
    context: RequestContext,
    input: Input<DestinationPath, NoParams, NoBody>,
) -> Result<NoContent> {
    let DestinationPath { id, name } = input.path;
    context
        .state
        .store
        .destinations()
        .delete(context.project(), id, name)
        .await?;
    Ok(NoContent)
}
