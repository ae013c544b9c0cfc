//! The operator's settings: one struct per section, loaded once at start.
//!
//! Sections are declared by [`conclave_model::settings!`]: the server's own here, and those shared with other crates in
//! [`conclave_model::settings`]. [`reference`] generates the operators' documentation from the declarations. [`Sources`] loads the
//! settings; [`Config::validate`] checks dependencies between them.
//!
//! Settings come from four layers, each overriding the earlier ones: built-in defaults (some differ in `dev`), the file, the environment,
//! the command line. An unknown setting is an error, because a misspelt limit that is ignored is a limit that does not apply.

mod cluster;
mod database;
mod effective;
mod environment;
mod error;
mod http;
mod kubernetes;
mod load;
mod media_credentials;
mod plans;
mod quality;
pub mod reference;
#[cfg(test)]
mod tests;
mod tls;
mod validate;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv4Net};

pub use conclave_model::settings::{
    EgressConfig, EventsConfig, KeyFile, MediaConfig, MediaKind, PortRange, RecordingsConfig,
    RtcConfig, TURN_PORT, TurnConfig, TurnMode, WebhooksConfig,
};

pub use cluster::ClusterConfig;
pub use database::{BackupConfig, DatabaseConfig, EncryptionConfig};
pub use effective::{EffectiveSetting, SettingOrigins, SettingSource};
pub use error::ConfigError;
pub use http::{AdminConfig, EmbedOrigin, HostName, HttpConfig, LimitsConfig, Origin};
pub use load::{DEFAULT_FILE, LoadedConfig, Sources};
pub use media_credentials::{MediaCredentials, MediaCredentialsError};
pub use plans::{BillingConfig, DEFAULT_PLAN, Plans, PlansConfig};
pub use quality::QualityConfig;
pub use tls::{AcmeConfig, TlsConfig};

conclave_model::settings! {
    /// All settings. `Debug` and `Serialize` output contain no secret.
    pub struct Config {
        section http: HttpConfig;
        section tls: TlsConfig;
        section admin: AdminConfig;
        section limits: LimitsConfig;
        section webhooks: WebhooksConfig;
        section events: EventsConfig;
        section media: MediaConfig;
        section database: DatabaseConfig;
        section backup: BackupConfig;
        section cluster: ClusterConfig;
        section encryption: EncryptionConfig;
        section recordings: RecordingsConfig;
        section egress: EgressConfig;
        section quality: QualityConfig;
        section plans: PlansConfig;
        section billing: BillingConfig;
    }
}

/// Address for RTMP encoders of a development server, unless the port is in use.
const DEV_RTMP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1935);

/// Which defaults apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `conclave serve`, and every command except `dev`.
    Serve,
    /// `conclave dev`: the call page and the sandbox are enabled, local pages may embed the call, local clients get the loopback address,
    /// local RTMP encoders can connect, and webhooks and egress to loopback addresses are allowed.
    Dev,
}

impl Config {
    /// Returns a mode's built-in settings.
    #[must_use]
    pub fn defaults(mode: Mode) -> Self {
        let mut config = Self::default();
        // Everything that a developer would otherwise have to enable first, limited to this machine.
        if mode == Mode::Dev {
            config.http.call_page = true;
            config.http.embed_origins = EmbedOrigin::loopback();
            config.media.sandbox = true;
            config.media.rtc.loopback = true;
            config.media.rtmp_listen = Some(DEV_RTMP);
            config.webhooks.allow_networks = loopback();
            config.egress.allow_networks = loopback();
        }
        config
    }

    /// Returns whether this process runs a TURN server.
    #[must_use]
    pub fn has_turn_server(&self) -> bool {
        let is_wanted = match self.media.rtc.turn.server {
            // With a certificate's domain, the server is public, so some clients are behind firewalls.
            TurnMode::Auto => self.tls.domain.is_some(),
            TurnMode::On => true,
            TurnMode::Off => false,
        };
        // It relays to media workers only, which LiveKit and `enabled = false` do not have here.
        is_wanted && self.media.kind == MediaKind::Embedded && self.media.rtc.enabled
    }
}

/// Returns the loopback networks 127.0.0.0/8 and ::1/128.
fn loopback() -> Vec<IpNet> {
    let v4 = Ipv4Net::new(Ipv4Addr::LOCALHOST, 8).map(|net| IpNet::from(net.trunc()));
    v4.into_iter()
        .chain([IpNet::from(IpAddr::from(Ipv6Addr::LOCALHOST))])
        .collect()
}
