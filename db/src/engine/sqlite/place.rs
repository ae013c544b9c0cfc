//! Where a file was opened, and whether it is still there.
//!
//! A file that is open stays usable when its file system is unmounted lazily, or when another one is mounted over it. What is written to it
//! then is found by no later server, so it must not be acknowledged.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// The path of a file that was opened, and which file that was.
#[derive(Debug, Clone)]
pub struct FilePlace {
    path: PathBuf,
    id: FileId,
}

/// Tells one file from another: the device, and the number of the file on it.
type FileId = (u64, u64);

fn id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

impl FilePlace {
    /// Remembers the file with this metadata, which is at this path.
    #[must_use]
    pub fn new(path: PathBuf, metadata: &Metadata) -> Self {
        Self {
            path,
            id: id(metadata),
        }
    }

    /// Whether the file is still there. Blocks.
    #[must_use]
    pub fn is_there(&self) -> bool {
        match self.path.metadata() {
            Ok(metadata) => id(&metadata) == self.id,
            Err(error) => !matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::StaleNetworkFileHandle
            ),
        }
    }
}
