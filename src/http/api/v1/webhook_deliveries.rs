//! Webhook deliveries.

use conclave_db::DeliveryFilter;
use conclave_model::event::EventType;
use conclave_model::page::Page;
use conclave_model::webhook::{Delivery, DeliveryStatus};
use conclave_model::{DeliveryId, EndpointId, ErrorCode, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::{Input, NoBody, NoParams, Paged};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Json, Listed};
use crate::http::api::spec::Method;

/// The path of a delivery.
#[derive(Deserialize, IntoParams)]
pub struct DeliveryPath {
    /// The delivery's id.
    #[param(inline)]
    id: DeliveryId,
}

/// The filters of a project's deliveries.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct DeliveryQuery {
    /// In this status
    #[param(inline)]
    status: Option<DeliveryStatus>,
    /// Of this event
    #[param(inline)]
    event_type: Option<EventType>,
    /// To this endpoint
    #[param(inline)]
    endpoint_id: Option<EndpointId>,
}

/// One event on its way to one webhook endpoint.
#[derive(Serialize, ToSchema)]
pub struct WebhookDelivery {
    pub id: DeliveryId,
    pub endpoint_id: EndpointId,
    pub endpoint_url: String,
    pub event_type: String,
    /// The exact body posted, byte for byte what the signature covers.
    #[schema(value_type = Object)]
    pub payload: Option<Box<RawValue>>,
    pub status: DeliveryStatus,
    /// Attempts to post it.
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
            // It was JSON when it was written.
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

fn example() -> serde_json::Value {
    json!({
        "id": "0191d2c5-0a01-7b44-8f0e-6c1f0b7d9e12", "endpoint_id": "0191d2c4-3b60-7a11-a1c2-0f6d2e9b7c55",
        "endpoint_url": "https://example.com/hooks", "event_type": "room.started",
        "payload": {"type": "room.started", "project_id": "prj_5f2a9c01be34", "room": "standup",
                    "occurred_at": "2026-01-31T12:00:05.120Z"},
        "status": "delivered", "attempts": 1, "delivered_at": "2026-01-31T12:00:10.004Z",
        "created_at": "2026-01-31T12:00:05.121Z", "last_error": "", "response_status": 204
    })
}

/// The operations on webhook deliveries.
pub fn operations() -> Vec<Operation> {
    vec![
        operation(
            Method::Get,
            "/v1/webhook-deliveries",
            "list_webhook_deliveries",
            list,
        )
        .about("webhooks", "List deliveries, newest first")
        .responds(example())
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
        .responds(example())
        .idempotent()
        .errors(&[ErrorCode::DeliveryNotFound, ErrorCode::DeliveryNotRetryable])
        .build(),
    ]
}

pub async fn list(
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
    context
        .state
        .tree
        .wake_endpoint(project, retried.0.endpoint_id);
    Ok(retried)
}
