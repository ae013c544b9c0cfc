//! What a node of a cluster passes requests on with, first as a standby and later as an active node that stops.

use std::sync::Arc;
use std::time::Duration;

use conclave_db::lease::Lease;
use tokio::time::{Instant, sleep_until};

use crate::cluster::node::ActiveNodes;
use crate::cluster::{ClusterMetrics, LONGEST_HOLD, PassThrough, PassThroughOptions};
use crate::config::Config;
use crate::error::CliError;
use crate::http::client_address::TrustedProxies;
use crate::http::limits::FixedLimits;
use crate::http::metrics::Metrics;

/// How long a node that stops is not ready before it closes its sockets. Load balancers send it nothing more by then: a connection that is
/// closed while a request arrives would leave it open what has become of that.
const DRAIN: Duration = Duration::from_secs(3);

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
            most_held: usize::try_from(config.http.max_requests).unwrap_or(usize::MAX),
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
