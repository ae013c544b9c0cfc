//! Lock between the transactions that seal secrets and the rotation of the key. On SQLite, transactions that write run one after another,
//! so there is nothing to do.
//!
//! On PostgreSQL they run concurrently: a transaction that chose its key before a rotation could write its secret after it. So each takes
//! an advisory
//! lock in shared mode before it chooses its key, and a rotation takes it exclusively. Unlike a lock on the row of the epoch, which each
//! transaction of a server reads, it delays no other writes, and is granted in order.

use crate::error::StoreError;
use crate::sql::Sql;
use crate::sql::values::args;

const HOLD: &str = "SELECT 1 FROM pg_advisory_xact_lock_shared(5136918)";
const HOLD_ALONE: &str = "SELECT 1 FROM pg_advisory_xact_lock(5136918)";
/// Key that encrypts secrets. On SQLite it is the first one of the key file.
const NEEDED: &str = "SELECT encryption_key_id FROM leadership WHERE id = 1";
const SET_KEY: &str = "UPDATE leadership SET encryption_key_id = ?2 WHERE id = 1 AND coalesce(encryption_key_id, '') IN (?1, '')";

/// Waits for a running rotation, and prevents others until the end of this transaction. Returns the id of the sealing key; `None` for the
/// first one of the key file.
pub(crate) fn hold(sql: Sql<'_>) -> Result<Option<String>, StoreError> {
    match sql {
        // The first key of the file, which is read inside the transaction.
        Sql::Sqlite(_) => Ok(None),
        Sql::Postgres(_) => {
            // One wait for both: PostgreSQL runs the second statement once the lock of the first is granted.
            sql.put(HOLD, &[])?;
            Ok(sql
                .value::<Option<String>>(NEEDED, &[])?
                .filter(|id| !id.is_empty()))
        }
    }
}

/// Waits for the transactions that seal, and prevents others until the end of this one.
pub(crate) fn hold_alone(sql: Sql<'_>) -> Result<(), StoreError> {
    match sql {
        Sql::Sqlite(_) => Ok(()),
        Sql::Postgres(_) => sql.put(HOLD_ALONE, &[]),
    }
}

/// Names the key that seals from now on, by its id `new`; every server needs it for a takeover. Returns whether the previous one had the id
/// `old`, or there was none.
pub(crate) fn set_sealing_key(sql: Sql<'_>, old: &str, new: &str) -> Result<bool, StoreError> {
    sql.change(SET_KEY, args![old, new]).map(|rows| rows > 0)
}
