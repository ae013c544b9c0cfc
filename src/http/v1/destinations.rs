//! Destinations of a template (contract "Template destinations").

use conclave_db::NewDestination;
use conclave_model::destination::{
    AzureInput, ConfigInput, Destination, DestinationKind, GcpInput, RecordingInput, RtmpConfig, S3Input, StorageType,
};
use conclave_model::non_null::non_null;
use conclave_model::rtmp::parse_urls;
use conclave_model::{DestinationName, ErrorCode, TemplateId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::http::answer::{self, Response};
use crate::http::body::read_at;
use crate::http::call::{Call, id};
use crate::http::egress_address::{check_hosts, http_host, rtmp_hosts};
use crate::http::openapi::{Doc, Param};
use crate::http::operation::{Method, Operation};
use crate::http::problem::{Problem, of_store};

/// A destination to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateDestination {
    /// Unique in the template: `^[a-zA-Z0-9_-]{1,64}$`.
    #[schema(pattern = "^[a-zA-Z0-9_-]{1,64}$")]
    name: String,
    kind: DestinationKind,
    #[schema(value_type = DestinationConfig)]
    config: Box<RawValue>,
}

/// A new configuration. It replaces the stored one whole, but for credentials that are left out.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateDestination {
    /// Must be the stored kind.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    kind: Option<DestinationKind>,
    #[schema(value_type = DestinationConfig)]
    config: Box<RawValue>,
}

/// By the destination's kind: object storage of recordings, or urls of broadcasts.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code)] // The description's alone.
enum DestinationConfig {
    Recording(RecordingDestinationConfig),
    Rtmp(RtmpDestinationConfig),
}

/// Object storage, by its type. Secrets read back as `***`.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code)] // The description's alone.
enum RecordingDestinationConfig {
    S3(S3Input),
    Gcp(GcpInput),
    Azure(AzureInput),
}

/// Where broadcasts go. Each url reads back as `rtmp://host/app/REDACTED`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RtmpDestinationConfig {
    /// 1 to 8 `rtmp://` or `rtmps://` urls.
    #[schema(min_items = 1, max_items = 8)]
    urls: Vec<String>,
}

/// A destination.
#[derive(Serialize, ToSchema)]
#[schema(as = Destination)]
pub struct DestinationJson<'a> {
    id: &'a str,
    template_id: &'a str,
    name: &'a str,
    kind: DestinationKind,
    /// Without its secrets.
    #[schema(value_type = DestinationConfig)]
    config: &'a serde_json::Value,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// All destinations of a template, newest first.
#[derive(Serialize, ToSchema)]
pub struct DestinationList<'a> {
    destinations: Vec<DestinationJson<'a>>,
}

impl<'a> From<&'a Destination> for DestinationJson<'a> {
    fn from(destination: &'a Destination) -> Self {
        Self {
            id: destination.id.as_str(),
            template_id: destination.template_id.as_str(),
            name: destination.name.as_str(),
            kind: destination.kind,
            config: &destination.config,
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

/// Destinations.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "create_destination",
        Method::Post,
        "/v1/templates/{id}/destinations",
        &[201],
        |call| Box::pin(create(call)),
        || {
            Doc::new("destinations", "Create a destination")
                .path(Param::TEMPLATE)
                .body::<CreateDestination>(json!({
                    "name": "archive", "kind": "recording",
                    "config": {
                        "type": "s3", "bucket": "calls", "region": "eu-west-1",
                        "access_key": "AKIAIOSFODNN7EXAMPLE", "secret": "wJalrXUtnFEMI"
                    }
                }))
                .answer::<DestinationJson<'_>>(example())
        },
    )
    .idempotent()
    .codes(&[
        ErrorCode::InvalidUrl,
        ErrorCode::BlockedUrl,
        ErrorCode::FeatureNotInPlan,
        ErrorCode::TemplateNotFound,
        ErrorCode::DestinationExists,
        ErrorCode::EncryptionUnavailable,
    ]),
    Operation::new(
        "list_destinations",
        Method::Get,
        "/v1/templates/{id}/destinations",
        &[200],
        |call| Box::pin(list(call)),
        || {
            Doc::new("destinations", "List a template's destinations")
                .path(Param::TEMPLATE)
                .answer::<DestinationList<'_>>(json!({"destinations": [example()]}))
        },
    )
    .codes(&[ErrorCode::InvalidRequest, ErrorCode::TemplateNotFound]),
    Operation::new(
        "get_destination",
        Method::Get,
        "/v1/templates/{id}/destinations/{name}",
        &[200],
        |call| Box::pin(get(call)),
        || {
            Doc::new("destinations", "Read a destination, without its secrets")
                .path(Param::TEMPLATE)
                .path(Param::DESTINATION)
                .answer::<DestinationJson<'_>>(example())
        },
    )
    .codes(&[ErrorCode::InvalidRequest, ErrorCode::TemplateNotFound, ErrorCode::DestinationNotFound]),
    Operation::new(
        "update_destination",
        Method::Patch,
        "/v1/templates/{id}/destinations/{name}",
        &[200],
        |call| Box::pin(update(call)),
        || {
            Doc::new("destinations", "Replace a destination's configuration; credentials left out are kept")
                .path(Param::TEMPLATE)
                .path(Param::DESTINATION)
                .body::<UpdateDestination>(json!({"config": {"type": "s3", "bucket": "more-calls"}}))
                .answer::<DestinationJson<'_>>(example())
        },
    )
    .codes(&[
        ErrorCode::InvalidUrl,
        ErrorCode::BlockedUrl,
        ErrorCode::FeatureNotInPlan,
        ErrorCode::TemplateNotFound,
        ErrorCode::DestinationNotFound,
        ErrorCode::EncryptionUnavailable,
        ErrorCode::DestinationUnusable,
    ]),
    Operation::new(
        "delete_destination",
        Method::Delete,
        "/v1/templates/{id}/destinations/{name}",
        &[204],
        |call| Box::pin(delete(call)),
        || {
            Doc::new("destinations", "Delete a destination that nothing runs against")
                .path(Param::TEMPLATE)
                .path(Param::DESTINATION)
        },
    )
    .codes(&[
        ErrorCode::InvalidRequest,
        ErrorCode::TemplateNotFound,
        ErrorCode::DestinationNotFound,
        ErrorCode::DestinationInUse,
    ]),
];

fn render_created(destination: &Destination) -> Response {
    answer::created(&DestinationJson::from(destination))
}

/// Reads a configuration of a kind.
fn config(kind: DestinationKind, raw: &RawValue) -> Result<ConfigInput, Problem> {
    match kind {
        DestinationKind::Recording => recording_config(raw).map(ConfigInput::Recording),
        DestinationKind::Rtmp => {
            let sent: RtmpDestinationConfig = read_at("config", raw)?;
            Ok(ConfigInput::Rtmp(RtmpConfig { urls: parse_urls("config.urls", &sent.urls)? }))
        }
    }
}

fn recording_config(raw: &RawValue) -> Result<RecordingInput, Problem> {
    #[derive(Deserialize)]
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

/// What a configuration without a kind beside it is plainly meant for: only a broadcast's has urls, only a recording's a type.
fn kind_of(raw: &RawValue) -> Option<DestinationKind> {
    #[derive(Deserialize)]
    struct Shape {
        r#type: Option<serde::de::IgnoredAny>,
        urls: Option<serde::de::IgnoredAny>,
    }
    match serde_json::from_str(raw.get()) {
        Ok(Shape { r#type: None, urls: Some(_) }) => Some(DestinationKind::Rtmp),
        Ok(Shape { r#type: Some(_), urls: None }) => Some(DestinationKind::Recording),
        _ => None,
    }
}

/// Refuses hosts inside the operator's network.
async fn check_addresses(call: &Call, config: &ConfigInput) -> Result<(), Problem> {
    let hosts = match config {
        ConfigInput::Rtmp(config) => rtmp_hosts("config.urls", &config.urls),
        ConfigInput::Recording(RecordingInput::S3(S3Input { endpoint: Some(endpoint), .. })) => {
            vec![http_host("config.endpoint", endpoint)?]
        }
        ConfigInput::Recording(_) => Vec::new(),
    };
    check_hosts(&call.state.egress_addresses, hosts).await
}

async fn create(call: Call) -> Result<Response, Problem> {
    let template_id = call.path("id")?;
    call.no_query()?;
    let body: CreateDestination = call.read()?;
    let write = NewDestination {
        project_id: call.project(),
        template_id,
        name: id("name", &body.name)?,
        kind: Some(body.kind),
        config: config(body.kind, &body.config)?,
        features: call.plan().await?.features,
    };
    check_addresses(&call, &write.config).await?;
    let destination = call.state.store.create_destination(write, call.keep(render_created)).await.map_err(of_store)?;
    Ok(render_created(&destination))
}

async fn list(call: Call) -> Result<Response, Problem> {
    let template = call.path("id")?;
    call.no_query()?;
    let destinations = call.state.store.destinations(call.project(), template).await.map_err(of_store)?;
    Ok(answer::ok(&DestinationList { destinations: destinations.iter().map(DestinationJson::from).collect() }))
}

/// The destination a path names, of a call that takes no query.
fn named(call: &Call) -> Result<(TemplateId, DestinationName), Problem> {
    let named = (call.path("id")?, call.path("name")?);
    call.no_query()?;
    Ok(named)
}

async fn get(call: Call) -> Result<Response, Problem> {
    let (template, name) = named(&call)?;
    let destination = call.state.store.destination(call.project(), template, name).await.map_err(of_store)?;
    Ok(answer::ok(&DestinationJson::from(&destination)))
}

/// The kind that a new configuration is read as: what it plainly is, else that of the destination. One that is not there is
/// missed only after the body has been found right.
async fn kind_to_read(
    call: &Call,
    (template, name): (&TemplateId, &DestinationName),
    body: &UpdateDestination,
) -> Result<DestinationKind, Problem> {
    let stored = call.state.store.destination(call.project(), template.clone(), name.clone()).await.map_err(of_store);
    match (stored.map(|stored| stored.kind), body.kind) {
        (Ok(stored), Some(sent)) if sent != stored => Err(stored.immutable_kind("kind")),
        (Ok(stored), Some(_)) => Ok(stored),
        (Ok(stored), None) => Ok(kind_of(&body.config).unwrap_or(stored)),
        (Err(problem), sent) if problem.code.status() == 404 => {
            Ok(sent.or_else(|| kind_of(&body.config)).unwrap_or(DestinationKind::Recording))
        }
        (Err(problem), _) => Err(problem),
    }
}

async fn update(call: Call) -> Result<Response, Problem> {
    let (template_id, name) = named(&call)?;
    let body: UpdateDestination = call.read()?;
    let kind = kind_to_read(&call, (&template_id, &name), &body).await?;
    let write = NewDestination {
        project_id: call.project(),
        template_id,
        name,
        kind: body.kind,
        config: config(kind, &body.config)?,
        features: call.plan().await?.features,
    };
    check_addresses(&call, &write.config).await?;
    let destination = call.state.store.update_destination(write).await.map_err(of_store)?;
    Ok(answer::ok(&DestinationJson::from(&destination)))
}

async fn delete(call: Call) -> Result<Response, Problem> {
    let (template, name) = named(&call)?;
    call.state.store.delete_destination(call.project(), template, name).await.map_err(of_store)?;
    Ok(answer::no_content())
}
