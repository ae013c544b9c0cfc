//! Which media plane the operator chose, and the parts of the server that know.

use std::path::Path;
use std::sync::Arc;

use conclave_actors::Tree;
use conclave_media::embedded::EmbeddedPlane;
use conclave_media::livekit::{LivekitPlane, LivekitSettings};
use conclave_media::token::TokenSigner;
use conclave_media::{CircuitSettings, MediaPlane};
use conclave_model::Clock;

use crate::config::{Config, MediaKind};

/// The chosen plane. Both kinds are cheap to clone.
#[derive(Clone)]
pub(super) enum Plane {
    /// In this process.
    Embedded(EmbeddedPlane),
    /// A LiveKit server.
    Livekit(LivekitPlane),
}

impl Plane {
    /// The plane of a configuration; clients reach it at `media_url`. Nothing is asked of it yet.
    pub fn of(config: &Config, data: &Path, (clock, signer): (&Clock, &Arc<TokenSigner>), media_url: &str) -> Self {
        match config.media.kind {
            MediaKind::Embedded => Self::Embedded(EmbeddedPlane::new(clock.clone(), Arc::clone(signer), media_url)),
            MediaKind::Livekit => {
                let settings = livekit_settings(config, data);
                Self::Livekit(LivekitPlane::new(settings, Arc::clone(signer), clock.clone()))
            }
        }
    }

    /// The plane as the port that everything else knows.
    pub fn port(&self) -> Arc<dyn MediaPlane> {
        match self {
            Self::Embedded(plane) => Arc::new(plane.clone()),
            Self::Livekit(plane) => Arc::new(plane.clone()),
        }
    }

    /// Says where its reports go.
    pub fn connect(&self, tree: &Tree) {
        let sink = Arc::new(tree.clone());
        // Connected once, right after both are made.
        let _ = match self {
            Self::Embedded(plane) => plane.set_report_sink(sink),
            Self::Livekit(plane) => plane.set_report_sink(sink),
        };
    }

    /// When it is not asked for a while. The embedded plane always answers at once, be it that it is away.
    pub fn circuit(&self, config: &Config) -> Option<CircuitSettings> {
        let settings = CircuitSettings { failures: config.media.circuit_failures, open: config.media.circuit_open };
        matches!(self, Self::Livekit(_)).then_some(settings)
    }

    /// What the sandbox drives.
    pub fn embedded(&self) -> Option<EmbeddedPlane> {
        match self {
            Self::Embedded(plane) => Some(plane.clone()),
            Self::Livekit(_) => None,
        }
    }

    /// What takes LiveKit's webhooks in.
    pub fn livekit(&self) -> Option<LivekitPlane> {
        match self {
            Self::Embedded(_) => None,
            Self::Livekit(plane) => Some(plane.clone()),
        }
    }
}

/// What a LiveKit plane is made of. A kind that needs no address has none.
pub(crate) fn livekit_settings(config: &Config, data: &Path) -> LivekitSettings {
    LivekitSettings {
        url: config.media.url.clone().unwrap_or_default(),
        timeout: config.media.timeout,
        recordings: config.recordings.path(data),
    }
}
