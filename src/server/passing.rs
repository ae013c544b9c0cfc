//! Proxy state of a cluster's server: used as a standby and, after a step-down, while it drains. `crate::cluster` has the story.

use std::sync::Arc;
use std::time::Duration;

use conclave_db::lease::{ClusterState, Lease, LeaseTiming};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::cluster::node::ActiveNodes;
use crate::cluster::{
    ActiveListener, ClusterMetrics, LONGEST_HOLD, PassThrough, PassThroughOptions,
};
use crate::config::Config;
use crate::error::CliError;
use crate::http::frame::limits::FixedLimits;
use crate::http::listener::client_address::TrustedProxies;
use crate::http::listener::forwarded::{ForwardingGate, NotAccepted, NotActive};
use crate::http::metrics::Metrics;

/// How long a node that stops is not ready before it closes its sockets. Load balancers send it nothing more by then: a connection that is
/// closed while a request arrives would leave it open what has become of that.
const DRAIN: Duration = Duration::from_secs(3);

/// Time in which a node is looked for that could take over and has only just started.
const SEARCH: Duration = Duration::from_millis(500);

/// What requests are passed on with.
pub(super) struct Passing {
    pub through: Arc<PassThrough>,
    pub nodes: Arc<ActiveNodes>,
}

impl Passing {
    /// Follows the lease, if this server is a node of a cluster.
    ///
    /// # Errors
    /// The metrics are registered already.
    pub(super) fn new(
        config: &Config,
        metrics: &Metrics,
        lease: &Lease,
        fixed: &Arc<FixedLimits>,
    ) -> Result<Option<Self>, CliError> {
        if config.cluster.url.is_none() {
            return Ok(None);
        }
        let nodes = ActiveNodes::new();
        nodes.follow(lease);
        let through = PassThrough::new(PassThroughOptions {
            nodes: Arc::clone(&nodes),
            proxies: TrustedProxies(config.http.trusted_proxies.clone()),
            max_requests: usize::try_from(config.http.max_requests).unwrap_or(usize::MAX),
            longest_hold: LONGEST_HOLD,
            keep_alive: config.http.keep_alive,
            fixed: Arc::clone(fixed),
            metrics: ClusterMetrics::new(metrics.registry())?,
        });
        Ok(Some(Self { through, nodes }))
    }
}

/// Waits until load balancers have noticed that a node is not ready, which it has not been since `since`.
pub(super) async fn drain(since: Instant) {
    sleep_until(since + DRAIN).await;
}

/// What the active node of a cluster stops with.
pub(super) struct Successor {
    gate: Arc<ForwardingGate>,
    passing: Passing,
    lease: Lease,
}

impl Successor {
    pub(super) fn new(gate: Arc<ForwardingGate>, passing: Passing, lease: Lease) -> Self {
        Self {
            gate,
            passing,
            lease,
        }
    }

    /// What the API listener of this node needs of it.
    pub(super) fn listener(&self) -> ActiveListener {
        ActiveListener {
            gate: Arc::clone(&self.gate),
            through: Arc::clone(&self.passing.through),
            lease: self.lease.clone(),
        }
    }

    /// This node serves.
    pub(super) fn serve(&self) {
        self.passing.nodes.serve_this();
    }

    /// Lets requests wait from now on, and returns once those that are being handled have ended, or after the limit. Requests of clients
    /// are refused if no other node can take over.
    pub(super) async fn hold_requests(&self, lease: &Lease, limit: Duration) {
        // Before anything that takes time: a client that is sent away must not come back to this node.
        self.passing.nodes.stop_serving_this();
        self.gate.start_closing();
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

    /// Releases the lease, and returns once the other nodes know it and one of them has it, or has had the time to take it.
    pub(super) async fn hand_over(&self, lease: &Lease) {
        let (has_other, reads) = (has_other(lease), 2 * LeaseTiming::default().read);
        lease.hand_over().await;
        sleep(reads).await;
        if has_other {
            let mut active = lease.active_server();
            let taken =
                active.wait_for(|active| active.as_ref().is_some_and(|server| !server.is_this));
            let _ = timeout(reads, taken).await;
        }
    }

    /// Ends the websockets that were passed on.
    pub(super) fn stop(&self) {
        self.passing.through.stop();
    }
}

/// Whether another node could take over, as far as is known.
fn has_other(lease: &Lease) -> bool {
    lease
        .cluster()
        .as_ref()
        .is_some_and(ClusterState::has_successor)
}
