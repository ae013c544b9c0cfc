//! Webhook endpoints.

use conclave_model::page::Page;
use conclave_model::schema::HttpUrl;
use conclave_model::webhook::WebhookEndpoint;
use conclave_model::{EndpointId, ErrorCode, Problem, Secret, Timestamp};
use conclave_outbound::resolver::{UrlError, check_url};
use conclave_outbound::webhook::generate_secret;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::{Input, NoBody, NoParams, Paged};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Created, Listed, NoContent, revealed};
use crate::http::api::spec::Method;

/// The path of a webhook endpoint.
#[derive(Deserialize, IntoParams)]
pub struct EndpointPath {
    /// The endpoint's id.
    #[param(inline)]
    id: EndpointId,
}

/// A webhook endpoint to register.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateWebhookEndpoint {
    /// http or https, resolving to a public address.
    #[schema(value_type = HttpUrl)]
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
}

/// A webhook endpoint as its creation shows it.
#[derive(Serialize, ToSchema)]
pub struct WebhookEndpointCreated {
    pub id: EndpointId,
    pub url: String,
    /// The signing secret, shown this once.
    #[serde(serialize_with = "revealed")]
    #[schema(value_type = String)]
    pub secret: Secret,
    pub active: bool,
    pub created_at: Timestamp,
}

impl From<WebhookEndpoint> for WebhookEndpointJson {
    fn from(endpoint: WebhookEndpoint) -> Self {
        Self {
            id: endpoint.id,
            url: endpoint.url,
            active: endpoint.active,
            created_at: endpoint.created_at,
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

/// The operations on webhook endpoints.
pub fn operations() -> Vec<Operation> {
    vec![
        operation(
            Method::Get,
            "/v1/webhook-endpoints",
            "list_webhook_endpoints",
            list,
        )
        .about("webhooks", "List webhook endpoints")
        .responds(example())
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
            "Stop delivery to an endpoint; what is queued for it is dropped",
        )
        .errors(&[ErrorCode::EndpointNotFound])
        .build(),
    ]
}

pub async fn list(
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
    context.state.tree.wake_endpoint(project, created.0.id);
    Ok(created)
}

/// Refuses a url that webhooks may not be sent to. Resolving blocks, so it runs on the blocking pool.
async fn check(context: &RequestContext, url: String) -> Result<()> {
    let filter = context.state.webhook_addresses.clone();
    match tokio::task::spawn_blocking(move || check_url(&url, &filter)).await? {
        Ok(_) => Ok(()),
        Err(UrlError::Invalid(reason)) => {
            Err(Problem::new(ErrorCode::InvalidUrl, reason).at("url").into())
        }
        Err(UrlError::Blocked) => {
            let message = "the url resolves to an address that is not public";
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
    context.state.tree.endpoint_deleted(context.project(), id);
    Ok(NoContent)
}
