//! Webhook endpoints and deliveries: records and statuses.

use serde::Serialize;

use crate::schema::word_enum;
use crate::{DeliveryId, EndpointId, ProjectId, Secret, Timestamp};

/// The record of a webhook endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookEndpoint {
    /// The id of the endpoint.
    pub id: EndpointId,
    /// The project that owns it.
    pub project_id: ProjectId,
    /// The url that events are posted to.
    pub url: String,
    /// The signing key of deliveries: `whsec_` and base64 of 32 random bytes.
    pub secret: Secret,
    /// Whether events are delivered to it.
    pub active: bool,
    /// The instant of its creation.
    pub created_at: Timestamp,
}

/// The delivery of one event to one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The id of the delivery, sent in the `webhook-id` header.
    pub id: DeliveryId,
    /// The endpoint that receives it.
    pub endpoint_id: EndpointId,
    /// The url of the endpoint when the event was queued.
    pub endpoint_url: String,
    /// The type of the event.
    pub event_type: String,
    /// The body, as it is posted.
    pub payload: Box<str>,
    /// Pending, delivered or failed.
    pub status: DeliveryStatus,
    /// Number of attempts so far.
    pub attempts: u32,
    /// The instant of the next attempt; absent unless pending.
    pub next_attempt_at: Option<Timestamp>,
    /// The instant at which the endpoint accepted it; absent before.
    pub delivered_at: Option<Timestamp>,
    /// The instant at which it was queued.
    pub created_at: Timestamp,
    /// The transport or status error of the latest attempt; empty if there was none.
    pub last_error: String,
    /// The status code of the latest response; `None` without a response.
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

/// What became of a post.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttemptOutcome {
    /// The status of the response; `None` if the request did not complete.
    pub response_status: Option<u16>,
    /// The cause of the failure, without secrets or payload; `None` if the delivery was accepted.
    pub error: Option<String>,
    /// Whether it took the whole timeout, be it for the response or for its body.
    #[serde(skip)]
    pub timed_out: bool,
}

/// An attempt to deliver. Serialized, it is what the debug endpoint shows of the last one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attempt {
    /// The project that the delivery belongs to.
    #[serde(skip)]
    pub project_id: ProjectId,
    /// The delivery that was attempted.
    #[serde(skip)]
    pub delivery_id: DeliveryId,
    /// The number of the attempt, from 1.
    #[serde(rename = "attempt")]
    pub number: u32,
    /// The instant at which it was due.
    #[serde(skip)]
    pub due: Timestamp,
    /// The instant at which it ended.
    pub at: Timestamp,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: AttemptOutcome,
    /// The instant of the next attempt; `None` if there will be none.
    #[serde(skip)]
    pub retry_at: Option<Timestamp>,
}

impl Attempt {
    /// Returns the status of the delivery after this attempt.
    pub const fn status(&self) -> DeliveryStatus {
        match (&self.outcome.error, self.retry_at) {
            (None, _) => DeliveryStatus::Delivered,
            (Some(_), Some(_)) => DeliveryStatus::Pending,
            (Some(_), None) => DeliveryStatus::Failed,
        }
    }
}
