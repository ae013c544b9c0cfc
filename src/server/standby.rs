//! What answers while a server is a standby, until its own listeners serve.

use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use conclave_db::lease::Lease;
use futures_util::future::join_all;

use super::listeners::{self, BoundListeners};
use super::parts;
use crate::cluster::node::ActiveNodes;
use crate::cluster::{ClusterMetrics, LONGEST_HOLD, PassThrough, PassThroughOptions};
use crate::config::Config;
use crate::error::CliError;
use crate::http::admin_token::AdminToken;
use crate::http::client_address::TrustedProxies;
use crate::http::console::access::ConsoleAccess;
use crate::http::lease::LeaseView;
use crate::http::metrics::Metrics;
use crate::http::standby::StandbyState;
use crate::tls::TlsAcceptor;

/// The listeners of a standby.
#[derive(Default)]
pub(super) struct Standby {
    /// That of the API first.
    listeners: Vec<ServerHandle>,
    /// What its API listener passes requests on with, in a cluster.
    passing: Option<Passing>,
}

/// What an API listener passes requests on with.
struct Passing {
    through: Arc<PassThrough>,
    nodes: Arc<ActiveNodes>,
}

/// What the listeners of a standby are made of.
pub(super) struct StandbyParts<'a> {
    pub config: &'a Config,
    pub token: Option<Arc<AdminToken>>,
    pub console: &'a Arc<ConsoleAccess>,
    pub bound: &'a BoundListeners,
    pub metrics: &'a Metrics,
    pub acceptor: Option<TlsAcceptor>,
}

impl Standby {
    /// Serves the sockets as a standby.
    ///
    /// # Errors
    /// The sockets cannot be served.
    pub(super) fn serve(lease: &Lease, view: Arc<LeaseView>, parts: StandbyParts<'_>) -> Result<Self, CliError> {
        let StandbyParts { config, token, console, bound, metrics, acceptor } = parts;
        let passing = pass_through(config, metrics, lease)?;
        let http = Arc::new(StandbyState {
            lease: view,
            metrics: metrics.clone(),
            token,
            hosts: config.admin.hosts.clone(),
            console: Arc::clone(console),
            forms: parts::standby_forms(config),
            passes_on: passing.is_some(),
            port: bound.api.port(),
        });
        let sockets = bound.sockets.try_clone().map_err(listeners::not_shared)?;
        let pass_through = passing.as_ref().map(|passing| Arc::clone(&passing.through));
        let state = Arc::new(listeners::StandbyRoutes { http, pass_through });
        let listeners = listeners::serve(sockets, &listeners::STANDBY, &state, (config, metrics), acceptor)?;
        Ok(Self { listeners, passing })
    }

    /// Ends the listeners of a server that has become the active one and passes nothing on. Connections wait for its own.
    pub(super) async fn make_way(&mut self) {
        if self.passing.is_none() {
            join_all(self.listeners.drain(..).map(|listener| listener.stop(true))).await;
        }
    }

    /// Accepts no more connections. Those that come wait for the listeners of the active server.
    pub(super) async fn pause(&self) {
        join_all(self.listeners.iter().map(ServerHandle::pause)).await;
    }

    /// Ends what has not made way, now that the listeners of the active server serve. What that of the API holds goes to them. It goes on until its
    /// connections have come to an end: each is closed after its next response, and one that is closed while a request arrives would
    /// lose it. Returns what is left to be stopped.
    pub(super) async fn hand_over(self, keep_alive: Duration) -> Vec<ServerHandle> {
        let Self { mut listeners, passing } = self;
        let Some(Passing { nodes, .. }) = passing else { return Vec::new() };
        let others = listeners.split_off(1);
        join_all(others.iter().map(|listener| listener.stop(true))).await;
        nodes.serve_this();
        let left = listeners.clone();
        tokio::spawn(async move {
            tokio::time::sleep(keep_alive).await;
            join_all(left.iter().map(|listener| listener.stop(true))).await;
        });
        listeners
    }

    /// Ends the listeners. Requests in flight are finished, websockets are not.
    pub(super) async fn stop(self) {
        self.passing.iter().for_each(|passing| passing.through.stop());
        join_all(self.listeners.iter().map(|listener| listener.stop(true))).await;
    }
}

/// Passes requests on to the active server, if this one is a node of a cluster.
fn pass_through(config: &Config, metrics: &Metrics, lease: &Lease) -> Result<Option<Passing>, CliError> {
    if config.cluster.url.is_none() {
        return Ok(None);
    }
    let nodes = ActiveNodes::new();
    nodes.follow(lease);
    let through = PassThrough::new(PassThroughOptions {
        nodes: Arc::clone(&nodes),
        proxies: TrustedProxies(config.http.trusted_proxies.clone()),
        most_held: usize::try_from(config.http.max_requests).unwrap_or(usize::MAX),
        longest_hold: LONGEST_HOLD,
        keep_alive: config.http.keep_alive,
        metrics: ClusterMetrics::new(metrics.registry())?,
    });
    Ok(Some(Passing { through, nodes }))
}
