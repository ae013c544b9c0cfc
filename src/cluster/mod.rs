//! A cluster: servers on one database. One of them is active; clients may call any. A standby is a reverse proxy to the
//! active server; it answers nothing from memory or from the database, so that limits, locks and counts are one server's.
//!
//! # Parts
//!
//! - [`node`]: the active server as the lease names it, with its epoch: each takeover starts another one.
//! - [`forward`]: the proxy. One request at a time: it sends, waits, repeats or gives up, as [`forwarding`] decides.
//! - [`forwarding`]: the decision as a state machine without I/O.
//! - [`connection`], [`headers`], [`body`], [`response`], [`websocket`]: kept connections, and the translation of requests and
//!   responses.
//! - [`buffer_slots`]: the slots for requests that are buffered while no server is active. One client has at most a quarter of them.
//! - [`probe`] and [`reachability`]: whether this standby reaches the active server, for `/readyz`.
//! - [`ActiveListener`]: the listener of the active server. While that server stops, it buffers requests and proxies them to its
//!   successor.
//! - `ForwardingGate` in `src/http/listener`: decides whether the active server takes a proxied request.
//!
//! # A request's course
//!
//! 1. The standby reads the head, removes hop-by-hop headers, determines the client's address itself, and keeps the body while there is
//!    memory for it, so that it can be sent again.
//! 2. It sends the request with the epoch of the server that is active according to the lease.
//! 3. The active server checks that the epoch is its own and that its lease is confirmed, and handles the request like any other.
//! 4. The standby forwards the response, if no other server has taken over meanwhile.
//!
//! # Failures
//!
//! - No server is active: the request is buffered for up to ten seconds, and sent to the next active server.
//! - The active server cannot be reached, or refuses as a standby or stopping: it has done nothing, so the request is sent again.
//! - The connection breaks after a part of the request may have been read: a request that changes nothing, or that has an
//!   `Idempotency-Key`, is repeated; another gets 503 `node_lost`, because its change may have been made.
//! - A request makes each server fail: it is given up after three servers.
//! - The active server is cut off from the database: it marks its 503 as unconfirmed, and the standby buffers the request for a
//!   successor.
//! - Two servers each take the other for the active one: a proxied request that reaches a standby is refused, so it cannot circulate.
//!
//! # Why it is not simpler
//!
//! A redirect would need clients to follow it, and would expose the servers' addresses. A load balancer with health checks sends
//! requests to a dead server until the next check, and cannot know which requests may be repeated.

mod active;
mod body;
mod buffer_slots;
mod connection;
mod forward;
pub mod forwarding;
mod headers;
mod metrics;
pub mod node;
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
use buffer_slots::BufferSlots;
use connection::Connector;
use forward::Forwarder;
pub use metrics::ClusterMetrics;
use node::ActiveNodes;
use probe::Readiness;

/// Time for which a request is buffered while no node accepts it.
pub const MAX_BUFFER_TIME: Duration = Duration::from_secs(10);
/// Memory for buffered bodies, in bytes: 1,024 of the largest.
const BODY_MEMORY: usize = 1_024 * LIMIT;

/// Options of [`Proxy`].
pub struct ProxyOptions {
    /// Follower of the active node.
    pub nodes: Arc<ActiveNodes>,
    /// Addresses of the other nodes and the reverse proxies in front of them.
    pub proxies: TrustedProxies,
    /// Maximum buffered requests. A client may use a part of them.
    pub max_requests: usize,
    /// Maximum time for which each is buffered.
    pub max_buffer_time: Duration,
    /// Idle time after which a node closes a connection: the same setting on each node.
    pub keep_alive: Duration,
    /// Limits for responses that this node makes itself.
    pub fixed: Arc<FixedLimits>,
    /// Counters of forwarded requests.
    pub metrics: ClusterMetrics,
}

/// Reverse proxy to the active node, shared by a listener's workers.
pub struct Proxy {
    nodes: Arc<ActiveNodes>,
    proxies: TrustedProxies,
    /// Slots for buffered requests.
    buffer_slots: Arc<BufferSlots>,
    max_buffer_time: Duration,
    /// Free memory for bodies, in bytes.
    memory: Arc<Semaphore>,
    longest_idle: Duration,
    connector: Connector,
    fixed: Arc<FixedLimits>,
    metrics: ClusterMetrics,
    is_stopping: watch::Sender<bool>,
    /// Result of the probes to the active node.
    readiness: Readiness,
}

impl Proxy {
    /// Creates a proxy that has not connected yet.
    #[must_use]
    pub fn new(options: ProxyOptions) -> Arc<Self> {
        let ProxyOptions {
            nodes,
            proxies,
            max_requests,
            max_buffer_time,
            keep_alive,
            fixed,
            metrics,
        } = options;
        Arc::new(Self {
            nodes,
            proxies,
            buffer_slots: BufferSlots::new(max_requests, metrics.clone()),
            max_buffer_time,
            // One permit per byte.
            memory: Arc::new(Semaphore::new(BODY_MEMORY)),
            // A node closes a connection after the whole time. A request sent at that moment would be lost, so half of it is a safe margin.
            longest_idle: keep_alive / 2,
            connector: Connector::default(),
            fixed,
            metrics,
            is_stopping: watch::Sender::default(),
            readiness: Readiness::new(),
        })
    }

    /// Closes the forwarded WebSockets.
    pub fn stop(&self) {
        self.is_stopping.send_replace(true);
    }

    /// Routes a standby's API listener: `/healthz` is its own, everything else is forwarded. Called by each worker.
    pub fn configure(self: &Arc<Self>, config: &mut web::ServiceConfig) {
        public_health(config, &self.fixed);
        let forwarder = Rc::new(Forwarder::new(Arc::clone(self)));
        // The active node answers unknown paths, too, so that both have the same routes.
        config.default_service(web::to(
            move |request: HttpRequest, payload: web::Payload| {
                let forwarder = Rc::clone(&forwarder);
                async move { forwarder.respond(request, payload.into_inner()).await }
            },
        ));
    }
}
