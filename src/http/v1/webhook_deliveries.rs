//! Webhook deliveries.

use conclave_db::DeliveryFilter;
use conclave_model::event::EventType;
use conclave_model::webhook::{Delivery, DeliveryStatus};
use conclave_model::{DeliveryId, EndpointId, ErrorCode, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::http::context::RequestContext;
use crate::http::error::ApiError;
use crate::http::input::{Input, NoBody, NoParams, Paged};
use crate::http::operation::{Operation, operation};
use crate::http::response::{self, Response};
use crate::http::spec::Method;

/// The path of a delivery.
#[derive(Deserialize, IntoParams)]
struct DeliveryPath {
    /// The delivery's id.
    #[param(inline)]
    id: DeliveryId,
}

/// The filters of a project's deliveries.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct DeliveryQuery {
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
pub struct WebhookDelivery<'a> {
    id: DeliveryId,
    endpoint_id: EndpointId,
    endpoint_url: &'a str,
    event_type: &'a str,
    /// The exact body posted, byte for byte what the signature covers.
    #[schema(value_type = Object)]
    payload: Option<Box<RawValue>>,
    status: DeliveryStatus,
    /// Attempts to post it.
    attempts: u32,
    /// Present only while pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_attempt_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    delivered_at: Option<Timestamp>,
    created_at: Timestamp,
    /// Transport or status error of the latest attempt.
    last_error: &'a str,
    /// Null if the request never completed.
    #[schema(required = true)]
    response_status: Option<u16>,
}

impl<'a> From<&'a Delivery> for WebhookDelivery<'a> {
    fn from(delivery: &'a Delivery) -> Self {
        Self {
            id: delivery.id,
            endpoint_id: delivery.endpoint_id,
            endpoint_url: &delivery.endpoint_url,
            event_type: &delivery.event_type,
            // It was JSON when it was written.
            payload: RawValue::from_string(delivery.payload.to_string()).ok(),
            status: delivery.status,
            attempts: delivery.attempts,
            next_attempt_at: delivery.next_attempt_at,
            delivered_at: delivery.delivered_at,
            created_at: delivery.created_at,
            last_error: &delivery.last_error,
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

/// The operations on webhook deliveries.
pub fn operations() -> Vec<Operation> {
    vec![
        operation(Method::Get, "/v1/webhook-deliveries", "list_webhook_deliveries", list)
            .about("webhooks", "List deliveries, newest first")
            .responds_page::<WebhookDelivery<'_>>("webhook_deliveries", example())
            .links(&["retry_webhook_delivery"], &[("id", "$response.body#/webhook_deliveries/0/id")])
            .errors(&[ErrorCode::InvalidRequest])
            .build(),
        operation(Method::Post, "/v1/webhook-deliveries/{id}/retry", "retry_webhook_delivery", retry)
            .about("webhooks", "Queue a failed delivery again")
            .responds::<WebhookDelivery<'_>>(&[200], example())
            .idempotent()
            .errors(&[ErrorCode::InvalidRequest, ErrorCode::DeliveryNotFound, ErrorCode::DeliveryNotRetryable])
            .build(),
    ]
}

fn render_retried(delivery: &Delivery) -> Response {
    response::ok(&WebhookDelivery::from(delivery))
}

async fn list(
    context: RequestContext,
    input: Input<NoParams, Paged<DeliveryQuery>, NoBody>,
) -> Result<Response, ApiError> {
    let Paged { page, filter: DeliveryQuery { status, event_type, endpoint_id } } = input.query;
    let filter = DeliveryFilter { status, event_type: event_type.map(|event| event.as_str().to_owned()), endpoint_id };
    let deliveries = context.state.store.deliveries(context.project(), filter, page).await?;
    Ok(response::page("webhook_deliveries", &deliveries.as_ref().map(WebhookDelivery::from)))
}

async fn retry(context: RequestContext, input: Input<DeliveryPath, NoParams, NoBody>) -> Result<Response, ApiError> {
    let (project, recorder) = (context.project(), context.recorder(render_retried));
    let delivery = context.state.store.retry_delivery(project.clone(), input.path.id, recorder).await?;
    context.state.tree.wake_endpoint(project, delivery.endpoint_id);
    Ok(render_retried(&delivery))
}
