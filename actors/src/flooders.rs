//! Participants that fill the queues of their rooms with reports, which are removed.

use std::sync::Arc;
use std::time::Duration;

use conclave_media::MediaPlane;
use conclave_model::{Clock, NamespacedRoom, ParticipantSid, Throttle};
use tokio::runtime::Handle;

/// Interval between two lines in the log about such participants.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// Removes participants that fill the queues of their rooms. No actor does, behind whose messages a removal would wait.
pub(crate) struct Flooders {
    media: Arc<dyn MediaPlane>,
    clock: Clock,
    runtime: Handle,
    warnings: Throttle<(), Duration>,
}

impl Flooders {
    /// Creates what removes participants, in tasks on this runtime.
    pub fn new(media: Arc<dyn MediaPlane>, clock: Clock, runtime: Handle) -> Self {
        Self {
            media,
            clock,
            runtime,
            warnings: Throttle::new(WARN_INTERVAL),
        }
    }

    /// Removes a participant from the media plane, in a spawned task.
    pub fn remove(&self, room: NamespacedRoom, sid: ParticipantSid) {
        if self.warnings.allow(self.clock.monotonic()) {
            log::warn!(
                room = room.as_str(), participant = sid.as_str();
                "a participant is removed: it changes its tracks faster than they can be written"
            );
        }
        let media = Arc::clone(&self.media);
        self.runtime.spawn(async move {
            if let Err(error) = media.remove_participant(&room, &sid).await {
                log::debug!(room = room.as_str(), participant = sid.as_str(); "it could not be removed: {error}");
            }
        });
    }
}
