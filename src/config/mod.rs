//! The operator's settings: one struct for each section, loaded once at start.
//!
//! Settings come from four layers, of which a later one overrides an earlier one: built-in defaults (`dev` has some of its
//! own), the file, the environment, the command line. An unknown setting is an error, because a misspelt limit that is
//! ignored is a limit that does not apply.

mod backup;
mod cluster;
mod database;
mod egress;
mod environment;
mod error;
mod host;
mod http;
mod kubernetes;
mod load;
mod media;
mod media_credentials;
mod plans;
mod report;
mod rtc;
mod schema;
mod storage;
#[cfg(test)]
mod tests;
mod text;
mod tls;
mod validate;
mod webhooks;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

pub use backup::BackupConfig;
pub use cluster::ClusterConfig;
pub use database::DatabaseConfig;
pub use egress::EgressConfig;
pub use error::ConfigError;
pub use host::HostName;
pub use http::{AdminConfig, HttpConfig, LimitsConfig, Origin};
pub use load::{DEFAULT_FILE, LoadedConfig, Sources};
pub use media::{MediaConfig, MediaKind};
pub use media_credentials::{MediaCredentials, MediaCredentialsError};
pub use plans::{DEFAULT_PLAN, Plans};
pub use report::{SettingOrigins, SettingReport};
pub use rtc::{PortRange, RtcConfig, TURN_PORT, TurnConfig, TurnMode};
pub use storage::{BillingConfig, EncryptionConfig, PlansConfig, RecordingsConfig};
pub use tls::{AcmeConfig, TlsConfig};
pub use webhooks::WebhooksConfig;

/// All settings. `Debug` and `Serialize` output contain no secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Section `http`: the API listener.
    pub http: HttpConfig,
    /// Section `tls`: TLS on the API listener.
    pub tls: TlsConfig,
    /// Section `admin`: the admin listener.
    pub admin: AdminConfig,
    /// Section `limits`: request rates.
    pub limits: LimitsConfig,
    /// Section `webhooks`: delivery of events.
    pub webhooks: WebhooksConfig,
    /// Section `media`: the media plane.
    pub media: MediaConfig,
    /// Section `database`: where the records are.
    pub database: DatabaseConfig,
    /// Section `backup`: copies of the database.
    pub backup: BackupConfig,
    /// Section `cluster`: servers with one database, each of which may be called.
    pub cluster: ClusterConfig,
    /// Section `encryption`: the key that seals secrets in the database.
    pub encryption: EncryptionConfig,
    /// Section `recordings`: recordings on this machine.
    pub recordings: RecordingsConfig,
    /// Section `egress`: recordings and broadcasts.
    pub egress: EgressConfig,
    /// Section `plans`: the plans file.
    pub plans: PlansConfig,
    /// Section `billing`: the external billing service.
    pub billing: BillingConfig,
}

/// Where RTMP encoders connect to a development server, unless the port is in use.
const DEV_RTMP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1935);

/// The set of defaults that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `conclave serve`, and every command that is not `dev`.
    Serve,
    /// `conclave dev`: the call page and the sandbox are on, clients on this machine get its loopback address, RTMP encoders
    /// on it can connect, and webhooks and egress to loopback addresses are allowed.
    Dev,
}

impl Config {
    /// Returns the built-in settings of a mode.
    #[must_use]
    pub fn defaults(mode: Mode) -> Self {
        let mut config = Self::default();
        if mode == Mode::Dev {
            config.http.call_page = true;
            config.media.sandbox = true;
            config.media.rtc.loopback = true;
            config.media.rtmp_listen = Some(DEV_RTMP);
            config.webhooks.allow_networks = text::loopback();
            config.egress.allow_networks = text::loopback();
        }
        config
    }

    /// Returns whether there is a TURN server in this process.
    #[must_use]
    pub fn has_turn_server(&self) -> bool {
        let is_wanted = match self.media.rtc.turn.server {
            TurnMode::Auto => self.tls.domain.is_some(),
            TurnMode::On => true,
            TurnMode::Off => false,
        };
        is_wanted && self.media.kind == MediaKind::Embedded && self.media.rtc.enabled
    }
}
