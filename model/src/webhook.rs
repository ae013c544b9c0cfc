//! Webhook endpoints and deliveries: records and statuses.

use serde::Serialize;

use crate::event::EventType;
use crate::schema::word_enum;
use crate::{DeliveryId, EndpointId, ProjectId, Secret, Timestamp};

/// Webhook endpoint record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookEndpoint {
    /// Endpoint id.
    pub id: EndpointId,
    /// Owning project.
    pub project_id: ProjectId,
    /// URL to which events are posted.
    pub url: String,
    /// Event types that are queued for the endpoint; all if empty.
    pub events: Vec<EventType>,
    /// Free text of the project; empty by default.
    pub description: String,
    /// Signing key for deliveries: `whsec_` and base64 of 32 random bytes.
    pub secret: Secret,
    /// Secret before the last rotation, while deliveries are also signed with it.
    pub previous_secret: Option<PreviousSecret>,
    /// Whether events are delivered to the endpoint.
    pub active: bool,
    /// Time of the first failed attempt since the last success; absent if the last attempt succeeded.
    pub failing_since: Option<Timestamp>,
    /// When and why the server disabled the endpoint; absent if it did not.
    pub disabled: Option<DisabledEndpoint>,
    /// Creation time.
    pub created_at: Timestamp,
}

/// Secret that a rotation has replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviousSecret {
    /// The secret.
    pub secret: Secret,
    /// Time until which deliveries are signed with it.
    pub until: Timestamp,
}

/// Reason for which the server disabled an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisabledEndpoint {
    /// Time at which it was disabled.
    pub at: Timestamp,
    /// Since when attempts have failed, and the last error.
    pub reason: String,
}

/// Change of an endpoint; `None` leaves a field unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookEndpointChange {
    /// New URL.
    pub url: Option<String>,
    /// New event types; all if empty.
    pub events: Option<Vec<EventType>>,
    /// Whether events are delivered to the endpoint.
    pub active: Option<bool>,
    /// New description.
    pub description: Option<String>,
}

impl WebhookEndpoint {
    /// Creates an active endpoint for all events.
    #[must_use]
    pub const fn new(
        id: EndpointId,
        project_id: ProjectId,
        url: String,
        secret: Secret,
        created_at: Timestamp,
    ) -> Self {
        Self {
            id,
            project_id,
            url,
            events: Vec::new(),
            description: String::new(),
            secret,
            previous_secret: None,
            active: true,
            failing_since: None,
            disabled: None,
            created_at,
        }
    }

    /// Returns the secret before the last rotation, if deliveries at `now` are signed with it.
    #[must_use]
    pub fn previous_secret_at(&self, now: Timestamp) -> Option<&Secret> {
        let previous = self.previous_secret.as_ref()?;
        (now < previous.until).then_some(&previous.secret)
    }
}

/// An event's delivery to one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Delivery id, sent in the `webhook-id` header.
    pub id: DeliveryId,
    /// Receiving endpoint.
    pub endpoint_id: EndpointId,
    /// URL of the last attempt; before the first one, the endpoint's URL when the event was queued.
    pub endpoint_url: String,
    /// Event type.
    pub event_type: String,
    /// Body as posted.
    pub payload: Box<str>,
    /// Pending, delivered or failed.
    pub status: DeliveryStatus,
    /// Attempts so far.
    // A retry by the API resets it to 0 (contract).
    pub attempts: u32,
    /// Next attempt; absent unless pending.
    pub next_attempt_at: Option<Timestamp>,
    /// Time at which the endpoint accepted it; absent before.
    pub delivered_at: Option<Timestamp>,
    /// Time at which it was queued.
    pub created_at: Timestamp,
    /// Transport or status error from the latest attempt; empty if there was none.
    pub last_error: String,
    /// Latest response status; `None` without a response.
    pub response_status: Option<u16>,
}

word_enum! {
    /// The status of a delivery. A retry makes a failed delivery pending again.
    DeliveryStatus {
        /// Waits for its next attempt.
        Pending = "pending",
        /// The endpoint responded with a 2xx status.
        Delivered = "delivered",
        /// All attempts have failed.
        Failed = "failed",
    }
}

/// Post outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttemptOutcome {
    /// Response status; `None` if the request did not complete.
    pub response_status: Option<u16>,
    /// Failure cause, without secrets or payload; `None` if the delivery was accepted.
    pub error: Option<String>,
    /// Whether the attempt took the whole timeout, for the response or for its body.
    #[serde(skip)]
    pub timed_out: bool,
}

/// Delivery attempt. The debug endpoint shows the last one in this form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attempt {
    /// Project that the delivery belongs to.
    #[serde(skip)]
    pub project_id: ProjectId,
    /// Endpoint of the delivery.
    #[serde(skip)]
    pub endpoint_id: EndpointId,
    /// Attempted delivery.
    #[serde(skip)]
    pub delivery_id: DeliveryId,
    /// URL that was posted to. The endpoint may have had another one when the delivery was queued.
    #[serde(skip)]
    pub url: String,
    /// Attempt number, from 1.
    #[serde(rename = "attempt")]
    pub number: u32,
    /// Time at which it was due.
    #[serde(skip)]
    pub due: Timestamp,
    /// Time at which it ended.
    pub at: Timestamp,
    /// Outcome.
    #[serde(flatten)]
    pub outcome: AttemptOutcome,
    /// Next attempt; `None` if there will be none.
    #[serde(skip)]
    pub retry_at: Option<Timestamp>,
}

impl Attempt {
    /// Returns the delivery's status after this attempt.
    pub const fn status(&self) -> DeliveryStatus {
        match (&self.outcome.error, self.retry_at) {
            // No error means a 2xx status.
            (None, _) => DeliveryStatus::Delivered,
            (Some(_), Some(_)) => DeliveryStatus::Pending,
            // No attempt follows, so only an operator's or a project's retry can deliver it.
            (Some(_), None) => DeliveryStatus::Failed,
        }
    }
}
