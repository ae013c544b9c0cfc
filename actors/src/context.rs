//! What all actors share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use conclave_db::Store;
use conclave_media::MediaPlane;
use conclave_model::permits::{PermitLimits, ProjectPermits};
use conclave_model::settings::{MediaConfig, RecordingsConfig, WebhooksConfig};
use conclave_model::{Clock, NodeId};
use conclave_outbound::upload::Uploader;
use conclave_outbound::webhook::DeliveryPool;

use crate::metrics::ActorMetrics;
use crate::registry::ActorRegistry;
use crate::report_queue::ReportQueues;

/// The most rooms whose deadline has come that are ended at once, of one project or of all. After a long stop a great many may be due:
/// the writes of as many share a transaction, with room for those of others.
pub const ROOMS_ENDING: PermitLimits = PermitLimits::new(32);

/// The services and settings that all actors share.
pub struct ActorContext {
    /// The durable records.
    pub store: Store,
    /// The media plane.
    pub media: Arc<dyn MediaPlane>,
    /// The source of time.
    pub clock: Clock,
    /// The threads that post webhooks.
    pub deliveries: DeliveryPool,
    /// Uploads the files of recordings.
    pub uploads: Uploader,
    /// This server, as long as it has its data directory.
    pub node: NodeId,
    /// The settings of the actors.
    pub settings: Settings,
    /// The permits to end a room whose deadline has come: [`ROOMS_ENDING`].
    pub room_ends: ProjectPermits,
    /// The reports that wait for the actors of their rooms.
    pub reports: ReportQueues,
    /// Whether the server stops: a room that it empties starts its empty timer with the next server.
    pub is_stopping: AtomicBool,
    /// The list of all actors, for the debug endpoint.
    pub registry: ActorRegistry,
    /// The metrics of the actors.
    pub metrics: ActorMetrics,
}

/// The settings of the actors.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Section `webhooks`.
    pub webhooks: WebhooksConfig,
    /// `media.reconcile`: interval at which the records are reconciled with the media plane.
    pub reconcile: Duration,
    /// `recordings.lost_after`: time that a file on another server's disk is waited for, before its recording has failed.
    pub lost_after: Duration,
}

/// Time to write the result of a post.
const RECORD_TIME: Duration = Duration::from_secs(2);

impl Settings {
    /// Takes what actors need of the sections.
    #[must_use]
    pub fn new(
        webhooks: &WebhooksConfig,
        media: &MediaConfig,
        recordings: &RecordingsConfig,
    ) -> Self {
        Self {
            webhooks: webhooks.clone(),
            reconcile: media.reconcile,
            lost_after: recordings.lost_after,
        }
    }

    /// Returns how long a stopping actor waits for its posts or its children: as long as a post that has just begun may take,
    /// until its result is written. Each of the `generations` below it adds a second, so that parents do not give up first.
    pub(crate) fn stop_timeout(&self, generations: u64) -> Duration {
        self.webhooks.timeout + RECORD_TIME + Duration::from_secs(generations)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new(
            &WebhooksConfig::default(),
            &MediaConfig::default(),
            &RecordingsConfig::default(),
        )
    }
}
