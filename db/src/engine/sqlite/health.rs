//! The health of the file, and copies of it.

use std::fs::File;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::migrate::version;
use crate::error::StoreError;
use crate::sql::Sql;

/// Pages that are copied before they are written to disk: 4 MiB. More would wait in the system's cache, and a commit beside it with them.
const PART: i32 = 1_024;

/// Checks the whole file for damage. Returns the number of its schema.
pub(crate) fn check(connection: &Connection) -> Result<i64, StoreError> {
    let sql = Sql::Sqlite(connection);
    let result: String = sql.value("PRAGMA integrity_check(1)", &[])?;
    if result != "ok" {
        return Err(StoreError::Fault(result));
    }
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

/// What a file has besides tables and indexes: a trigger would change records, and a view or a virtual table runs code when it is read.
const FOREIGN: &str = "SELECT type || ' ' || name AS object FROM sqlite_schema
     WHERE type NOT IN ('table', 'index') OR (type = 'table' AND coalesce(rootpage, 0) = 0) ORDER BY type, name";

/// Refuses a file with what no version of Conclave creates.
pub(crate) fn refuse_foreign_objects(connection: &Connection) -> Result<(), StoreError> {
    let objects: Vec<String> =
        Sql::Sqlite(connection).many(FOREIGN, &[], |row| row.get("object"))?;
    if objects.is_empty() {
        return Ok(());
    }
    let named = objects.join(", ");
    Err(StoreError::Unavailable(format!(
        "the file has what no version of Conclave creates, and what would run with the rights of the server: {named}; drop it first"
    )))
}

/// Copies a database as it is now to `to`, an empty file, and returns when the copy is on disk. Fails once `goes_on` is false. The copy
/// is one file: it has no write-ahead log.
pub(crate) fn copy(
    from: &Connection,
    to: &Path,
    goes_on: impl Fn() -> bool,
) -> Result<(), StoreError> {
    copy_pages(from, to, goes_on)?;
    // The header of the original says that there is a log.
    Connection::open(to)?.pragma_update(None, "journal_mode", "DELETE")?;
    sync(to)
}

fn copy_pages(from: &Connection, to: &Path, goes_on: impl Fn() -> bool) -> Result<(), StoreError> {
    let mut copy = Connection::open(to)?;
    // Nobody rolls back a copy: one that failed is deleted. What is written is synced here, part by part.
    copy.pragma_update(None, "journal_mode", "OFF")?;
    copy.pragma_update(None, "synchronous", "OFF")?;
    // Without this transaction, each commit would make the copy begin anew.
    let snapshot = from.unchecked_transaction()?;
    snapshot.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let backup = Backup::new(&snapshot, &mut copy)?;
    while goes_on() {
        match backup.step(PART)? {
            StepResult::Done => return Ok(()),
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
