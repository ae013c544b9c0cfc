//! Erasure of an identity: the participant is removed, its recordings' files are deleted, and its rows get another identity.
//!
//! An erasure is recorded before it starts ([`conclave_db::Erasures`]). If its request fails or the process ends in between, the server
//! continues it at its next start and every ten minutes ([`resume`]), as does a repeated request. Each step changes only rows that still have
//! the identity, so a step that ran twice changes nothing the second time.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use conclave_actors::TreeError;
use conclave_db::{ErasedRows, Erasure, RecordingPosition, Store, StoreError};
use conclave_model::egress::Egress;
use conclave_model::{ErrorCode, Identity, Problem, ProjectId, Timestamp};
use tokio::time::{Instant, sleep};

use super::api::error::{ApiError, Result};
use super::files::removal::{COMPLETION_TIME, remove_recorded};
use super::state::AppState;

/// Maximum time for the participant to leave and its recordings to end.
// Within a client's usual timeout, and longer than a media plane takes to report a leave.
const LEAVE_LIMIT: Duration = Duration::from_secs(15);
/// Interval between checks whether the participant has left.
const LEAVE_INTERVAL: Duration = Duration::from_millis(200);
/// Recordings per query.
const PAGE: u32 = 100;
/// Maximum number of recordings in a result.
pub const MOST_RECORDINGS: usize = 1_000;
/// Maximum number of erasures that one pass continues.
const MOST_PENDING: u32 = 1_000;
/// Interval between passes. Erasures whose request started less than that ago are left to it.
const RESUME_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Result of an erasure.
pub struct Erased {
    /// Identity that the rows have now.
    pub replacement: Identity,
    /// Changed rows.
    pub rows: ErasedRows,
    /// Number of deleted recording files.
    pub deleted_files: u32,
    /// Recordings in which the participant was present and whose files remain, oldest first, at most [`MOST_RECORDINGS`].
    pub remaining: Vec<Egress>,
    /// Whether there are more of them.
    pub has_more: bool,
}

/// Erases an identity, or continues its erasure.
///
/// # Errors
/// 503 if the participant does not leave, or if the media plane or the database is unavailable. A repeated call continues.
pub async fn erase(state: &AppState, project: ProjectId, identity: Identity) -> Result<Erased> {
    let erasure = state.store.erasures().begin(project, identity).await?;
    finish(state, &erasure).await
}

async fn finish(state: &AppState, erasure: &Erasure) -> Result<Erased> {
    // Before the recordings are stopped: a track's recording is found by its publisher.
    state.store.erasures().attribute_recordings(erasure).await?;
    end_live(state, erasure).await?;
    let erased = erase_records(&state.store, &state.admin.recordings, erasure).await?;
    erased.ok_or_else(still_connected)
}

fn still_connected() -> ApiError {
    let message = "the participant is still connected, or a recording of it is not complete or uploaded; it is safe to retry, and the erasure then continues";
    Problem::new(ErrorCode::MediaUnavailable, message)
        .after(Duration::from_secs(1))
        .into()
}

/// Removes the participant from all rooms, deletes its ingress endpoints, stops its recordings, and waits until all of them have ended: what
/// an actor writes later would have the identity again.
async fn end_live(state: &AppState, erasure: &Erasure) -> Result<()> {
    let (erasures, tree) = (state.store.erasures(), &state.tree);
    let (project, identity) = (&erasure.project_id, &erasure.identity);
    let until = Instant::now() + LEAVE_LIMIT;
    loop {
        // Endpoints first: an encoder would connect again.
        let ingresses = erasures.live_ingresses(erasure).await?;
        for id in &ingresses {
            unless_over(tree.delete_ingress(project.clone(), id.clone()).await)?;
        }
        let rooms = erasures.connected_rooms(erasure).await?;
        for room in &rooms {
            let removed = tree.remove_participant(project.clone(), room.clone(), identity.clone());
            unless_over(removed.await)?;
        }
        let recordings = erasures.running_recordings(erasure).await?;
        for id in &recordings {
            unless_over(tree.stop_egress(project.clone(), id.clone(), None).await)?;
        }
        if ingresses.is_empty() && rooms.is_empty() && recordings.is_empty() {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(still_connected());
        }
        sleep(LEAVE_INTERVAL).await;
    }
}

/// Ignores a refusal because it ended after it was read. Whether something is left, the next reading shows.
fn unless_over<T>(ended: Result<T, TreeError>) -> Result<(), TreeError> {
    match ended {
        Err(TreeError::Refused(problem)) if is_over(problem.code) => Ok(()),
        other => other.map(drop),
    }
}

fn is_over(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::RoomNotFound
            | ErrorCode::RoomEnded
            | ErrorCode::IngressNotFound
            | ErrorCode::RecordingNotFound
            | ErrorCode::BroadcastNotFound
    )
}

/// Deletes the files, and changes the rows, of an identity that is not connected. Returns `None` if it is connected: its open session is
/// not changed, and the erasure stays incomplete.
///
/// # Errors
/// Fails when the database cannot be read or written.
pub async fn erase_records(
    store: &Store,
    recordings: &Path,
    erasure: &Erasure,
) -> Result<Option<Erased>, StoreError> {
    let erasures = store.erasures();
    erasures.attribute_recordings(erasure).await?;
    let deleted_files = delete_files(store, recordings, erasure).await?;
    let rows = erasures.erase_rows(erasure).await?;
    // Also if it has joined again in the meantime.
    let is_live = !erasures.connected_rooms(erasure).await?.is_empty()
        || !erasures.live_ingresses(erasure).await?.is_empty()
        || !erasures.running_recordings(erasure).await?.is_empty();
    if is_live {
        return Ok(None);
    }
    // One more, to know whether there are more.
    let limit = u32::try_from(MOST_RECORDINGS + 1).unwrap_or(u32::MAX);
    let mut remaining = erasures.remaining_recordings(erasure, limit).await?;
    let has_more = remaining.len() > MOST_RECORDINGS;
    remaining.truncate(MOST_RECORDINGS);
    erasures.complete(erasure.clone()).await?;
    log::info!(
        project = erasure.project_id.as_str(), replacement = erasure.replacement.as_str();
        "erased an identity: {} sessions, {deleted_files} recording files; {} recordings remain", rows.sessions, remaining.len()
    );
    Ok(Some(Erased {
        replacement: erasure.replacement.clone(),
        rows,
        deleted_files,
        remaining,
        has_more,
    }))
}

/// Deletes the files of an identity's recordings on this machine. Returns their number. A file that cannot be deleted, or is on another
/// server, stays among the remaining recordings.
async fn delete_files(
    store: &Store,
    recordings: &Path,
    erasure: &Erasure,
) -> Result<u32, StoreError> {
    let (mut position, mut deleted) = (RecordingPosition::START, 0);
    let (project, files) = (&erasure.project_id, store.local_files());
    loop {
        let page = files
            .recordings_of(project.clone(), erasure.identity.clone(), position, PAGE)
            .await?;
        let Some(last) = page.last() else {
            return Ok(deleted);
        };
        position = last.position;
        for recording in &page {
            let latest_write = recording.position.ended_at().after(COMPLETION_TIME);
            let removed = remove_recorded(store, recordings, recording, latest_write).await?;
            deleted += u32::from(removed);
        }
    }
}

/// Spawns a task that continues erasures: at the start all incomplete ones of earlier runs of the server, and later the ones whose
/// request has failed and was not repeated.
pub fn resume(state: &Arc<AppState>) {
    let (weak, clock) = (Arc::downgrade(state), state.clock.clone());
    tokio::spawn(async move {
        // At the start all of them, even if the clock was set back since.
        let mut started_by = Timestamp::from_millis(i64::MAX);
        while resume_all(&weak, started_by).await {
            clock.sleep_until(clock.now().after(RESUME_INTERVAL)).await;
            // The request of a younger one may be in progress.
            started_by = clock.now().before(RESUME_INTERVAL);
        }
    });
}

/// Continues the erasures that started at `started_by` or earlier. Returns whether the server still runs.
async fn resume_all(weak: &Weak<AppState>, started_by: Timestamp) -> bool {
    let Some(state) = weak.upgrade() else {
        return false;
    };
    let pending = state
        .store
        .erasures()
        .pending(started_by, MOST_PENDING)
        .await;
    drop(state);
    let pending = match pending {
        Ok(pending) => pending,
        Err(error) => {
            log::warn!("erasures are continued later: {error}");
            return true;
        }
    };
    for erasure in pending {
        // Upgraded for each, so that a stopping server waits for one erasure at most.
        let Some(state) = weak.upgrade() else {
            return false;
        };
        if let Err(error) = finish(&state, &erasure).await {
            // Without the identity, which logs must not keep.
            log::warn!(
                project = erasure.project_id.as_str();
                "an erasure is continued later, or by a repeated request: {error}"
            );
        }
    }
    true
}
