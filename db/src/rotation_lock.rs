//! Keeps the transactions that seal secrets apart from the rotation of the key. On SQLite, transactions that write run one after
//! another, so nothing is to be done.
//!
//! On PostgreSQL many run at once, and one that has read the key file before a rotation may write what it sealed after it. So each
//! takes a lock before it reads the key file, which others may have too, and a rotation takes it alone. Unlike a lock on the row of the
//! epoch, which each transaction of a server reads, it holds up no other writes and is granted in the order of the requests.

use crate::error::StoreError;
use crate::sql::Sql;
use crate::values::args;

const HOLD: &str = "SELECT 1 FROM pg_advisory_xact_lock_shared(5136918)";
const HOLD_ALONE: &str = "SELECT 1 FROM pg_advisory_xact_lock(5136918)";
const NOTE: &str = "UPDATE leadership SET encryption_key_id = ?2 WHERE id = 1 AND encryption_key_id = ?1";

/// Waits for a rotation that runs, and keeps others from beginning until the end of this transaction.
pub(crate) fn hold(sql: Sql<'_>) -> Result<(), StoreError> {
    lock(sql, HOLD)
}

/// Waits for the transactions that seal, and keeps others from beginning until the end of this one.
pub(crate) fn hold_alone(sql: Sql<'_>) -> Result<(), StoreError> {
    lock(sql, HOLD_ALONE)
}

fn lock(sql: Sql<'_>, text: &str) -> Result<(), StoreError> {
    match sql {
        Sql::Sqlite(_) => Ok(()),
        Sql::Postgres(_) => sql.value::<i64>(text, &[]).map(drop),
    }
}

/// Writes the id of the key that a server needs to take over.
pub(crate) fn note(sql: Sql<'_>, old: &str, new: &str) -> Result<(), StoreError> {
    sql.change(NOTE, args![old, new]).map(drop)
}
