//! What a plane is built of. Nothing of it is set later.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use conclave_egress::EgressService;
use conclave_model::{Clock, Secret};
use conclave_sfu::{BindError, Config, WorkerMetrics, Workers};

use super::EmbeddedPlane;
use super::core::Inner;
use crate::embedded::common::Common;
use crate::embedded::egress::jobs::Jobs;
use crate::embedded::ingress::endpoints::{PublishUrls, RtmpAddress};
use crate::embedded::ingress::stream_keys::StreamKeyRates;
use crate::embedded::ingress::whip::WhipSessions;
use crate::embedded::room::Directory;
use crate::embedded::rtc_metrics::RtcMetrics;
use crate::embedded::sandbox::faults::Faults;
use crate::embedded::signal::budget::{Budgets, DEFAULT_CHANGES};
use crate::embedded::turn::{OwnTurn, TurnServers};
use crate::port::ReportSink;
use crate::token::TokenSigner;

/// Tracks that a participant may have at once, unless it is set otherwise.
const DEFAULT_TRACKS: usize = 100;

/// Builds an [`EmbeddedPlane`]: what can be set of it, with the defaults of [`EmbeddedPlane::builder`].
pub struct EmbeddedPlaneBuilder {
    /// How many tracks a participant may have at once; 100.
    pub max_tracks: usize,
    /// Whether clients may simulate failures of the server, and what the sandbox shows of participants is kept; false.
    pub has_sandbox: bool,
    /// How many changes a second a participant may make by signalling; 20.
    pub changes_per_second: u32,
    /// The TURN servers that clients are given; none.
    pub turn: Vec<TurnServers>,
    /// The TURN server in this process; none.
    pub own_turn: Option<OwnTurn>,
    /// Where RTMP encoders connect; at port 1935 without TLS.
    pub rtmp: RtmpAddress,
    /// What records and broadcasts. Without it, all recordings and broadcasts are simulated.
    pub engine: Option<EgressService>,
    /// What joins are counted in, if anything.
    pub metrics: Option<RtcMetrics>,
    clock: Clock,
    signer: Arc<TokenSigner>,
    sink: Arc<dyn ReportSink>,
    public_url: String,
    rooms: Arc<Directory>,
    workers: Option<Workers>,
}

impl EmbeddedPlaneBuilder {
    /// Begins a plane, as [`EmbeddedPlane::builder`] says.
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

    /// Starts the media workers, so that the media of clients can connect. Returns what each of them counts.
    ///
    /// # Errors
    /// A socket cannot be bound, or there is no address to bind one to. Then there are none, and another try can be made.
    pub fn start_workers(&mut self, config: &Config) -> Result<Vec<Arc<WorkerMetrics>>, BindError> {
        let workers = Workers::start(config, self.rooms.clone())?;
        Ok(self.workers.insert(workers).metrics())
    }

    /// Returns a TURN server that relays to the media workers, whose credentials are made with this secret, with so many allocations at the
    /// most; `None` without workers.
    pub fn relay(&self, secret: Secret, max_allocations: usize) -> Option<OwnTurn> {
        self.workers
            .as_ref()
            .map(|workers| OwnTurn::new(secret, workers, self.clock.clone(), max_allocations))
    }

    /// Returns the addresses of this machine that the media workers listen on.
    pub fn media_addresses(&self) -> BTreeSet<IpAddr> {
        let bound = self.workers.iter().flat_map(Workers::udp_addresses);
        bound.map(|address| address.bound.ip()).collect()
    }

    /// Returns the addresses by which clients reach the media workers.
    pub fn advertised_addresses(&self) -> BTreeSet<IpAddr> {
        let addresses = self.workers.iter().flat_map(Workers::udp_addresses);
        addresses.map(|address| address.advertised.ip()).collect()
    }

    /// Builds the plane.
    pub fn build(self) -> EmbeddedPlane {
        let relay = self.own_turn.as_ref().map(|turn| turn.server.clone());
        let common = Common::new(self.max_tracks, self.has_sandbox).with_relay(relay);
        EmbeddedPlane(Arc::new(Inner {
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
            jobs: self.engine.map(Jobs::new),
            turn: self.turn.into(),
            own_turn: self.own_turn,
            faults: Faults::default(),
        }))
    }
}
