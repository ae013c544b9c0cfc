//! Answers kept for replay, in the transaction of the change they report where there is one.

use conclave_model::Timestamp;
use conclave_model::idempotency::{
    IdempotencyRecord, IdempotencySlot, ParticipantCaller, RETENTION, Response, ResponseRecorder,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::OrStoreError;
use crate::vault::{Sealed, Vault};
use crate::writer::Tx;
use crate::{Store, StoreError};

/// What sealed answers are sealed for.
pub(crate) const PURPOSE: &str = "idempotent answer";

/// An answer found for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResponse {
    /// Of the body the key first came with.
    pub fingerprint: [u8; 32],
    /// The participant that it answered; `None` for a server with its key.
    pub made_by: Option<String>,
    /// The answer.
    pub response: Response,
}

impl Tx<'_> {
    /// Keeps the answer to this change, if somebody asked for that.
    pub(crate) fn store_response<T>(&self, keep: Option<&ResponseRecorder<T>>, of: &T) -> Result<(), StoreError> {
        match keep {
            Some(keep) => self.put_response(&keep.record, &(keep.render)(of)),
            None => Ok(()),
        }
    }

    fn put_response(&self, keep: &IdempotencyRecord, answer: &Response) -> Result<(), StoreError> {
        let slot = &keep.slot;
        let sealed = keep.secret.then(|| self.vault.seal_always(&answer.body, PURPOSE)).transpose();
        let sealed = sealed.map_err(|error| StoreError::unsealed(&error))?;
        let (key_id, body) = match &sealed {
            Some(sealed) => (Some(sealed.key_id.as_str()), sealed.bytes.as_slice()),
            None => (None, answer.body.as_slice()),
        };
        self.sql
            .prepare_cached(
                "INSERT OR REPLACE INTO idempotency
                    (project_id, operation, key, caller, made_by, fingerprint, status, body, body_key_id, created_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )
            .and_then(|mut s| {
                s.execute(params![
                    slot.project_id.as_str(),
                    slot.operation,
                    slot.key.as_str(),
                    caller(slot),
                    keep.made_by.as_ref().map(ParticipantCaller::as_str),
                    keep.fingerprint,
                    answer.status,
                    body,
                    key_id,
                    self.now.millis()
                ])
            })
            .or_store_error()?;
        keep.mark_stored();
        Ok(())
    }
}

/// The participant that a slot belongs to; empty for one of the whole project.
fn caller(slot: &IdempotencySlot) -> &str {
    slot.refused.as_ref().map_or("", ParticipantCaller::as_str)
}

struct Stored {
    made_by: Option<String>,
    fingerprint: [u8; 32],
    status: u16,
    body: Vec<u8>,
    key_id: Option<String>,
}

fn find(sql: &Connection, slot: &IdempotencySlot, oldest: Timestamp) -> Result<Option<Stored>, StoreError> {
    sql.prepare_cached(
        "SELECT made_by, fingerprint, status, body, body_key_id FROM idempotency
         WHERE project_id = ?1 AND operation = ?2 AND key = ?3 AND caller = ?4 AND created_at > ?5",
    )
    .and_then(|mut s| {
        let of = params![slot.project_id.as_str(), slot.operation, slot.key.as_str(), caller(slot), oldest.millis()];
        s.query_row(of, |row| {
            Ok(Stored {
                made_by: row.get(0)?,
                fingerprint: row.get(1)?,
                status: row.get(2)?,
                body: row.get(3)?,
                key_id: row.get(4)?,
            })
        })
        .optional()
    })
    .or_store_error()
}

fn unseal(vault: &Vault, stored: Stored) -> Result<StoredResponse, StoreError> {
    let body = match stored.key_id {
        None => stored.body,
        Some(key_id) => vault
            .open_sealed(&Sealed { key_id, bytes: stored.body }, PURPOSE)
            .map_err(|error| StoreError::Fault(format!("a kept answer: {error}")))?,
    };
    Ok(StoredResponse {
        fingerprint: stored.fingerprint,
        made_by: stored.made_by,
        response: Response { status: stored.status, body },
    })
}

impl Store {
    /// The answer kept for a key within the last 24 hours.
    ///
    /// # Errors
    /// The store's own.
    pub async fn stored_response(&self, slot: IdempotencySlot) -> Result<Option<StoredResponse>, StoreError> {
        let (vault, oldest) = (std::sync::Arc::clone(self.vault()), self.clock().now().before(RETENTION));
        self.read(move |sql| find(sql, &slot, oldest)?.map(|stored| unseal(&vault, stored)).transpose()).await
    }

    /// Keeps an answer that no change of ours carried.
    ///
    /// # Errors
    /// The store's own.
    pub async fn store_response(&self, keep: IdempotencyRecord, answer: Response) -> Result<(), StoreError> {
        self.write(move |tx| tx.put_response(&keep, &answer)).await
    }
}
