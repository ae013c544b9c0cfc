//! Listeners of a standby, which serve until the active server's listeners replace them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix_web::dev::ServerHandle;
use conclave_db::lease::Lease;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::accepting::Protocols;
use super::listeners::{self, BoundListeners};
use super::parts;
use super::proxy::{self, NodeProxy};
use crate::config::Config;
use crate::error::CliError;
use crate::http::admin::access::{AdminToken, ConsoleAccess};
use crate::http::frame::limits::FixedLimits;
use crate::http::lease::LeaseView;
use crate::http::metrics::Metrics;
use crate::http::state::{ReachesActive, StandbyState};
use crate::tls::TlsAcceptor;

/// Listeners of a standby.
#[derive(Default)]
pub(super) struct Standby {
    /// The API's first.
    listeners: Vec<ServerHandle>,
    /// Proxy of its API listener, in a cluster.
    proxy: Option<NodeProxy>,
    /// Set when it stops, and is no longer ready.
    is_stopping: Arc<AtomicBool>,
}

/// Parts that the listeners of a standby share with the later active server.
pub(super) struct StandbyParts<'a> {
    pub config: &'a Config,
    pub token: Option<Arc<AdminToken>>,
    pub console: &'a Arc<ConsoleAccess>,
    pub bound: &'a BoundListeners,
    pub metrics: &'a Metrics,
    pub acceptor: Option<TlsAcceptor>,
    pub fixed: Arc<FixedLimits>,
}

/// Returns a function that reports whether forwarded requests reach the active server.
fn reaches_active(proxy: &NodeProxy, lease: &Lease) -> ReachesActive {
    proxy.proxy.watch_active_node(lease.states());
    let proxy = Arc::clone(&proxy.proxy);
    Box::new(move || proxy.reaches_active_node())
}

impl Standby {
    /// Serves the sockets as a standby.
    ///
    /// # Errors
    /// If the sockets cannot be served.
    pub(super) fn serve(
        lease: &Lease,
        view: Arc<LeaseView>,
        parts: StandbyParts<'_>,
    ) -> Result<Self, CliError> {
        let StandbyParts {
            config,
            token,
            console,
            bound,
            metrics,
            acceptor,
            fixed,
        } = parts;
        // There are no media workers to relay to.
        let protocols = Protocols {
            tls: acceptor,
            turn: None,
        };
        let (proxy, is_stopping) = (
            NodeProxy::new(config, metrics, lease, &fixed)?,
            Arc::default(),
        );
        let http = Arc::new(StandbyState {
            lease: view,
            metrics: metrics.clone(),
            token,
            hosts: config.admin.hosts.clone(),
            console: Arc::clone(console),
            forms: parts::standby_forms(config),
            reaches_active: proxy.as_ref().map(|proxy| reaches_active(proxy, lease)),
            is_stopping: Arc::clone(&is_stopping),
            port: bound.api.port(),
            fixed,
        });
        // Clones of the sockets: the active server's listeners take over the originals later, and connections in the backlog survive.
        let sockets = bound.sockets.try_clone().map_err(listeners::not_shared)?;
        let state = Arc::new(listeners::StandbyRoutes {
            http,
            proxy: proxy.as_ref().map(|proxy| Arc::clone(&proxy.proxy)),
        });
        let listeners = listeners::serve(
            sockets,
            &listeners::STANDBY,
            &state,
            (config, metrics),
            protocols,
        )?;
        Ok(Self {
            listeners,
            proxy,
            is_stopping,
        })
    }

    /// Stops the listeners of a server that has become the active one and is not in a cluster. New connections wait in the backlog for the
    /// active server's listeners.
    pub(super) async fn make_way(&mut self) {
        // In a cluster, the proxy stays: it buffers requests until this server is ready.
        if self.proxy.is_none() {
            join_all(self.listeners.drain(..).map(|listener| listener.stop(true))).await;
        }
    }

    /// Stops accepting. New connections wait in the backlog for the active server's listeners.
    pub(super) async fn pause(&self) {
        join_all(self.listeners.iter().map(ServerHandle::pause)).await;
    }

    /// Returns the proxy, in a cluster.
    pub(super) fn take_proxy(&mut self) -> Option<NodeProxy> {
        self.proxy.take()
    }

    /// Hands over to the active server's listeners, which serve by now, and to which the API listener forwards its buffered requests. The
    /// API listener runs until its connections have ended: each is closed after its next response, since closing one while a request
    /// arrives would lose the request. Returns the listeners that still have to be stopped.
    pub(super) async fn hand_over(self, keep_alive: Duration) -> Vec<ServerHandle> {
        let Self { mut listeners, .. } = self;
        let others = listeners.split_off(listeners.len().min(1));
        join_all(others.iter().map(|listener| listener.stop(true))).await;
        let left = listeners.clone();
        // An idle connection lasts at most this long, so all clients have moved by then.
        tokio::spawn(async move {
            tokio::time::sleep(keep_alive).await;
            join_all(left.iter().map(|listener| listener.stop(true))).await;
        });
        listeners
    }

    /// Stops the listeners. Requests in flight finish; WebSockets are closed.
    pub(super) async fn stop(self) {
        if let Some(proxy) = &self.proxy {
            // Readiness first: load balancers must stop sending requests before the sockets close.
            self.is_stopping.store(true, Ordering::Relaxed);
            proxy::drain(Instant::now()).await;
            proxy.proxy.stop();
        }
        join_all(self.listeners.iter().map(|listener| listener.stop(true))).await;
    }
}
