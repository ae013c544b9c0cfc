//! Services and settings shared by all actors.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use conclave_db::{LogRetention, Store};
use conclave_media::MediaPlane;
use conclave_model::permits::{PermitLimits, ProjectPermits};
use conclave_model::plan::Plan;
use conclave_model::settings::{EventsConfig, MediaConfig, RecordingsConfig, WebhooksConfig};
use conclave_model::{Clock, NodeId};
use conclave_outbound::upload::Uploader;
use conclave_outbound::webhook::DeliveryPool;

use crate::metrics::ActorMetrics;
use crate::registry::ActorRegistry;
use crate::report_queue::ReportQueues;

/// Maximum rooms that end at once after their deadline, per project and in total. Many may be due after a long stop: the writes
/// of 32 share a transaction, and leave room for others.
pub const ROOMS_ENDING: PermitLimits = PermitLimits::new(32);

/// Services and settings shared by all actors.
pub struct ActorContext {
    /// Durable records.
    pub store: Store,
    /// Media plane.
    pub media: Arc<dyn MediaPlane>,
    /// Time source.
    pub clock: Clock,
    /// Threads that post webhooks.
    pub deliveries: DeliveryPool,
    /// Recording file uploader.
    pub uploads: Uploader,
    /// This server, as long as it has its data directory.
    pub node: NodeId,
    /// Plans by id, which limit the recordings that start by themselves.
    pub plans: HashMap<String, Plan>,
    /// Actor settings.
    pub settings: Settings,
    /// Permits for ending rooms whose deadline has passed: [`ROOMS_ENDING`].
    pub room_ends: ProjectPermits,
    /// Reports that wait for their room's actor.
    pub reports: ReportQueues,
    /// Whether the server is stopping. A room emptied by the stop starts its empty timer with the next server.
    pub is_stopping: AtomicBool,
    /// Whether the stop has started to end the egresses, so that the media plane starts no more. This precedes [`Self::is_stopping`].
    pub ends_egresses: AtomicBool,
    /// List of all actors, for the debug endpoint.
    pub registry: ActorRegistry,
    /// Actor metrics.
    pub metrics: ActorMetrics,
}

/// Actor settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Section `webhooks`.
    pub webhooks: WebhooksConfig,
    /// `webhooks.retention` and `events.retention`.
    pub retention: LogRetention,
    /// `media.reconcile`: interval at which the records are reconciled with the media plane.
    pub reconcile: Duration,
    /// `recordings.lost_after`: how long a file on another server's disk is awaited before its recording fails.
    pub lost_after: Duration,
}

/// Time for writing the result of a POST.
const RECORD_TIME: Duration = Duration::from_secs(2);

impl Settings {
    /// Extracts the actors' settings from the sections.
    #[must_use]
    pub fn new(
        webhooks: &WebhooksConfig,
        events: &EventsConfig,
        media: &MediaConfig,
        recordings: &RecordingsConfig,
    ) -> Self {
        Self {
            // Copied once at the start. The settings do not change while the server runs.
            webhooks: webhooks.clone(),
            retention: LogRetention {
                deliveries: webhooks.retention,
                events: events.retention,
            },
            reconcile: media.reconcile,
            lost_after: recordings.lost_after,
        }
    }

    /// Returns how long a stopping actor waits for its POSTs or its children: as long as a POST that has just started may take, until its
    /// result is written. Each of the `generations` below it adds a second, so that parents do not give up first.
    pub(crate) fn stop_timeout(&self, generations: u64) -> Duration {
        self.webhooks.timeout + RECORD_TIME + Duration::from_secs(generations)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new(
            &WebhooksConfig::default(),
            &EventsConfig::default(),
            &MediaConfig::default(),
            &RecordingsConfig::default(),
        )
    }
}
