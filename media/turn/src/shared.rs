//! What all clients of the TURN server share.

use std::sync::Arc;
use std::time::Duration;

use conclave_model::{Clock, MediaAddress, Secret};

use crate::credentials::Nonces;
use crate::limits::{Quotas, Strangers};
use crate::members::Members;
use crate::metrics::TurnMetrics;
use crate::relay::Peers;

/// What a TURN server needs to know.
pub struct TurnSettings<'a> {
    /// Signs the credentials of participants, see [`crate::credentials`].
    pub secret: Secret,
    /// The sockets that may be relayed to.
    pub peers: &'a [MediaAddress],
    /// The time by which credentials and allocations end.
    pub clock: Clock,
    /// How long a connection may be without an allocation; [`PATIENCE`](crate::PATIENCE) outside of tests.
    pub patience: Duration,
    /// How many allocations there may be, each with a socket; at most [`MAX_ALLOCATIONS`](crate::MAX_ALLOCATIONS).
    pub max_allocations: usize,
}

/// What all clients share.
pub struct Shared {
    /// The secret of the credentials.
    pub secret: Secret,
    pub peers: Peers,
    pub clock: Clock,
    pub(crate) nonces: Nonces,
    /// The participants that may have allocations.
    pub members: Members,
    pub quotas: Quotas,
    pub strangers: Strangers,
    pub metrics: Arc<TurnMetrics>,
    /// How long a connection may be without an allocation.
    pub patience: Duration,
}

impl Shared {
    /// Nothing is allocated, and nobody may allocate anything.
    pub fn new(settings: TurnSettings<'_>) -> Self {
        let TurnSettings {
            secret,
            peers,
            clock,
            patience,
            max_allocations,
        } = settings;
        Self {
            secret,
            peers: Peers::new(peers),
            strangers: Strangers::new(&clock),
            clock,
            nonces: Nonces::new(),
            members: Members::default(),
            quotas: Quotas::new(max_allocations),
            metrics: Arc::default(),
            patience,
        }
    }
}
