//! Validation of settings that depend on each other. A setting's own rule is declared with it.

use std::net::{IpAddr, SocketAddr};

use conclave_model::settings::{InvalidSetting, Section};
use url::Url;

use super::{Config, ConfigError, HostName, MediaKind, TurnConfig, cluster};

impl Config {
    /// Validates ranges and dependencies between settings.
    ///
    /// # Errors
    /// If a setting is out of range or contradicts another one. Only the first error is reported.
    pub fn validate(&self) -> Result<(), ConfigError> {
        // Each setting by itself first: later rules rely on valid values.
        self.check("")?;
        self.validate_listeners()?;
        self.validate_tls()?;
        self.validate_database()?;
        self.validate_backup()?;
        cluster::validate(self)?;
        validate_turn(&self.media.rtc.turn)?;
        self.validate_media()
    }

    fn validate_listeners(&self) -> Result<(), ConfigError> {
        let (http, admin) = (self.http.listen, self.admin.listen);
        // Two listeners with port 0 get different ports.
        if http == admin && http.port() != 0 {
            return invalid(
                "admin.listen",
                format!("must differ from http.listen, which is also {http}"),
            );
        }
        if !self.http.call_page && !self.http.embed_origins.is_empty() {
            return invalid(
                "http.embed_origins",
                "must not be set without http.call_page",
            );
        }
        if !self.http.call_page && self.http.call_effects.is_some() {
            return invalid(
                "http.call_effects",
                "must not be set without http.call_page",
            );
        }
        // From other machines, the admin listener would give everybody full control.
        if !is_loopback(admin) && self.admin.token.is_none() {
            return invalid(
                "admin.token",
                format!("must be set, since admin.listen is {admin} and not loopback"),
            );
        }
        Ok(())
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
            // Otherwise the second bind would fail with a less clear message.
            Some(redirect) if redirect == http && http.port() != 0 => invalid(
                "tls.redirect_listen",
                format!("must differ from http.listen, which is also {http}"),
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
                "must not be set together with tls.cert and tls.key: use ACME or certificate files",
            );
        }
        // ACME challenges for IP addresses and wildcards work differently.
        if domain.domain().is_none() {
            return invalid(
                "tls.domain",
                format!("must be a host name such as \"meet.example.org\", not {domain}"),
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
        if !Url::parse(&tls.acme_directory)
            .is_ok_and(|url| url.scheme() == "https" && url.has_host())
        {
            // The URL may contain a password, so the message omits it.
            return invalid("tls.acme_directory", "must be an https:// URL");
        }
        Ok(())
    }

    fn validate_database(&self) -> Result<(), ConfigError> {
        let database = &self.database;
        if database.url.is_some() && database.url_file.is_some() {
            return invalid(
                "database.url_file",
                "must not be set together with database.url: set the URL once",
            );
        }
        if database.root_cert.is_some() && !database.is_postgres() {
            return invalid(
                "database.root_cert",
                "must not be set without database.url or database.url_file",
            );
        }
        // Here, too, so that every command that loads the settings reports a mistake.
        database.postgres(None).map(drop)
    }

    fn validate_backup(&self) -> Result<(), ConfigError> {
        let backup = &self.backup;
        if backup.directory.is_some() && self.database.is_postgres() {
            return invalid(
                "backup.directory",
                "must not be set with database.url: use pg_dump to copy PostgreSQL",
            );
        }
        Ok(())
    }

    fn validate_media(&self) -> Result<(), ConfigError> {
        let media = &self.media;
        let secrets =
            usize::from(media.api_secret.is_some()) + usize::from(media.api_secret_file.is_some());
        if secrets > 1 {
            return invalid(
                "media.api_secret_file",
                "must not be set together with media.api_secret",
            );
        }
        // LiveKit's key and secret are the operator's; the embedded media plane can generate its own.
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
    // A secret without URLs would have no effect, and URLs without a secret would give clients no credentials.
    if turn.urls.is_empty() == turn.secret.is_some() {
        return invalid(
            "media.rtc.turn.secret",
            "must be set if and only if media.rtc.turn.urls is set",
        );
    }
    Ok(())
}

impl From<InvalidSetting> for ConfigError {
    fn from(InvalidSetting { setting, problem }: InvalidSetting) -> Self {
        Self::new(setting, problem)
    }
}

fn invalid(setting: &str, problem: impl Into<String>) -> Result<(), ConfigError> {
    Err(ConfigError::new(setting, problem))
}

/// Returns whether a text can be the address in a `mailto:` URL.
fn is_email(text: &str) -> bool {
    let parts = text
        .split_once('@')
        .filter(|(user, host)| !user.is_empty() && HostName::parse(host).is_some());
    parts.is_some()
        && text
            .bytes()
            // These would start a query, another address or an escape in the URL.
            .all(|byte| byte.is_ascii_graphic() && !b"?,%".contains(&byte))
}

fn is_loopback(address: SocketAddr) -> bool {
    IpAddr::to_canonical(&address.ip()).is_loopback()
}
