//! What every request may use, made once.

use std::sync::Arc;

use conclave_actors::{EventRelay, Tree};
use conclave_db::Store;
use conclave_media::MediaPlane;
use conclave_media::embedded::EmbeddedPlane;
use conclave_media::livekit::LivekitPlane;
use conclave_media::token::TokenSigner;
use conclave_model::address::AddressFilter;
use conclave_model::{Clock, Secret};

use super::gate::idempotency::Turns;
use super::gate::limits::Limits;
use super::gate::origin::Origins;
use super::metrics::Metrics;
use crate::billing::BillingClient;
use crate::config::Plans;
use crate::livekit_config::LivekitConfigMonitor;

/// The shared parts.
pub struct AppState {
    /// Durable records.
    pub store: Store,
    /// The actors.
    pub tree: Tree,
    /// Every number that is counted.
    pub metrics: Metrics,
    /// The media plane.
    pub media: Arc<dyn MediaPlane>,
    /// The embedded plane's driver, when the sandbox is on.
    pub sandbox: Option<EmbeddedPlane>,
    /// The LiveKit plane, which takes webhooks in, when that is the one.
    pub livekit: Option<LivekitPlane>,
    /// How LiveKit is set, when that is the one.
    pub livekit_config: Option<LivekitConfigMonitor>,
    /// Mints and checks room tokens.
    pub signer: Arc<TokenSigner>,
    /// Time.
    pub clock: Clock,
    /// What projects may use.
    pub plans: Plans,
    /// Who keeps the wallets, when that is a service of its own.
    pub billing: Option<BillingClient>,
    /// Request rates.
    pub limits: Limits,
    /// Which browsers may call.
    pub origins: Origins,
    /// Idempotent calls that are on.
    pub turns: Turns,
    /// Where webhooks may go.
    pub webhook_addresses: AddressFilter,
    /// Where recordings and broadcasts may go.
    pub egress_addresses: AddressFilter,
    /// The websocket url that tokens carry.
    pub media_url: String,
    /// Committed events, for whoever looks on.
    pub relay: EventRelay,
    /// What admin requests must carry, if anything.
    pub admin_token: Option<Secret>,
}
