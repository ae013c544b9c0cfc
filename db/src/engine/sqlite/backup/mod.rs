//! Copies of a file that are checked before they have their name.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::export::migrated_copy;
use super::{health, migrate};
use crate::error::StoreError;
use crate::private_file::{directory, sync_directory};
use crate::sql::Sql;

/// How the names of copies that are not complete end.
pub const DRAFT_SUFFIX: &str = ".partial";

/// Copies a file of records, with what is in a write-ahead log beside it, to a new file. The copy is complete, on disk and checked
/// before it has its name. Fails once `goes_on` is false, or if `check` does, which is given the path of the copy.
pub(crate) fn copy_checked<T>(
    from: &Path,
    to: &Path,
    goes_on: impl Fn() -> bool,
    check: impl FnOnce(&Path) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let failed = |error: io::Error| StoreError::Unavailable(format!("{}: {error}", to.display()));
    let exists = || {
        StoreError::Unavailable(format!(
            "{} exists already, and a copy replaces no file",
            to.display()
        ))
    };
    // Before the work. What creates the file meanwhile is noticed at the end.
    if to.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    // Its mode is 0600, since it holds the secrets of the original, and it is deleted unless it is kept.
    let draft = tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .suffix(DRAFT_SUFFIX)
        .tempfile_in(directory(to));
    let draft = draft.map_err(failed)?;
    health::copy(&open_to_read(from)?, draft.path(), goes_on)?;
    let checked = check(draft.path())?;
    draft
        .persist_noclobber(to)
        .map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => exists(),
            _ => failed(error.error),
        })?;
    // Without this, a power failure could undo the renaming.
    sync_directory(to).map_err(failed)?;
    Ok(checked)
}

/// Refuses a file with triggers, views or virtual tables.
pub(crate) fn refuse_foreign_objects(file: &Path) -> Result<(), StoreError> {
    health::refuse_foreign_objects(&open_to_read(file)?)
}

/// Checks a whole file for damage, and reads from it with the number of its schema. A file of an older version is read as a migrated copy.
pub(crate) fn read_checked<T>(
    file: &Path,
    read: impl FnOnce(i64, Sql<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let connection = open_to_read(file)?;
    let schema = health::check(&connection)?;
    if schema == 0 {
        return Err(StoreError::Unavailable(format!(
            "{} is not a database of Conclave",
            file.display()
        )));
    }
    let migrated = (schema < migrate::SCHEMA)
        .then(|| migrated_copy(&connection, file))
        .transpose()?;
    read(
        schema,
        Sql::Sqlite(migrated.as_ref().map_or(&connection, |(copy, _)| copy)),
    )
}

/// Opens a file of records for reading, and leaves nothing beside it.
fn open_to_read(file: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let beside = |suffix: &str| {
        let mut name = file.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    // A write-ahead log has changes that the file lacks, and its index shows that another process may write to it.
    if beside("-wal").exists() || beside("-shm").exists() {
        return Ok(Connection::open_with_flags(file, flags)?);
    }
    // Nobody writes to it. SQLite would otherwise create a log and its index, and fail where it cannot.
    let name = file
        .to_str()
        .ok_or_else(|| StoreError::Unavailable(format!("{}: is not UTF-8", file.display())))?;
    let name = name
        .replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23");
    // A relative path that begins with two slashes would name a host.
    let uri = format!("file:{name}?immutable=1");
    Ok(Connection::open_with_flags(
        uri,
        flags | OpenFlags::SQLITE_OPEN_URI,
    )?)
}

#[cfg(test)]
mod tests;
