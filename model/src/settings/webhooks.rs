//! Section `webhooks`.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::Rule;
use crate::Timestamp;

const DAY: u64 = 24 * 60 * 60;
/// Delays between a delivery's attempts, in seconds.
// The contract's schedule: five attempts.
const RETRY_DELAYS: [u64; 4] = [60, 300, 1_800, 7_200];

crate::settings! {
    /// Delivery of events to webhook endpoints.
    pub struct WebhooksConfig {
        /// Interval at which due retries are sent, and the longest wait of a first attempt behind an earlier event of its room.
        ///
        /// Ticks are at whole multiples of the interval. Other first attempts are sent at once.
        // The contract's tick.
        pub tick: Duration = Duration::from_secs(5);
        /// Timeout of a delivery attempt.
        // The contract's timeout.
        pub timeout: Duration = Duration::from_secs(10);
        /// Delays between a delivery's attempts. There is one more attempt than there are delays.
        pub retry_delays: Vec<Duration> = RETRY_DELAYS.map(Duration::from_secs).into(),
            Rule::NotEmpty("must contain at least one delay, such as [\"1m\"]");
        /// Time without one accepted delivery after which a failing webhook endpoint is disabled.
        pub disable_after: Duration = Duration::from_secs(5 * DAY);
        /// Non-public networks in which receivers are allowed, such as "10.0.0.0/8".
        ///
        /// By default, projects cannot send webhooks into your own network.
        pub allow_networks: Vec<IpNet> = Vec::new();
        /// PEM file with root certificates of a [private authority](running.md#private-certificate-authorities) for webhook receivers, in
        /// addition to the built-in ones.
        pub root_certs: Option<PathBuf> = None;
        /// Time for which deliveries are kept that are final, or whose endpoint is not active.
        pub retention: Duration = Duration::from_secs(30 * DAY);
    }
}

impl WebhooksConfig {
    /// Returns the time of the next attempt after attempt number `attempts` (from 1) failed at `failed_at`; `None` if it was the last.
    #[must_use]
    pub fn next_attempt(&self, attempts: u32, failed_at: Timestamp) -> Option<Timestamp> {
        // Attempts count from 1, delays from 0.
        let index = usize::try_from(attempts).ok()?.checked_sub(1)?;
        self.retry_delays
            .get(index)
            .map(|delay| failed_at.after(*delay))
    }

    /// Returns the longest delay between two attempts.
    #[must_use]
    pub fn longest_delay(&self) -> Duration {
        self.retry_delays.iter().max().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_attempts_one_minute_five_minutes_thirty_minutes_and_two_hours_apart() {
        let (schedule, at) = (WebhooksConfig::default(), Timestamp::from_millis(0));
        let waits: Vec<_> = (1..=5)
            .map(|n| {
                schedule
                    .next_attempt(n, at)
                    .map(|next| next.since(at).as_secs())
            })
            .collect();
        assert_eq!(waits, [Some(60), Some(300), Some(1_800), Some(7_200), None]);
        assert_eq!(
            (
                schedule.next_attempt(0, at),
                schedule.longest_delay().as_secs()
            ),
            (None, 7_200)
        );
    }
}
