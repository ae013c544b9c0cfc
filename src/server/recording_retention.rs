//! Removes recording files that are older than `recordings.retention`. Only recordings without a destination are considered: a file that
//! has to be uploaded stays until it is.
//!
//! A missing file, which was moved or is on another server, is searched for again only after the next start.

use std::sync::Arc;
use std::time::Duration;

use conclave_db::{LocalRecording, RecordingPosition, StoreError};
use conclave_model::Clock;

use crate::http::files::removal::{COMPLETION_TIME, remove_recorded};
use crate::http::state::AppState;

/// Interval between passes.
const INTERVAL: Duration = Duration::from_secs(10 * 60);
/// Recordings per query.
const PAGE: u32 = 100;

/// Spawns the task that removes files while the server runs, if there is a retention.
pub(super) fn spawn(state: &Arc<AppState>) {
    let Some(retention) = state.admin.recordings_retention else {
        return;
    };
    let (clock, state): (Clock, _) = (state.clock.clone(), Arc::downgrade(state));
    tokio::spawn(async move {
        // In memory only, so a restart looks again for files that were missing.
        let mut position = RecordingPosition::START;
        while let Some(state) = state.upgrade() {
            if let Err(error) = remove_old(&state, retention, &mut position).await {
                log::warn!("old recordings are removed later: {error}");
            }
            drop(state);
            // By the server's clock rather than a timer, so that tests can move it.
            clock.sleep_until(clock.now().after(INTERVAL)).await;
        }
    });
}

/// Removes the files that have become too old since the last pass.
async fn remove_old(
    state: &AppState,
    retention: Duration,
    position: &mut RecordingPosition,
) -> Result<(), StoreError> {
    let latest_write = state.clock.now().before(retention);
    loop {
        let page = state
            .store
            .local_files()
            .recordings(*position, latest_write.before(COMPLETION_TIME), PAGE)
            .await?;
        for recording in &page {
            let folder = &state.admin.recordings;
            if remove_recorded(&state.store, folder, recording, latest_write).await? {
                let LocalRecording {
                    project_id,
                    egress_id,
                    filepath,
                    ..
                } = recording;
                log::info!(
                    project = project_id.as_str(), egress_id = egress_id.as_str(), file = filepath.as_str();
                    "removed a recording's file because of recordings.retention"
                );
            }
            // After each recording, so an error repeats only the failed one.
            *position = recording.position;
        }
        // A page that is not full may still be followed by new recordings.
        if page.is_empty() {
            return Ok(());
        }
    }
}
