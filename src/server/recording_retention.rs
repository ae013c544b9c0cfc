//! Removes recording files that are older than `recordings.retention`. Only recordings without a destination are considered: a file that
//! has to be uploaded stays until it is.
//!
//! A file that was written later than its recording ended is another file at the same path, and stays. A missing file, which was moved or
//! is on another server, is searched for again only after the next start.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use conclave_db::{LocalRecording, RecordingPosition, StoreError};
use conclave_model::{Clock, Timestamp};

use crate::http::state::AppState;

/// Interval between passes. A recording is considered this much later than its file may be removed, since a file is completed some time
/// after the recording's end.
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
            .recordings(*position, latest_write.before(INTERVAL), PAGE)
            .await?;
        for recording in &page {
            if remove_file(&state.admin.recordings, recording, latest_write).await {
                let LocalRecording {
                    project_id,
                    egress_id,
                    filepath,
                    ..
                } = recording;
                // After the removal: if the process dies in between, the recording counts as having a missing file.
                state
                    .store
                    .local_files()
                    .record_removed(project_id.clone(), egress_id.clone())
                    .await?;
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

/// Removes a recording's file. Returns whether it existed.
async fn remove_file(
    recordings: &Path,
    recording: &LocalRecording,
    latest_write: Timestamp,
) -> bool {
    let directory = recordings.join(recording.project_id.as_str());
    let name = recording.filepath.as_str().to_owned();
    let removed =
        tokio::task::spawn_blocking(move || remove(&directory, Path::new(&name), latest_write))
            .await;
    match removed.unwrap_or_else(|error| Err(io::Error::other(error))) {
        Ok(is_removed) => is_removed,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => {
            let id = recording.egress_id.as_str();
            log::warn!(egress_id = id; "an old recording's file cannot be removed: {error}");
            false
        }
    }
}

/// Removes a file inside a directory, unless it was written after `latest_write` or is a symbolic link.
fn remove(directory: &Path, name: &Path, latest_write: Timestamp) -> io::Result<bool> {
    let directory = directory.canonicalize()?;
    let path = directory.join(name);
    let (folder, file_name) = path
        .parent()
        .zip(path.file_name())
        .ok_or(ErrorKind::NotFound)?;
    // Resolves links in the path; the last component is checked by itself.
    let folder = folder.canonicalize()?;
    let path = folder.join(file_name);
    let metadata = path.symlink_metadata()?;
    // A link in the folder's path could lead out of the directory.
    if !folder.starts_with(&directory) || !metadata.is_file() || written(&metadata)? > latest_write
    {
        return Ok(false);
    }
    fs::remove_file(path).map(|()| true)
}

fn written(metadata: &fs::Metadata) -> io::Result<Timestamp> {
    let since = metadata
        .modified()?
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    Ok(Timestamp::from_millis(
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_old_file_inside_the_directory_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("prj");
        fs::create_dir_all(directory.join("sub")).unwrap();
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        for (name, written) in [
            ("prj/old", 100),
            ("prj/sub/old", 100),
            ("prj/new", 101),
            ("outside", 100),
        ] {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            file.set_modified(at(written)).unwrap();
        }
        std::os::unix::fs::symlink(folder.path().join("outside"), directory.join("link")).unwrap();
        std::os::unix::fs::symlink(folder.path(), directory.join("up")).unwrap();
        let remove =
            |name: &str| remove(&directory, Path::new(name), Timestamp::from_millis(100_000));
        assert!(remove("old").unwrap() && remove("sub/old").unwrap());
        for kept in ["new", "link", "sub", "up/outside", "../outside"] {
            assert!(!remove(kept).unwrap(), "{kept}");
        }
        assert_eq!(remove("old").unwrap_err().kind(), ErrorKind::NotFound);
        assert!(directory.join("new").exists() && folder.path().join("outside").exists());
    }
}
