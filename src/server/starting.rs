//! Start of a server, in two steps: first everything that needs no records, then the parts that use them.
//!
//! Between the two, a server that shares its database waits until it is the active one, and runs as a standby.

use std::path::Path;
use std::sync::Arc;

use conclave_actors::{EventRelay, Tree};
use conclave_db::lease::{
    Holder, KeyIds, Lease, LeaseOptions, LeaseTiming, NodeInfo, ReadKeys, Standing,
};
use conclave_db::{
    Location, OlderSchema, StoreError, Vault, damaged_tables, require_suitable_postgres,
};
use conclave_media::embedded::{EmbeddedPlane, RtmpAddress};
use conclave_media::token::TokenSigner;
use conclave_media::{MediaPlane, MonitoredPlane, ReportInlet, ReportSink};
use conclave_model::address::AddressFilter;
use conclave_model::{Clock, LeaseCheck};
use tokio::sync::Semaphore;

use super::accepting::Protocols;
use super::address_file::{AddressFile, ServerAddresses};
use super::listeners::{self, ActiveRoutes, BoundListeners};
use super::media::{self, PlaneSetup};
use super::plane::{self, Plane};
use super::proxy::Handover;
use super::standby::{Standby, StandbyParts};
use super::tls::{self, PublicUrls, Tls};
use super::{
    QualityWriter, Server, ServerOptions, SteppedDown, clock_watch, dev, egress, key_files, parts,
    predecessor, recording_retention,
};
use crate::config::{Config, MediaCredentials, Plans};
use crate::data_dir::{self, DirectoryLock, StoreSetup};
use crate::error::CliError;
use crate::http::admin::access::{AdminToken, ConsoleAccess};
use crate::http::admin::events::MAX_STREAMS;
use crate::http::call::effects::{self, EffectFile};
use crate::http::console::history::History;
use crate::http::derived_keys::DerivedKeys;
use crate::http::erasure;
use crate::http::frame::limits::FixedLimits;
use crate::http::lease::{LeaseView, explain};
use crate::http::listener::client_address::TrustedProxies;
use crate::http::media::media_url::{MediaUrl, names_all_addresses};
use crate::http::metrics::Metrics;
use crate::http::state::{AdminState, ApiListener, AppState, Planes};
use crate::livekit_config::LivekitConfigMonitor;

/// Server whose sockets are bound, and which does not use the records yet.
pub struct StartingServer {
    options: ServerOptions,
    plans: Plans,
    effects: Vec<EffectFile>,
    lock: DirectoryLock,
    bound: BoundListeners,
    metrics: Metrics,
    credentials: MediaCredentials,
    tls: Option<Tls>,
    urls: PublicUrls,
    admin_token: Option<Arc<AdminToken>>,
    /// Access rule for the console, the same before and after this server becomes active, so operators stay signed in.
    console: Arc<ConsoleAccess>,
    /// Database lease, if servers share the database.
    lease: Option<(Lease, Arc<LeaseView>)>,
    epoch: Option<i64>,
    /// Limits for responses that need no record, the same before and after.
    fixed: Arc<FixedLimits>,
    /// Listeners while the server is a standby.
    standby: Standby,
}

impl StartingServer {
    /// Loads the settings' files and binds the sockets, or takes the sockets that this process kept when it stepped down. Must be called
    /// inside [`run_in_system`](crate::runtime::run_in_system).
    ///
    /// # Errors
    /// If a setting, a file or an address cannot be used, or if another server uses the data directory.
    pub fn prepare(options: ServerOptions, kept: Option<SteppedDown>) -> Result<Self, CliError> {
        let ServerOptions {
            config,
            mode,
            data,
            clock,
            ..
        } = &options;
        // First: a mistake in a file should not cost the time to bind and connect.
        let plans = Plans::load(config.plans.file.as_deref())?;
        let effects = effects::load(config.http.call_effects.as_deref())?;
        // These two fail while another server is running, so they come before anything that changes its data.
        // Such a server lets others take over first.
        let has_stepped_down = kept.is_some();
        let SteppedDown { lock, bound } = match kept {
            Some(kept) => kept,
            None => SteppedDown {
                lock: data_dir::lock_for_server(data)?,
                bound: listeners::bind(config, *mode)?,
            },
        };
        let metrics = Metrics::new()?;
        let credentials = MediaCredentials::load_or_create(config, data)?;
        let tls = tls::prepare(&config.tls, data, clock)?;
        let urls = PublicUrls::new(bound.api, tls.as_ref());
        let admin_token = parts::admin_token(config, clock);
        let console = Arc::new(parts::console_access(
            config,
            *mode,
            admin_token.as_ref(),
            clock,
        )?);
        let lease = start_lease(
            &options,
            &lock,
            &credentials,
            &urls,
            &bound,
            has_stepped_down,
        )?;
        let lease = lease
            .map(|lease| {
                metrics
                    .lease(lease.clone())
                    .map(|view| (lease, Arc::new(view)))
            })
            .transpose()?;
        // Shared by both sets of listeners, so a takeover does not reset a client's count.
        let fixed = parts::fixed_limits(config, clock);
        let (epoch, standby) = (None, Standby::default());
        Ok(Self {
            options,
            plans,
            effects,
            lock,
            bound,
            metrics,
            credentials,
            tls,
            urls,
            admin_token,
            console,
            lease,
            epoch,
            fixed,
            standby,
        })
    }

    /// Waits until this server may use the records. If others share the database, it runs as a standby meanwhile.
    ///
    /// # Errors
    /// If the listeners cannot be served, or if the lease is given up.
    pub async fn wait_until_active(&mut self) -> Result<(), CliError> {
        let Some((lease, view)) = self.lease.clone() else {
            return Ok(());
        };
        // The same objects as after the takeover, so that limits, sign-ins and metrics survive it.
        let parts = StandbyParts {
            config: &self.options.config,
            token: self.admin_token.clone(),
            console: &self.console,
            bound: &self.bound,
            metrics: &self.metrics,
            acceptor: self.tls.as_ref().map(|tls| tls.acceptor.clone()),
            fixed: Arc::clone(&self.fixed),
        };
        self.standby = Standby::serve(&lease, view, parts)?;
        let (api, admin) = (
            self.urls.http.as_str(),
            format!("http://{}", self.bound.admin),
        );
        log::info!(api = api, admin = admin.as_str(); "waiting for the database lease");
        // In its own task: `active` returns only at the takeover.
        let waiting = tokio::spawn(log_obstacles(lease.clone()));
        let epoch = lease.active().await;
        waiting.abort();
        self.epoch =
            Some(epoch.ok_or_else(|| CliError::failed("the database lease was given up"))?);
        log::info!(epoch = epoch; "this server is the active one");
        self.standby.make_way().await;
        Ok(())
    }

    /// Starts the parts that use the records.
    ///
    /// # Errors
    /// If the database, a file or an address cannot be used.
    pub async fn start(self) -> Result<Server, CliError> {
        let lease = self.lease.as_ref().map(|(lease, _)| lease.clone());
        // `build` consumes the server, and an error needs the path.
        let data = self.options.data.clone();
        let started = self
            .build()
            .await
            .map_err(|error| name_damage(error, &data));
        // Otherwise the other servers would wait until the lease expires.
        if let (Err(_), Some(lease)) = (&started, lease) {
            lease.release().await;
        }
        started
    }

    /// Stops a server that has not become active.
    pub async fn stop(self) {
        let Self {
            bound,
            standby,
            lease,
            ..
        } = self;
        // Connections are refused from now on, since nothing would accept them.
        drop(bound);
        standby.stop().await;
        if let Some((lease, _)) = lease {
            lease.release().await;
        }
    }

    #[expect(
        clippy::too_many_lines,
        reason = "the order in which a server is built, read from top to bottom"
    )]
    async fn build(self) -> Result<Server, CliError> {
        let Self {
            options,
            plans,
            effects,
            lock,
            mut bound,
            metrics,
            credentials,
            mut tls,
            urls,
            ..
        } = self;
        let Self {
            admin_token,
            console,
            lease,
            epoch,
            fixed,
            mut standby,
            ..
        } = self;
        let ServerOptions {
            config,
            origins,
            mode,
            data,
            clock,
        } = options;
        let relay = EventRelay::default();
        let setup = store_setup(&config, &clock, &relay, &metrics, epoch);
        let store = data_dir::open_store(&config, &data, setup)?;
        // This version creates no such files, so a running broadcast needs none of them.
        key_files::remove().await;
        let dev = dev::prepare(mode, &data, &store).await?;
        // One secret for several uses, so each use has a key of its own.
        let keys = DerivedKeys::new(&credentials.api_secret);
        let signer = Arc::new(TokenSigner::new(
            credentials.api_key,
            &credentials.api_secret,
        ));
        let media_url = plane::client_url(&config, &urls);
        let client_api_url = plane::client_api_url(&config, &urls);
        if names_all_addresses(&media_url) {
            log::warn!("{}", plane::NO_PUBLIC_URL);
        }
        // Only a server with a lease can step down, and needs its sockets again as a standby.
        let kept = lease
            .as_ref()
            .map(|_| bound.try_clone())
            .transpose()
            .map_err(listeners::not_shared)?;
        let (rtmp_socket, rtmp_address) = bound.rtmp.take().unzip();
        let rtmp_tls = tls.as_ref().map(|tls| tls.acceptor.clone());
        let (lease, view) = lease.unzip();
        let forwarding_gate = parts::forwarding_gate(&config, epoch);
        let lease_check = lease
            .as_ref()
            .map_or_else(LeaseCheck::not_needed, Lease::check);
        // The media plane needs a sink for reports before the actors exist. The inlet is connected below.
        let reports = ReportInlet::default();
        let plane = Plane::new(&PlaneSetup {
            config: &config,
            data: &data,
            clock: &clock,
            signer: &signer,
            media_url: &media_url,
            rtmp: rtmp_address.map(|address| RtmpAddress {
                port: address.port(),
                is_secure: rtmp_tls.is_some(),
            }),
            has_tls: rtmp_tls.is_some(),
            turn_secret: &keys.turn_secret(),
            reports: &reports,
            metrics: &metrics,
            lease: &lease_check,
        })?;
        let monitored = MonitoredPlane::new(
            plane.port(),
            clock.clone(),
            metrics.media.clone(),
            plane.circuit(&config),
        );
        let media: Arc<dyn MediaPlane> = Arc::new(monitored.clone());
        let signalling = plane.embedded().filter(|_| config.media.rtc.enabled);
        egress::show(signalling.as_ref(), &metrics).await?;
        let context = parts::actor_context(
            (&config, &plans),
            &store,
            &media,
            &clock,
            &metrics,
            &data,
            &lease_check,
        )?;
        // After everything that can fail: a start that fails must not hide how long the server has been down.
        store.server().begin_run().await?;
        let tree = Arc::new(Tree::start(context, &relay).await?);
        let sink: Arc<dyn ReportSink> = tree.clone();
        // Weak: the tree owns the media plane, which owns the inlet.
        reports.connect(Arc::downgrade(&sink));
        let rtmp = media::serve_rtmp(signalling.as_ref(), rtmp_socket, rtmp_tls)?;
        // After the actors, which reconcile when the media plane returns.
        let livekit_config = watch_media(&plane, &monitored, &tree, &clock);
        let quality = QualityWriter::start(
            signalling.clone(),
            &store,
            &clock,
            config.quality.retention,
            metrics.registry(),
        )?;
        let backups = parts::backups(&config, &store, &clock, &metrics)?;
        let state = Arc::new(AppState {
            store: store.clone(),
            tree: Tree::clone(&tree),
            lease: view,
            forwarding_gate: forwarding_gate.clone(),
            media,
            signer,
            keys,
            media_url: MediaUrl::new(
                media_url.clone(),
                tls.is_some(),
                TrustedProxies(config.http.trusted_proxies.clone()),
            ),
            plans,
            billing: parts::billing(&config, &clock),
            webhook_addresses: AddressFilter::new(config.webhooks.allow_networks.clone()),
            egress_addresses: AddressFilter::new(config.egress.allow_networks.clone()),
            checks: parts::checks(&config, mode, bound.admin, &clock, &metrics, fixed),
            metrics: metrics.clone(),
            clock,
            planes: Planes {
                sandbox: plane.embedded().filter(|_| config.media.sandbox),
                signalling: signalling.clone(),
                livekit: plane.livekit(),
            },
            api: ApiListener {
                port: bound.api.port(),
                url: client_api_url.clone(),
                tls: tls.as_ref().map(|tls| tls.status.clone()),
                call_page: parts::call_page(&config, dev.as_ref(), effects),
            },
            admin: AdminState {
                token: admin_token,
                hosts: config.admin.hosts.clone(),
                dev_key: parts::viewer_key(dev.as_ref(), console.gate(), bound.admin),
                console,
                history: History::default(),
                settings: origins.report(&config)?,
                recordings: config.recordings.path(&data),
                backups,
                recordings_retention: config.recordings.retention,
                relay,
                step_down: Arc::default(),
                event_streams: Arc::new(Semaphore::new(MAX_STREAMS)),
                livekit_config,
            },
        });
        // After the state exists, to which the tasks have weak references.
        parts::spawn_limits_cleanup(&state);
        parts::spawn_history(&state);
        recording_retention::spawn(&state);
        erasure::resume(&state);
        clock_watch::spawn(state.clock.clone());
        let (api, admin, redirect) = (bound.api, bound.admin, bound.redirect);
        let step_down = Arc::clone(&state.admin.step_down);
        let protocols = Protocols {
            tls: tls.as_ref().map(|tls| tls.acceptor.clone()),
            turn: signalling.as_ref().and_then(EmbeddedPlane::turn_server),
        };
        // From here to `serve`, neither the standby's nor the active server's listeners accept. Clients wait in the sockets' backlog.
        standby.pause().await;
        let proxy = forwarding_gate.zip(standby.take_proxy()).zip(lease.clone());
        let handover = proxy.map(|((gate, proxy), lease)| Handover::new(gate, proxy, lease));
        let routes = Arc::new(ActiveRoutes {
            http: state,
            cluster: handover.as_ref().map(Handover::listener),
        });
        let mut listeners = listeners::serve(
            bound.sockets,
            &listeners::ACTIVE,
            &routes,
            (&config, &metrics),
            protocols,
        )?;
        // Requests that the standby has buffered are released only after the active server's listeners serve.
        listeners.extend(standby.hand_over(config.http.keep_alive).await);
        handover.iter().for_each(Handover::serve);
        // The CA calls the listeners to check a challenge, so they have to serve before.
        tls.iter_mut().for_each(Tls::start_renewal);
        // Not the bound address: commands print links for clients.
        let addresses = ServerAddresses::new(
            &client_api_url,
            admin,
            dev.as_ref().map(|dev| &dev.project_id),
        );
        // Last, since commands take the file as the sign of a running server.
        let address_file = AddressFile::write(&data, &addresses);
        let address_file = address_file
            .map_err(|error| CliError::data_dir(&data, format!("server.json: {error}")))?;
        let call_page = config
            .http
            .call_page
            .then(|| format!("{client_api_url}/call"));
        Ok(Server {
            api,
            admin,
            redirect,
            api_url: urls.http,
            media_url,
            dev,
            call_page,
            listeners,
            embedded: plane.embedded(),
            rtmp,
            tree,
            store,
            quality,
            lease,
            _address_file: address_file,
            step_down,
            bound: kept,
            handover,
            lock,
        })
    }
}

/// Adds the damaged tables and a remedy to the error of a start that needs one of them.
fn name_damage(error: CliError, data: &Path) -> CliError {
    match error {
        CliError::Damaged(error) => {
            let found = damaged_tables(&data_dir::database_path(data))
                .ok()
                .filter(|tables| !tables.is_empty());
            let damage = found.map_or(error, StoreError::Damaged);
            CliError::failed(format!(
                "{damage}; keep the file, and restore a backup (conclave restore)"
            ))
        }
        other => other,
    }
}

/// Starts to wait for the database lease, if servers share the database.
fn start_lease(
    options: &ServerOptions,
    lock: &DirectoryLock,
    credentials: &MediaCredentials,
    urls: &PublicUrls,
    bound: &BoundListeners,
    yields: bool,
) -> Result<Option<Lease>, CliError> {
    let ServerOptions { config, data, .. } = options;
    let Location::Server(postgres) = data_dir::location(config, data, None)? else {
        return Ok(None);
    };
    // A server that stepped down has checked the database at its first start.
    if !yields {
        // A PostgreSQL session has a runtime of its own, which cannot run on this thread if it belongs to another runtime.
        let checked = std::thread::scope(|scope| {
            scope
                .spawn(|| require_suitable_postgres(&postgres.server))
                .join()
        });
        checked.map_err(|_| CliError::failed("the database was not checked"))??;
    }
    let vault = Vault::open(
        config.encryption.key_path(data).as_deref(),
        &credentials.api_secret,
    )?;
    let media = credentials.id();
    // Read at each renewal, since a running server's keys can be rotated.
    let keys: ReadKeys = Box::new(move || {
        let encryption = vault
            .key_ids()
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(KeyIds {
            encryption,
            media: media.clone(),
        })
    });
    let cluster = &config.cluster;
    let node = NodeInfo {
        url: cluster
            .url_at(bound.api)
            .unwrap_or_else(|| urls.http.clone()),
        admin_url: cluster.admin_url.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let (server, timing) = (postgres.server, LeaseTiming::default());
    let holder = Holder::random();
    // The lock is held, so no other process writes the file.
    let predecessor = predecessor::replace(lock.file(), holder).map_err(|error| {
        CliError::data_dir(data, format!("the lock cannot be written: {error}"))
    })?;
    Ok(Some(Lease::start(LeaseOptions {
        server,
        holder,
        predecessor,
        timing,
        node,
        keys,
        yields,
    })?))
}

/// Logs the obstacle to a takeover, each time it changes.
async fn log_obstacles(mut lease: Lease) {
    let mut last = None;
    loop {
        let Standing::Standby { obstacle } = lease.state().standing else {
            return;
        };
        if obstacle != last {
            match obstacle {
                Some(obstacle) => {
                    log::error!("this server cannot take over: {}", explain(obstacle));
                }
                None => log::info!("nothing keeps this server from taking over"),
            }
            last = obstacle;
        }
        if !lease.changed().await {
            return;
        }
    }
}

fn store_setup(
    config: &Config,
    clock: &Clock,
    relay: &EventRelay,
    metrics: &Metrics,
    epoch: Option<i64>,
) -> StoreSetup {
    StoreSetup {
        older_schema: OlderSchema::Migrate,
        clock: clock.clone(),
        on_commit: relay.hook(),
        metrics: metrics.store.clone(),
        // One per HTTP worker and per actor thread, so that none waits for another's read.
        readers: config.http.worker_threads()
            + tokio::runtime::Handle::current().metrics().num_workers(),
        epoch,
    }
}

/// Watches the media plane. When it is reachable again after an outage, the actors reconcile, and LiveKit's configuration is checked again.
fn watch_media(
    plane: &Plane,
    monitored: &MonitoredPlane,
    tree: &Tree,
    clock: &Clock,
) -> Option<LivekitConfigMonitor> {
    let livekit_config = plane
        .livekit()
        .map(|livekit| LivekitConfigMonitor::spawn(livekit, clock.clone()));
    let (tree, monitor) = (tree.clone(), livekit_config.clone());
    monitored.spawn_health_watch(move || {
        tree.media_returned();
        monitor.iter().for_each(LivekitConfigMonitor::request_check);
    });
    livekit_config
}
