//! Rotation of the encryption key: a new key seals from now on, everything sealed by the old key is sealed again, and the old key is
//! deleted. For records in a file:
//!
//! ```text
//!  key file   old ──▶ new, old ───────────────────────────────▶ new
//!  records              └─▶ one transaction: all sealed again ┘
//! ```
//!
//! A rotation can run while a server does, and can stop at any arrow. Between the outer two, the key file opens everything. Sealing happens
//! inside write transactions that read the key file, and none of them overlaps with the rotation's transaction ([`rotation_lock`]). So that
//! transaction finds everything sealed before it, and everything sealed after it has the new key. Once it is on disk, nothing needs the old
//! key. A rotation that runs again continues with the new key of the interrupted one.
//!
//! Servers that share a database have a key file each. Their rotation has three steps, since no step may require a key that a server lacks.
//!
//! ```text
//!  key files   old ──▶ old, new ──────────────────────────────────▶ new
//!  records              (1)   old seals ──▶ new seals, all sealed again (2)      (3)
//! ```
//!
//! 1. The new key is added to one machine's key file, and its operator copies the file to the others. Servers read it without a restart,
//!    and report the ids of their keys ([`crate::lease::Node`]).
//! 2. Once all servers report the new key, it seals: the lease row names the sealing key, whatever the order of a key file, and each
//!    transaction that seals reads the row under the rotation lock. So secrets that another transaction seals under the old key are on disk
//!    when everything is sealed again.
//! 3. The old key is deleted. The remains of an interrupted step are sealed again first.

use crate::database::Database;
use crate::engine::postgres::lease::{ATTEMPTS_AT_ROW, ClusterState, read_cluster};
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::records::{destinations, idempotency, webhook_endpoints};
use crate::rotation_lock;
use crate::sql::values::{Value, args};
use crate::sql::{Row, Sql};
use crate::tx::Tx;
use crate::vault::{RotatedKeys, Sealed, Vault, VaultError};

/// Table with sealed bytes.
struct SealedTable {
    /// Selects the bytes, the key id and the primary key's columns, for keys other than `?1`.
    select: &'static str,
    /// Sets the bytes `?1` and the key id `?2` of the row with the primary key `?3` and so on. A secret that was erased after it was selected
    /// stays erased.
    update: &'static str,
    /// Primary key columns.
    key: &'static [&'static str],
    purpose: &'static str,
}

/// All tables with bytes that the deployment's key may have sealed.
const SEALED_TABLES: &[SealedTable] = &[
    SealedTable {
        select: "SELECT secret AS sealed, secret_key_id AS key_id, project_id, id FROM webhook_endpoints WHERE secret_key_id <> ?1",
        update: "UPDATE webhook_endpoints SET secret = ?1, secret_key_id = ?2
                 WHERE project_id = ?3 AND id = ?4 AND secret_key_id IS NOT NULL",
        key: &["project_id", "id"],
        purpose: webhook_endpoints::PURPOSE,
    },
    SealedTable {
        select: "SELECT previous_secret AS sealed, previous_secret_key_id AS key_id, project_id, id
                 FROM webhook_endpoints WHERE previous_secret_key_id <> ?1",
        update: "UPDATE webhook_endpoints SET previous_secret = ?1, previous_secret_key_id = ?2
                 WHERE project_id = ?3 AND id = ?4 AND previous_secret_key_id IS NOT NULL",
        key: &["project_id", "id"],
        purpose: webhook_endpoints::PURPOSE,
    },
    SealedTable {
        select: "SELECT d.sealed, d.key_id, t.project_id, d.id
                 FROM destinations d JOIN templates t ON t.id = d.template_id WHERE d.key_id <> ?1",
        update: "UPDATE destinations SET sealed = ?1, key_id = ?2
                 WHERE template_id IN (SELECT id FROM templates WHERE project_id = ?3) AND id = ?4",
        key: &["project_id", "id"],
        purpose: destinations::PURPOSE,
    },
    SealedTable {
        select: "SELECT body AS sealed, body_key_id AS key_id, project_id, operation, key, caller FROM idempotency WHERE body_key_id <> ?1",
        update: "UPDATE idempotency SET body = ?1, body_key_id = ?2
                 WHERE project_id = ?3 AND operation = ?4 AND key = ?5 AND caller = ?6",
        key: &["project_id", "operation", "key", "caller"],
        purpose: idempotency::PURPOSE,
    },
];

/// Rotation result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// Id of the key that was in use before.
    pub old_key_id: String,
    /// Id of the key that is in use now.
    pub new_key_id: String,
    /// Records sealed again.
    pub resealed: usize,
    /// Records left unchanged: they need a key that the file did not contain, or are damaged.
    pub unopenable: usize,
}

/// Encrypted secrets, and how many of them no available key opens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretCount {
    /// All encrypted secrets.
    pub total: usize,
    /// Secrets that cannot be decrypted.
    pub unopenable: usize,
    /// Ids of the keys that encrypted these.
    pub missing_keys: Vec<String>,
}

/// Reason why a key was not rotated. In every case the key file still opens everything that it opened before.
#[derive(Debug, thiserror::Error)]
pub enum RotationError {
    /// The deployment has no key.
    #[error(
        "this deployment has no encryption key (encryption.key_file is empty): there is nothing to rotate"
    )]
    NoKey,
    /// The key file cannot be read or replaced.
    #[error("{0}")]
    KeyFile(VaultError),
    /// The records cannot be sealed again.
    #[error("{0}")]
    Store(StoreError),
    /// The key file does not contain the sealing key.
    #[error(
        "the records are encrypted with the key {0}, which is not in the key file of this machine: copy it from a server that has it"
    )]
    NotHeld(String),
    /// Some servers do not have the new key.
    #[error("these servers do not have the key {key} yet: {}; copy the key file of this machine there, they read it without a restart", .servers.join(", "))]
    NotEverywhere {
        /// New key id.
        key: String,
        /// URLs of the servers.
        servers: Vec<String>,
    },
}

/// Primary key column.
enum KeyColumn {
    Text(String),
    Bytes(Vec<u8>),
}

/// Sealed bytes, and the primary key of their row.
struct SealedRow {
    sealed: Sealed,
    key: Vec<KeyColumn>,
}

fn key_column(row: &Row<'_>, name: &str) -> Result<KeyColumn, StoreError> {
    // The columns are texts or UUIDs, so both are tried.
    row.get(name)
        .map(KeyColumn::Text)
        .or_else(|_| row.get(name).map(KeyColumn::Bytes))
}

impl<'a> From<&'a KeyColumn> for Value<'a> {
    fn from(column: &'a KeyColumn) -> Self {
        match column {
            KeyColumn::Text(text) => text.into(),
            KeyColumn::Bytes(bytes) => bytes.into(),
        }
    }
}

fn rows(sql: Sql<'_>, table: &SealedTable, current: &str) -> Result<Vec<SealedRow>, StoreError> {
    sql.many(table.select, args![current], |row| {
        let key = table
            .key
            .iter()
            .map(|name| key_column(row, name))
            .collect::<Result<_, _>>()?;
        Ok(SealedRow {
            sealed: Sealed {
                bytes: row.get("sealed")?,
                key_id: row.get("key_id")?,
            },
            key,
        })
    })
}

fn update(
    sql: Sql<'_>,
    table: &SealedTable,
    key: &[KeyColumn],
    sealed: &Sealed,
) -> Result<(), StoreError> {
    let mut row = vec![Value::from(&sealed.bytes), Value::from(&sealed.key_id)];
    row.extend(key.iter().map(Value::from));
    sql.put(table.update, &row)
}

/// Seals a table's rows again.
fn reseal(
    tx: &Tx<'_>,
    table: &SealedTable,
    current: &str,
    rotation: &mut Rotation,
) -> Result<(), StoreError> {
    for SealedRow { sealed, key } in rows(tx.sql, table, current)? {
        // Sealed without a deployment key. A rotation does not concern it.
        if tx.vault.is_derived(&sealed.key_id) {
            continue;
        }
        // Left as it is and counted: its key may still be found in a copy of the key file.
        let Ok(plain) = tx.vault.open_sealed(&sealed, table.purpose) else {
            rotation.unopenable += 1;
            continue;
        };
        let sealed = tx
            .vault
            .seal(Some(current), &plain, table.purpose)
            .map_err(|error| StoreError::not_sealed(&error))?;
        // Another process has replaced the key file between the steps. The transaction fails, and can be repeated.
        let changed = || StoreError::Unavailable("the key file has changed meanwhile".into());
        let sealed = sealed
            .filter(|sealed| sealed.key_id == current)
            .ok_or_else(changed)?;
        update(tx.sql, table, &key, &sealed)?;
        rotation.resealed += 1;
    }
    Ok(())
}

/// Counts the sealed secrets, and how many the vault cannot open.
pub(crate) fn count_sealed(sql: Sql<'_>, vault: &Vault) -> Result<SecretCount, StoreError> {
    let mut count = SecretCount::default();
    for table in SEALED_TABLES {
        // No key has an empty id, so this selects all rows.
        for SealedRow { sealed, .. } in rows(sql, table, "")? {
            count.total += 1;
            if vault.open_sealed(&sealed, table.purpose).is_err() {
                count.unopenable += 1;
                if !count.missing_keys.contains(&sealed.key_id) {
                    count.missing_keys.push(sealed.key_id);
                }
            }
        }
    }
    Ok(count)
}

/// Rotation step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationStep {
    /// A new key is in this machine's key file, and seals nothing yet.
    Added,
    /// The new key seals, and has sealed everything again.
    Sealed,
    /// The old key is no longer in this machine's key file.
    Dropped,
}

/// Step result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedRotation {
    /// Step that was taken.
    pub step: RotationStep,
    /// Id of the key that sealed before, or does until the next step.
    pub old_key_id: String,
    /// New key id.
    pub new_key_id: String,
    /// Records sealed again.
    pub resealed: usize,
    /// Records left unchanged: they need a key that the file did not contain, or are damaged.
    pub unopenable: usize,
}

/// Returns the next step and the ids of its two keys, from the key file's keys and the sealing one.
fn next(held: &[String], seals: &str) -> Result<(RotationStep, String, String), RotationError> {
    let at = held
        .iter()
        .position(|id| id == seals)
        .ok_or_else(|| RotationError::NotHeld(seals.to_owned()))?;
    let (before, after) = (&held[..at], &held[at + 1..]);
    // Each rotation appends its key, so keys after the sealing one are newer, and keys before it are older.
    Ok(match (after.last(), before.last()) {
        (Some(new), _) => (RotationStep::Sealed, seals.to_owned(), new.clone()),
        (None, Some(old)) => (RotationStep::Dropped, old.clone(), seals.to_owned()),
        (None, None) => (RotationStep::Added, seals.to_owned(), String::new()),
    })
}

fn check_servers(cluster: &ClusterState, key: &str) -> Result<(), RotationError> {
    let lacking = cluster
        .nodes
        .iter()
        .filter(|node| !node.keys.encryption.iter().any(|id| id == key));
    let servers: Vec<_> = lacking.map(|node| node.info.url.clone()).collect();
    if servers.is_empty() {
        Ok(())
    } else {
        Err(RotationError::NotEverywhere {
            key: key.to_owned(),
            servers,
        })
    }
}

fn cluster(sql: Sql<'_>) -> Result<ClusterState, StoreError> {
    match sql {
        Sql::Postgres(session) => read_cluster(session),
        Sql::Sqlite(_) => Err(StoreError::Fault("servers do not share a file".into())),
    }
}

/// The deployment's encryption key, and its rotation.
#[derive(Debug, Clone)]
pub struct EncryptionKey(pub(crate) Database);

impl EncryptionKey {
    /// Rotates the encryption key of a deployment with its records in a file. The caller ensures that no two rotations run at once: each
    /// would delete the other's key.
    ///
    /// # Errors
    /// Fails for a deployment without a key, a key file that cannot be replaced, or records that cannot be written.
    pub async fn rotate(&self) -> Result<Rotation, RotationError> {
        // The key file first: a crash after this leaves a file that opens everything.
        let started = self
            .0
            .vault()
            .begin_rotation()
            .map_err(RotationError::KeyFile)?;
        let RotatedKeys { old, new } = started.ok_or(RotationError::NoKey)?;
        let rotation = self
            .reseal_all(old, new)
            .await
            .map_err(RotationError::Store)?;
        // Only after the commit, since the old key is needed until then.
        self.0
            .vault()
            .end_rotation()
            .map_err(RotationError::KeyFile)?;
        Ok(rotation)
    }

    /// Seals everything under the key `new` that is sealed under another one, in one transaction.
    pub(crate) async fn reseal_all(
        &self,
        old: String,
        new: String,
    ) -> Result<Rotation, StoreError> {
        self.0
            .write(Queue::SERVER, move |tx| {
                rotation_lock::hold_alone(tx.sql)?;
                let mut rotation = Rotation {
                    old_key_id: old,
                    new_key_id: new.clone(),
                    resealed: 0,
                    unopenable: 0,
                };
                SEALED_TABLES
                    .iter()
                    .try_for_each(|table| reseal(tx, table, &new, &mut rotation))
                    .map(|()| rotation)
            })
            .await
    }

    /// Performs the next step of an encryption key rotation. The caller ensures that no two rotations of this key file run at once.
    ///
    /// # Errors
    /// If the deployment has no key, a server is not ready for the step, the key file cannot be replaced, or the records cannot be written.
    pub async fn rotate_shared(&self) -> Result<SharedRotation, RotationError> {
        let held = self.0.vault().key_ids().map_err(RotationError::KeyFile)?;
        let first = held.first().ok_or(RotationError::NoKey)?;
        let cluster = self.0.read(cluster).await.map_err(RotationError::Store)?;
        // Before the first rotation, the lease row names no key.
        let seals = if cluster.encryption_key_id.is_empty() {
            first
        } else {
            &cluster.encryption_key_id
        };
        let (step, old, new) = next(&held, seals)?;
        if step == RotationStep::Added {
            return add(self.0.vault(), old);
        }
        // A server without the key could not take over, nor open secrets sealed from now on.
        check_servers(&cluster, &new)?;
        if step == RotationStep::Sealed {
            self.set_sealing_key(&old, &new).await?;
        }
        // Repeated before the old key is deleted, in case the previous step was interrupted.
        let sealed = self
            .reseal_all(old, new.clone())
            .await
            .map_err(RotationError::Store)?;
        if step == RotationStep::Dropped {
            self.0
                .vault()
                .keep_only(&new)
                .map_err(RotationError::KeyFile)?;
        }
        Ok(SharedRotation {
            step,
            old_key_id: sealed.old_key_id,
            new_key_id: new,
            resealed: sealed.resealed,
            unopenable: sealed.unopenable,
        })
    }

    /// Makes the new key the sealing one.
    async fn set_sealing_key(&self, old: &str, new: &str) -> Result<(), RotationError> {
        // The row is locked by the transactions of a busy server, so this is tried several times.
        let mut attempts = 1..ATTEMPTS_AT_ROW;
        loop {
            let (old, new) = (old.to_owned(), new.to_owned());
            match self
                .0
                .write(Queue::SERVER, move |tx| {
                    rotation_lock::set_sealing_key(tx.sql, &old, &new)
                })
                .await
            {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    let message = "another machine has rotated the key meanwhile";
                    return Err(RotationError::Store(StoreError::Unavailable(
                        message.into(),
                    )));
                }
                Err(StoreError::Unavailable(_)) if attempts.next().is_some() => {}
                Err(error) => return Err(RotationError::Store(error)),
            }
        }
    }
}

fn add(vault: &Vault, old: String) -> Result<SharedRotation, RotationError> {
    vault.add_key().map_err(RotationError::KeyFile)?;
    let new = vault
        .key_ids()
        .map_err(RotationError::KeyFile)?
        .pop()
        .unwrap_or_default();
    Ok(SharedRotation {
        step: RotationStep::Added,
        old_key_id: old,
        new_key_id: new,
        resealed: 0,
        unopenable: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_follows_from_the_keys_of_the_file_and_the_one_that_seals() {
        let ids = |text: &str| {
            text.split_whitespace()
                .map(ToOwned::to_owned)
                .collect::<Vec<_>>()
        };
        let step = |held: &str, seals: &str| next(&ids(held), seals).unwrap();
        let is = |step, old: &str, new: &str| (step, old.to_owned(), new.to_owned());
        assert_eq!(step("a", "a"), is(RotationStep::Added, "a", ""));
        assert_eq!(step("a b", "a"), is(RotationStep::Sealed, "a", "b"));
        assert_eq!(step("a b", "b"), is(RotationStep::Dropped, "a", "b"));
        // The old key of the previous rotation was not deleted on this machine.
        assert_eq!(step("a b c", "b"), is(RotationStep::Sealed, "b", "c"));
        assert_eq!(step("a b c", "c"), is(RotationStep::Dropped, "b", "c"));
        assert!(matches!(next(&ids("a b"), "c"), Err(RotationError::NotHeld(id)) if id == "c"));
    }
}
