//! File copies, which are checked before they get their name, and file checks.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use super::file::open_for_writing;
use super::migrate::{self, version};
use crate::error::StoreError;
use crate::options::OlderSchema;
use crate::private_file::{directory, sync_directory};
use crate::sql::Sql;

/// File name suffix for incomplete copies.
pub const DRAFT_SUFFIX: &str = ".partial";

/// Copies a file, including its write-ahead log, to a new file. The copy is complete, on disk and checked before it gets its name. Fails
/// once `goes_on` returns false, or if `check` does, which receives the copy's path.
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
    // Checked before the work. If another process creates the file meanwhile, the check at the end detects it.
    if to.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    // `tempfile` creates it with mode 0600, since it contains the original's secrets, and deletes it unless it is kept.
    let draft = tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .suffix(DRAFT_SUFFIX)
        .tempfile_in(directory(to));
    let draft = draft.map_err(failed)?;
    copy(&open_to_read(from)?, draft.path(), goes_on)?;
    let checked = check(draft.path())?;
    draft
        .persist_noclobber(to)
        .map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => exists(),
            _ => failed(error.error),
        })?;
    // Without this, a power failure could undo the rename.
    sync_directory(to).map_err(failed)?;
    Ok(checked)
}

/// Refuses a file with triggers, views or virtual tables.
pub(crate) fn refuse_foreign_objects(file: &Path) -> Result<(), StoreError> {
    refuse_foreign_objects_in(&open_to_read(file)?)
}

/// Checks a whole file for damage, and reads from it, given its schema number. A file with an older schema is read as a migrated copy.
pub(crate) fn read_checked<T>(
    file: &Path,
    read: impl FnOnce(i64, Sql<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let connection = open_to_read(file)?;
    let schema = check_connection(&connection)?;
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

/// Opens a file for reading, without leaving other files in its folder.
fn open_to_read(file: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let beside = |suffix: &str| {
        let mut name = file.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    // A write-ahead log has changes that the file lacks, and its index shows that another process may write.
    if beside("-wal").exists() || beside("-shm").exists() {
        return Ok(Connection::open_with_flags(file, flags)?);
    }
    // No process writes to it. Without `immutable`, SQLite would create a log and its index, and fail where it cannot.
    let name = file
        .to_str()
        .ok_or_else(|| StoreError::Unavailable(format!("{}: is not UTF-8", file.display())))?;
    // Characters with a meaning in SQLite's URI filenames. The percent sign first, since the others add it.
    let name = name
        .replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23");
    // Without an authority: a path that starts with two slashes would name a host.
    let uri = format!("file:{name}?immutable=1");
    Ok(Connection::open_with_flags(
        uri,
        flags | OpenFlags::SQLITE_OPEN_URI,
    )?)
}

/// Pages copied between two syncs: 4 MiB. More would pile up in the system's cache, and a concurrent commit would wait for them.
const PART: i32 = 1_024;

/// Checks a whole file for damage. Returns its schema number.
pub(crate) fn check_connection(connection: &Connection) -> Result<i64, StoreError> {
    let sql = Sql::Sqlite(connection);
    // Stops at the first problem. Unlike quick_check, it compares every index with its table.
    let result: String = sql.value("PRAGMA integrity_check(1)", &[])?;
    if result != "ok" {
        return Err(StoreError::Fault(result));
    }
    // integrity_check does not look at references.
    if sql
        .one("PRAGMA foreign_key_check", &[], |_| Ok(()))?
        .is_some()
    {
        return Err(StoreError::Fault(
            "a row refers to one that is not there".into(),
        ));
    }
    version(connection)
}

/// Objects besides tables and indexes: a trigger would change records, and a view or a virtual table runs code when it is read.
const FOREIGN: &str = "SELECT type || ' ' || name AS object FROM sqlite_schema
     WHERE type NOT IN ('table', 'index') OR (type = 'table' AND coalesce(rootpage, 0) = 0) ORDER BY type, name";

/// Refuses a file with objects that no version of Conclave creates.
pub(crate) fn refuse_foreign_objects_in(connection: &Connection) -> Result<(), StoreError> {
    let objects: Vec<String> =
        Sql::Sqlite(connection).many(FOREIGN, &[], |row| row.get("object"))?;
    if objects.is_empty() {
        return Ok(());
    }
    let named = objects.join(", ");
    Err(StoreError::Unavailable(format!(
        "the file has objects that no version of Conclave creates, and that would run with the server's rights: {named}; drop them first"
    )))
}

/// Copies a database to `to`, an empty file, and returns when the copy is on disk. Fails once `goes_on` returns false. The copy is a single
/// file, without a write-ahead log.
pub(crate) fn copy(
    from: &Connection,
    to: &Path,
    goes_on: impl Fn() -> bool,
) -> Result<(), StoreError> {
    copy_pages(from, to, goes_on)?;
    // The original's header has the WAL flag.
    Connection::open(to)?.pragma_update(None, "journal_mode", "DELETE")?;
    sync(to)
}

fn copy_pages(from: &Connection, to: &Path, goes_on: impl Fn() -> bool) -> Result<(), StoreError> {
    let mut copy = Connection::open(to)?;
    // Nothing rolls back a copy: a failed one is deleted. Its data is synced here, part by part.
    copy.pragma_update(None, "journal_mode", "OFF")?;
    copy.pragma_update(None, "synchronous", "OFF")?;
    // Without this transaction, each commit would restart the copy. The query determines the snapshot.
    let snapshot = from.unchecked_transaction()?;
    snapshot.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let backup = Backup::new(&snapshot, &mut copy)?;
    while goes_on() {
        // SQLite's backup copies pages, so the copy has the same layout, free pages included.
        match backup.step(PART)? {
            StepResult::Done => return Ok(()),
            // SQLite reports a locked database as a result. A read transaction is open, so this is not expected.
            StepResult::More => sync(to)?,
            unfinished => {
                return Err(StoreError::Unavailable(format!(
                    "the copy was not finished: {unfinished:?}"
                )));
            }
        }
    }
    Err(StoreError::Unavailable("the copy was given up".into()))
}

fn sync(path: &Path) -> Result<(), StoreError> {
    let synced = File::options()
        .write(true)
        .open(path)
        .and_then(|file| file.sync_all());
    synced.map_err(|error| StoreError::Unavailable(format!("{}: {error}", path.display())))
}

/// Copies a file into a new private folder beside it, and migrates the copy.
pub(super) fn migrated_copy(
    connection: &Connection,
    file: &Path,
) -> Result<(Connection, TempDir), StoreError> {
    // Beside it, and not in the system's temporary folder, which may be small, in memory, or less private.
    let beside = directory(file);
    let folder = tempfile::Builder::new()
        .prefix(".conclave-import-")
        .tempdir_in(beside);
    let folder = folder
        .map_err(|error| StoreError::Unavailable(format!("{}: {error}", beside.display())))?;
    let path = folder.path().join("copy.db");
    copy(connection, &path, || true)?;
    // The folder is returned, since dropping it deletes the copy.
    Ok((open_for_writing(&path, OlderSchema::Migrate)?, folder))
}

#[cfg(test)]
mod tests;
