//! The server: everything wired together, started and stopped in order. The one factory that the command line and the
//! tests both start it through.
//!
//! Up: records, media plane, actors, listeners. Down: listeners first, so that nothing new comes in, then the actors with
//! what they are at, then the records.

mod dev;
mod listeners;
mod plane;

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use conclave_actors::delivery::sender::Sender;
use conclave_actors::{ActorContext, ActorRegistry, EventRelay, Settings, Tree};
use conclave_db::Store;
use conclave_media::token::TokenSigner;
use conclave_media::{MediaPlane, MonitoredPlane};
use conclave_model::Clock;
use conclave_model::address::AddressFilter;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use crate::billing::BillingClient;
use crate::config::{Config, MediaCredentials, MediaKind, Mode, Plans};
use crate::data_dir::{self, StoreSetup};
use crate::error::CliError;
use crate::http::gate::idempotency::Turns;
use crate::http::gate::limits::{Limits, Rate};
use crate::http::gate::origin::Origins;
use crate::http::metrics::Metrics;
use crate::http::state::AppState;
use crate::livekit_config::LivekitConfigMonitor;
use crate::runtime::run_in_system;
pub use dev::DevAccess;
use plane::Plane;
pub(crate) use plane::livekit_settings;

/// Threads that read the database. Reads are short; more threads than this only take turns on the processor.
const READERS: usize = 4;
/// How often callers who went quiet are forgotten by the rate limits.
const FORGET_IDLE: Duration = Duration::from_secs(60);

/// What a server is started with.
pub struct ServerOptions {
    /// What the operator decided.
    pub config: Config,
    /// `dev` makes a project and a key.
    pub mode: Mode,
    /// Where the database and the keys lie.
    pub data: PathBuf,
    /// Where time comes from.
    pub clock: Clock,
}

/// A running server.
pub struct Server {
    /// The API's address.
    pub api: SocketAddr,
    /// The admin listener's address.
    pub admin: SocketAddr,
    /// The websocket url that tokens carry.
    pub media_url: String,
    /// What `dev` made.
    pub dev: Option<DevAccess>,
    listeners: [ServerHandle; 2],
    tree: Tree,
    store: Store,
    /// Held until everything else is down.
    _lock: File,
}

/// What whoever started the server reads first.
#[derive(Serialize)]
struct ReadyLine<'a> {
    ready: bool,
    api: String,
    admin: String,
    media_url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    project_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key: Option<&'a str>,
}

impl Server {
    /// Starts a server. Must run in an actix system on a multi-threaded runtime: actors stay on it.
    ///
    /// # Errors
    /// A setting, a file or an address that cannot be used.
    pub async fn start(options: ServerOptions) -> Result<Self, CliError> {
        let ServerOptions { config, mode, data, clock } = options;
        let plans = Plans::load(config.plans.file.as_deref())?;
        // These can fail while another server is running, so they come before anything that changes its data.
        let lock = data_dir::lock_for_server(&data)?;
        let bound = listeners::bind(&config)?;
        let relay = EventRelay::default();
        let metrics = Metrics::new()?;
        let setup = StoreSetup {
            clock: clock.clone(),
            on_commit: relay.hook(),
            metrics: metrics.store.clone(),
            readers: READERS,
        };
        let store = data_dir::open_store(&config, &data, setup)?;
        let dev = match mode {
            Mode::Dev => Some(dev::prepare(&store).await?),
            Mode::Serve => None,
        };
        let credentials = MediaCredentials::load_or_create(&config, &data)?;
        let signer = Arc::new(TokenSigner::new(credentials.api_key, &credentials.api_secret));
        let media_url = media_url(&config, bound.api);
        let plane = Plane::new(&config, &data, (&clock, &signer), &media_url);
        let monitored = MonitoredPlane::new(plane.port(), clock.clone(), metrics.media.clone(), plane.circuit(&config));
        let media: Arc<dyn MediaPlane> = Arc::new(monitored.clone());
        let context = actor_context(&config, &store, &media, (&clock, &metrics));
        let tree = Tree::start(context, &relay).await?;
        plane.connect(&tree);
        let livekit_config = plane.livekit().map(|livekit| LivekitConfigMonitor::spawn(livekit, clock.clone()));
        let (returned, monitor) = (tree.clone(), livekit_config.clone());
        monitored.spawn_health_watch(move || {
            returned.media_returned();
            monitor.iter().for_each(LivekitConfigMonitor::request_check);
        });

        let state = Arc::new(AppState {
            store: store.clone(),
            tree: tree.clone(),
            metrics,
            media,
            sandbox: plane.embedded().filter(|_| config.media.sandbox),
            livekit: plane.livekit(),
            livekit_config,
            signer,
            limits: limits(&config, &clock),
            billing: billing(&config, &clock),
            clock,
            plans,
            origins: origins(&config),
            turns: Turns::default(),
            webhook_addresses: AddressFilter::new(config.webhooks.allow_networks.clone()),
            egress_addresses: AddressFilter::new(config.egress.allow_networks.clone()),
            media_url: media_url.clone(),
            relay,
            admin_token: config.admin.token.clone(),
        });
        forget_idle_callers(&state);
        let (api, admin) = (bound.api, bound.admin);
        let listeners = listeners::serve(bound, &state, config.http.worker_threads())?;
        Ok(Self { api, admin, media_url, dev, listeners, tree, store, _lock: lock })
    }

    /// The line that says the server is ready.
    #[must_use]
    pub fn ready_line(&self) -> String {
        let (project_id, api_key) =
            self.dev.as_ref().map(|dev| (dev.project_id.as_str(), dev.api_key.reveal())).unzip();
        let line = ReadyLine {
            ready: true,
            api: format!("http://{}", self.api),
            admin: format!("http://{}", self.admin),
            media_url: &self.media_url,
            project_id,
            api_key,
        };
        // Texts and a bool cannot fail to be written.
        serde_json::to_string(&line).unwrap_or_default()
    }

    /// Stops: takes nothing new, finishes what is in flight (10 s at most), stops the actors, closes the database.
    pub async fn stop(self) {
        let [api, admin] = self.listeners;
        tokio::join!(api.stop(true), admin.stop(true));
        self.tree.stop().await;
        let store = self.store;
        // Closing waits for the writer's thread.
        let _ = tokio::task::spawn_blocking(move || store.close()).await;
    }
}

/// The websocket url that tokens carry: the public one, or the one we use ourselves, or our own.
fn media_url(config: &Config, api: SocketAddr) -> String {
    let own = || format!("ws://{api}");
    let near = || config.media.url.as_ref().map(|url| url.replacen("http", "ws", usize::from(url.starts_with("http"))));
    let media = &config.media;
    media.public_url.clone().or_else(|| near().filter(|_| media.kind == MediaKind::Livekit)).unwrap_or_else(own)
}

fn actor_context(
    config: &Config,
    store: &Store,
    media: &Arc<dyn MediaPlane>,
    (clock, metrics): (&Clock, &Metrics),
) -> ActorContext {
    let filter = AddressFilter::new(config.webhooks.allow_networks.clone());
    ActorContext {
        store: store.clone(),
        media: Arc::clone(media),
        clock: clock.clone(),
        sender: Arc::new(Sender::new(filter, config.webhooks.timeout)),
        settings: Settings {
            webhook_tick: config.webhooks.tick,
            retry: config.webhooks.retry_schedule(),
            retention: config.webhooks.retention,
            reconcile: config.media.reconcile,
        },
        registry: ActorRegistry::default(),
        metrics: metrics.actors.clone(),
    }
}

fn limits(config: &Config, clock: &Clock) -> Limits {
    // The configuration has been validated; a zero that slipped through would mean one.
    let positive = |number: u32| std::num::NonZeroU32::new(number).unwrap_or(std::num::NonZeroU32::MIN);
    let rate = |per_second, burst| Rate { per_second: positive(per_second), burst: positive(burst) };
    let set = &config.limits;
    let calls = rate(set.requests_per_second, set.burst);
    let exchanges = rate(set.exchange_per_second, set.exchange_burst);
    Limits::new(clock, calls, exchanges, config.http.trusted_proxies.clone())
}

fn billing(config: &Config, clock: &Clock) -> Option<BillingClient> {
    // An address that does not parse has been refused with the configuration.
    let url = config.billing.url.as_deref()?.parse().ok()?;
    Some(BillingClient::new(url, config.billing.token.clone(), clock.clone()))
}

fn origins(config: &Config) -> Origins {
    let texts = |origins: &[crate::config::Origin]| origins.iter().map(|o| o.as_str().to_owned()).collect();
    Origins { console: texts(&config.http.console_origins), browser: texts(&config.http.browser_origins) }
}

fn forget_idle_callers(state: &Arc<AppState>) {
    let state = Arc::downgrade(state);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(FORGET_IDLE).await;
            match state.upgrade() {
                Some(state) => state.limits.forget_idle(),
                None => return,
            }
        }
    });
}

/// Runs a server with the system clock until SIGTERM or SIGINT.
///
/// # Errors
/// The server could not start, or its actors ended by themselves.
pub fn run(mode: Mode, config: Config, data: PathBuf) -> Result<(), CliError> {
    let options = ServerOptions { config, mode, data, clock: Clock::system() };
    run_in_system(async {
        let no_signals = |error: std::io::Error| CliError::failed(format!("signals cannot be received: {error}"));
        let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
        let server = Server::start(options).await?;
        print_ready_line(&server);
        let was_requested = tokio::select! {
            _ = terminate.recv() => true,
            _ = interrupt.recv() => true,
            () = server.tree.ended() => false,
        };
        log::info!("stopping");
        server.stop().await;
        // Without its actors the server could answer nothing useful, so the process ends and its supervisor restarts it.
        if was_requested {
            Ok(())
        } else {
            Err(CliError::failed("the actors ended by themselves; see the log for the cause"))
        }
    })
}

/// Prints the ready line, which is the only line on stdout. A closed stdout is not an error.
fn print_ready_line(server: &Server) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{}", server.ready_line()).and_then(|()| stdout.flush());
}
