//! Webhook endpoints (contract "Webhooks").

use conclave_actors::delivery::resolver::{UrlError, check_url};
use conclave_actors::delivery::signature::generate_secret;
use conclave_model::webhook;
use conclave_model::{EndpointId, ErrorCode, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::http::answer::{self, Response};
use crate::http::call::Call;
use crate::http::openapi::{Doc, Param};
use crate::http::operation::{Method, Operation};
use crate::http::problem::{Problem, of_store};

/// A receiver to be registered.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateWebhookEndpoint {
    /// http or https, resolving to a public address.
    url: String,
}

/// A receiver.
#[derive(Serialize, ToSchema)]
pub struct WebhookEndpoint {
    id: uuid::Uuid,
    url: String,
    active: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// A receiver as its creation shows it.
#[derive(Serialize, ToSchema)]
pub struct WebhookEndpointCreated<'a> {
    id: uuid::Uuid,
    url: &'a str,
    /// The signing secret, shown this once.
    secret: &'a str,
    active: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<&webhook::WebhookEndpoint> for WebhookEndpoint {
    fn from(endpoint: &webhook::WebhookEndpoint) -> Self {
        Self { id: endpoint.id.0, url: endpoint.url.clone(), active: endpoint.active, created_at: endpoint.created_at }
    }
}

fn example() -> serde_json::Value {
    json!({
        "id": "0191d2c4-3b60-7a11-a1c2-0f6d2e9b7c55", "url": "https://example.com/hooks", "active": true,
        "created_at": "2026-01-31T12:00:00.000Z"
    })
}

fn created_example() -> serde_json::Value {
    let mut example = example();
    example["secret"] = json!("whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTEyMzQ=");
    example
}

/// Webhook endpoints.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "list_webhook_endpoints",
        Method::Get,
        "/v1/webhook-endpoints",
        &[200],
        |call| Box::pin(list(call)),
        || Doc::new("webhooks", "List webhook endpoints").page::<WebhookEndpoint>("webhook_endpoints", example(), &[]),
    )
    .codes(&[ErrorCode::InvalidRequest]),
    Operation::new(
        "create_webhook_endpoint",
        Method::Post,
        "/v1/webhook-endpoints",
        &[201],
        |call| Box::pin(create(call)),
        || {
            Doc::new("webhooks", "Register a webhook endpoint")
                .body::<CreateWebhookEndpoint>(json!({"url": "https://example.com/hooks"}))
                .answer::<WebhookEndpointCreated<'_>>(created_example())
        },
    )
    .idempotent()
    .secret_answer()
    .codes(&[ErrorCode::InvalidUrl, ErrorCode::BlockedUrl]),
    Operation::new(
        "delete_webhook_endpoint",
        Method::Delete,
        "/v1/webhook-endpoints/{id}",
        &[204],
        |call| Box::pin(delete(call)),
        || Doc::new("webhooks", "Stop delivery to an endpoint; what is queued for it is dropped").path(Param::UUID),
    )
    .codes(&[ErrorCode::InvalidRequest, ErrorCode::EndpointNotFound]),
];

fn render_created(endpoint: &webhook::WebhookEndpoint) -> Response {
    answer::created(&WebhookEndpointCreated {
        id: endpoint.id.0,
        url: &endpoint.url,
        secret: endpoint.secret.reveal(),
        active: endpoint.active,
        created_at: endpoint.created_at,
    })
}

async fn list(call: Call) -> Result<Response, Problem> {
    let mut query = call.query()?;
    let page = query.page()?;
    query.finish()?;
    let endpoints = call.state.store.webhook_endpoints(call.project(), page).await.map_err(of_store)?;
    Ok(answer::page("webhook_endpoints", &endpoints.map(|endpoint| WebhookEndpoint::from(&endpoint))))
}

async fn create(call: Call) -> Result<Response, Problem> {
    call.no_query()?;
    let body: CreateWebhookEndpoint = call.read()?;
    check(&call, body.url.clone()).await?;
    let (project, keep) = (call.project(), call.keep(render_created));
    let endpoint = call
        .state
        .store
        .create_webhook_endpoint(project.clone(), body.url, generate_secret(), keep)
        .await
        .map_err(of_store)?;
    call.state.tree.wake_endpoint(project, endpoint.id);
    Ok(render_created(&endpoint))
}

/// Resolving blocks, so it has a thread of its own.
async fn check(call: &Call, url: String) -> Result<(), Problem> {
    let filter = call.state.webhook_addresses.clone();
    let checked = tokio::task::spawn_blocking(move || check_url(&url, &filter)).await;
    let checked = checked.map_err(|error| Problem::internal().because(error))?;
    match checked {
        Ok(_) => Ok(()),
        Err(UrlError::Invalid(reason)) => Err(Problem::new(ErrorCode::InvalidUrl, reason).at("url")),
        Err(UrlError::Blocked) => {
            let message = "the url resolves to an address that is not public";
            Err(Problem::new(ErrorCode::BlockedUrl, message).at("url"))
        }
    }
}

async fn delete(call: Call) -> Result<Response, Problem> {
    let id: EndpointId = call.path("id")?;
    call.no_query()?;
    call.state.store.delete_webhook_endpoint(call.project(), id).await.map_err(of_store)?;
    call.state.tree.endpoint_deleted(call.project(), id);
    Ok(answer::no_content())
}
