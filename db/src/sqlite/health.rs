//! The health of the file, and its backup.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::migrate::version;
use crate::error::StoreError;
use crate::sql::Sql;

/// Checks the whole file for damage. Returns the number of its schema.
pub(crate) fn check(connection: &Connection) -> Result<i64, StoreError> {
    let sql = Sql::Sqlite(connection);
    let result: String = sql.value("PRAGMA integrity_check(1)", &[])?;
    if result != "ok" {
        return Err(StoreError::Fault(result));
    }
    if sql.one("PRAGMA foreign_key_check", &[], |_| Ok(()))?.is_some() {
        return Err(StoreError::Fault("a row refers to one that is not there".into()));
    }
    version(connection)
}

/// Copies everything that this read transaction sees.
pub(crate) fn copy(connection: &Connection, to: &Path) -> Result<(), StoreError> {
    let mut file = Connection::open(to)?;
    let copied = Backup::new(connection, &mut file).and_then(|backup| backup.step(-1))?;
    match copied {
        StepResult::Done => Ok(()),
        unfinished => Err(StoreError::Unavailable(format!("the copy was not finished: {unfinished:?}"))),
    }
}
