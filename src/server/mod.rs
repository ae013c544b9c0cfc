//! Start and stop of a server. The commands and the tests both use [`Server::start`].
//!
//! The parts start in the order store, media plane, actors, listeners. They stop in the order egresses, whose files become
//! final while their participants are connected, listeners, so that no new request arrives, actors, which finish their work, and
//! store.

mod clock_watch;
mod descriptors;
mod dev;
mod egress;
mod key_files;
mod listeners;
mod media;
mod parts;
mod plane;
mod run;
mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use actix_web::dev::ServerHandle;
use conclave_actors::{EventRelay, Tree};
use conclave_db::{OlderSchema, Store};
use conclave_media::embedded::{EmbeddedPlane, RtmpAddress, RtmpListener};
use conclave_media::token::TokenSigner;
use conclave_media::{MediaPlane, MonitoredPlane, ReportInlet};
use conclave_model::address::AddressFilter;
use conclave_model::{Clock, LeaseCheck};
use futures_util::future::join_all;
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::config::{Config, MediaCredentials, Mode, Plans, SettingOrigins};
use crate::data_dir::{self, DirectoryLock, StoreSetup};
use crate::error::CliError;
use crate::http::console::history::History;
use crate::http::event_stream::MOST_STREAMS;
use crate::http::metrics::Metrics;
use crate::http::state::{AdminState, ApiListener, AppState, Planes};
use crate::livekit_config::LivekitConfigMonitor;
pub(crate) use descriptors::connections_problem;
pub use dev::DevAccess;
pub(crate) use egress::dialler;
use media::PlaneSetup;
pub(crate) use media::{buffer_problem, client_addresses};
use plane::Plane;
pub(crate) use plane::livekit_settings;
pub use run::run;
use tls::{PublicUrls, Tls};

/// Options of a server's start.
pub struct ServerOptions {
    /// The validated configuration.
    pub config: Config,
    /// Where the settings came from, for the console.
    pub origins: SettingOrigins,
    /// Whether to create the project and the API key of `dev`.
    pub mode: Mode,
    /// The data directory.
    pub data: PathBuf,
    /// Source of time; tests pass one that they move.
    pub clock: Clock,
}

/// A running server.
pub struct Server {
    /// Address of the API listener.
    pub api: SocketAddr,
    /// Address of the admin listener.
    pub admin: SocketAddr,
    /// Address of the listener that redirects to `https`, if there is one.
    pub redirect: Option<SocketAddr>,
    /// URL of the API.
    pub api_url: String,
    /// WebSocket URL of the media plane, for clients.
    pub media_url: String,
    /// The credentials of a development server; absent for `serve`.
    pub dev: Option<DevAccess>,
    /// Address of the call page, if there is one.
    pub call_page: Option<String>,
    listeners: Vec<ServerHandle>,
    /// The embedded media plane, if WebRTC clients can connect.
    signalling: Option<EmbeddedPlane>,
    /// The listener of RTMP encoders, if they can connect.
    rtmp: Option<RtmpListener>,
    tree: Tree,
    store: Store,
    /// Lock of the data directory. Released last.
    _lock: DirectoryLock,
}

/// The JSON line that announces a ready server on stdout.
#[derive(Serialize)]
struct ReadyLine<'a> {
    ready: bool,
    api: &'a str,
    admin: String,
    media_url: &'a str,
    /// The address of RTMP encoders; absent if they cannot connect.
    #[serde(skip_serializing_if = "Option::is_none")]
    rtmp: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key: Option<&'a str>,
}

impl Server {
    /// Starts a server. Must be called inside [`run_in_system`](crate::runtime::run_in_system), on whose runtime the actors
    /// stay.
    ///
    /// # Errors
    /// A setting, a file or an address cannot be used.
    pub async fn start(options: ServerOptions) -> Result<Self, CliError> {
        let ServerOptions { config, origins, mode, data, clock } = options;
        let plans = Plans::load(config.plans.file.as_deref())?;
        // These can fail while another server is running, so they come before anything that changes its data.
        let lock = data_dir::lock_for_server(&data)?;
        let mut bound = listeners::bind(&config, mode)?;
        let relay = EventRelay::default();
        let metrics = Metrics::new()?;
        let setup = store_setup(&config, &clock, &relay, &metrics);
        let store = data_dir::open_store(&config, &data, setup)?;
        key_files::remove().await;
        let dev = dev::prepare(mode, &store).await?;
        let credentials = MediaCredentials::load_or_create(&config, &data)?;
        let signer = Arc::new(TokenSigner::new(credentials.api_key, &credentials.api_secret));
        let mut tls = tls::prepare(&config.tls, &data, &clock)?;
        let urls = PublicUrls::new(bound.api, tls.as_ref());
        let media_url = plane::client_url(&config, &urls);
        let (rtmp_socket, rtmp_address) = bound.rtmp.take().unzip();
        let rtmp_tls = tls.as_ref().map(|tls| tls.acceptor.clone());
        let (reports, lease) = (ReportInlet::default(), LeaseCheck::not_needed());
        let plane = Plane::new(&PlaneSetup {
            config: &config,
            data: &data,
            clock: &clock,
            signer: &signer,
            media_url: &media_url,
            rtmp: rtmp_address.map(|address| RtmpAddress { port: address.port(), is_secure: rtmp_tls.is_some() }),
            reports: &reports,
            metrics: &metrics,
            lease: &lease,
        })?;
        let monitored = MonitoredPlane::new(plane.port(), clock.clone(), metrics.media.clone(), plane.circuit(&config));
        let media: Arc<dyn MediaPlane> = Arc::new(monitored.clone());
        let signalling = plane.embedded().filter(|_| config.media.rtc.enabled);
        egress::show(signalling.as_ref(), &metrics).await?;
        let context = parts::actor_context(&config, &store, &media, &clock, &metrics, &data, &lease)?;
        // Last of what can fail: a start that fails must not hide for how long the server has been down.
        store.begin_run().await?;
        let tree = Tree::start(context, &relay).await?;
        reports.connect(Arc::new(tree.clone()));
        let rtmp = media::serve_rtmp(signalling.as_ref(), rtmp_socket, rtmp_tls)?;
        let livekit_config = watch_media(&plane, &monitored, &tree, &clock);
        let admin_token = parts::admin_token(&config, &clock);
        let console = parts::console_access(&config, mode, admin_token.as_ref(), &clock)?;
        let state = Arc::new(AppState {
            store: store.clone(),
            tree: tree.clone(),
            media,
            signer,
            media_url: media_url.as_str().into(),
            plans,
            billing: parts::billing(&config, &clock),
            webhook_addresses: AddressFilter::new(config.webhooks.allow_networks.clone()),
            egress_addresses: AddressFilter::new(config.egress.allow_networks.clone()),
            checks: parts::checks(&config, &clock, &metrics),
            metrics,
            clock,
            planes: Planes {
                sandbox: plane.embedded().filter(|_| config.media.sandbox),
                signalling: signalling.clone(),
                livekit: plane.livekit(),
            },
            api: ApiListener {
                port: bound.api.port(),
                tls: tls.as_ref().map(|tls| tls.status.clone()),
                call_page: parts::call_page(&config, dev.as_ref()),
            },
            admin: AdminState {
                token: admin_token,
                hosts: config.admin.hosts.clone(),
                console,
                history: History::default(),
                settings: origins.report(&config)?,
                recordings: config.recordings.path(&data),
                relay,
                event_streams: Arc::new(Semaphore::new(MOST_STREAMS)),
                livekit_config,
            },
        });
        parts::spawn_limits_cleanup(&state);
        parts::spawn_history(&state);
        clock_watch::spawn(state.clock.clone());
        let (api, admin, redirect) = (bound.api, bound.admin, bound.redirect);
        let listeners = listeners::serve(bound, &config, &state, tls.as_ref().map(|tls| tls.acceptor.clone()))?;
        tls.iter_mut().for_each(Tls::start_renewal);
        let call_page = config.http.call_page.then(|| format!("{}/call", urls.http));
        Ok(Self {
            api,
            admin,
            redirect,
            api_url: urls.http,
            media_url,
            dev,
            call_page,
            listeners,
            signalling,
            rtmp,
            tree,
            store,
            _lock: lock,
        })
    }

    /// Returns the address on which RTMP encoders connect, if they can.
    #[must_use]
    pub fn rtmp(&self) -> Option<SocketAddr> {
        self.rtmp.as_ref().map(RtmpListener::address)
    }

    /// Returns the line of JSON that announces the server as ready.
    #[must_use]
    pub fn ready_line(&self) -> String {
        let (project_id, api_key) =
            self.dev.as_ref().map(|dev| (dev.project_id.as_str(), dev.api_key.reveal())).unzip();
        let line = ReadyLine {
            ready: true,
            api: &self.api_url,
            admin: format!("http://{}", self.admin),
            media_url: &self.media_url,
            rtmp: self.rtmp().map(|address| address.to_string()),
            project_id,
            api_key,
        };
        // Strings and a bool can always be serialized.
        serde_json::to_string(&line).unwrap_or_default()
    }

    /// Returns once the server cannot go on, with the reason: its actors or the thread that writes have ended by themselves.
    pub async fn failed(&self) -> &'static str {
        tokio::select! {
            () = self.tree.ended() => "the actors ended by themselves",
            () = self.store.writer_ended() => "the thread that writes to the database ended by itself",
        }
    }

    /// Ends running egresses, stops accepting requests, waits up to 10 s for those in flight, stops the actors and closes the database.
    pub async fn stop(self) {
        if let Some(plane) = &self.signalling {
            plane.end_egresses().await;
        }
        drop(self.rtmp);
        // Their websockets would keep the listeners from stopping.
        self.signalling.iter().for_each(EmbeddedPlane::shut_down_sessions);
        join_all(self.listeners.iter().map(|listener| listener.stop(true))).await;
        self.tree.stop().await;
        let store = self.store;
        if let Err(error) = store.end_run().await {
            log::warn!("the next start will take this stop for a crash: {error}");
        }
        // Closing blocks until the writer thread has ended.
        let _ = tokio::task::spawn_blocking(move || store.close()).await;
    }
}

fn store_setup(config: &Config, clock: &Clock, relay: &EventRelay, metrics: &Metrics) -> StoreSetup {
    StoreSetup {
        older_schema: OlderSchema::Migrate,
        clock: clock.clone(),
        on_commit: relay.hook(),
        metrics: metrics.store.clone(),
        // The HTTP workers and the threads of the actors.
        readers: config.http.worker_threads() + tokio::runtime::Handle::current().metrics().num_workers(),
        epoch: None,
    }
}

/// Watches the media plane. When it is reachable again after an outage, the actors reconcile and LiveKit's configuration is
/// checked again.
fn watch_media(plane: &Plane, monitored: &MonitoredPlane, tree: &Tree, clock: &Clock) -> Option<LivekitConfigMonitor> {
    let livekit_config = plane.livekit().map(|livekit| LivekitConfigMonitor::spawn(livekit, clock.clone()));
    let (tree, monitor) = (tree.clone(), livekit_config.clone());
    monitored.spawn_health_watch(move || {
        tree.media_returned();
        monitor.iter().for_each(LivekitConfigMonitor::request_check);
    });
    livekit_config
}
