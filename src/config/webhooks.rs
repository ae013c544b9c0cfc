//! What leaves the deployment: webhook deliveries, and the destinations of recordings and broadcasts.

use std::time::Duration;

use conclave_model::webhook::RetrySchedule;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::text;

const DAY: u64 = 24 * 60 * 60;

/// Telling receivers of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhooksConfig {
    /// How often deliveries that are due are taken up, first attempts too.
    #[serde(with = "text::one")]
    pub tick: Duration,
    /// How long a receiver may take to answer.
    #[serde(with = "text::one")]
    pub timeout: Duration,
    /// The waits between attempts. As many attempts are made as there are waits, and one more.
    #[serde(with = "text::list")]
    pub retry_delays: Vec<Duration>,
    /// Networks that the address filter lets through although they are not public.
    #[serde(with = "text::list")]
    pub allow_networks: Vec<IpNet>,
    /// How long finished deliveries stay in the log.
    #[serde(with = "text::one")]
    pub retention: Duration,
}

/// Where recordings and broadcasts may go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EgressConfig {
    /// Networks that destinations may be in although they are not public.
    #[serde(with = "text::list")]
    pub allow_networks: Vec<IpNet>,
}

impl WebhooksConfig {
    /// The waits, as the schedule that deliveries follow.
    #[must_use]
    pub fn retry_schedule(&self) -> RetrySchedule {
        RetrySchedule { delays: self.retry_delays.clone() }
    }
}

impl Default for WebhooksConfig {
    fn default() -> Self {
        Self {
            tick: Duration::from_secs(5),
            timeout: Duration::from_secs(10),
            retry_delays: RetrySchedule::default().delays,
            allow_networks: Vec::new(),
            retention: Duration::from_secs(30 * DAY),
        }
    }
}
