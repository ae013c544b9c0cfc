//! Changes of webhook endpoints. They go through the endpoint's actor, which posts the deliveries.

use std::time::Duration;

use conclave_actors::webhook_endpoint::RotateSecretRequest;
use conclave_model::event::EventType;
use conclave_model::non_null::non_null;
use conclave_model::schema::HttpUrl;
use conclave_model::webhook::{WebhookEndpoint, WebhookEndpointChange};
use conclave_model::{EndpointId, ErrorCode, Problem, Secret, Timestamp};
use conclave_outbound::webhook::generate_secret;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::{Checked, Input, NoParams, OptionalBody, Validate};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Json, revealed};
use crate::http::api::spec::Method;
use crate::http::api::v1::webhooks::{EndpointPath, WebhookEndpointJson, check, endpoint_example};

/// Maximum length of a description in characters.
pub const MAX_DESCRIPTION: usize = 500;
/// Default time for which two secrets overlap, in seconds.
pub const DEFAULT_OVERLAP: u32 = 24 * 3_600;
/// Maximum time for which two secrets overlap, in seconds.
pub const MAX_OVERLAP: u32 = 72 * 3_600;

/// Fields of a webhook endpoint to change.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateWebhookEndpoint {
    /// http or https, resolving to a public address. Deliveries that are already queued go there, too.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(value_type = Option<HttpUrl>, nullable = false)]
    // A text here, because refused URLs have codes of their own, `invalid_url` and `blocked_url`.
    url: Option<String>,
    /// Event types to queue from now on; empty: all.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false, inline)]
    events: Option<Vec<EventType>>,
    /// False: no event is queued, and pending deliveries wait. True also enables an endpoint that the server has disabled.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    active: Option<bool>,
    /// Up to 500 characters, without control characters.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(
        nullable = false,
        max_length = 500,
        pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$"
    )]
    description: Option<String>,
}

impl Validate for UpdateWebhookEndpoint {
    type Valid = WebhookEndpointChange;

    fn validate(self) -> Result<WebhookEndpointChange, Problem> {
        let is_valid = |text: &String| {
            text.chars().count() <= MAX_DESCRIPTION && !text.chars().any(char::is_control)
        };
        if !self.description.as_ref().is_none_or(is_valid) {
            let message = format!(
                "must have at most {MAX_DESCRIPTION} characters, and no control characters"
            );
            return Err(Problem::invalid("description", message));
        }
        let distinct = |mut events: Vec<EventType>| {
            events.sort_unstable();
            events.dedup();
            events
        };
        Ok(WebhookEndpointChange {
            url: self.url,
            events: self.events.map(distinct),
            active: self.active,
            description: self.description,
        })
    }
}

/// The overlap of a webhook endpoint's secrets.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateWebhookSecret {
    /// Time for which deliveries are also signed with the previous secret; 86400 by default, 0 for none.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(maximum = 259_200, nullable = false)]
    overlap_seconds: Option<u32>,
}

/// A webhook endpoint's new secret.
#[derive(Serialize, ToSchema)]
pub struct WebhookSecretRotated {
    pub id: EndpointId,
    /// The new signing secret, shown only in this response.
    #[serde(serialize_with = "revealed")]
    #[schema(value_type = String)]
    pub secret: Secret,
    /// Time until which deliveries are also signed with the previous secret; absent without an overlap.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub previous_secret_expires_at: Option<Timestamp>,
}

impl From<WebhookEndpoint> for WebhookSecretRotated {
    fn from(endpoint: WebhookEndpoint) -> Self {
        Self {
            id: endpoint.id,
            secret: endpoint.secret,
            previous_secret_expires_at: endpoint.previous_secret.map(|previous| previous.until),
        }
    }
}

/// Returns the operations on webhook endpoints.
pub fn operations() -> Vec<Box<dyn Operation>> {
    let mut changed = endpoint_example();
    changed["events"] = json!(["participant.joined", "participant.left"]);
    changed["description"] = json!("attendance");
    vec![
        operation(
            Method::Patch,
            "/ext/v1/webhook-endpoints/{id}",
            "update_webhook_endpoint",
            update,
        )
        .about(
            "webhooks",
            "Change a webhook endpoint; omitted fields stay unchanged",
        )
        .example(
            json!({"events": ["participant.joined", "participant.left"], "description": "attendance"}),
        )
        .responds(changed)
        .errors(&[
            ErrorCode::InvalidUrl,
            ErrorCode::BlockedUrl,
            ErrorCode::EndpointNotFound,
        ])
        .build(),
        operation(
            Method::Post,
            "/ext/v1/webhook-endpoints/{id}/rotate-secret",
            "rotate_webhook_secret",
            rotate_secret,
        )
        .about(
            "webhooks",
            "Replace a webhook endpoint's signing secret, with an overlap of both",
        )
        .example(json!({"overlap_seconds": 86_400}))
        .responds(json!({
            "id": "0191d2c4-3b60-7a11-a1c2-0f6d2e9b7c55",
            "secret": "whsec_bmV3LXNlY3JldC1uZXctc2VjcmV0LW5ldy1zZWNyZXQ=",
            "previous_secret_expires_at": "2026-02-01T12:00:00.000Z"
        }))
        .idempotent()
        .secret_response()
        .errors(&[ErrorCode::EndpointNotFound])
        .build(),
    ]
}

pub async fn update(
    context: RequestContext,
    input: Input<EndpointPath, NoParams, Checked<UpdateWebhookEndpoint>>,
) -> Result<Json<WebhookEndpointJson>> {
    let (id, Checked(change)) = (input.path.id, input.body);
    if let Some(url) = &change.url {
        check(&context, url.clone()).await?;
    }
    let tree = &context.state.tree;
    let endpoint = tree
        .update_webhook_endpoint(context.project(), id, change)
        .await?;
    Ok(Json(endpoint.into()))
}

pub async fn rotate_secret(
    context: RequestContext,
    input: Input<EndpointPath, NoParams, OptionalBody<RotateWebhookSecret>>,
) -> Result<Json<WebhookSecretRotated>> {
    let (id, OptionalBody(body)) = (input.path.id, input.body);
    let overlap = body.overlap_seconds.unwrap_or(DEFAULT_OVERLAP);
    if overlap > MAX_OVERLAP {
        let message = format!("must be at most {MAX_OVERLAP} (72 hours)");
        return Err(Problem::invalid("overlap_seconds", message).into());
    }
    let rotate = |recorder| {
        let request = RotateSecretRequest {
            secret: generate_secret(),
            overlap: Duration::from_secs(overlap.into()),
            recorder,
        };
        let tree = &context.state.tree;
        tree.rotate_webhook_secret(context.project(), id, request)
    };
    context.recorded(rotate).await
}
