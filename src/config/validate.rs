//! What types cannot say: ranges, and settings that need each other.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use url::Url;

use super::{Config, ConfigError, MediaKind};

const NEVER: Duration = Duration::ZERO;
const TEN_YEARS: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);
const MOST_WORKERS: usize = 1_024;
const MOST_CALLS: u32 = 1_000_000;

impl Config {
    /// Checks ranges, and settings against each other.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.listeners()?;
        self.counts()?;
        self.spans()?;
        self.media_plane()?;
        web_address("billing.url", self.billing.url.as_deref(), &["http", "https"])
    }

    fn listeners(&self) -> Result<(), ConfigError> {
        let (http, admin) = (self.http.listen, self.admin.listen);
        if self.http.workers > MOST_WORKERS {
            return refuse("http.workers", format!("must be 0 (one a core) to {MOST_WORKERS}"));
        }
        if http == admin && http.port() != 0 {
            return refuse("admin.listen", format!("must differ from http.listen, which is {http} too"));
        }
        if !is_loopback(admin) && self.admin.token.is_none() {
            return refuse("admin.token", format!("must be set, since admin.listen is {admin} and not loopback"));
        }
        Ok(())
    }

    fn counts(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        count("limits.requests_per_second", limits.requests_per_second)?;
        count("limits.burst", limits.burst)?;
        count("limits.exchange_per_second", limits.exchange_per_second)?;
        count("limits.exchange_burst", limits.exchange_burst)?;
        count("media.circuit_failures", self.media.circuit_failures)
    }

    fn spans(&self) -> Result<(), ConfigError> {
        let (webhooks, media) = (&self.webhooks, &self.media);
        span("webhooks.tick", webhooks.tick)?;
        span("webhooks.timeout", webhooks.timeout)?;
        span("webhooks.retention", webhooks.retention)?;
        if webhooks.retry_delays.is_empty() {
            return refuse("webhooks.retry_delays", "must name at least one wait, such as [\"1m\"]");
        }
        for (index, delay) in webhooks.retry_delays.iter().enumerate() {
            span(&format!("webhooks.retry_delays[{index}]"), *delay)?;
        }
        span("media.timeout", media.timeout)?;
        span("media.reconcile", media.reconcile)?;
        span("media.circuit_open", media.circuit_open)
    }

    fn media_plane(&self) -> Result<(), ConfigError> {
        let media = &self.media;
        web_address("media.url", media.url.as_deref(), &["ws", "wss", "http", "https"])?;
        web_address("media.public_url", media.public_url.as_deref(), &["ws", "wss"])?;
        let secrets = usize::from(media.api_secret.is_some()) + usize::from(media.api_secret_file.is_some());
        if secrets > 1 {
            return refuse("media.api_secret_file", "must not be set beside media.api_secret");
        }
        let livekit = media.kind == MediaKind::Livekit;
        if livekit && media.url.is_none() {
            return refuse("media.url", "must be set when media.kind is livekit");
        }
        if media.api_key.is_none() && (livekit || secrets == 1) {
            return refuse("media.api_key", "must be set when media.kind is livekit or media.api_secret is set");
        }
        if secrets == 0 && (livekit || media.api_key.is_some()) {
            return refuse(
                "media.api_secret",
                "must be set (or media.api_secret_file) when media.kind is livekit or media.api_key is set",
            );
        }
        Ok(())
    }
}

fn refuse(setting: &str, problem: impl Into<String>) -> Result<(), ConfigError> {
    Err(ConfigError::new(setting, problem))
}

fn count(setting: &str, value: u32) -> Result<(), ConfigError> {
    if (1..=MOST_CALLS).contains(&value) {
        Ok(())
    } else {
        refuse(setting, format!("must be 1 to {MOST_CALLS}, not {value}"))
    }
}

fn span(setting: &str, value: Duration) -> Result<(), ConfigError> {
    if value > NEVER && value <= TEN_YEARS {
        Ok(())
    } else {
        refuse(setting, format!("must be more than 0s and at most 3650d, not {}", humantime::format_duration(value)))
    }
}

fn web_address(setting: &str, text: Option<&str>, schemes: &[&str]) -> Result<(), ConfigError> {
    let Some(text) = text else { return Ok(()) };
    let sound = Url::parse(text).is_ok_and(|url| schemes.contains(&url.scheme()) && url.has_host());
    if sound {
        Ok(())
    } else {
        // An address may carry a password, so it is not repeated.
        refuse(setting, format!("must be an address that begins with {}://", schemes.join(":// or ")))
    }
}

fn is_loopback(address: SocketAddr) -> bool {
    IpAddr::to_canonical(&address.ip()).is_loopback()
}
