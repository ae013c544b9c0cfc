//! Participants that fill the queues of their rooms with reports, which are removed.

use std::sync::Arc;
use std::time::Duration;

use conclave_model::{NamespacedRoom, ParticipantSid};

use super::{SystemActor, SystemState};

/// Interval between two lines in the log about such participants.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

impl SystemActor {
    /// Removes a participant from the media plane, in a spawned task.
    pub(super) fn remove_flooder(&self, state: &mut SystemState, room: NamespacedRoom, sid: ParticipantSid) {
        let now = self.context.clock.monotonic();
        if state.warned_at.is_none_or(|at| now.saturating_sub(at) >= WARN_INTERVAL) {
            state.warned_at = Some(now);
            log::warn!(
                room = room.as_str(), participant = sid.as_str();
                "a participant is removed: it changes its tracks faster than they can be written"
            );
        }
        let media = Arc::clone(&self.context.media);
        tokio::spawn(async move {
            if let Err(error) = media.remove_participant(&room, &sid).await {
                log::debug!(room = room.as_str(), participant = sid.as_str(); "it could not be removed: {error}");
            }
        });
    }
}
