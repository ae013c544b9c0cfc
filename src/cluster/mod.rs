//! A cluster: servers with one database, of which one is active and each may be called.
//!
//! A standby passes what it receives on to the active node, as a reverse proxy. It answers nothing from memory or from the database, so
//! limits, locks and counts are those of one node. The lease tells it where the active node is.
//!
//! The active node does the same with what clients send to it while it stops: see [`ActiveListener`].
//!
//! [`passage`] decides about each request, without I/O: to send it, to hold it while no node is active, to send it again, or to give
//! it up. [`forward`] does that, over connections of [`connection`]; [`headers`], [`body`] and [`websocket`] are what passes.
//! [`probe`] asks the active node whether it answers through this one, and [`reachability`] decides whether this one is ready.

mod active;
mod body;
mod connection;
mod forward;
mod headers;
mod holds;
mod metrics;
pub mod node;
pub mod passage;
mod probe;
mod reachability;
mod request;
mod response;
mod websocket;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpRequest, web};
use tokio::sync::{Semaphore, watch};

use crate::http::frame::limits::FixedLimits;
use crate::http::frame::payload::LIMIT;
use crate::http::listener::client_address::TrustedProxies;
use crate::http::resource::public_health;
pub use active::ActiveListener;
use connection::Connector;
use forward::Forwarder;
use holds::Holds;
pub use metrics::ClusterMetrics;
use node::ActiveNodes;
use probe::Readiness;

/// Time for which a request is held while no node takes it.
pub const LONGEST_HOLD: Duration = Duration::from_secs(10);
/// Bytes of bodies that are kept: a thousand of the largest.
const BODY_MEMORY: usize = 1_024 * LIMIT;

/// How requests are passed on.
pub struct PassThroughOptions {
    /// The active node.
    pub nodes: Arc<ActiveNodes>,
    /// The other nodes, and the reverse proxies in front of them.
    pub proxies: TrustedProxies,
    /// The most requests that are held at once, of which a client may have a part.
    pub max_requests: usize,
    /// How long each is held.
    pub longest_hold: Duration,
    /// How long a connection to a node may be idle, as each node has it.
    pub keep_alive: Duration,
    /// The limits of responses that this node makes itself.
    pub fixed: Arc<FixedLimits>,
    /// Counts what is passed on.
    pub metrics: ClusterMetrics,
}

/// Passes requests on to the active node. All workers of a listener share it.
pub struct PassThrough {
    nodes: Arc<ActiveNodes>,
    proxies: TrustedProxies,
    /// The requests that are held.
    holds: Arc<Holds>,
    longest_hold: Duration,
    /// The bytes that are free for bodies.
    memory: Arc<Semaphore>,
    longest_idle: Duration,
    connector: Connector,
    fixed: Arc<FixedLimits>,
    metrics: ClusterMetrics,
    is_stopping: watch::Sender<bool>,
    /// Whether the active node answers through this one.
    readiness: Readiness,
}

impl PassThrough {
    /// Nothing is passed on yet.
    #[must_use]
    pub fn new(options: PassThroughOptions) -> Arc<Self> {
        let PassThroughOptions {
            nodes,
            proxies,
            max_requests,
            longest_hold,
            keep_alive,
            fixed,
            metrics,
        } = options;
        Arc::new(Self {
            nodes,
            proxies,
            holds: Holds::new(max_requests, metrics.clone()),
            longest_hold,
            memory: Arc::new(Semaphore::new(BODY_MEMORY)),
            // The node closes it after the whole time. What is sent at that moment would be lost.
            longest_idle: keep_alive / 2,
            connector: Connector::default(),
            fixed,
            metrics,
            is_stopping: watch::Sender::default(),
            readiness: Readiness::new(),
        })
    }

    /// Ends the websockets that are passed on.
    pub fn stop(&self) {
        self.is_stopping.send_replace(true);
    }

    /// Routes the API listener of a standby: it tells that it is alive, and all else is passed on. Called by each worker.
    pub fn configure(self: &Arc<Self>, config: &mut web::ServiceConfig) {
        public_health(config, &self.fixed);
        let forwarder = Rc::new(Forwarder::new(Arc::clone(self)));
        config.default_service(web::to(
            move |request: HttpRequest, payload: web::Payload| {
                let forwarder = Rc::clone(&forwarder);
                async move { forwarder.respond(request, payload.into_inner()).await }
            },
        ));
    }
}
