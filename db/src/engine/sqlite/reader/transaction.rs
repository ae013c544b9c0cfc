//! Read transactions. Their begin and end are not in the trace log of statements, since reads share them by chance.

use rusqlite::Connection;

use crate::error::{StoreError, catch_panic};
use crate::sql::Sql;

/// Begins a transaction. Its first query fixes the snapshot that it reads.
pub(super) fn begin(connection: &Connection) -> Result<(), StoreError> {
    Ok(connection.prepare_cached("BEGIN")?.execute([]).map(drop)?)
}

/// Ends the transaction, if one is open.
pub(super) fn end(connection: &Connection) {
    if connection.is_autocommit() {
        return;
    }
    let ended = connection
        .prepare_cached("COMMIT")
        .and_then(|mut commit| commit.execute([]));
    if let Err(error) = ended.map_err(StoreError::from) {
        // One that has met damage cannot be committed, and its read has failed already.
        if !matches!(error, StoreError::Damaged(_)) {
            log::error!("a read transaction did not end: {error}");
        }
        // It must end, or the connection reads an old state for ever.
        let _ = connection.execute_batch("ROLLBACK");
    }
}

/// Runs a read in a transaction of its own. A panic fails this read only.
pub(super) fn run_in_transaction<T>(
    connection: &Connection,
    run: impl FnOnce(Sql<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    begin(connection)?;
    let result = catch_panic("a read", || run(Sql::Sqlite(connection)));
    end(connection);
    result
}
