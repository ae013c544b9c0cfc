//! The parts of the server that requests share: those of an active server, and the few of a standby.

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
use super::frame::limits::{FixedLimits, Limits};
use super::frame::origins::Origins;
use super::frame::payload::BodyReader;
use super::lease::LeaseView;
use super::listener::passed_on::PassedOnGate;
use super::media::media_url::MediaUrl;
use super::metrics::Metrics;
use crate::backups::Backups;
use crate::billing::BillingClient;
use crate::config::{EffectiveSetting, EmbedOrigin, HostName, Plans};
use crate::livekit_config::LivekitConfigMonitor;
use crate::tls::TlsStatus;

/// The shared parts, made once at start. What only some requests need is grouped by which.
pub struct AppState {
    /// The records: reads go to it directly, as do changes that no actor owns.
    pub store: Store,
    /// The actors: changes of live things go through here.
    pub tree: Tree,
    /// The lease of the database, where servers share one.
    pub lease: Option<Arc<LeaseView>>,
    /// What is taken of requests that standbys pass on, in a cluster.
    pub passed_on: Option<Arc<PassedOnGate>>,
    /// The media plane.
    pub media: Arc<dyn MediaPlane>,
    /// Mints and checks room tokens.
    pub signer: Arc<TokenSigner>,
    /// Sign what else this server vouches for.
    pub keys: DerivedKeys,
    /// The websocket url that tokens carry.
    pub media_url: MediaUrl,
    /// The injected clock.
    pub clock: Clock,
    /// The configured plans.
    pub plans: Plans,
    /// The billing service, when `billing.url` names one.
    pub billing: Option<BillingClient>,
    /// Addresses that webhooks may be sent to.
    pub webhook_addresses: AddressFilter,
    /// Addresses that recordings and broadcasts may be sent to.
    pub egress_addresses: AddressFilter,
    /// Counters, gauges and histograms of the whole server.
    pub metrics: Metrics,
    /// What decides whether and when a request is handled.
    pub checks: RequestChecks,
    /// The drivers of the media plane, where clients reach it through this server.
    pub planes: Planes,
    /// The API listener.
    pub api: ApiListener,
    /// What the admin listener shows, and to whom.
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

/// What decides whether and when a request is handled.
pub struct RequestChecks {
    /// The limits of request rates.
    pub limits: Limits,
    /// The limits of responses that need no credential and no record.
    pub fixed: Arc<FixedLimits>,
    /// The requests that are admitted.
    pub admission: Arc<Admission>,
    /// The browser origins that may call.
    pub origins: Origins,
    /// Idempotency keys of requests that are running.
    pub key_locks: KeyLocks,
    /// The downloads of recordings that run.
    pub downloads: Downloads,
    /// Reads the bodies of requests, on both listeners.
    pub bodies: BodyReader,
    /// Reads the reports of LiveKit. Their memory is their own, so that no client can displace them.
    pub reports: BodyReader,
}

/// The drivers of the media plane, where clients reach it through this server.
pub struct Planes {
    /// The embedded plane's driver, when the sandbox is on.
    pub sandbox: Option<EmbeddedPlane>,
    /// The embedded plane's driver, when WebRTC clients can connect.
    pub signalling: Option<EmbeddedPlane>,
    /// The LiveKit plane, which receives webhooks, when that is the configured one.
    pub livekit: Option<LivekitPlane>,
}

/// The API listener.
pub struct ApiListener {
    /// The port that it listens on.
    pub port: u16,
    /// Its URL, as far as this server knows it.
    pub url: String,
    /// The certificate, if it has TLS.
    pub tls: Option<TlsStatus>,
    /// The call page, where there is one.
    pub call_page: Option<CallPage>,
}

/// What the call page needs to know.
#[derive(Debug, Clone)]
pub struct CallPage {
    /// The project of `dev`, in which the page may open rooms.
    pub dev_project: Option<ProjectId>,
    /// The origins of other pages that may show it in a frame.
    pub embed_origins: Vec<EmbedOrigin>,
    /// The library for background blur; empty if there is none.
    pub effects: Vec<EffectFile>,
}

/// What the admin listener shows, and to whom.
pub struct AdminState {
    /// The bearer token of requests, if one is required.
    pub token: Option<Arc<AdminToken>>,
    /// Hosts that requests may be sent to, besides loopback ones.
    pub hosts: Vec<HostName>,
    /// Who may use the console.
    pub console: Arc<ConsoleAccess>,
    /// The API key of `dev`, for the API viewer; `None` in `serve`, and where the console is not open to all who reach the listener.
    pub dev_key: Option<ApiKey>,
    /// Counts of the last day, for the console.
    pub history: History,
    /// The effective settings, without secrets, for the console.
    pub settings: Vec<EffectiveSetting>,
    /// The directory of recordings on this machine.
    pub recordings: PathBuf,
    /// The copies of the database, where the server makes any.
    pub backups: Option<Backups>,
    /// How long recordings stay there, if not for ever.
    pub recordings_retention: Option<Duration>,
    /// Committed events, for `/debug/events`.
    pub relay: EventRelay,
    /// Notified when this server is to step down.
    pub step_down: Arc<Notify>,
    /// The streams of `/debug/events` that may still be opened.
    pub event_streams: Arc<Semaphore>,
    /// The check of LiveKit's own configuration, when that is the configured plane.
    pub livekit_config: Option<LivekitConfigMonitor>,
}

/// Tells whether what is passed on reaches the active server.
pub type ReachesActive = Box<dyn Fn() -> bool + Send + Sync>;

/// The parts that requests to a standby share.
pub struct StandbyState {
    /// The lease that it waits for.
    pub lease: Arc<LeaseView>,
    /// The metrics of the server.
    pub metrics: Metrics,
    /// The bearer token of requests to the admin listener, if one is required.
    pub token: Option<Arc<AdminToken>>,
    /// Hosts that requests to the admin listener may be sent to, besides loopback ones.
    pub hosts: Vec<HostName>,
    /// Who may use the console.
    pub console: Arc<ConsoleAccess>,
    /// Reads the forms of the console.
    pub forms: BodyReader,
    /// Whether requests to the API that are passed on reach the active server; `None` if none are passed on.
    pub reaches_active: Option<ReachesActive>,
    /// Whether it stops, and is to get no more requests.
    pub is_stopping: Arc<AtomicBool>,
    /// The port of the API listener.
    pub port: u16,
    /// The limits of its responses on the public listeners.
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
