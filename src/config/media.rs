//! Settings of the media plane: its address, credentials, timeouts and circuit breaker.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use conclave_model::Secret;
use serde::{Deserialize, Serialize};

use super::{RtcConfig, text};

/// Section `media`: the media plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MediaConfig {
    /// The kind of media plane.
    pub kind: MediaKind,
    /// Enables `/sandbox/*` on the admin listener, which simulates participants, and lets clients simulate failures of the server.
    /// Embedded media plane only.
    pub sandbox: bool,
    /// URL at which this server reaches the media plane.
    #[serde(with = "text::optional")]
    pub url: Option<String>,
    /// URL at which clients reach the media plane. Default: `url`.
    #[serde(with = "text::optional")]
    pub public_url: Option<String>,
    /// Address on which RTMP encoders connect, by TLS if the API has it. Embedded media plane only. Default: none.
    #[serde(with = "text::optional")]
    pub rtmp_listen: Option<SocketAddr>,
    /// API key of the media plane. Default: a generated one for the embedded media plane.
    #[serde(with = "text::optional")]
    pub api_key: Option<String>,
    /// API secret of the media plane, which signs room tokens.
    #[serde(with = "text::optional")]
    pub api_secret: Option<Secret>,
    /// File with the API secret, as an alternative to `api_secret`.
    #[serde(with = "text::optional")]
    pub api_secret_file: Option<PathBuf>,
    /// Timeout of a call to the media plane.
    #[serde(with = "text::required")]
    pub timeout: Duration,
    /// Interval at which the records are reconciled with the media plane.
    #[serde(with = "text::required")]
    pub reconcile: Duration,
    /// Consecutive failures that open the circuit: further calls then fail without being tried.
    pub circuit_failures: u32,
    /// How long the circuit stays open before one call is tried.
    #[serde(with = "text::required")]
    pub circuit_open: Duration,
    /// Tracks that a participant may have at once. Embedded media plane only.
    pub max_tracks: u32,
    /// Section `media.rtc`: how clients reach the embedded media plane.
    pub rtc: RtcConfig,
}

/// The kinds of media plane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MediaKind {
    /// The media plane inside this process.
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
            rtmp_listen: None,
            api_key: None,
            api_secret: None,
            api_secret_file: None,
            timeout: Duration::from_secs(10),
            reconcile: Duration::from_secs(60),
            circuit_failures: 5,
            circuit_open: Duration::from_secs(5),
            max_tracks: 100,
            rtc: RtcConfig::default(),
        }
    }
}
