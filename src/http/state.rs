//! The parts of the server that requests share.

use std::path::PathBuf;
use std::sync::Arc;

use conclave_actors::{EventRelay, Tree};
use conclave_db::Store;
use conclave_media::MediaPlane;
use conclave_media::embedded::EmbeddedPlane;
use conclave_media::livekit::LivekitPlane;
use conclave_media::token::TokenSigner;
use conclave_model::address::AddressFilter;
use conclave_model::{Clock, ProjectId};
use tokio::sync::Semaphore;

use super::admin_token::AdminToken;
use super::admission::Admission;
use super::console::access::ConsoleAccess;
use super::console::history::History;
use super::frame::payload::BodyReader;
use super::key_locks::KeyLocks;
use super::limits::Limits;
use super::metrics::Metrics;
use super::origins::Origins;
use crate::billing::BillingClient;
use crate::config::{HostName, Plans, SettingReport};
use crate::livekit_config::LivekitConfigMonitor;
use crate::tls::TlsStatus;

/// What the call page needs to know.
#[derive(Debug, Clone)]
pub struct CallPage {
    /// The project of `dev`, in which the page may open rooms.
    pub dev_project: Option<ProjectId>,
}

/// The shared parts, made once at start.
pub struct AppState {
    /// The records: reads go to it directly, as do changes that no actor owns.
    pub store: Store,
    /// The actors: changes of live things go through here.
    pub tree: Tree,
    /// Counters, gauges and histograms of the whole server.
    pub metrics: Metrics,
    /// The media plane.
    pub media: Arc<dyn MediaPlane>,
    /// The embedded plane's driver, when the sandbox is on.
    pub sandbox: Option<EmbeddedPlane>,
    /// The embedded plane's driver, when WebRTC clients can connect.
    pub signalling: Option<EmbeddedPlane>,
    /// The LiveKit plane, which receives webhooks, when that is the configured one.
    pub livekit: Option<LivekitPlane>,
    /// The port of the API listener.
    pub api_port: u16,
    /// The call page, where there is one.
    pub call_page: Option<CallPage>,
    /// The check of LiveKit's own configuration, when that is the configured plane.
    pub livekit_config: Option<LivekitConfigMonitor>,
    /// Mints and checks room tokens.
    pub signer: Arc<TokenSigner>,
    /// The injected clock.
    pub clock: Clock,
    /// The configured plans.
    pub plans: Plans,
    /// The billing service, when `billing.url` names one.
    pub billing: Option<BillingClient>,
    /// The limits of request rates.
    pub limits: Limits,
    /// The requests that are admitted.
    pub admission: Arc<Admission>,
    /// The browser origins that may call.
    pub origins: Origins,
    /// Idempotency keys of requests that are running.
    pub key_locks: KeyLocks,
    /// Addresses that webhooks may be sent to.
    pub webhook_addresses: AddressFilter,
    /// Addresses that recordings and broadcasts may be sent to.
    pub egress_addresses: AddressFilter,
    /// The websocket url that tokens carry.
    pub media_url: Arc<str>,
    /// Committed events, for `/debug/events`.
    pub relay: EventRelay,
    /// The streams of `/debug/events` that may still be opened.
    pub event_streams: Arc<Semaphore>,
    /// Reads the bodies of requests, on both listeners.
    pub bodies: BodyReader,
    /// Reads the reports of LiveKit. Their memory is their own, so that no client can displace them.
    pub reports: BodyReader,
    /// The bearer token of admin requests, if one is required.
    pub admin_token: Option<Arc<AdminToken>>,
    /// Who may use the console.
    pub console: ConsoleAccess,
    /// Counts of the last day, for the console.
    pub console_history: History,
    /// The effective settings, without secrets, for the console.
    pub settings: Vec<SettingReport>,
    /// The directory of recordings on this machine.
    pub recordings: PathBuf,
    /// The certificate of the API listener, if it has TLS.
    pub tls: Option<TlsStatus>,
    /// Hosts that admin requests may be sent to, besides loopback ones.
    pub admin_hosts: Vec<HostName>,
}
