//! The stop of a cluster's active node: requests wait until another node is active, and go there.

use std::sync::Arc;
use std::time::Duration;

use conclave_db::lease::{ClusterState, Lease, LeaseTiming};
use tokio::time::{sleep, timeout};

use super::passing::Passing;
use crate::cluster::ActiveListener;
use crate::http::passed_on::{NotActive, NotTaken, PassedOnGate};

/// Time in which a node is looked for that could take over and has only just started.
const SEARCH: Duration = Duration::from_millis(500);

/// What the active node of a cluster stops with.
pub(super) struct Successor {
    gate: Arc<PassedOnGate>,
    passing: Passing,
    lease: Lease,
}

impl Successor {
    pub(super) fn new(gate: Arc<PassedOnGate>, passing: Passing, lease: Lease) -> Self {
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
        self.gate.begin_to_close();
        if !has_other(lease) {
            lease
                .read_cluster(ClusterState::has_successor, SEARCH)
                .await;
        }
        let of_clients = if has_other(lease) {
            NotTaken::PassedOn
        } else {
            NotTaken::Refused(NotActive::Stopping)
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
