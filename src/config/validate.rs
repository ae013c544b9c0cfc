//! Validation beyond types: ranges, and settings that depend on each other.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use url::Url;

use super::{Config, ConfigError, HostName, MediaKind, TurnConfig, cluster};

/// The largest duration of a setting: ten years.
const MAX_DURATION: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);
/// The presets of x264, fastest first.
const PRESETS: [&str; 9] = [
    "ultrafast",
    "superfast",
    "veryfast",
    "faster",
    "fast",
    "medium",
    "slow",
    "slower",
    "veryslow",
];
const MAX_WORKERS: usize = 1_024;
/// The most sessions that write to PostgreSQL, and how many may read: one at least for each of point reads, lists and bulk reads.
const MAX_LANES: usize = 256;
const MIN_READERS: usize = 3;
const MAX_READERS: usize = 1_024;
/// The fewest characters of the admin token, which gives access to everything.
const MIN_ADMIN_TOKEN: usize = 16;
/// The most changes a second that a participant may make.
const MAX_CHANGES: u32 = 10_000;
/// Largest rate, burst and failure count.
const MAX_COUNT: u32 = 1_000_000;

impl Config {
    /// Validates ranges and dependencies between settings.
    ///
    /// # Errors
    /// A setting is out of range or contradicts another one. Only the first is reported.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_listeners()?;
        self.validate_tls()?;
        self.validate_counts()?;
        self.validate_database()?;
        self.validate_backup()?;
        cluster::validate(self)?;
        self.validate_durations()?;
        self.validate_media()?;
        self.validate_egress()?;
        validate_url(
            "billing.url",
            self.billing.url.as_deref(),
            &["http", "https"],
        )
    }

    fn validate_listeners(&self) -> Result<(), ConfigError> {
        let (http, admin) = (self.http.listen, self.admin.listen);
        if self.http.workers > MAX_WORKERS {
            return invalid(
                "http.workers",
                format!("must be 0 (one for each core) to {MAX_WORKERS}"),
            );
        }
        if http == admin && http.port() != 0 {
            return invalid(
                "admin.listen",
                format!("must differ from http.listen, which is {http} too"),
            );
        }
        if !self.http.call_page && !self.http.embed_origins.is_empty() {
            return invalid(
                "http.embed_origins",
                "must not be set without http.call_page",
            );
        }
        if !is_loopback(admin) && self.admin.token.is_none() {
            return invalid(
                "admin.token",
                format!("must be set, since admin.listen is {admin} and not loopback"),
            );
        }
        match &self.admin.token {
            Some(token) if token.reveal().len() < MIN_ADMIN_TOKEN => invalid(
                "admin.token",
                format!(
                    "must have at least {MIN_ADMIN_TOKEN} characters, since it could be guessed"
                ),
            ),
            _ => Ok(()),
        }
    }

    fn validate_tls(&self) -> Result<(), ConfigError> {
        let (tls, http) = (&self.tls, self.http.listen);
        let has_tls = tls.domain.is_some() || tls.cert.is_some();
        match (&tls.cert, &tls.key) {
            (Some(_), None) => return invalid("tls.key", "must be set, since tls.cert is"),
            (None, Some(_)) => return invalid("tls.cert", "must be set, since tls.key is"),
            _ => {}
        }
        match tls.redirect_listen {
            Some(_) if !has_tls => invalid(
                "tls.redirect_listen",
                "must not be set without tls.domain or tls.cert",
            ),
            Some(redirect) if redirect == http && http.port() != 0 => invalid(
                "tls.redirect_listen",
                format!("must differ from http.listen, which is {http} too"),
            ),
            _ => self.validate_acme(),
        }
    }

    fn validate_acme(&self) -> Result<(), ConfigError> {
        let tls = &self.tls;
        let Some(domain) = &tls.domain else {
            return Ok(());
        };
        if tls.cert.is_some() {
            return invalid(
                "tls.domain",
                "must not be set together with tls.cert and tls.key: obtain the certificate or give it",
            );
        }
        if domain.domain().is_none() {
            return invalid(
                "tls.domain",
                format!("must be the name of a host such as \"meet.example.org\", not {domain}"),
            );
        }
        if tls
            .acme_contact
            .as_ref()
            .is_some_and(|contact| !is_email(contact))
        {
            return invalid(
                "tls.acme_contact",
                "must be an e-mail address such as \"ops@example.org\"",
            );
        }
        validate_url("tls.acme_directory", Some(&tls.acme_directory), &["https"])
    }

    fn validate_counts(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        validate_count("http.max_connections", self.http.max_connections)?;
        validate_count("http.max_requests", self.http.max_requests)?;
        validate_count("limits.project_running", limits.project_running)?;
        validate_count("limits.project_waiting", limits.project_waiting)?;
        validate_count("limits.requests_per_second", limits.requests_per_second)?;
        validate_count("limits.burst", limits.burst)?;
        validate_count("limits.exchange_per_second", limits.exchange_per_second)?;
        validate_count("limits.exchange_burst", limits.exchange_burst)?;
        validate_count("media.circuit_failures", self.media.circuit_failures)
    }

    fn validate_database(&self) -> Result<(), ConfigError> {
        let database = &self.database;
        if database.url.is_some() && database.url_file.is_some() {
            return invalid(
                "database.url_file",
                "must not be set together with database.url: write the url once",
            );
        }
        if database.root_cert.is_some() && !database.is_postgres() {
            return invalid(
                "database.root_cert",
                "must not be set without database.url or database.url_file",
            );
        }
        if !(1..=MAX_LANES).contains(&database.lanes) {
            return invalid(
                "database.lanes",
                format!("must be 1 to {MAX_LANES}, not {}", database.lanes),
            );
        }
        if !(MIN_READERS..=MAX_READERS).contains(&database.readers) {
            let allowed = format!(
                "must be {MIN_READERS} to {MAX_READERS}, not {}",
                database.readers
            );
            return invalid("database.readers", allowed);
        }
        // Read here, too, so that a mistake is found by whatever reads the settings.
        database.postgres(None).map(drop)
    }

    fn validate_backup(&self) -> Result<(), ConfigError> {
        let backup = &self.backup;
        if backup.directory.is_some() && self.database.is_postgres() {
            return invalid(
                "backup.directory",
                "must not be set with database.url: PostgreSQL is copied by pg_dump",
            );
        }
        validate_duration("backup.every", backup.every)?;
        validate_count("backup.keep", backup.keep)
    }

    fn validate_durations(&self) -> Result<(), ConfigError> {
        let (webhooks, media) = (&self.webhooks, &self.media);
        validate_duration("http.request_timeout", self.http.request_timeout)?;
        validate_duration("http.keep_alive", self.http.keep_alive)?;
        validate_duration("webhooks.tick", webhooks.tick)?;
        validate_duration("webhooks.timeout", webhooks.timeout)?;
        validate_duration("webhooks.retention", webhooks.retention)?;
        if webhooks.retry_delays.is_empty() {
            return invalid(
                "webhooks.retry_delays",
                "must contain at least one delay, such as [\"1m\"]",
            );
        }
        for (index, delay) in webhooks.retry_delays.iter().enumerate() {
            validate_duration(&format!("webhooks.retry_delays[{index}]"), *delay)?;
        }
        validate_duration("recordings.lost_after", self.recordings.lost_after)?;
        if let Some(retention) = self.recordings.retention {
            validate_duration("recordings.retention", retention)?;
        }
        validate_duration("egress.max_duration", self.egress.max_duration)?;
        validate_duration("egress.empty_timeout", self.egress.empty_timeout)?;
        validate_duration("egress.stop_timeout", self.egress.stop_timeout)?;
        validate_duration("media.timeout", media.timeout)?;
        validate_duration("media.reconcile", media.reconcile)?;
        validate_count("media.max_tracks", media.max_tracks)?;
        validate_duration("media.circuit_open", media.circuit_open)
    }

    fn validate_egress(&self) -> Result<(), ConfigError> {
        let egress = &self.egress;
        validate_count("egress.max_composites", egress.max_composites)?;
        for (setting, pixels) in [
            ("egress.width", egress.width),
            ("egress.height", egress.height),
        ] {
            if !(160..=3_840).contains(&pixels) || pixels % 2 != 0 {
                return invalid(
                    setting,
                    format!("must be an even number of 160 to 3840, not {pixels}"),
                );
            }
        }
        for (setting, value, range) in [
            ("egress.nice", egress.nice.into(), 0..=19),
            ("egress.buffer_mib", egress.buffer_mib, 0..=1_048_576),
            ("egress.frame_rate", egress.frame_rate, 1..=60),
            ("egress.video_kbps", egress.video_kbps, 100..=50_000),
            ("egress.audio_kbps", egress.audio_kbps, 16..=510),
        ] {
            if !range.contains(&value) {
                return invalid(
                    setting,
                    format!("must be {} to {}, not {value}", range.start(), range.end()),
                );
            }
        }
        if !PRESETS.contains(&egress.preset.as_str()) {
            return invalid(
                "egress.preset",
                format!("must be one of {}", PRESETS.join(", ")),
            );
        }
        Ok(())
    }

    fn validate_media(&self) -> Result<(), ConfigError> {
        let media = &self.media;
        if media.rtc.workers > MAX_WORKERS {
            return invalid(
                "media.rtc.workers",
                format!("must be 0 (one for each core) to {MAX_WORKERS}"),
            );
        }
        if !(1..=MAX_CHANGES).contains(&media.rtc.changes_per_second) {
            return invalid(
                "media.rtc.changes_per_second",
                format!("must be 1 to {MAX_CHANGES}"),
            );
        }
        validate_turn(&media.rtc.turn)?;
        validate_url(
            "media.url",
            media.url.as_deref(),
            &["ws", "wss", "http", "https"],
        )?;
        validate_url(
            "media.public_url",
            media.public_url.as_deref(),
            &["ws", "wss"],
        )?;
        let secrets =
            usize::from(media.api_secret.is_some()) + usize::from(media.api_secret_file.is_some());
        if secrets > 1 {
            return invalid(
                "media.api_secret_file",
                "must not be set together with media.api_secret",
            );
        }
        let livekit = media.kind == MediaKind::Livekit;
        if livekit && media.url.is_none() {
            return invalid("media.url", "must be set when media.kind is livekit");
        }
        if media.api_key.is_none() && (livekit || secrets == 1) {
            return invalid(
                "media.api_key",
                "must be set when media.kind is livekit or media.api_secret is set",
            );
        }
        if secrets == 0 && (livekit || media.api_key.is_some()) {
            return invalid(
                "media.api_secret",
                "must be set (or media.api_secret_file) when media.kind is livekit or media.api_key is set",
            );
        }
        Ok(())
    }
}

fn validate_turn(turn: &TurnConfig) -> Result<(), ConfigError> {
    for (index, url) in turn.urls.iter().enumerate() {
        let host = url
            .strip_prefix("turn:")
            .or_else(|| url.strip_prefix("turns:"));
        if host.is_none_or(|host| host.is_empty() || host.starts_with("//")) {
            let expected = "must be a url such as \"turn:turn.example.com:3478?transport=udp\"";
            return invalid(&format!("media.rtc.turn.urls[{index}]"), expected);
        }
    }
    if turn.urls.is_empty() == turn.secret.is_some() {
        return invalid(
            "media.rtc.turn.secret",
            "must be set if media.rtc.turn.urls is, and only then",
        );
    }
    validate_duration("media.rtc.turn.ttl", turn.ttl)
}

fn invalid(setting: &str, problem: impl Into<String>) -> Result<(), ConfigError> {
    Err(ConfigError::new(setting, problem))
}

fn validate_count(setting: &str, value: u32) -> Result<(), ConfigError> {
    if (1..=MAX_COUNT).contains(&value) {
        Ok(())
    } else {
        invalid(setting, format!("must be 1 to {MAX_COUNT}, not {value}"))
    }
}

fn validate_duration(setting: &str, value: Duration) -> Result<(), ConfigError> {
    if value > Duration::ZERO && value <= MAX_DURATION {
        Ok(())
    } else {
        invalid(
            setting,
            format!(
                "must be more than 0s and at most 3650d, not {}",
                humantime::format_duration(value)
            ),
        )
    }
}

fn validate_url(setting: &str, text: Option<&str>, schemes: &[&str]) -> Result<(), ConfigError> {
    let Some(text) = text else { return Ok(()) };
    let is_valid =
        Url::parse(text).is_ok_and(|url| schemes.contains(&url.scheme()) && url.has_host());
    if is_valid {
        Ok(())
    } else {
        // The URL may contain a password, so the message omits it.
        invalid(
            setting,
            format!(
                "must be a URL that begins with {}://",
                schemes.join(":// or ")
            ),
        )
    }
}

/// Whether a text can be the address in a `mailto:` url.
fn is_email(text: &str) -> bool {
    let parts = text
        .split_once('@')
        .filter(|(user, host)| !user.is_empty() && HostName::parse(host).is_some());
    parts.is_some()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"?,%".contains(&byte))
}

fn is_loopback(address: SocketAddr) -> bool {
    IpAddr::to_canonical(&address.ip()).is_loopback()
}
