//! Builder of a plane, whose settings never change afterwards.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use conclave_egress::EgressService;
use conclave_model::{Clock, Secret};
use conclave_sfu::{BindError, Config, WorkerMetrics, Workers};

use super::EmbeddedPlane;
use super::core::PlaneCore;
use crate::embedded::common::Common;
use crate::embedded::egress::jobs::Jobs;
use crate::embedded::ingress::endpoints::{PublishUrls, RtmpAddress};
use crate::embedded::ingress::stream_keys::StreamKeyRates;
use crate::embedded::ingress::whip::WhipSessions;
use crate::embedded::room::RoomDirectory;
use crate::embedded::rtc_metrics::RtcMetrics;
use crate::embedded::sandbox::faults::SimulatedFaults;
use crate::embedded::signal::budget::{Budgets, DEFAULT_CHANGES};
use crate::embedded::turn::{OwnTurn, TurnServers};
use crate::port::ReportSink;
use crate::token::TokenSigner;

/// Default maximum number of tracks per participant.
const DEFAULT_TRACKS: usize = 100;

/// Builds an [`EmbeddedPlane`]. [`EmbeddedPlane::builder`] sets the defaults.
pub struct EmbeddedPlaneBuilder {
    /// Maximum number of tracks per participant. Default: 100.
    pub max_tracks: usize,
    /// Whether clients may simulate server failures, and whether the sandbox's view of participants is kept. Default:
    /// false.
    pub has_sandbox: bool,
    /// Maximum rate of a participant's changes by signalling, per second. Default: 20.
    pub changes_per_second: u32,
    /// TURN servers for clients. Default: none.
    pub turn: Vec<TurnServers>,
    /// The embedded TURN server. Default: none.
    pub own_turn: Option<OwnTurn>,
    /// Address for RTMP encoders. Default: port 1935 without TLS.
    pub rtmp: RtmpAddress,
    /// The egress engine. Without it, all recordings and broadcasts are simulated.
    pub engine: Option<EgressService>,
    /// Metrics of joins. Default: none.
    pub metrics: Option<RtcMetrics>,
    clock: Clock,
    signer: Arc<TokenSigner>,
    sink: Arc<dyn ReportSink>,
    public_url: String,
    rooms: Arc<RoomDirectory>,
    workers: Option<Workers>,
}

impl EmbeddedPlaneBuilder {
    /// Starts a plane with the settings described at [`EmbeddedPlane::builder`].
    pub(super) fn new(
        clock: Clock,
        signer: Arc<TokenSigner>,
        public_url: &str,
        sink: Arc<dyn ReportSink>,
    ) -> Self {
        Self {
            max_tracks: DEFAULT_TRACKS,
            has_sandbox: false,
            changes_per_second: DEFAULT_CHANGES,
            turn: Vec::new(),
            own_turn: None,
            rtmp: RtmpAddress::default(),
            engine: None,
            metrics: None,
            clock,
            signer,
            sink,
            public_url: public_url.to_owned(),
            rooms: Arc::default(),
            workers: None,
        }
    }

    /// Starts the media workers, so that clients' media can connect. Returns each worker's metrics.
    ///
    /// # Errors
    /// If a socket cannot be bound, or there is no address to bind. No worker is started then, and the call can be
    /// repeated.
    pub fn start_workers(&mut self, config: &Config) -> Result<Vec<Arc<WorkerMetrics>>, BindError> {
        let workers = Workers::start(config, self.rooms.clone())?;
        // Only after all sockets were bound, so that a failed start leaves no workers behind.
        Ok(self.workers.insert(workers).metrics())
    }

    /// Returns a TURN server that relays to the media workers, with credentials derived from this secret and at most
    /// `max_allocations` allocations; `None` without workers.
    pub fn relay(&self, secret: Secret, max_allocations: usize) -> Option<OwnTurn> {
        self.workers
            .as_ref()
            .map(|workers| OwnTurn::new(secret, workers, self.clock.clone(), max_allocations))
    }

    /// Returns the machine's addresses on which the media workers listen.
    pub fn media_addresses(&self) -> BTreeSet<IpAddr> {
        // The bound address, not the advertised one, which may belong to a NAT.
        let bound = self.workers.iter().flat_map(Workers::udp_addresses);
        bound.map(|address| address.bound.ip()).collect()
    }

    /// Returns the addresses at which clients reach the media workers.
    pub fn advertised_addresses(&self) -> BTreeSet<IpAddr> {
        let addresses = self.workers.iter().flat_map(Workers::udp_addresses);
        addresses.map(|address| address.advertised.ip()).collect()
    }

    /// Creates the plane.
    pub fn build(self) -> EmbeddedPlane {
        // The rooms admit participants to the relay; the plane keeps the server itself.
        let relay = self.own_turn.as_ref().map(|turn| turn.server.clone());
        let addresses = self.media_addresses().into_iter();
        let addresses = addresses.chain(self.advertised_addresses()).collect();
        let quality_relay = relay.clone().map(|relay| (relay, addresses));
        self.rooms.quality.start(self.clock.clone(), quality_relay);
        let common = Common::new(self.max_tracks, self.has_sandbox).with_relay(relay);
        EmbeddedPlane(Arc::new(PlaneCore {
            stream_key_rates: StreamKeyRates::new(&self.clock),
            budgets: Budgets::new(&self.clock, self.changes_per_second),
            common: Arc::new(common),
            clock: self.clock,
            signer: self.signer,
            rooms: self.rooms,
            whip: WhipSessions::default(),
            urls: PublishUrls::new(&self.public_url, self.rtmp),
            sink: self.sink,
            workers: self.workers,
            metrics: self.metrics,
            // Without an engine there are no jobs, so every egress is simulated.
            jobs: self.engine.map(Jobs::new),
            turn: self.turn.into(),
            own_turn: self.own_turn,
            faults: SimulatedFaults::default(),
        }))
    }
}
