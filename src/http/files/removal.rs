//! Removal of recording files on this machine: after `recordings.retention`, in the console, and with the identity that they record.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, SystemTime};

use conclave_db::{LocalRecording, Store, StoreError};
use conclave_model::filepath::FilePath;
use conclave_model::{ProjectId, Timestamp};

/// Time after a recording's end in which its file is completed. A file that was written later is another file at the same path.
pub const COMPLETION_TIME: Duration = Duration::from_secs(10 * 60);

/// Removes a file from a project's recording directory, unless it was written after `latest_write` or is a symbolic link. Returns
/// whether it was removed.
///
/// # Errors
/// `NotFound` if there is no such file, and the errors of the file system.
pub async fn remove(
    recordings: &Path,
    project: &ProjectId,
    path: &FilePath,
    latest_write: Timestamp,
) -> io::Result<bool> {
    let directory = recordings.join(project.as_str());
    let name = path.as_str().to_owned();
    // File systems can be slow, above all those in a network.
    tokio::task::spawn_blocking(move || remove_inside(&directory, Path::new(&name), latest_write))
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Removes a recording's file as [`remove`] does, and records that, unless it waited for its upload: an attempt that has opened it may still
/// complete. Returns whether it was removed; a failure of the file system is logged.
///
/// # Errors
/// Fails when the database cannot be written.
pub async fn remove_recorded(
    store: &Store,
    recordings: &Path,
    recording: &LocalRecording,
    latest_write: Timestamp,
) -> Result<bool, StoreError> {
    let LocalRecording {
        project_id,
        egress_id,
        filepath,
        ..
    } = recording;
    match remove(recordings, project_id, filepath, latest_write).await {
        Ok(true) => {}
        Ok(false) => return Ok(false),
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                log::warn!(egress_id = egress_id.as_str(); "a recording's file cannot be removed: {error}");
            }
            return Ok(false);
        }
    }
    if recording.awaits_upload {
        // The next attempt finds no file, and records that.
        return Ok(true);
    }
    // After the removal: if the process dies in between, the recording counts as having a missing file.
    store
        .local_files()
        .record_removed(project_id.clone(), egress_id.clone())
        .await?;
    Ok(true)
}

/// Removes a file inside a directory; see [`remove`].
fn remove_inside(directory: &Path, name: &Path, latest_write: Timestamp) -> io::Result<bool> {
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
        let remove = |name: &str| {
            remove_inside(&directory, Path::new(name), Timestamp::from_millis(100_000))
        };
        assert!(remove("old").unwrap() && remove("sub/old").unwrap());
        for kept in ["new", "link", "sub", "up/outside", "../outside"] {
            assert!(!remove(kept).unwrap(), "{kept}");
        }
        assert_eq!(remove("old").unwrap_err().kind(), ErrorKind::NotFound);
        assert!(directory.join("new").exists() && folder.path().join("outside").exists());
    }
}
