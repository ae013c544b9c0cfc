//! Webhook deliveries (contract "Webhooks").

use conclave_db::DeliveryFilter;
use conclave_model::event::EventType;
use conclave_model::webhook::{Delivery, DeliveryStatus};
use conclave_model::{DeliveryId, ErrorCode, Timestamp};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::http::answer::{self, Response};
use crate::http::call::Call;
use crate::http::openapi::{Doc, Param};
use crate::http::operation::{Method, Operation};
use crate::http::problem::{Problem, of_store};

/// One event on its way to one receiver.
#[derive(Serialize, ToSchema)]
pub struct WebhookDelivery {
    id: uuid::Uuid,
    endpoint_id: uuid::Uuid,
    endpoint_url: String,
    event_type: String,
    /// The exact body posted, byte for byte what the signature covers.
    #[schema(value_type = Object)]
    payload: Option<Box<RawValue>>,
    /// `pending`, `delivered` or `failed`.
    #[schema(value_type = DeliveryStatus)]
    status: &'static str,
    /// Times posted.
    attempts: u32,
    /// Present only while pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    next_attempt_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    delivered_at: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Transport or status error of the latest attempt.
    last_error: String,
    /// Null if the request never completed.
    #[schema(required = true)]
    response_status: Option<u16>,
}

impl From<&Delivery> for WebhookDelivery {
    fn from(delivery: &Delivery) -> Self {
        Self {
            id: delivery.id.0,
            endpoint_id: delivery.endpoint_id.0,
            endpoint_url: delivery.endpoint_url.clone(),
            event_type: delivery.event_type.clone(),
            // It was JSON when it was written.
            payload: RawValue::from_string(delivery.payload.to_string()).ok(),
            status: delivery.status.as_str(),
            attempts: delivery.attempts,
            next_attempt_at: delivery.next_attempt_at,
            delivered_at: delivery.delivered_at,
            created_at: delivery.created_at,
            last_error: delivery.last_error.clone(),
            response_status: delivery.response_status,
        }
    }
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

const FILTERS: &[Param] = &[
    Param::one_of("status", "In this status", "pending, delivered, failed"),
    Param::query("event_type", "Of this event"),
    Param::formatted("endpoint_id", "To this endpoint", "uuid"),
];

/// Webhook deliveries.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "list_webhook_deliveries",
        Method::Get,
        "/v1/webhook-deliveries",
        &[200],
        |call| Box::pin(list(call)),
        || {
            Doc::new("webhooks", "List deliveries, newest first").page::<WebhookDelivery>(
                "webhook_deliveries",
                example(),
                FILTERS,
            )
        },
    )
    .codes(&[ErrorCode::InvalidRequest]),
    Operation::new(
        "retry_webhook_delivery",
        Method::Post,
        "/v1/webhook-deliveries/{id}/retry",
        &[200],
        |call| Box::pin(retry(call)),
        || Doc::new("webhooks", "Queue a failed delivery again").path(Param::UUID).answer::<WebhookDelivery>(example()),
    )
    .idempotent()
    .codes(&[ErrorCode::InvalidRequest, ErrorCode::DeliveryNotFound, ErrorCode::DeliveryNotRetryable]),
];

fn render_retried(delivery: &Delivery) -> Response {
    answer::ok(&WebhookDelivery::from(delivery))
}

async fn list(call: Call) -> Result<Response, Problem> {
    let mut query = call.query()?;
    let page = query.page()?;
    let filter = DeliveryFilter {
        status: query.word("status", |word| word.parse().ok(), "pending, delivered, failed")?,
        event_type: query
            .word("event_type", |word| word.parse().ok(), "the event types of the contract, like room.started")?
            .map(|event: EventType| event.as_str().to_owned()),
        endpoint_id: query.parsed("endpoint_id")?,
    };
    query.finish()?;
    let deliveries = call.state.store.deliveries(call.project(), filter, page).await.map_err(of_store)?;
    Ok(answer::page("webhook_deliveries", &deliveries.map(|delivery| WebhookDelivery::from(&delivery))))
}

async fn retry(call: Call) -> Result<Response, Problem> {
    let id: DeliveryId = call.path("id")?;
    call.no_query()?;
    call.no_body()?;
    let (project, keep) = (call.project(), call.keep(render_retried));
    let delivery = call.state.store.retry_delivery(project.clone(), id, keep).await.map_err(of_store)?;
    call.state.tree.wake_endpoint(project, delivery.endpoint_id);
    Ok(render_retried(&delivery))
}
