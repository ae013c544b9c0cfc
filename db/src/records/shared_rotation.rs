//! Rotating the encryption key of servers that share a database, each of which has a key file: in three steps, since no step may need
//! a key that a server lacks.
//!
//! ```text
//!  key files   old ──▶ old, new ──────────────────────────────────▶ new
//!  records              (1)   old seals ──▶ new seals, all sealed again (2)      (3)
//! ```
//!
//! 1. The new key is added to the key file of one machine, and its operator copies the file to the others. Servers read it without a
//!    restart, and report the ids of their keys ([`crate::lease::Node`]).
//! 2. Once all report the new key, it seals: the row of the lease names the key that does, whatever the order of a key file, and
//!    each transaction that seals reads it under the lock of rotations. So what another transaction seals under the old key
//!    is on disk when everything is sealed again.
//! 3. The old key is deleted. What a step that was stopped has left is sealed again first.

use crate::engine::postgres::lease::{ATTEMPTS_AT_ROW, ClusterState, read_cluster};
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::records::rotation::RotationError;
use crate::rotation_lock;
use crate::sql::Sql;
use crate::store::Store;
use crate::vault::Vault;

/// A step of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationStep {
    /// A new key is in the key file of this machine, and seals nothing yet.
    Added,
    /// The new key seals, and has sealed everything again.
    Sealed,
    /// The old key is no longer in the key file of this machine.
    Dropped,
}

/// What a step has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedRotation {
    /// The step that was taken.
    pub step: RotationStep,
    /// The id of the key that sealed before, or does until the next step.
    pub old_key_id: String,
    /// The id of the new key.
    pub new_key_id: String,
    /// The number of records that were sealed again.
    pub resealed: usize,
    /// The number of records that were left unchanged: they need a key that the file did not hold, or are damaged.
    pub unopenable: usize,
}

/// Returns the next step and the ids of its two keys, by the keys of the key file and the one that seals.
fn next(held: &[String], seals: &str) -> Result<(RotationStep, String, String), RotationError> {
    let at = held
        .iter()
        .position(|id| id == seals)
        .ok_or_else(|| RotationError::NotHeld(seals.to_owned()))?;
    let (before, after) = (&held[..at], &held[at + 1..]);
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

impl Store {
    /// Takes the next step of a rotation of the encryption key. The caller ensures that no two rotations of this key file run at once.
    ///
    /// # Errors
    /// Fails for a deployment without a key, for a step that a server is not ready for, for a key file that cannot be replaced, and for
    /// records that cannot be written.
    pub async fn rotate_shared_key(&self) -> Result<SharedRotation, RotationError> {
        let held = self.vault().key_ids().map_err(RotationError::KeyFile)?;
        let first = held.first().ok_or(RotationError::NoKey)?;
        let cluster = self.read(cluster).await.map_err(RotationError::Store)?;
        let seals = if cluster.encryption_key_id.is_empty() {
            first
        } else {
            &cluster.encryption_key_id
        };
        let (step, old, new) = next(&held, seals)?;
        if step == RotationStep::Added {
            return add(self.vault(), old);
        }
        check_servers(&cluster, &new)?;
        if step == RotationStep::Sealed {
            self.note_key(&old, &new).await?;
        }
        let sealed = self
            .reseal_all(old, new.clone())
            .await
            .map_err(RotationError::Store)?;
        if step == RotationStep::Dropped {
            self.vault()
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

    /// Lets the new key seal from now on.
    async fn note_key(&self, old: &str, new: &str) -> Result<(), RotationError> {
        let mut attempts = 1..ATTEMPTS_AT_ROW;
        loop {
            let (old, new) = (old.to_owned(), new.to_owned());
            match self
                .write(Queue::SERVER, move |tx| {
                    rotation_lock::note(tx.sql, &old, &new)
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
        // The old key of the rotation before was not deleted on this machine.
        assert_eq!(step("a b c", "b"), is(RotationStep::Sealed, "b", "c"));
        assert_eq!(step("a b c", "c"), is(RotationStep::Dropped, "b", "c"));
        assert!(matches!(next(&ids("a b"), "c"), Err(RotationError::NotHeld(id)) if id == "c"));
    }
}
