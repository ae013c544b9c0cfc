//! What all clients of the TURN server share.

use std::sync::Arc;
use std::time::Duration;

use conclave_model::{Clock, Secret};

use crate::challenge::Nonces;
use crate::metrics::TurnMetrics;
use crate::peers::Peers;
use crate::quotas::Quotas;
use crate::strangers::Strangers;

/// What all clients share.
pub struct Shared {
    /// The secret of the credentials.
    pub secret: Secret,
    pub peers: Peers,
    pub clock: Clock,
    pub nonces: Nonces,
    pub quotas: Quotas,
    pub strangers: Strangers,
    pub metrics: Arc<TurnMetrics>,
    /// How long a connection may be without an allocation.
    pub patience: Duration,
}

impl Shared {
    /// Nothing is allocated.
    pub fn new(secret: Secret, peers: Peers, clock: Clock, patience: Duration) -> Self {
        let strangers = Strangers::new(&clock);
        let (nonces, quotas, metrics) = (Nonces::new(), Quotas::default(), Arc::default());
        Self { secret, peers, clock, nonces, quotas, strangers, metrics, patience }
    }
}
