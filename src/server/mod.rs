//! Start and stop of a server. The commands and the tests both use [`Server::start`].
//!
//! The parts start in the order lease, store, media plane, actors, listeners. They stop in the order egresses, whose files become
//! final while their participants are connected, listeners, so that no new request arrives, sessions of the embedded media plane,
//! whose ends are recorded, actors, which finish their work, and store, lease. In a cluster, requests wait for the next active node
//! before the sessions end, so that clients which connect anew find that one, and the listeners stop last.

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
mod passing;
mod plane;
mod predecessor;
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
use passing::Successor;
pub(crate) use plane::{livekit_settings, public_url_problem};
pub use run::run;
pub use starting::StartingServer;

/// How long a stop waits until the ends of all sessions are recorded.
const SESSIONS_TIMEOUT: Duration = Duration::from_secs(10);

/// How often is looked whether the data directory is there.
const DIRECTORY_CHECK: Duration = Duration::from_secs(1);

/// Options of a server's start.
#[derive(Clone)]
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
    /// The embedded media plane, if that is the one.
    embedded: Option<EmbeddedPlane>,
    /// The listener of RTMP encoders, if they can connect.
    rtmp: Option<RtmpListener>,
    /// Takes the media plane's reports, for as long as the server runs.
    tree: Arc<Tree>,
    store: Store,
    /// The lease of the database, where servers share one.
    lease: Option<Lease>,
    /// Removed before the data directory is free.
    _address_file: AddressFile,
    /// Notified when this server is to step down.
    step_down: Arc<Notify>,
    /// The sockets, where this server may step down.
    bound: Option<BoundListeners>,
    /// What a stop lets requests wait with, in a cluster.
    successor: Option<Successor>,
    /// Lock of the data directory. Released last.
    lock: DirectoryLock,
}

/// What a server that has stepped down keeps: connections wait in its sockets, and no other uses its data directory.
pub struct Kept {
    lock: DirectoryLock,
    bound: BoundListeners,
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
        let mut starting = StartingServer::prepare(options, None)?;
        starting.wait_until_active().await?;
        starting.start().await
    }

    /// Returns the address on which RTMP encoders connect, if they can.
    #[must_use]
    pub fn rtmp(&self) -> Option<SocketAddr> {
        self.rtmp.as_ref().map(RtmpListener::address)
    }

    /// Returns the line of JSON that announces the server as ready.
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
        // Strings and a bool can always be serialized.
        serde_json::to_string(&line).unwrap_or_default()
    }

    /// Returns once the server cannot go on, with the reason: its actors or the thread that writes have ended by themselves.
    pub async fn failed(&self) -> &'static str {
        tokio::select! {
            () = self.tree.ended() => "the actors ended by themselves",
            end = self.store.writer_ended() => end.as_str(),
            end = lost(self.lease.as_ref()) => end.as_str(),
            () = gone(&self.lock) => WriterStop::FileGone.as_str(),
        }
    }

    /// Ends what a server must not go on with after it has failed. If it shares its database, another server may be active, so there is
    /// nothing to write any more: clients of the embedded media plane are sent away, to find the other.
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

    /// Returns once this server is to step down.
    pub async fn step_down_asked(&self) {
        self.step_down.notified().await;
    }

    /// Stops, and keeps what a standby in this process needs; `None` for a server that shares its database with none.
    pub async fn step_down(mut self) -> Option<Kept> {
        let bound = self.bound.take();
        let lock = self.end(Drain::No).await;
        bound.map(|bound| Kept { lock, bound })
    }

    /// Stops for good.
    pub async fn stop(mut self) {
        // Connections are refused from now on, since nobody would accept them.
        self.bound = None;
        drop(self.end(Drain::Yes).await);
    }

    /// Ends running egresses, takes no more requests, ends the sessions of the embedded media plane, waits up to 10 s for requests in
    /// flight, stops the actors, closes the database and releases its lease.
    async fn end(self, drain: Drain) -> DirectoryLock {
        let began = Instant::now();
        if let Some(plane) = &self.embedded {
            plane.end_egresses().await;
        }
        drop(self.rtmp);
        self.tree.announce_stop();
        let are_ended = match self.successor.as_ref().zip(self.lease.as_ref()) {
            Some((successor, lease)) => {
                successor
                    .hold_requests(lease, listeners::SHUTDOWN_TIMEOUT)
                    .await;
                end_sessions(self.embedded.as_ref()).await
            }
            // Open websockets would keep the listeners from stopping.
            None => {
                tokio::join!(
                    end_sessions(self.embedded.as_ref()),
                    stop_listeners(&self.listeners)
                )
                .0
            }
        };
        self.tree.stop().await;
        let store = self.store;
        if !are_ended {
            log::warn!(
                "not all sessions could be ended: the next start takes this stop for a crash"
            );
        } else if let Err(error) = store.server().end_run().await {
            log::warn!("the next start will take this stop for a crash: {error}");
        }
        // Closing blocks until the writer thread has ended.
        let _ = spawn_blocking(move || store.close()).await;
        // The last write: another server becomes active at once.
        if let Some(lease) = self.lease {
            if let Some(successor) = self.successor {
                successor.hand_over(&lease).await;
                if drain == Drain::Yes {
                    passing::drain(began).await;
                }
                successor.stop();
                stop_listeners(&self.listeners).await;
            }
            lease.release().await;
        }
        self.lock
    }
}

/// Whether the sockets are closed only once load balancers have noticed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drain {
    Yes,
    /// They are kept.
    No,
}

/// Ends the sessions of the embedded media plane. Returns whether they are recorded; on LiveKit they go on.
async fn end_sessions(embedded: Option<&EmbeddedPlane>) -> bool {
    match embedded {
        Some(plane) => plane.end_sessions(SESSIONS_TIMEOUT).await,
        None => true,
    }
}

async fn stop_listeners(listeners: &[ServerHandle]) {
    join_all(listeners.iter().map(|listener| listener.stop(true))).await;
}

/// Returns once the lease is lost, with the reason; never for a database that servers do not share.
async fn lost(lease: Option<&Lease>) -> WriterStop {
    let Some(lease) = lease else {
        return std::future::pending().await;
    };
    lease.lost().await;
    if lease.state().is_set_back {
        WriterStop::CommitsLost
    } else {
        WriterStop::TakenOver
    }
}

/// Returns once the data directory is not there any more.
async fn gone(lock: &DirectoryLock) {
    // Without its number, nothing tells the file from another.
    let Ok(place) = lock.place() else {
        return std::future::pending().await;
    };
    loop {
        sleep(DIRECTORY_CHECK).await;
        let place = place.clone();
        // It waits for a file system that hangs. An error means that the runtime ends.
        if !spawn_blocking(move || place.is_there())
            .await
            .unwrap_or(true)
        {
            return;
        }
    }
}
