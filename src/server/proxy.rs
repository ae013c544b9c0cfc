//! Proxy state of a cluster's server: used as a standby and, after a step-down, while it drains. `crate::cluster` has the story.

use std::sync::Arc;
use std::time::Duration;

use conclave_db::lease::{ClusterState, Lease, LeaseTiming};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::cluster::node::ActiveNodes;
use crate::cluster::{ActiveListener, ClusterMetrics, MAX_BUFFER_TIME, Proxy, ProxyOptions};
use crate::config::Config;
use crate::error::CliError;
use crate::http::frame::limits::FixedLimits;
use crate::http::listener::client_address::TrustedProxies;
use crate::http::listener::forwarded::{ForwardingGate, NotAccepted, NotActive};
use crate::http::metrics::Metrics;

/// Time between the end of readiness and closing the sockets. Load balancers have stopped sending requests by then: closing a
/// connection while a request arrives would leave the request's outcome open.
const DRAIN: Duration = Duration::from_secs(3);

/// Time limit for finding a node that could take over and has only just started: one read of the lease.
const SEARCH: Duration = Duration::from_millis(500);

/// Proxy, and the follower of the active node that it forwards to.
pub(super) struct NodeProxy {
    pub proxy: Arc<Proxy>,
    pub nodes: Arc<ActiveNodes>,
}

impl NodeProxy {
    /// Follows the lease, if this server is a node of a cluster.
    ///
    /// # Errors
    /// If the metrics are registered already.
    pub(super) fn new(
        config: &Config,
        metrics: &Metrics,
        lease: &Lease,
        fixed: &Arc<FixedLimits>,
    ) -> Result<Option<Self>, CliError> {
        if config.cluster.url.is_none() {
            return Ok(None);
        }
        // The proxy stays after a takeover, since this node may step down later.
        let nodes = ActiveNodes::new();
        nodes.follow(lease);
        let proxy = Proxy::new(ProxyOptions {
            nodes: Arc::clone(&nodes),
            proxies: TrustedProxies(config.http.trusted_proxies.clone()),
            max_requests: usize::try_from(config.http.max_requests).unwrap_or(usize::MAX),
            max_buffer_time: MAX_BUFFER_TIME,
            keep_alive: config.http.keep_alive,
            fixed: Arc::clone(fixed),
            metrics: ClusterMetrics::new(metrics.registry())?,
        });
        Ok(Some(Self { proxy, nodes }))
    }
}

/// Waits until load balancers have seen that the node is not ready, as it has been since `since`.
pub(super) async fn drain(since: Instant) {
    sleep_until(since + DRAIN).await;
}

/// Hand-over of an active node's requests to its successor when it stops.
pub(super) struct Handover {
    gate: Arc<ForwardingGate>,
    proxy: NodeProxy,
    lease: Lease,
}

impl Handover {
    pub(super) fn new(gate: Arc<ForwardingGate>, proxy: NodeProxy, lease: Lease) -> Self {
        Self { gate, proxy, lease }
    }

    /// Returns what this node's API listener needs.
    pub(super) fn listener(&self) -> ActiveListener {
        ActiveListener {
            gate: Arc::clone(&self.gate),
            proxy: Arc::clone(&self.proxy.proxy),
            lease: self.lease.clone(),
        }
    }

    /// Starts to serve requests on this node.
    pub(super) fn serve(&self) {
        self.proxy.nodes.serve_this();
    }

    /// Buffers requests from now on, and returns when the running ones have ended, or after `limit`. Clients' requests are refused if no
    /// other node can take over.
    pub(super) async fn buffer_requests(&self, lease: &Lease, limit: Duration) {
        // First of all, since the rest takes time: a disconnected client must not reconnect to this node.
        self.proxy.nodes.stop_serving_this();
        self.gate.start_closing();
        // Not seen yet does not mean that there is none: a node may have started less than a lease read ago.
        if !has_other(lease) {
            lease
                .read_cluster(ClusterState::has_successor, SEARCH)
                .await;
        }
        let of_clients = if has_other(lease) {
            NotAccepted::Forwarded
        } else {
            NotAccepted::Refused(NotActive::Stopping)
        };
        self.gate.close(of_clients, limit).await;
    }

    /// Releases the lease. Returns once the other nodes know, and one of them has the lease or has had the time to take it.
    pub(super) async fn hand_over(&self, lease: &Lease) {
        let (has_other, reads) = (has_other(lease), 2 * LeaseTiming::default().read);
        // Before the wait: from here on, another node may take over.
        lease.hand_over().await;
        // Two reads: one may have just happened.
        sleep(reads).await;
        if has_other {
            let mut active = lease.active_server();
            let taken =
                active.wait_for(|active| active.as_ref().is_some_and(|server| !server.is_this));
            // A timeout is no error: the successor may take the lease later, and clients' requests wait until then.
            let _ = timeout(reads, taken).await;
        }
    }

    /// Closes the forwarded WebSockets.
    pub(super) fn stop(&self) {
        self.proxy.proxy.stop();
    }
}

/// Returns whether another node could take over, as far as this one knows.
fn has_other(lease: &Lease) -> bool {
    lease
        .cluster()
        .as_ref()
        .is_some_and(ClusterState::has_successor)
}
