//! Start and stop of a server. The commands and the tests both use [`Server::start`].
//!
//! The parts start in this order: lease, store, media plane, actors, listeners. They stop in this order:
//! - Egresses, since their files are completed while their participants are connected.
//! - Listeners, so that no new request arrives.
//! - Sessions of the embedded media plane, whose ends are recorded.
//! - Actors, which finish their work.
//! - Store and lease.
//!
//! In a cluster, requests are buffered for the next active node before the sessions end, so that reconnecting clients find that node, and
//! the listeners stop last.

mod accepting;
mod address_file;
mod clock_watch;
mod descriptors;
mod dev;
mod egress;
mod key_files;
mod listeners;
mod media;
mod parts;
mod plane;
mod predecessor;
mod proxy;
mod quality;
mod recording_retention;
pub(crate) mod roots;
mod run;
mod standby;
mod starting;
mod tls;
mod turn;
mod welcome;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use conclave_actors::Tree;
use conclave_db::lease::Lease;
use conclave_db::{Store, WriterStop};
use conclave_media::embedded::{EmbeddedPlane, RtmpListener};
use conclave_model::Clock;
use futures_util::future::join_all;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::config::{Config, Mode, SettingOrigins};
use crate::data_dir::DirectoryLock;
use crate::error::CliError;
use address_file::AddressFile;
pub use address_file::ServerAddresses;
pub(crate) use address_file::admin_url;
pub(crate) use descriptors::connections_problem;
pub use dev::DevAccess;
pub(crate) use egress::dialler;
use listeners::BoundListeners;
pub(crate) use media::{buffer_problem, client_addresses, workers_problem};
pub(crate) use plane::{livekit_settings, public_url_problem};
use proxy::Handover;
use quality::QualityWriter;
pub use run::run;
pub use starting::StartingServer;

/// Time limit at a stop for recording the ends of all sessions.
const SESSIONS_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between checks that the data directory exists.
const DIRECTORY_CHECK: Duration = Duration::from_secs(1);

/// Options for a server's start.
#[derive(Clone)]
pub struct ServerOptions {
    /// Validated configuration.
    pub config: Config,
    /// Sources of the settings, for the console.
    pub origins: SettingOrigins,
    /// Whether to create the project and the API key of `dev`.
    pub mode: Mode,
    /// Data directory.
    pub data: PathBuf,
    /// Source of time. Tests pass a clock that they move.
    pub clock: Clock,
}

/// A running server.
pub struct Server {
    /// API listener address.
    pub api: SocketAddr,
    /// Admin listener address.
    pub admin: SocketAddr,
    /// Redirecting listener's address, if there is one.
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
    /// The embedded media plane, if configured.
    embedded: Option<EmbeddedPlane>,
    /// Listener for RTMP encoders, if they can connect.
    rtmp: Option<RtmpListener>,
    /// Receives the media plane's reports while the server runs.
    tree: Arc<Tree>,
    store: Store,
    /// Writer of sessions' quality.
    quality: Arc<QualityWriter>,
    /// Database lease, if servers share the database.
    lease: Option<Lease>,
    /// Removed before the data directory is unlocked.
    _address_file: AddressFile,
    /// Notified when this server has to step down.
    step_down: Arc<Notify>,
    /// Clones of the sockets, if this server may step down.
    bound: Option<BoundListeners>,
    /// Hand-over to the next active node, in a cluster.
    handover: Option<Handover>,
    /// Lock of the data directory. Released last.
    lock: DirectoryLock,
}

/// Resources that a server keeps when it steps down: new connections wait in the sockets' backlog, and no other server uses the data
/// directory.
pub struct SteppedDown {
    lock: DirectoryLock,
    bound: BoundListeners,
}

/// JSON line on stdout that announces a ready server.
#[derive(Serialize)]
struct ReadyLine<'a> {
    ready: bool,
    api: &'a str,
    admin: String,
    media_url: &'a str,
    /// Address for RTMP encoders; absent if they cannot connect.
    #[serde(skip_serializing_if = "Option::is_none")]
    rtmp: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key: Option<&'a str>,
}

impl Server {
    /// Starts a server. Must be called inside [`run_in_system`](crate::runtime::run_in_system), whose runtime the actors stay on.
    ///
    /// # Errors
    /// If a setting, a file or an address cannot be used.
    pub async fn start(options: ServerOptions) -> Result<Self, CliError> {
        let mut starting = StartingServer::prepare(options, None)?;
        starting.wait_until_active().await?;
        starting.start().await
    }

    /// Returns the address for RTMP encoders, if they can connect.
    #[must_use]
    pub fn rtmp(&self) -> Option<SocketAddr> {
        self.rtmp.as_ref().map(RtmpListener::address)
    }

    /// Returns the JSON line that announces the server as ready.
    #[must_use]
    pub fn ready_line(&self) -> String {
        let (project_id, api_key) = self
            .dev
            .as_ref()
            .map(|dev| (dev.project_id.as_str(), dev.api_key.reveal()))
            .unzip();
        let line = ReadyLine {
            ready: true,
            api: &self.api_url,
            admin: format!("http://{}", self.admin),
            media_url: &self.media_url,
            rtmp: self.rtmp().map(|address| address.to_string()),
            project_id,
            api_key,
        };
        // Strings and a Boolean can always be serialized.
        serde_json::to_string(&line).unwrap_or_default()
    }

    /// Resolves with the reason when the server cannot continue: its actors or the writer thread have ended, the lease is lost, or the data
    /// directory is gone.
    pub async fn failed(&self) -> &'static str {
        tokio::select! {
            () = self.tree.ended() => "the actors stopped unexpectedly",
            end = self.store.writer_ended() => end.as_str(),
            end = lease_lost(self.lease.as_ref()) => end.as_str(),
            () = directory_removed(&self.lock) => WriterStop::FileGone.as_str(),
        }
    }

    /// Stops the parts that must not continue after a failure. With a shared database, another server may be active, so nothing more is
    /// written: the embedded media plane's clients are disconnected, and find the other server.
    pub async fn stop_failed(self) {
        match &self.lease {
            Some(lease) => {
                self.embedded
                    .iter()
                    .for_each(EmbeddedPlane::shut_down_sessions);
                lease.release().await;
            }
            None => self.stop().await,
        }
    }

    /// Resolves when this server has to step down.
    pub async fn step_down_asked(&self) {
        self.step_down.notified().await;
    }

    /// Stops, and keeps the resources that a standby in this process needs; `None` if the server does not share its database.
    pub async fn step_down(mut self) -> Option<SteppedDown> {
        // Before the stop, which consumes the rest.
        let bound = self.bound.take();
        let lock = self.shut_down(Drain::No).await;
        bound.map(|bound| SteppedDown { lock, bound })
    }

    /// Stops for good.
    pub async fn stop(mut self) {
        // Connections are refused from now on, since nothing would accept them.
        self.bound = None;
        drop(self.shut_down(Drain::Yes).await);
    }

    /// Stops running egresses, rejects new requests, ends the sessions of the embedded media plane, waits up to 10 s for requests in
    /// flight, stops the actors, closes the database and releases its lease.
    async fn shut_down(self, drain: Drain) -> DirectoryLock {
        let started = Instant::now();
        if let Some(plane) = &self.embedded {
            self.tree.announce_egress_end();
            plane.end_egresses().await;
        }
        // Encoders reconnect when their session ends; no new session must start now.
        drop(self.rtmp);
        // Leaves reported from now on are caused by the stop: rooms keep their whole empty timeout for the next start.
        self.tree.announce_stop();
        // In a cluster, clients of the ended sessions reconnect at once, so requests have to be buffered before.
        let are_recorded = match self.handover.as_ref().zip(self.lease.as_ref()) {
            Some((handover, lease)) => {
                handover
                    .buffer_requests(lease, listeners::SHUTDOWN_TIMEOUT)
                    .await;
                stop_sessions(self.embedded.as_ref()).await
            }
            // Together, since the listeners wait for open WebSockets, which end with the sessions.
            None => {
                tokio::join!(
                    stop_sessions(self.embedded.as_ref()),
                    stop_listeners(&self.listeners)
                )
                .0
            }
        };
        // Waits for work in progress, such as webhook deliveries, before the store closes.
        self.tree.stop().await;
        // After the sessions, whose last measurements have summaries.
        self.quality.finish().await;
        let store = self.store;
        if !are_recorded {
            log::warn!(
                "the ends of some sessions are not recorded: the next start treats this stop as a crash"
            );
        } else if let Err(error) = store.server().end_run().await {
            log::warn!(
                "the end of the run is not recorded: the next start treats this stop as a crash: {error}"
            );
        }
        // Closing blocks until the writer thread has ended, so it must not run on the runtime. An error means that the thread panicked,
        // which is logged there.
        let _ = spawn_blocking(move || store.close()).await;
        // After the last write, since another server becomes active at once.
        if let Some(lease) = self.lease {
            if let Some(handover) = self.handover {
                handover.hand_over(&lease).await;
                if drain == Drain::Yes {
                    proxy::drain(started).await;
                }
                handover.stop();
                stop_listeners(&self.listeners).await;
            }
            lease.release().await;
        }
        self.lock
    }
}

/// Whether the sockets stay open until load balancers have seen that the server is not ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drain {
    Yes,
    /// The sockets are kept.
    No,
}

/// Ends the embedded media plane's sessions. Returns whether their ends are recorded; on LiveKit, sessions continue.
async fn stop_sessions(embedded: Option<&EmbeddedPlane>) -> bool {
    match embedded {
        Some(plane) => plane.end_sessions(SESSIONS_TIMEOUT).await,
        None => true,
    }
}

async fn stop_listeners(listeners: &[ServerHandle]) {
    join_all(listeners.iter().map(|listener| listener.stop(true))).await;
}

/// Resolves with the reason when the lease is lost; never if servers do not share the database.
async fn lease_lost(lease: Option<&Lease>) -> WriterStop {
    let Some(lease) = lease else {
        return std::future::pending().await;
    };
    lease.lost().await;
    // A database restored from an older copy has lost commits of this server, which must not write on top of it.
    if lease.state().is_set_back {
        WriterStop::CommitsLost
    } else {
        WriterStop::TakenOver
    }
}

/// Resolves when the data directory no longer exists.
async fn directory_removed(lock: &DirectoryLock) {
    // Without its inode number, the directory cannot be distinguished from another one at its path.
    let Ok(place) = lock.place() else {
        return std::future::pending().await;
    };
    loop {
        sleep(DIRECTORY_CHECK).await;
        let place = place.clone();
        // On a thread that may block: a network file system can hang. An error means that the runtime is shutting down.
        if !spawn_blocking(move || place.is_there())
            .await
            .unwrap_or(true)
        {
            return;
        }
    }
}
