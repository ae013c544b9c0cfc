//! Rotating the encryption key: a new key seals from now on, what the old one sealed is sealed anew, the old one goes.
//!
//! ```text
//!  key file   old ──▶ new, old ───────────────────────────────▶ new
//!  records              └─▶ one transaction: all sealed anew ─┘
//! ```
//!
//! It works beside a server and can stop at any arrow. Between the outer two the file opens everything, whoever sealed
//! it. Sealing happens inside write transactions, which look at the file, and the engine puts those in a row with the one
//! here: what was sealed before it is found by it, what is sealed after it has the new key. So nothing needs the old key
//! once it is on disk. Run again, it goes on with the key that is already there.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::error::OrStoreError;
use crate::vault::Sealed;
use crate::writer::Tx;
use crate::{Store, StoreError, VaultError, destinations, idempotency, webhook_endpoints};

/// Where sealed bytes lie.
struct Place {
    table: &'static str,
    /// What tells the rows apart.
    row: &'static str,
    bytes: &'static str,
    key_id: &'static str,
    purpose: &'static str,
}

/// Everything that the deployment's key may have sealed.
const PLACES: &[Place] = &[
    Place {
        table: "webhook_endpoints",
        row: "id",
        bytes: "secret",
        key_id: "secret_key_id",
        purpose: webhook_endpoints::PURPOSE,
    },
    Place { table: "destinations", row: "id", bytes: "sealed", key_id: "key_id", purpose: destinations::PURPOSE },
    Place {
        table: "idempotency",
        row: "project_id, operation, key, caller",
        bytes: "body",
        key_id: "body_key_id",
        purpose: idempotency::PURPOSE,
    },
];

/// What a rotation did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// The key that was in use.
    pub old_key_id: String,
    /// The key that is in use now.
    pub new_key_id: String,
    /// Records that were sealed anew.
    pub resealed: usize,
    /// Records left as they were: they need a key that the file did not hold, or are damaged.
    pub unopenable: usize,
}

/// Why a key was not rotated. Whatever it is, the file still opens what it opened before.
#[derive(Debug, thiserror::Error)]
pub enum RotationError {
    /// There is none.
    #[error("this deployment has no encryption key (encryption.key_file is empty): there is nothing to rotate")]
    NoKey,
    /// The key file.
    #[error("{0}")]
    KeyFile(VaultError),
    /// The records.
    #[error("{0}")]
    Store(StoreError),
}

struct Row {
    sealed: Sealed,
    id: Vec<Value>,
}

fn rows(sql: &Connection, place: &Place, current: &str) -> Result<Vec<Row>, StoreError> {
    let Place { table, row, bytes, key_id, .. } = place;
    let query = format!("SELECT {bytes}, {key_id}, {row} FROM {table} WHERE {key_id} IS NOT NULL AND {key_id} <> ?1");
    let mut statement = sql.prepare(&query).or_store_error()?;
    let columns = statement.column_count();
    statement
        .query_map([current], |row| {
            let id = (2..columns).map(|index| row.get(index)).collect::<Result<_, _>>()?;
            Ok(Row { sealed: Sealed { bytes: row.get(0)?, key_id: row.get(1)? }, id })
        })
        .and_then(Iterator::collect)
        .or_store_error()
}

fn write(sql: &Connection, place: &Place, id: Vec<Value>, sealed: Sealed) -> Result<(), StoreError> {
    let Place { table, row, bytes, key_id, .. } = place;
    let marks = vec!["?"; id.len()].join(", ");
    let query = format!("UPDATE {table} SET {bytes} = ?, {key_id} = ? WHERE ({row}) = ({marks})");
    let values = [Value::Blob(sealed.bytes), Value::Text(sealed.key_id)].into_iter().chain(id);
    sql.prepare_cached(&query).and_then(|mut s| s.execute(params_from_iter(values))).or_store_error()?;
    Ok(())
}

/// Seals one place anew. Gives how many rows were, and how many could not be opened.
fn reseal(tx: &Tx<'_>, place: &Place, current: &str) -> Result<(usize, usize), StoreError> {
    let (mut resealed, mut unopenable) = (0, 0);
    for Row { sealed, id } in rows(tx.sql, place, current)? {
        if tx.vault.is_derived(&sealed.key_id) {
            continue;
        }
        let Ok(plain) = tx.vault.open_sealed(&sealed, place.purpose) else {
            unopenable += 1;
            continue;
        };
        let sealed = tx.vault.seal(&plain, place.purpose).map_err(|error| StoreError::unsealed(&error))?;
        let sealed = sealed
            .filter(|sealed| sealed.key_id == current)
            .ok_or_else(|| StoreError::Unavailable("the key file has changed meanwhile".into()))?;
        write(tx.sql, place, id, sealed)?;
        resealed += 1;
    }
    Ok((resealed, unopenable))
}

impl Store {
    /// Gives the deployment a new encryption key. Two at once would drop each other's: the caller sees to that.
    ///
    /// # Errors
    /// A deployment without a key, a file that cannot be replaced, or the store's own.
    pub async fn rotate_key(&self) -> Result<Rotation, RotationError> {
        let begun = self.vault().begin_rotation().map_err(RotationError::KeyFile)?;
        let (old_key_id, new_key_id) = begun.ok_or(RotationError::NoKey)?;
        let current = new_key_id.clone();
        let all =
            self.write(move |tx| PLACES.iter().map(|place| reseal(tx, place, &current)).collect::<Result<_, _>>());
        let counts: Vec<(usize, usize)> = all.await.map_err(RotationError::Store)?;
        self.vault().end_rotation().map_err(RotationError::KeyFile)?;
        let (resealed, unopenable) = counts.into_iter().fold((0, 0), |sum, add| (sum.0 + add.0, sum.1 + add.1));
        Ok(Rotation { old_key_id, new_key_id, resealed, unopenable })
    }
}
