//! The configured media plane. Only this module distinguishes between the kinds.

use std::path::Path;
use std::sync::Arc;

use conclave_media::embedded::EmbeddedPlane;
use conclave_media::livekit::{LivekitPlane, LivekitSettings};
use conclave_media::{CircuitSettings, MediaPlane};
use conclave_model::LeaseCheck;
use url::{Position, Url};

use super::media::{self, PlaneSetup};
use super::tls::PublicUrls;
use crate::config::{Config, MediaKind};
use crate::error::CliError;
use crate::http::media::media_url::names_all_addresses;

/// Media plane of either kind. Clones share it.
#[derive(Clone)]
pub(super) enum Plane {
    /// In this process.
    Embedded(EmbeddedPlane),
    /// A LiveKit server.
    Livekit(LivekitPlane),
}

impl Plane {
    /// Builds the configured media plane. The embedded one starts its media workers; no connection to LiveKit is made yet.
    ///
    /// # Errors
    /// If the embedded media plane's addresses or a file cannot be used.
    pub fn new(setup: &PlaneSetup<'_>) -> Result<Self, CliError> {
        let PlaneSetup {
            config,
            data,
            clock,
            signer,
            reports,
            lease,
            ..
        } = *setup;
        match config.media.kind {
            MediaKind::Embedded => media::build_plane(setup).map(Self::Embedded),
            MediaKind::Livekit => {
                let (settings, sink) = (
                    livekit_settings(config, data, lease.clone()),
                    Arc::new(reports.clone()),
                );
                Ok(Self::Livekit(LivekitPlane::new(
                    settings,
                    Arc::clone(signer),
                    clock.clone(),
                    sink,
                )))
            }
        }
    }

    /// Returns the media plane as the trait that the rest of the server uses.
    pub fn port(&self) -> Arc<dyn MediaPlane> {
        match self {
            Self::Embedded(plane) => Arc::new(plane.clone()),
            Self::Livekit(plane) => Arc::new(plane.clone()),
        }
    }

    /// Returns the circuit breaker's settings. The embedded media plane has none, because it always responds at once.
    pub fn circuit(&self, config: &Config) -> Option<CircuitSettings> {
        let settings = CircuitSettings {
            failures: config.media.circuit_failures,
            open: config.media.circuit_open,
        };
        matches!(self, Self::Livekit(_)).then_some(settings)
    }

    /// Returns the embedded media plane, if configured.
    pub fn embedded(&self) -> Option<EmbeddedPlane> {
        match self {
            Self::Embedded(plane) => Some(plane.clone()),
            Self::Livekit(_) => None,
        }
    }

    /// Returns the LiveKit media plane, if configured.
    pub fn livekit(&self) -> Option<LivekitPlane> {
        match self {
            Self::Embedded(_) => None,
            Self::Livekit(plane) => Some(plane.clone()),
        }
    }
}

/// Returns the LiveKit media plane's settings. The URL is empty for the embedded one.
pub(crate) fn livekit_settings(config: &Config, data: &Path, lease: LeaseCheck) -> LivekitSettings {
    LivekitSettings {
        url: config.media.url.clone().unwrap_or_default(),
        timeout: config.media.timeout,
        recordings: config.recordings.path(data),
        lease,
    }
}

/// Warning for a server that listens on all addresses and has no configured public URL.
pub(super) const NO_PUBLIC_URL: &str = "media.public_url is not set, and the API listens on all addresses: tokens and ingress endpoints name \
                                        the host by which each request came; set media.public_url to the URL by which clients reach the server";

/// Returns the warning if the URL for clients would name all addresses; `None` if it is configured, or one address.
pub(crate) fn public_url_problem(config: &Config) -> Option<String> {
    // A certificate names the host, even if the listener has all addresses.
    let is_named = config.tls.domain.is_some() || config.tls.files().is_some();
    let api = PublicUrls::new(config.http.listen, None);
    (!is_named && names_all_addresses(&client_url(config, &api))).then(|| NO_PUBLIC_URL.to_owned())
}

/// Returns the media plane's WebSocket URL for clients with a room token: `media.public_url`, or else LiveKit's `media.url`, or else the
/// URL of the API listener.
pub(super) fn client_url(config: &Config, urls: &PublicUrls) -> String {
    let media = &config.media;
    let livekit_url = media
        .url
        .as_ref()
        .filter(|_| media.kind == MediaKind::Livekit);
    // `http` becomes `ws`, and `https` becomes `wss`.
    // `media.url` may have either scheme, but clients need a WebSocket URL.
    let websocket_url =
        |url: &String| url.replacen("http", "ws", usize::from(url.starts_with("http")));
    let public_url = media
        .public_url
        .clone()
        .or_else(|| livekit_url.map(websocket_url));
    public_url.unwrap_or_else(|| urls.websocket.clone())
}

/// Returns the URL by which clients reach the API, possibly behind a reverse proxy: derived from `media.public_url` with the embedded media
/// plane, which has the same address; otherwise the URL of the API listener.
pub(super) fn client_api_url(config: &Config, urls: &PublicUrls) -> String {
    let is_embedded = config.media.kind == MediaKind::Embedded;
    let public_url = config
        .media
        .public_url
        .as_deref()
        // LiveKit's public URL is another server's.
        .filter(|_| is_embedded)
        .and_then(|url| Url::parse(url).ok());
    public_url.map_or_else(
        || urls.http.clone(),
        |url| {
            let scheme = if url.scheme() == "wss" {
                "https"
            } else {
                "http"
            };
            format!(
                "{scheme}://{}",
                // Without path and query, which belong to signalling.
                &url[Position::BeforeHost..Position::AfterPort]
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_reach_the_api_where_the_embedded_media_plane_is() {
        let urls = PublicUrls::new("127.0.0.1:8080".parse().unwrap(), None);
        let url = |kind, public_url: Option<&str>| {
            let mut config = Config::default();
            config.media.kind = kind;
            config.media.public_url = public_url.map(str::to_owned);
            client_api_url(&config, &urls)
        };
        for (public_url, expected) in [
            (None, "http://127.0.0.1:8080"),
            (Some("wss://meet.example.org"), "https://meet.example.org"),
            (
                Some("wss://meet.example.org:8443/rtc"),
                "https://meet.example.org:8443",
            ),
            (Some("ws://[2001:db8::1]:8080"), "http://[2001:db8::1]:8080"),
        ] {
            assert_eq!(url(MediaKind::Embedded, public_url), expected);
        }
        assert_eq!(
            url(MediaKind::Livekit, Some("wss://livekit.example.org")),
            "http://127.0.0.1:8080"
        );
    }
}
