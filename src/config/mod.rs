//! What the operator decides: one struct a concern, read once at start and passed down from there.
//!
//! Settings come in layers, the later winning: built-in defaults (`dev` has some of its own), the file, the
//! environment, the command line. An unknown setting is an error and not ignored, since a misspelt limit or address is
//! a limit or address that does not hold.

mod environment;
mod error;
mod http;
mod load;
mod media;
mod media_secret;
mod plans;
mod storage;
#[cfg(test)]
mod tests;
mod text;
mod validate;
mod webhooks;

use serde::{Deserialize, Serialize};

pub use error::ConfigError;
pub use http::{AdminConfig, HttpConfig, LimitsConfig, Origin};
pub use load::{DEFAULT_FILE, Sources};
pub use media::{MediaConfig, MediaKind};
pub use media_secret::{MediaCredentials, MediaCredentialsError};
pub use plans::{DEFAULT_PLAN, Plans};
pub use storage::{BillingConfig, EncryptionConfig, PlansConfig, RecordingsConfig};
pub use webhooks::{EgressConfig, WebhooksConfig};

/// Every setting. Printing or serializing it shows no secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The API listener.
    pub http: HttpConfig,
    /// The admin listener.
    pub admin: AdminConfig,
    /// How often callers may call.
    pub limits: LimitsConfig,
    /// Telling receivers of events.
    pub webhooks: WebhooksConfig,
    /// What carries audio and video.
    pub media: MediaConfig,
    /// Secrets at rest.
    pub encryption: EncryptionConfig,
    /// Recordings kept here.
    pub recordings: RecordingsConfig,
    /// Where recordings and broadcasts may go.
    pub egress: EgressConfig,
    /// What projects may use.
    pub plans: PlansConfig,
    /// Who keeps wallets.
    pub billing: BillingConfig,
}

/// Which defaults apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `conclave serve`, and every command that is not `dev`.
    Serve,
    /// `conclave dev`: the sandbox is on, and loopback receivers are let through.
    Dev,
}

impl Config {
    /// The built-in settings of a mode.
    #[must_use]
    pub fn defaults(mode: Mode) -> Self {
        let mut config = Self::default();
        if mode == Mode::Dev {
            config.media.sandbox = true;
            config.webhooks.allow_networks = text::loopback();
            config.egress.allow_networks = text::loopback();
        }
        config
    }

    /// Reads the file and the process's environment on top of the defaults, and checks the result.
    ///
    /// # Errors
    /// The first setting that is unknown, of the wrong type, out of range or at odds with another.
    pub fn load(mode: Mode, file: Option<&std::path::Path>) -> Result<Self, ConfigError> {
        Sources::from_process(mode, file).load()
    }
}
