//! The end of egresses with ffmpeg, because the server stops.

use std::time::Duration;

use crate::embedded::plane::EmbeddedPlane;

/// How long the last reports of egresses may take, beyond the time for their files.
const REPORTING: Duration = Duration::from_secs(5);

impl EmbeddedPlane {
    /// Ends all egresses with ffmpeg, and starts none any more. Returns once their files are final and their records are written.
    /// They have the time for that of the engine's settings.
    pub async fn end_egresses(&self) {
        let Some(jobs) = &self.inner().jobs else {
            return;
        };
        let (running, timeout) = jobs.close();
        if running.is_empty() {
            return;
        }
        log::info!(count = running.len(); "the recordings and broadcasts that run are ended");
        for (id, room) in running {
            self.inner()
                .call(&room, |machine, now| machine.stop_egress(&id, now));
        }
        if tokio::time::timeout(timeout + REPORTING, jobs.all_ended())
            .await
            .is_err()
        {
            log::warn!(
                "some recordings or broadcasts have not ended in time (egress.stop_timeout)"
            );
        }
    }
}
