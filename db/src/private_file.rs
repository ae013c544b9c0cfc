//! Files with mode 0600, such as key files and exports: atomic creation and replacement, and reads that refuse a file which others may
//! read. Also the directories for them.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use tempfile::NamedTempFile;

/// Creates a directory with mode 0700, including missing parents.
///
/// # Errors
/// If it cannot be created.
pub fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates a file with mode 0600. An existing file is left unchanged, even if another process creates it meanwhile. A partly written file
/// is never visible, and after the return the file survives a power failure.
///
/// # Errors
/// If the file cannot be written.
pub fn create(path: &Path, text: &str) -> io::Result<()> {
    // Synced even if it exists already: the process that created it may not have done so yet.
    match write_draft(path, text)?.persist_noclobber(path) {
        Err(error) if error.error.kind() != ErrorKind::AlreadyExists => Err(error.error),
        _ => sync_directory(path),
    }
}

/// File with mode 0600 that gets its name once it is complete. It is deleted if it is dropped before.
#[derive(Debug)]
pub struct DraftFile<'a> {
    file: NamedTempFile,
    path: &'a Path,
}

impl<'a> DraftFile<'a> {
    /// Creates an empty file in the directory of `path`.
    ///
    /// # Errors
    /// If `path` exists, or the file cannot be created.
    pub fn create(path: &'a Path) -> io::Result<Self> {
        // Before the work. `finish` finds a file that is created meanwhile.
        if path.symlink_metadata().is_ok() {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "the file exists"));
        }
        Ok(Self {
            file: NamedTempFile::new_in(directory(path))?,
            path,
        })
    }

    /// Returns the file, to write to it.
    #[must_use]
    pub fn file(&self) -> &File {
        self.file.as_file()
    }

    /// Names the file. After the return it survives a power failure.
    ///
    /// # Errors
    /// If it cannot be written, or a file was created at its path meanwhile.
    pub fn finish(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        self.file.persist_noclobber(self.path)?;
        sync_directory(self.path)
    }
}

/// Replaces an existing file's content, and keeps its owner. A reader sees the old text or the new one, even after a power failure.
///
/// # Errors
/// If the file does not exist or cannot be written.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    // A symbolic link stays, and its target is replaced.
    let path = fs::canonicalize(path)?;
    let draft = write_draft(&path, text)?;
    // Root may replace a file that belongs to the server's user.
    let owner = fs::metadata(&path)?;
    fchown(draft.as_file(), Some(owner.uid()), Some(owner.gid()))?;
    draft.persist(&path)?;
    sync_directory(&path)
}

/// Creates a file with mode 0600, or replaces its content. For files that only one process writes.
///
/// # Errors
/// If the file cannot be written.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    if fs::exists(path)? {
        replace(path, text)
    } else {
        create(path, text)
    }
}

/// Reads a file that only its owner may read.
///
/// # Errors
/// If the file cannot be read, or its mode allows others to read it.
pub fn read(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(text);
    }
    let problem = format!("others may read it (mode {:o}); chmod 600 it", mode & 0o777);
    Err(io::Error::new(ErrorKind::PermissionDenied, problem))
}

/// Writes a temporary file with mode 0600 to the directory of `path`.
fn write_draft(path: &Path, text: &str) -> io::Result<NamedTempFile> {
    // In the same directory, since a rename must not cross file systems.
    let mut draft = NamedTempFile::new_in(directory(path))?;
    draft.write_all(text.as_bytes())?;
    // Before the rename: otherwise a power failure could leave the new name with an empty file.
    draft.as_file().sync_all()?;
    Ok(draft)
}

/// Makes a rename durable. Without this, a power failure could undo it after records that depend on it are on disk.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(directory(path))?.sync_all()
}

/// Returns a file's directory.
pub(crate) fn directory(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_file_is_not_overwritten_by_create_and_no_draft_remains() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        assert_eq!(replace(&path, "x").unwrap_err().kind(), ErrorKind::NotFound);
        write(&path, "first").unwrap();
        create(&path, "second").unwrap();
        assert_eq!(read(&path).unwrap(), "first");
        write(&path, "third").unwrap();
        assert_eq!(read(&path).unwrap(), "third");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_draft_has_its_name_once_it_is_complete_and_replaces_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("export");
        let count = || fs::read_dir(dir.path()).unwrap().count();
        drop(DraftFile::create(&path).unwrap());
        assert_eq!(count(), 0);
        let (first, second) = (
            DraftFile::create(&path).unwrap(),
            DraftFile::create(&path).unwrap(),
        );
        first.file().write_all(b"first").unwrap();
        assert!(!path.exists());
        first.finish().unwrap();
        assert_eq!(read(&path).unwrap(), "first");
        let exists = |result: io::Result<()>| {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::AlreadyExists);
        };
        exists(second.finish());
        exists(DraftFile::create(&path).map(drop));
        assert_eq!((read(&path).unwrap().as_str(), count()), ("first", 1));
    }

    #[test]
    fn a_link_stays_a_link_when_its_target_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        create(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        replace(&link, "new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(read(&target).unwrap(), "new");
    }
}
