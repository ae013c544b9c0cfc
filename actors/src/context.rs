//! What every actor may use, made once and shared.

use std::sync::Arc;
use std::time::Duration;

use conclave_db::Store;
use conclave_media::MediaPlane;
use conclave_model::Clock;
use conclave_model::webhook::RetrySchedule;

use crate::delivery::sender::Sender;
use crate::metrics::ActorMetrics;
use crate::registry::ActorRegistry;

/// The shared parts.
pub struct ActorContext {
    /// Durable records.
    pub store: Store,
    /// Live state.
    pub media: Arc<dyn MediaPlane>,
    /// Time.
    pub clock: Clock,
    /// Posts webhooks.
    pub sender: Arc<Sender>,
    /// Numbers an operator may set.
    pub settings: Settings,
    /// Who is alive, for the debug endpoint.
    pub registry: ActorRegistry,
    /// Where they count.
    pub metrics: ActorMetrics,
}

/// Numbers an operator may set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How often an endpoint looks for due deliveries.
    pub webhook_tick: Duration,
    /// When a failed delivery is posted again.
    pub retry: RetrySchedule,
    /// How long final deliveries and their events are kept.
    pub retention: Duration,
    /// How often the records are held against the media plane.
    pub reconcile: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            webhook_tick: Duration::from_secs(5),
            retry: RetrySchedule::default(),
            retention: Duration::from_secs(30 * 24 * 3_600),
            reconcile: Duration::from_secs(60),
        }
    }
}
