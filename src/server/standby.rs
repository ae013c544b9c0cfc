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
use super::passing::{self, Passing};
use crate::config::Config;
use crate::error::CliError;
use crate::http::admin::access::{AdminToken, ConsoleAccess};
use crate::http::frame::limits::FixedLimits;
use crate::http::lease::LeaseView;
use crate::http::metrics::Metrics;
use crate::http::state::{ReachesActive, StandbyState};
use crate::tls::TlsAcceptor;

/// The listeners of a standby.
#[derive(Default)]
pub(super) struct Standby {
    /// That of the API first.
    listeners: Vec<ServerHandle>,
    /// What its API listener passes requests on with, in a cluster.
    passing: Option<Passing>,
    /// Set when it stops: it is not ready any more.
    is_stopping: Arc<AtomicBool>,
}

/// What the listeners of a standby are made of.
pub(super) struct StandbyParts<'a> {
    pub config: &'a Config,
    pub token: Option<Arc<AdminToken>>,
    pub console: &'a Arc<ConsoleAccess>,
    pub bound: &'a BoundListeners,
    pub metrics: &'a Metrics,
    pub acceptor: Option<TlsAcceptor>,
    pub fixed: Arc<FixedLimits>,
}

/// Returns what tells whether requests that are passed on get anywhere.
fn reaches_active(passing: &Passing, lease: &Lease) -> ReachesActive {
    passing.through.watch_active_node(lease.states());
    let through = Arc::clone(&passing.through);
    Box::new(move || through.reaches_active_node())
}

impl Standby {
    /// Serves the sockets as a standby.
    ///
    /// # Errors
    /// The sockets cannot be served.
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
        let (passing, is_stopping) = (
            Passing::new(config, metrics, lease, &fixed)?,
            Arc::default(),
        );
        let http = Arc::new(StandbyState {
            lease: view,
            metrics: metrics.clone(),
            token,
            hosts: config.admin.hosts.clone(),
            console: Arc::clone(console),
            forms: parts::standby_forms(config),
            reaches_active: passing
                .as_ref()
                .map(|passing| reaches_active(passing, lease)),
            is_stopping: Arc::clone(&is_stopping),
            port: bound.api.port(),
            fixed,
        });
        let sockets = bound.sockets.try_clone().map_err(listeners::not_shared)?;
        let pass_through = passing.as_ref().map(|passing| Arc::clone(&passing.through));
        let state = Arc::new(listeners::StandbyRoutes { http, pass_through });
        let listeners = listeners::serve(
            sockets,
            &listeners::STANDBY,
            &state,
            (config, metrics),
            protocols,
        )?;
        Ok(Self {
            listeners,
            passing,
            is_stopping,
        })
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

    /// Returns what it passes requests on with, in a cluster.
    pub(super) fn take_passing(&mut self) -> Option<Passing> {
        self.passing.take()
    }

    /// Ends what has not made way, now that the listeners of the active server serve, and what that of the API holds goes to them. It
    /// goes on until its connections have come to an end: each is closed after its next response, and one that is closed while a request
    /// arrives would lose it. Returns what is left to be stopped.
    pub(super) async fn hand_over(self, keep_alive: Duration) -> Vec<ServerHandle> {
        let Self { mut listeners, .. } = self;
        let others = listeners.split_off(listeners.len().min(1));
        join_all(others.iter().map(|listener| listener.stop(true))).await;
        let left = listeners.clone();
        tokio::spawn(async move {
            tokio::time::sleep(keep_alive).await;
            join_all(left.iter().map(|listener| listener.stop(true))).await;
        });
        listeners
    }

    /// Ends the listeners. Requests in flight are finished, websockets are not.
    pub(super) async fn stop(self) {
        if let Some(passing) = &self.passing {
            self.is_stopping.store(true, Ordering::Relaxed);
            passing::drain(Instant::now()).await;
            passing.through.stop();
        }
        join_all(self.listeners.iter().map(|listener| listener.stop(true))).await;
    }
}
