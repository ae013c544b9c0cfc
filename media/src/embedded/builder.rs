//! What a plane is built of. Nothing of it is set later.

use std::sync::Arc;

use conclave_egress::Engine;
use conclave_model::Clock;
use conclave_rtc::{BindError, Config, WorkerMetrics, Workers};

use super::common::Common;
use super::faults::Faults;
use super::ingress_endpoint::{PublishUrls, RtmpAddress};
use super::jobs::Jobs;
use super::plane::{EmbeddedPlane, Inner};
use super::room::Directory;
use super::rtc_metrics::RtcMetrics;
use super::signal::budget::{Budgets, DEFAULT_CHANGES};
use super::stream_key_rates::StreamKeyRates;
use super::turn::TurnServers;
use super::whip::WhipSessions;
use crate::port::ReportSink;
use crate::token::TokenSigner;

/// Tracks that a participant may have at once, unless it is set otherwise.
const DEFAULT_TRACKS: usize = 100;

/// Builds an [`EmbeddedPlane`].
pub struct EmbeddedPlaneBuilder {
    clock: Clock,
    signer: Arc<TokenSigner>,
    sink: Arc<dyn ReportSink>,
    urls: PublishUrls,
    rooms: Arc<Directory>,
    max_tracks: usize,
    has_sandbox: bool,
    changes_per_second: u32,
    turn: Option<Arc<TurnServers>>,
    workers: Option<Workers>,
    metrics: Option<RtcMetrics>,
    jobs: Option<Jobs>,
}

impl EmbeddedPlane {
    /// Begins a plane without rooms, which sends its reports to the sink. The publish urls of encoders have the host of
    /// `public_url`, the websocket url of clients.
    #[must_use]
    pub fn builder(
        clock: Clock,
        signer: Arc<TokenSigner>,
        public_url: &str,
        sink: Arc<dyn ReportSink>,
    ) -> EmbeddedPlaneBuilder {
        EmbeddedPlaneBuilder {
            clock,
            signer,
            sink,
            urls: PublishUrls::from_public_url(public_url),
            rooms: Arc::default(),
            max_tracks: DEFAULT_TRACKS,
            has_sandbox: false,
            changes_per_second: DEFAULT_CHANGES,
            turn: None,
            workers: None,
            metrics: None,
            jobs: None,
        }
    }
}

impl EmbeddedPlaneBuilder {
    /// Sets how many tracks a participant may have at once, 100 by default.
    #[must_use]
    pub fn max_tracks(self, tracks: usize) -> Self {
        Self { max_tracks: tracks, ..self }
    }

    /// Lets clients simulate failures of the server, and keeps what the sandbox shows of participants.
    #[must_use]
    pub fn sandbox(self) -> Self {
        Self { has_sandbox: true, ..self }
    }

    /// Sets how many changes a second a participant may make by signalling, 20 by default.
    #[must_use]
    pub fn changes_per_second(self, changes: u32) -> Self {
        Self { changes_per_second: changes, ..self }
    }

    /// Gives clients TURN servers.
    #[must_use]
    pub fn turn_servers(self, servers: TurnServers) -> Self {
        Self { turn: Some(Arc::new(servers)), ..self }
    }

    /// Sets where RTMP encoders connect: at port 1935 without TLS by default.
    #[must_use]
    pub fn rtmp(self, address: RtmpAddress) -> Self {
        Self { urls: self.urls.with_rtmp(address), ..self }
    }

    /// Lets an engine record and broadcast. Without it, all recordings and broadcasts are simulated.
    #[must_use]
    pub fn egress_engine(self, engine: Engine) -> Self {
        Self { jobs: Some(Jobs::new(engine)), ..self }
    }

    /// Starts the media workers, so that the media of clients can connect. Returns what each of them counts.
    ///
    /// # Errors
    /// A socket cannot be bound, or there is no address to bind one to. Then there are none, and another try can be made.
    pub fn start_workers(&mut self, config: &Config) -> Result<Vec<Arc<WorkerMetrics>>, BindError> {
        let workers = Workers::start(config, self.rooms.clone())?;
        Ok(self.workers.insert(workers).metrics())
    }

    /// Sets what joins are counted in.
    #[must_use]
    pub fn metrics(self, metrics: RtcMetrics) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// Builds the plane.
    #[must_use]
    pub fn build(self) -> EmbeddedPlane {
        EmbeddedPlane::new(Inner {
            stream_key_rates: StreamKeyRates::new(&self.clock),
            budgets: Budgets::new(&self.clock, self.changes_per_second),
            common: Arc::new(Common::new(self.max_tracks, self.has_sandbox)),
            clock: self.clock,
            signer: self.signer,
            rooms: self.rooms,
            whip: WhipSessions::default(),
            urls: self.urls,
            sink: self.sink,
            workers: self.workers,
            metrics: self.metrics,
            jobs: self.jobs,
            turn: self.turn,
            faults: Faults::default(),
        })
    }
}
