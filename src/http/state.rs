//! Shared state of requests: to an active server, and to a standby.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use conclave_actors::{EventRelay, Tree};
use conclave_db::Store;
use conclave_media::MediaPlane;
use conclave_media::embedded::EmbeddedPlane;
use conclave_media::livekit::LivekitPlane;
use conclave_media::token::TokenSigner;
use conclave_model::address::AddressFilter;
use conclave_model::key::ApiKey;
use conclave_model::{Clock, ProjectId};
use tokio::sync::{Notify, Semaphore};

use super::admin::access::{AdminToken, ConsoleAccess, Guarded};
use super::call::effects::EffectFile;
use super::console::history::History;
use super::derived_keys::DerivedKeys;
use super::frame::admission::{Admission, Downloads};
use super::frame::key_locks::KeyLocks;
use super::frame::key_uses::KeyUses;
use super::frame::limits::{FixedLimits, Limits};
use super::frame::origins::Origins;
use super::frame::payload::BodyReader;
use super::lease::LeaseView;
use super::listener::forwarded::ForwardingGate;
use super::media::media_url::MediaUrl;
use super::metrics::Metrics;
use crate::backups::Backups;
use crate::billing::BillingClient;
use crate::config::{EffectiveSetting, EmbedOrigin, HostName, Plans};
use crate::livekit_config::LivekitConfigMonitor;
use crate::tls::TlsStatus;

/// Shared state, created at the start. Parts for some kinds of requests only are grouped.
pub struct AppState {
    // A reference to it keeps the store open, so tasks that outlive requests take parts only.
    /// The records. Reads go to it directly, as do changes that no actor owns.
    pub store: Store,
    /// The actors. Changes of live things go through them.
    pub tree: Tree,
    /// Lease of the database, if several servers share it.
    pub lease: Option<Arc<LeaseView>>,
    /// Admission of requests that standbys forward, in a cluster.
    pub forwarding_gate: Option<Arc<ForwardingGate>>,
    /// Media plane.
    pub media: Arc<dyn MediaPlane>,
    /// Mints and verifies room tokens.
    pub signer: Arc<TokenSigner>,
    /// Keys for this server's other signatures.
    pub keys: DerivedKeys,
    /// WebSocket URL in tokens.
    pub media_url: MediaUrl,
    /// Injected clock.
    pub clock: Clock,
    /// Configured plans.
    pub plans: Plans,
    /// Billing service, if `billing.url` is set.
    pub billing: Option<BillingClient>,
    /// Addresses that webhooks may be sent to.
    pub webhook_addresses: AddressFilter,
    /// Addresses that recordings and broadcasts may be sent to.
    pub egress_addresses: AddressFilter,
    /// The whole server's metrics.
    pub metrics: Metrics,
    /// Checks before a request is handled.
    pub checks: RequestChecks,
    /// Drivers of the media plane, if clients reach it through this server.
    pub planes: Planes,
    /// API listener.
    pub api: ApiListener,
    /// Admin listener.
    pub admin: AdminState,
}

impl Guarded for AppState {
    fn console(&self) -> &ConsoleAccess {
        &self.admin.console
    }

    fn forms(&self) -> &BodyReader {
        &self.checks.bodies
    }
}

/// Checks before a request is handled.
pub struct RequestChecks {
    /// Limits on request rates.
    pub limits: Limits,
    // Shared with standbys and the redirect, so that a client has one rate for all.
    /// Limits on responses that need no credential and no record.
    pub fixed: Arc<FixedLimits>,
    /// Admitted requests.
    pub admission: Arc<Admission>,
    /// Allowed browser origins.
    pub origins: Origins,
    /// Idempotency keys of running requests.
    pub key_locks: KeyLocks,
    /// API keys whose use is recorded for today.
    pub key_uses: KeyUses,
    /// Running recording downloads.
    pub downloads: Downloads,
    /// Reader for request bodies on both listeners.
    pub bodies: BodyReader,
    /// Reader for LiveKit's reports. It has memory of its own, so that clients cannot displace reports.
    pub reports: BodyReader,
}

/// Drivers of the media plane, if clients reach it through this server.
pub struct Planes {
    // Both are `None` with LiveKit.
    /// Driver of the embedded plane, if the sandbox is on.
    pub sandbox: Option<EmbeddedPlane>,
    /// Driver of the embedded plane, if WebRTC clients can connect.
    pub signalling: Option<EmbeddedPlane>,
    /// LiveKit plane, which receives webhooks, if that is the configured plane.
    pub livekit: Option<LivekitPlane>,
}

/// API listener's state.
pub struct ApiListener {
    /// Port.
    pub port: u16,
    /// URL, as far as this server knows it.
    pub url: String,
    /// Certificate, if the listener has TLS.
    pub tls: Option<TlsStatus>,
    /// Call page, if it is served.
    pub call_page: Option<CallPage>,
}

/// Call page settings.
#[derive(Debug, Clone)]
pub struct CallPage {
    /// Development project (`dev`), in which the page may open rooms.
    pub dev_project: Option<ProjectId>,
    /// Page origins that may frame it.
    pub embed_origins: Vec<EmbedOrigin>,
    /// The library for background blur; empty if there is none.
    pub effects: Vec<EffectFile>,
}

/// Admin listener's state.
pub struct AdminState {
    /// Admin token, if one is required.
    pub token: Option<Arc<AdminToken>>,
    /// Hosts that requests may name, besides loopback ones.
    pub hosts: Vec<HostName>,
    /// Access to the console.
    pub console: Arc<ConsoleAccess>,
    /// API key of `dev`, for the API viewer; `None` in `serve`, and if the console is not open to everyone who reaches the listener.
    pub dev_key: Option<ApiKey>,
    /// Counts over the last day, for the console.
    pub history: History,
    /// Effective settings, without secrets, for the console.
    pub settings: Vec<EffectiveSetting>,
    /// Directory of recordings on this machine.
    pub recordings: PathBuf,
    /// Backups of the database, if the server makes any.
    pub backups: Option<Backups>,
    /// Time after which local recordings are removed; `None` keeps them.
    pub recordings_retention: Option<Duration>,
    /// Committed events, for `/debug/events`.
    pub relay: EventRelay,
    /// Notified to start a step-down.
    pub step_down: Arc<Notify>,
    // Taken by `/debug/projects/…/events` as well.
    /// Permits for further streams of `/debug/events`.
    pub event_streams: Arc<Semaphore>,
    /// Check of LiveKit's own configuration, if that is the configured plane.
    pub livekit_config: Option<LivekitConfigMonitor>,
}

/// Returns whether the proxy reaches the active server.
pub type ReachesActive = Box<dyn Fn() -> bool + Send + Sync>;

/// State shared by requests to a standby.
pub struct StandbyState {
    /// Lease that the standby waits for.
    pub lease: Arc<LeaseView>,
    /// The server's metrics.
    pub metrics: Metrics,
    /// Admin token, if one is required.
    pub token: Option<Arc<AdminToken>>,
    /// Hosts that requests to the admin listener may name, besides loopback ones.
    pub hosts: Vec<HostName>,
    /// Access to the console.
    pub console: Arc<ConsoleAccess>,
    /// Reader for the console's forms.
    pub forms: BodyReader,
    /// Whether the proxy for API requests reaches the active server; `None` without a proxy.
    pub reaches_active: Option<ReachesActive>,
    /// Whether the standby is stopping and must not get new requests.
    pub is_stopping: Arc<AtomicBool>,
    /// API listener's port.
    pub port: u16,
    /// Limits on its responses on the public listeners.
    pub fixed: Arc<FixedLimits>,
}

impl Guarded for StandbyState {
    fn console(&self) -> &ConsoleAccess {
        &self.console
    }

    fn forms(&self) -> &BodyReader {
        &self.forms
    }
}
