//! Settings of webhook deliveries.

use std::path::PathBuf;
use std::time::Duration;

use conclave_model::webhook::RetrySchedule;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::text;

const DAY: u64 = 24 * 60 * 60;

/// Section `webhooks`: delivery of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhooksConfig {
    /// Interval at which due deliveries are sent, including first attempts.
    #[serde(with = "text::required")]
    pub tick: Duration,
    /// Timeout of one delivery attempt.
    #[serde(with = "text::required")]
    pub timeout: Duration,
    /// Delays between attempts. There is one more attempt than there are delays.
    #[serde(with = "text::list")]
    pub retry_delays: Vec<Duration>,
    /// Networks that receivers may be in although they are not public.
    #[serde(with = "text::list")]
    pub allow_networks: Vec<IpNet>,
    /// File of root certificates, in PEM, that receivers are trusted by beside the built-in ones.
    #[serde(with = "text::optional")]
    pub root_certs: Option<PathBuf>,
    /// How long final deliveries are kept.
    #[serde(with = "text::required")]
    pub retention: Duration,
}

impl WebhooksConfig {
    /// Returns `retry_delays` as the schedule of deliveries.
    pub fn retry_schedule(&self) -> RetrySchedule {
        RetrySchedule {
            delays: self.retry_delays.clone(),
        }
    }
}

impl Default for WebhooksConfig {
    fn default() -> Self {
        Self {
            tick: Duration::from_secs(5),
            timeout: Duration::from_secs(10),
            retry_delays: RetrySchedule::default().delays,
            allow_networks: Vec::new(),
            root_certs: None,
            retention: Duration::from_secs(30 * DAY),
        }
    }
}
