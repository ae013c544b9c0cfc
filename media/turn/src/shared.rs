//! State shared by all clients.

use std::sync::Arc;
use std::time::Duration;

use conclave_model::{Clock, MediaAddress, Secret};

use crate::admission::AdmittedParticipants;
use crate::credentials::Nonces;
use crate::limits::{AllocationQuotas, UnauthenticatedLimits};
use crate::metrics::TurnMetrics;
use crate::relay::RelayPeers;

/// Settings for a TURN server.
pub struct TurnSettings<'a> {
    /// Secret for signing credentials, see [`crate::credentials`].
    pub secret: Secret,
    /// Media workers' sockets, the only relay targets.
    pub peers: &'a [MediaAddress],
    /// Clock for credentials and lifetimes.
    pub clock: Clock,
    /// Maximum time for which a connection may be without an allocation;
    /// [`ALLOCATION_TIMEOUT`](crate::ALLOCATION_TIMEOUT) outside tests.
    pub allocation_timeout: Duration,
    /// Maximum number of allocations, each with a socket; up to
    /// [`MAX_ALLOCATIONS`](crate::MAX_ALLOCATIONS).
    pub max_allocations: usize,
}

/// State shared by all clients.
pub struct SharedState {
    /// Secret for signing credentials.
    pub secret: Secret,
    pub peers: RelayPeers,
    pub clock: Clock,
    pub(crate) nonces: Nonces,
    /// Participants that may have allocations.
    pub participants: AdmittedParticipants,
    pub quotas: AllocationQuotas,
    pub unauthenticated: UnauthenticatedLimits,
    pub metrics: Arc<TurnMetrics>,
    /// Maximum time for which a connection may be without an allocation.
    pub allocation_timeout: Duration,
}

impl SharedState {
    pub fn new(settings: TurnSettings<'_>) -> Self {
        let TurnSettings {
            secret,
            peers,
            clock,
            allocation_timeout,
            max_allocations,
        } = settings;
        Self {
            secret,
            peers: RelayPeers::new(peers),
            unauthenticated: UnauthenticatedLimits::new(&clock),
            clock,
            nonces: Nonces::new(),
            participants: AdmittedParticipants::default(),
            quotas: AllocationQuotas::new(max_allocations),
            metrics: Arc::default(),
            allocation_timeout,
        }
    }
}
