//! Stored responses of idempotent requests.
//!
//! A row's key is the project, the operation, the `Idempotency-Key`, and the participant if the response is a refusal for that participant
//! alone. A response is written in the transaction of the change that it reports, if there is one, so that a crash leaves both or neither.
//! A request that acts on the media plane first reserves its row, since such an act cannot be undone by a failed write. Rows live for 24
//! hours ([`RETENTION`]). A response with a secret is sealed, with or without a key of the deployment.
//!
//! The course of a request and its replays are described in the server's module `http::frame::idempotency`.

use std::sync::Arc;

use conclave_model::Timestamp;
use conclave_model::idempotency::{
    IdempotencyRecord, IdempotencySlot, ParticipantCaller, RETENTION, Response, ResponseRecorder,
};

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::sql::values::args;
use crate::sql::{Row, Sql};
use crate::tx::Tx;
use crate::vault::{Sealed, Vault};

/// Purpose that responses with secrets are sealed for. It is in every sealed response, so it never changes.
pub(crate) const PURPOSE: &str = "idempotent answer";

/// Response found for an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResponse {
    /// Fingerprint of the request that got this response.
    pub fingerprint: [u8; 32],
    /// Participant that sent the request; `None` for a server with an API key.
    pub made_by: Option<String>,
    /// The response, byte for byte.
    pub response: Response,
}

const PUT: &str = "INSERT INTO idempotency
        (project_id, operation, key, caller, made_by, fingerprint, status, body, body_key_id, created_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
     ON CONFLICT (project_id, operation, key, caller) DO UPDATE
     SET made_by = excluded.made_by, fingerprint = excluded.fingerprint, status = excluded.status, body = excluded.body,
         body_key_id = excluded.body_key_id, created_at = excluded.created_at";
const SELECT: &str = "SELECT made_by, fingerprint, status, body, body_key_id FROM idempotency
     WHERE project_id = ?1 AND operation = ?2 AND key = ?3 AND caller = ?4 AND created_at > ?5 AND status < 500";
/// Reservation body. It is never replayed, like all 5xx responses.
const RESERVED: &str = r#"{"error":{"code":"database_unavailable","message":"the outcome of this request was not stored"}}"#;
/// Reservation size in bytes. Most responses that replace one are shorter.
const RESERVED_BYTES: usize = 1_024;

impl Tx<'_> {
    /// Stores the response to this change, if the request has a key.
    pub(crate) fn store_response<T>(
        &self,
        recorder: Option<&ResponseRecorder<T>>,
        result: &T,
    ) -> Result<(), StoreError> {
        match recorder {
            Some(recorder) => self.put_response(&recorder.record, &(recorder.render)(result)),
            None => Ok(()),
        }
    }

    /// Stores a response for a request. It replaces the reservation, if there is one.
    fn put_response(
        &self,
        record: &IdempotencyRecord,
        response: &Response,
    ) -> Result<(), StoreError> {
        self.put_row(record, response)?;
        // Before the commit. If that fails, the request fails as well, with a 5xx that is not stored.
        record.mark_stored();
        Ok(())
    }

    fn put_row(&self, record: &IdempotencyRecord, response: &Response) -> Result<(), StoreError> {
        let slot = &record.slot;
        let sealed = record
            .secret
            // Such as a token or a stream key, even without a key of the deployment.
            .then(|| self.seal_always(&response.body, PURPOSE))
            .transpose()?;
        // The refused participant is part of the key, the participant that made the request is not.
        let row = args![
            &slot.project_id,
            slot.operation,
            slot.key.as_str(),
            caller(slot),
            record.made_by.as_ref().map(ParticipantCaller::as_str),
            &record.fingerprint,
            response.code,
            sealed
                .as_ref()
                .map_or(&response.body, |sealed| &sealed.bytes),
            sealed.as_ref().map(|sealed| &sealed.key_id),
            self.now,
        ];
        self.sql.put(PUT, row)
    }
}

/// Returns the participant that a slot belongs to; empty for a slot of the whole project.
fn caller(slot: &IdempotencySlot) -> &str {
    slot.refused.as_ref().map_or("", ParticipantCaller::as_str)
}

/// Stored response. Its body is sealed if it has a key id.
struct Stored {
    made_by: Option<String>,
    fingerprint: [u8; 32],
    code: u16,
    body: Vec<u8>,
    key_id: Option<String>,
}

fn stored(row: &Row<'_>) -> Result<Stored, StoreError> {
    Ok(Stored {
        made_by: row.get("made_by")?,
        fingerprint: row.get("fingerprint")?,
        code: row.get("status")?,
        body: row.get("body")?,
        key_id: row.get("body_key_id")?,
    })
}

fn find(
    sql: Sql<'_>,
    slot: &IdempotencySlot,
    oldest: Timestamp,
) -> Result<Option<Stored>, StoreError> {
    sql.one(
        SELECT,
        args![
            &slot.project_id,
            slot.operation,
            slot.key.as_str(),
            caller(slot),
            oldest
        ],
        stored,
    )
}

fn unseal(vault: &Vault, stored: Stored) -> Result<StoredResponse, StoreError> {
    let body = match stored.key_id {
        // Most responses contain no secret, and are stored as they are.
        None => stored.body,
        Some(key_id) => vault
            .open_sealed(
                &Sealed {
                    key_id,
                    // The purpose prevents other sealed bytes from being opened as a response.
                    bytes: stored.body,
                },
                PURPOSE,
            )
            .map_err(|error| StoreError::Fault(format!("a stored response: {error}")))?,
    };
    Ok(StoredResponse {
        fingerprint: stored.fingerprint,
        made_by: stored.made_by,
        response: Response {
            code: stored.code,
            body,
        },
    })
}

impl Database {
    /// Makes a change and stores the response to it in the same transaction, if the request has a key.
    pub(crate) async fn write_recorded<T, F>(
        &self,
        queue: Queue,
        recorder: Option<ResponseRecorder<T>>,
        run: F,
    ) -> Result<T, StoreError>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.write(queue, move |tx| {
            // If the change is refused, nothing is stored here: the caller stores the refusal.
            let result = run(tx)?;
            // In the same transaction, which is the point of the recorder.
            tx.store_response(recorder.as_ref(), &result)?;
            Ok(result)
        })
        .await
    }
}

/// Stored response records.
#[derive(Debug, Clone)]
pub struct Responses(pub(crate) Database);

impl Responses {
    /// Reads the response that was stored for a key within the last 24 hours.
    ///
    /// # Errors
    /// Fails when the database cannot be read or the response cannot be decrypted.
    pub async fn find(&self, slot: IdempotencySlot) -> Result<Option<StoredResponse>, StoreError> {
        // By this server's clock at the read, so a row that housekeeping has not deleted yet is not found.
        let (vault, oldest) = (
            Arc::clone(self.0.vault()),
            self.0.clock().now().before(RETENTION),
        );
        self.0
            .read(move |sql| {
                find(sql, &slot, oldest)?
                    .map(|stored| unseal(&vault, stored))
                    .transpose()
            })
            .await
    }

    /// Reserves the row of a response before an operation acts irrevocably, so that the response can be stored even if the disk is full by
    /// then. A reservation is not found as a response.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn reserve(&self, record: IdempotencyRecord) -> Result<(), StoreError> {
        // As long as most responses, so that the response can overwrite it without a new page.
        let mut body = RESERVED.as_bytes().to_vec();
        body.resize(RESERVED_BYTES, b' ');
        let reserved = Response { code: 503, body };
        self.0
            .write(Queue::for_project(&record.slot.project_id), move |tx| {
                tx.put_row(&record, &reserved)
            })
            .await
    }

    /// Stores a response that is not part of a change.
    ///
    /// # Errors
    /// Fails when the database cannot be written or the response cannot be sealed.
    pub async fn store(
        &self,
        record: IdempotencyRecord,
        response: Response,
    ) -> Result<(), StoreError> {
        self.0
            .write(Queue::for_project(&record.slot.project_id), move |tx| {
                tx.put_response(&record, &response)
            })
            .await
    }
}
