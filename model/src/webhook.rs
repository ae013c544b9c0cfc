//! Webhook endpoints and deliveries: records, statuses, and when a failed attempt is followed by the next (contract
//! "Retry schedule").

use std::time::Duration;

use crate::schema::word_enum;
use crate::{DeliveryId, EndpointId, ProjectId, Secret, Timestamp};

/// A webhook receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookEndpoint {
    /// The receiver.
    pub id: EndpointId,
    /// Whose it is.
    pub project_id: ProjectId,
    /// Where events are posted.
    pub url: String,
    /// What their signatures are keyed with: `whsec_` and base64 of 32 random bytes.
    pub secret: Secret,
    /// Gets events.
    pub active: bool,
    /// When it was made.
    pub created_at: Timestamp,
}

/// One event on its way to one receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The delivery; also its `webhook-id` header.
    pub id: DeliveryId,
    /// To whom.
    pub endpoint_id: EndpointId,
    /// Where, as it stood when the event was queued.
    pub endpoint_url: String,
    /// The event's name.
    pub event_type: String,
    /// The exact body posted.
    pub payload: Box<str>,
    /// How it stands.
    pub status: DeliveryStatus,
    /// Times posted.
    pub attempts: u32,
    /// Present only while pending.
    pub next_attempt_at: Option<Timestamp>,
    /// When a receiver took it.
    pub delivered_at: Option<Timestamp>,
    /// When it was queued.
    pub created_at: Timestamp,
    /// Transport or status error of the latest attempt; empty when there was none.
    pub last_error: String,
    /// What the receiver answered; `None` when the request never completed.
    pub response_status: Option<u16>,
}

word_enum! {
    /// The status of a delivery. `pending` leads to the other two; only `failed` leads back, by a retry.
    DeliveryStatus {
        /// To be posted when due.
        Pending = "pending",
        /// Taken.
        Delivered = "delivered",
        /// Given up.
        Failed = "failed",
    }
}

/// The waits between attempts. As many attempts are made as there are waits, and one more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetrySchedule {
    /// The wait after the first failure, after the second, and so on.
    pub delays: Vec<Duration>,
}

impl Default for RetrySchedule {
    fn default() -> Self {
        Self { delays: [60, 300, 1_800, 7_200].map(Duration::from_secs).into() }
    }
}

impl RetrySchedule {
    /// When to post again after the attempt number `attempts` (from 1) failed at `failed_at`; `None` gives up.
    #[must_use]
    pub fn next_attempt(&self, attempts: u32, failed_at: Timestamp) -> Option<Timestamp> {
        let index = usize::try_from(attempts).ok()?.checked_sub(1)?;
        self.delays.get(index).map(|delay| failed_at.after(*delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_attempts_one_minute_five_minutes_thirty_minutes_and_two_hours_apart() {
        let (schedule, at) = (RetrySchedule::default(), Timestamp::from_millis(0));
        let waits: Vec<_> =
            (1..=5).map(|n| schedule.next_attempt(n, at).map(|next| next.since(at).as_secs())).collect();
        assert_eq!(waits, [Some(60), Some(300), Some(1_800), Some(7_200), None]);
    }
}
