//! Webhook endpoints and their deliveries.

use conclave_db::DeliveryFilter;
use conclave_model::event::EventType;
use conclave_model::page::Page;
use conclave_model::schema::HttpUrl;
use conclave_model::webhook::{Delivery, DeliveryStatus, WebhookEndpoint};
use conclave_model::{DeliveryId, EndpointId, ErrorCode, Problem, Secret, Timestamp};
use conclave_outbound::resolver::{UrlError, check_url};
use conclave_outbound::webhook::generate_secret;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::openapi::schema::Array;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::{Input, NoBody, NoParams, Paged};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Created, Json, Listed, NoContent, revealed};
use crate::http::api::spec::{Method, extension};

/// Webhook endpoint path.
#[derive(Deserialize, IntoParams)]
pub struct EndpointPath {
    /// The endpoint's id.
    #[param(inline)]
    pub(in crate::http) id: EndpointId,
}

/// A webhook endpoint to register.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateWebhookEndpoint {
    /// http or https, resolving to a public address.
    #[schema(value_type = HttpUrl)]
    // A text here, because refused URLs have codes of their own, `invalid_url` and `blocked_url`.
    url: String,
}

/// A webhook endpoint.
#[derive(Serialize, ToSchema)]
#[schema(as = WebhookEndpoint)]
pub struct WebhookEndpointJson {
    pub id: EndpointId,
    pub url: String,
    pub active: bool,
    pub created_at: Timestamp,
    // The fields beyond the contract are present only where they are used.
    /// Event types that are queued for it; absent: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(schema_with = extension::<EventTypes>, required = false)]
    pub events: Vec<EventType>,
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(schema_with = extension::<String>, required = false)]
    pub description: String,
    /// Time at which the server disabled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = extension::<Timestamp>, required = false)]
    pub disabled_at: Option<Timestamp>,
    /// Reason for which the server disabled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = extension::<String>, required = false)]
    pub disabled_reason: Option<String>,
    /// Time until which deliveries are also signed with the secret before the last rotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = extension::<Timestamp>, required = false)]
    pub previous_secret_expires_at: Option<Timestamp>,
}

/// A list of event types, in the description.
struct EventTypes;

impl PartialSchema for EventTypes {
    fn schema() -> RefOr<Schema> {
        Schema::Array(Array::new(EventType::schema())).into()
    }
}

/// A webhook endpoint, as returned when it is created.
#[derive(Serialize, ToSchema)]
pub struct WebhookEndpointCreated {
    pub id: EndpointId,
    pub url: String,
    /// The signing secret, shown only in this response.
    #[serde(serialize_with = "revealed")]
    #[schema(value_type = String)]
    pub secret: Secret,
    pub active: bool,
    pub created_at: Timestamp,
}

impl From<WebhookEndpoint> for WebhookEndpointJson {
    fn from(endpoint: WebhookEndpoint) -> Self {
        let (disabled_at, disabled_reason) = endpoint
            .disabled
            .map(|disabled| (disabled.at, disabled.reason))
            .unzip();
        Self {
            id: endpoint.id,
            url: endpoint.url,
            active: endpoint.active,
            created_at: endpoint.created_at,
            events: endpoint.events,
            description: endpoint.description,
            disabled_at,
            disabled_reason,
            previous_secret_expires_at: endpoint.previous_secret.map(|previous| previous.until),
        }
    }
}

impl From<WebhookEndpoint> for WebhookEndpointCreated {
    fn from(endpoint: WebhookEndpoint) -> Self {
        Self {
            id: endpoint.id,
            url: endpoint.url,
            secret: endpoint.secret,
            active: endpoint.active,
            created_at: endpoint.created_at,
        }
    }
}

impl Listed for WebhookEndpointJson {
    const COLLECTION: &'static str = "webhook_endpoints";
}

/// Returns an example of an endpoint.
pub(in crate::http) fn endpoint_example() -> serde_json::Value {
    json!({
        "id": "0191d2c4-3b60-7a11-a1c2-0f6d2e9b7c55", "url": "https://example.com/hooks", "active": true,
        "created_at": "2026-01-31T12:00:00.000Z"
    })
}

fn created_example() -> serde_json::Value {
    let mut example = endpoint_example();
    example["secret"] = json!("whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTEyMzQ=");
    example
}

/// Returns the operations on webhook endpoints and deliveries.
pub fn operations() -> Vec<Box<dyn Operation>> {
    let mut operations = endpoint_operations();
    operations.extend(delivery_operations());
    operations
}

fn endpoint_operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(
            Method::Get,
            "/v1/webhook-endpoints",
            "list_webhook_endpoints",
            list_endpoints,
        )
        .about("webhooks", "List webhook endpoints")
        .responds(endpoint_example())
        .build(),
        operation(
            Method::Post,
            "/v1/webhook-endpoints",
            "create_webhook_endpoint",
            create,
        )
        .about("webhooks", "Register a webhook endpoint")
        .example(json!({"url": "https://example.com/hooks"}))
        .responds(created_example())
        .links(
            &["delete_webhook_endpoint"],
            &[("id", "$response.body#/id")],
        )
        // Apart, since the parameter has another name.
        .links(
            &["list_webhook_deliveries"],
            &[("endpoint_id", "$response.body#/id")],
        )
        .idempotent()
        .secret_response()
        .errors(&[ErrorCode::InvalidUrl, ErrorCode::BlockedUrl])
        .build(),
        operation(
            Method::Delete,
            "/v1/webhook-endpoints/{id}",
            "delete_webhook_endpoint",
            delete,
        )
        .about(
            "webhooks",
            "Stop delivery to an endpoint and drop its queued deliveries",
        )
        .errors(&[ErrorCode::EndpointNotFound])
        .build(),
    ]
}

pub async fn list_endpoints(
    context: RequestContext,
    input: Input<NoParams, Paged<NoParams>, NoBody>,
) -> Result<Page<WebhookEndpointJson>> {
    let endpoints = context
        .state
        .store
        .webhook_endpoints()
        .list(context.project(), input.query.page)
        .await?;
    Ok(endpoints.map(WebhookEndpointJson::from))
}

pub async fn create(
    context: RequestContext,
    input: Input<NoParams, NoParams, CreateWebhookEndpoint>,
) -> Result<Created<WebhookEndpointCreated>> {
    let (project, url) = (context.project(), input.body.url);
    // Checked now for a helpful error, and again at each delivery: the name may resolve to another address by then.
    check(&context, url.clone()).await?;
    let create = |recorder| {
        context.state.store.webhook_endpoints().create(
            project.clone(),
            url,
            generate_secret(),
            recorder,
        )
    };
    let created: Created<WebhookEndpointCreated> = context.recorded(create).await?;
    // Only a wake-up: after a crash here, the start reads the endpoints from the records.
    context.state.tree.wake_endpoint(project, created.0.id);
    Ok(created)
}

/// Refuses a URL that webhooks may not be sent to. Resolving a name blocks, so it runs on the blocking pool.
pub(in crate::http) async fn check(context: &RequestContext, url: String) -> Result<()> {
    let filter = context.state.webhook_addresses.clone();
    match tokio::task::spawn_blocking(move || check_url(&url, &filter)).await? {
        Ok(_) => Ok(()),
        Err(UrlError::Invalid(reason)) => {
            Err(Problem::new(ErrorCode::InvalidUrl, reason).at("url").into())
        }
        Err(UrlError::Blocked) => {
            let message = "the URL resolves to an address that is not public";
            Err(Problem::new(ErrorCode::BlockedUrl, message)
                .at("url")
                .into())
        }
    }
}

pub async fn delete(
    context: RequestContext,
    input: Input<EndpointPath, NoParams, NoBody>,
) -> Result<NoContent> {
    let EndpointPath { id } = input.path;
    context
        .state
        .store
        .webhook_endpoints()
        .delete(context.project(), id)
        .await?;
    // The record is gone, so queued deliveries are dropped even if the process dies here; this only stops the actor early.
    context.state.tree.endpoint_deleted(context.project(), id);
    Ok(NoContent)
}

/// Delivery path.
#[derive(Deserialize, IntoParams)]
pub struct DeliveryPath {
    /// The delivery's id.
    #[param(inline)]
    id: DeliveryId,
}

/// Filters for a project's deliveries.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct DeliveryQuery {
    /// Only with this status
    #[param(inline)]
    status: Option<DeliveryStatus>,
    /// Only with this event type
    #[param(inline)]
    event_type: Option<EventType>,
    /// Only to this endpoint
    #[param(inline)]
    endpoint_id: Option<EndpointId>,
}

/// One event's delivery to one webhook endpoint.
#[derive(Serialize, ToSchema)]
pub struct WebhookDelivery {
    pub id: DeliveryId,
    pub endpoint_id: EndpointId,
    pub endpoint_url: String,
    pub event_type: String,
    /// The exact request body, byte for byte as signed.
    #[schema(value_type = Object)]
    pub payload: Option<Box<RawValue>>,
    pub status: DeliveryStatus,
    /// Number of delivery attempts.
    pub attempts: u32,
    /// Present only while pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_attempt_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub delivered_at: Option<Timestamp>,
    pub created_at: Timestamp,
    /// Transport or status error of the latest attempt.
    pub last_error: String,
    /// Null if the request never completed.
    #[schema(required = true)]
    pub response_status: Option<u16>,
}

impl From<Delivery> for WebhookDelivery {
    fn from(delivery: Delivery) -> Self {
        Self {
            id: delivery.id,
            endpoint_id: delivery.endpoint_id,
            endpoint_url: delivery.endpoint_url,
            event_type: delivery.event_type,
            // The payload was written to the outbox as JSON.
            payload: RawValue::from_string(delivery.payload.into()).ok(),
            status: delivery.status,
            attempts: delivery.attempts,
            next_attempt_at: delivery.next_attempt_at,
            delivered_at: delivery.delivered_at,
            created_at: delivery.created_at,
            last_error: delivery.last_error,
            response_status: delivery.response_status,
        }
    }
}

impl Listed for WebhookDelivery {
    const COLLECTION: &'static str = "webhook_deliveries";
}

fn delivery_example() -> serde_json::Value {
    json!({
        "id": "0191d2c5-0a01-7b44-8f0e-6c1f0b7d9e12", "endpoint_id": "0191d2c4-3b60-7a11-a1c2-0f6d2e9b7c55",
        "endpoint_url": "https://example.com/hooks", "event_type": "room.started",
        "payload": {"type": "room.started", "project_id": "prj_5f2a9c01be34", "room": "standup",
                    "occurred_at": "2026-01-31T12:00:05.120Z"},
        "status": "delivered", "attempts": 1, "delivered_at": "2026-01-31T12:00:10.004Z",
        "created_at": "2026-01-31T12:00:05.121Z", "last_error": "", "response_status": 204
    })
}

/// Returns the operations on webhook deliveries.
fn delivery_operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(
            Method::Get,
            "/v1/webhook-deliveries",
            "list_webhook_deliveries",
            list_deliveries,
        )
        .about("webhooks", "List deliveries, newest first")
        .responds(delivery_example())
        .links(
            &["retry_webhook_delivery"],
            &[("id", "$response.body#/webhook_deliveries/0/id")],
        )
        .build(),
        operation(
            Method::Post,
            "/v1/webhook-deliveries/{id}/retry",
            "retry_webhook_delivery",
            retry,
        )
        .about("webhooks", "Queue a failed delivery again")
        .responds(delivery_example())
        .idempotent()
        .errors(&[ErrorCode::DeliveryNotFound, ErrorCode::DeliveryNotRetryable])
        .build(),
    ]
}

pub async fn list_deliveries(
    context: RequestContext,
    input: Input<NoParams, Paged<DeliveryQuery>, NoBody>,
) -> Result<Page<WebhookDelivery>> {
    let Paged {
        page,
        filter:
            DeliveryQuery {
                status,
                event_type,
                endpoint_id,
            },
    } = input.query;
    let filter = DeliveryFilter {
        status,
        // As text, like the records', since the console's test event has no type of its own.
        event_type: event_type.map(|event| event.as_str().to_owned()),
        endpoint_id,
    };
    let deliveries = context
        .state
        .store
        .deliveries()
        .list(context.project(), filter, page)
        .await?;
    Ok(deliveries.map(WebhookDelivery::from))
}

pub async fn retry(
    context: RequestContext,
    input: Input<DeliveryPath, NoParams, NoBody>,
) -> Result<Json<WebhookDelivery>> {
    let project = context.project();
    let retry = |recorder| {
        context
            .state
            .store
            .deliveries()
            .retry(project.clone(), input.path.id, recorder)
    };
    let retried: Json<WebhookDelivery> = context.recorded(retry).await?;
    // Only a wake-up: after a crash here, the start finds the pending delivery.
    context
        .state
        .tree
        .wake_endpoint(project, retried.0.endpoint_id);
    Ok(retried)
}
