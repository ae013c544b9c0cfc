//! Copies of a file that are checked before they have their name.

use std::fs::File;
use std::io;
use std::path::Path;

use super::contents::{inspect, open_to_read};
use super::health;
use crate::backup::Contents;
use crate::error::StoreError;
use crate::vault::Vault;

/// How the names of copies that are not complete end.
pub const DRAFT_SUFFIX: &str = ".partial";

/// Copies a file of records, with what is in a write-ahead log beside it, to a new file. The copy is complete, on disk and checked
/// before it has its name.
pub(crate) fn copy_checked(
    from: &Path,
    to: &Path,
    vault: &Vault,
    goes_on: impl Fn() -> bool,
) -> Result<Contents, StoreError> {
    let failed = |error: io::Error| StoreError::Unavailable(format!("{}: {error}", to.display()));
    // Before the work. What creates the file meanwhile is noticed at the end.
    if to.symlink_metadata().is_ok() {
        return Err(failed(io::ErrorKind::AlreadyExists.into()));
    }
    let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    // Its mode is 0600, since it holds the secrets of the original, and it is deleted unless it is kept.
    let draft = tempfile::Builder::new().prefix(&format!(".{name}.")).suffix(DRAFT_SUFFIX).tempfile_in(directory);
    let draft = draft.map_err(failed)?;
    health::copy(&open_to_read(from)?, draft.path(), goes_on)?;
    let contents = inspect(draft.path(), vault)?;
    draft.persist_noclobber(to).map_err(|error| failed(error.error))?;
    // Without this, a power failure could undo the renaming.
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
    Ok(contents)
}

#[cfg(test)]
mod tests;
