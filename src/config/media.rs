//! What carries audio and video, and how patient the control plane is with it.

use std::path::PathBuf;
use std::time::Duration;

use conclave_model::Secret;
use serde::{Deserialize, Serialize};

use super::text;

/// Settings of the media plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MediaConfig {
    /// Which media plane.
    pub kind: MediaKind,
    /// Whether `/sandbox/*` on the admin listener may stand in for people. Embedded plane only.
    pub sandbox: bool,
    /// Where the control plane reaches the media plane.
    #[serde(with = "text::optional")]
    pub url: Option<String>,
    /// Where clients reach the media plane, when that is another address.
    #[serde(with = "text::optional")]
    pub public_url: Option<String>,
    /// The media plane's API key. The embedded plane makes its own when there is none.
    #[serde(with = "text::optional")]
    pub api_key: Option<String>,
    /// The media plane's API secret, which room tokens are signed with.
    #[serde(with = "text::optional")]
    pub api_secret: Option<Secret>,
    /// A file that holds the API secret, instead of `api_secret`.
    #[serde(with = "text::optional")]
    pub api_secret_file: Option<PathBuf>,
    /// How long a call to the media plane may take.
    #[serde(with = "text::one")]
    pub timeout: Duration,
    /// How often the records are compared with what the media plane says.
    #[serde(with = "text::one")]
    pub reconcile: Duration,
    /// Failures in a row after which calls are refused without trying.
    pub circuit_failures: u32,
    /// How long they are refused before one is tried again.
    #[serde(with = "text::one")]
    pub circuit_open: Duration,
}

/// The media planes there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MediaKind {
    /// In this process.
    #[default]
    Embedded,
    /// A LiveKit server.
    Livekit,
}

impl Default for MediaConfig {
    fn default() -> Self {
        Self {
            kind: MediaKind::Embedded,
            sandbox: false,
            url: None,
            public_url: None,
            api_key: None,
            api_secret: None,
            api_secret_file: None,
            timeout: Duration::from_secs(10),
            reconcile: Duration::from_secs(60),
            circuit_failures: 5,
            circuit_open: Duration::from_secs(5),
        }
    }
}
