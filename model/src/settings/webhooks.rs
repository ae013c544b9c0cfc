//! Section `webhooks`.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::Rule;
use crate::webhook::RetrySchedule;

const DAY: u64 = 24 * 60 * 60;

crate::settings! {
    /// Delivery of events to webhook endpoints.
    pub struct WebhooksConfig {
        /// Interval at which due deliveries are sent, including first attempts.
        ///
        /// Ticks are at whole multiples of it.
        pub tick: Duration = Duration::from_secs(5);
        /// Timeout of a delivery attempt.
        pub timeout: Duration = Duration::from_secs(10);
        /// Delays between the attempts of a delivery. There is one more attempt than there are delays.
        pub retry_delays: Vec<Duration> = RetrySchedule::default().delays,
            Rule::NotEmpty("must contain at least one delay, such as [\"1m\"]");
        /// Non-public networks in which receivers are allowed, such as "10.0.0.0/8".
        ///
        /// By default, projects cannot send webhooks into your own network.
        pub allow_networks: Vec<IpNet> = Vec::new();
        /// PEM file of root certificates of a [private authority](running.md#private-certificate-authorities) that receivers of
        /// webhooks may have, in addition to the built-in ones.
        pub root_certs: Option<PathBuf> = None;
        /// How long final deliveries and their events stay in the log.
        pub retention: Duration = Duration::from_secs(30 * DAY);
    }
}

impl WebhooksConfig {
    /// Returns `retry_delays` as the schedule of deliveries.
    #[must_use]
    pub fn retry_schedule(&self) -> RetrySchedule {
        RetrySchedule {
            delays: self.retry_delays.clone(),
        }
    }
}
