//! Keeps the transactions that seal secrets apart from the rotation of the key. On SQLite, transactions that write run one after
//! another, so nothing is to be done.
//!
//! On PostgreSQL many run at once, and one that has chosen its key before a rotation may write what it sealed after it. So each
//! takes a lock before it chooses its key, which others may have too, and a rotation takes it alone. Unlike a lock on the row of the
//! epoch, which each transaction of a server reads, it holds up no other writes and is granted in the order of the requests.

use crate::error::StoreError;
use crate::sql::Sql;
use crate::sql::values::args;

const HOLD: &str = "SELECT 1 FROM pg_advisory_xact_lock_shared(5136918)";
const HOLD_ALONE: &str = "SELECT 1 FROM pg_advisory_xact_lock(5136918)";
/// The key that secrets are encrypted with. On SQLite that is the first one of the key file.
const NEEDED: &str = "SELECT encryption_key_id FROM leadership WHERE id = 1";
const NOTE: &str = "UPDATE leadership SET encryption_key_id = ?2 WHERE id = 1 AND coalesce(encryption_key_id, '') IN (?1, '')";

/// Waits for a rotation that runs, and keeps others from beginning until the end of this transaction. Returns the id of the key that
/// seals meanwhile; `None` for the first one of the key file.
pub(crate) fn hold(sql: Sql<'_>) -> Result<Option<String>, StoreError> {
    match sql {
        Sql::Sqlite(_) => Ok(None),
        Sql::Postgres(_) => {
            // One wait for both. The second is read when the first has been granted.
            sql.put(HOLD, &[])?;
            Ok(sql
                .value::<Option<String>>(NEEDED, &[])?
                .filter(|id| !id.is_empty()))
        }
    }
}

/// Waits for the transactions that seal, and keeps others from beginning until the end of this one.
pub(crate) fn hold_alone(sql: Sql<'_>) -> Result<(), StoreError> {
    match sql {
        Sql::Sqlite(_) => Ok(()),
        Sql::Postgres(_) => sql.put(HOLD_ALONE, &[]),
    }
}

/// Lets another key seal from now on: the one with the id `new`, which every server needs to take over. Returns whether it was the one
/// with the id `old` before, or none.
pub(crate) fn note(sql: Sql<'_>, old: &str, new: &str) -> Result<bool, StoreError> {
    sql.change(NOTE, args![old, new]).map(|rows| rows > 0)
}
