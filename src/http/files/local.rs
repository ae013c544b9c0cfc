//! Files of recordings in the directory of a project.

use std::io;
use std::path::{Path, PathBuf};

use actix_files::NamedFile;
use actix_web::web;
use conclave_model::filepath::FilePath;
use conclave_model::{ErrorCode, Problem, ProjectId};

use crate::http::api::error::ApiError;

/// Opens the file of a recording below the directory of recordings.
///
/// # Errors
/// 404 if there is none, or it is not inside the project's directory.
pub async fn open(
    recordings: &Path,
    project: &ProjectId,
    path: &FilePath,
) -> Result<NamedFile, ApiError> {
    let directory = recordings.join(project.as_str());
    let name = PathBuf::from(path.as_str());
    let opened = web::block(move || open_inside(&directory, &name))
        .await
        .map_err(ApiError::internal)?;
    let message = "the recording has no file on this machine: it was moved, deleted, never written, or is on another server";
    opened.map_err(|_| Problem::new(ErrorCode::RecordingNotFound, message).into())
}

/// Opens a file that is inside a directory, also after symbolic links were followed.
fn open_inside(directory: &Path, name: &Path) -> io::Result<NamedFile> {
    let directory = directory.canonicalize()?;
    let path = directory.join(name).canonicalize()?;
    if !path.starts_with(&directory) || !path.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    NamedFile::open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves S-24.
    #[test]
    fn only_files_inside_the_directory_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("prj");
        std::fs::create_dir_all(directory.join("sub")).unwrap();
        for name in ["prj/a.mp4", "prj/sub/b.mp4", "outside.mp4"] {
            std::fs::write(folder.path().join(name), b"x").unwrap();
        }
        std::os::unix::fs::symlink(
            folder.path().join("outside.mp4"),
            directory.join("link.mp4"),
        )
        .unwrap();
        for inside in ["a.mp4", "sub/b.mp4"] {
            assert!(
                open_inside(&directory, Path::new(inside)).is_ok(),
                "{inside}"
            );
        }
        let absolute = folder.path().join("outside.mp4");
        for outside in [
            Path::new("../outside.mp4"),
            Path::new("link.mp4"),
            Path::new("sub"),
            Path::new("none"),
            &absolute,
        ] {
            assert!(open_inside(&directory, outside).is_err(), "{outside:?}");
        }
    }
}
