//! Deletes expired records, a bounded number for each call so that the writer is never held long.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_model::idempotency::RETENTION;
use conclave_model::{ProjectId, Timestamp};

use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::sql::Row;
use crate::sql::values::args;
use crate::store::Store;
use crate::tx::Tx;

/// The most rows of each kind that one call deletes.
const BATCH: u32 = 1_000;

const DELETE_RESPONSES: &str = "DELETE FROM idempotency WHERE (project_id, operation, key, caller) IN
        (SELECT project_id, operation, key, caller FROM idempotency WHERE created_at <= ?1 LIMIT ?2)";
const DELETE_DELIVERIES: &str = "DELETE FROM webhook_deliveries WHERE seq IN
        (SELECT d.seq FROM events e JOIN webhook_deliveries d ON d.event_id = e.id
         WHERE e.created_at <= ?1 AND d.status <> 'pending' LIMIT ?2)";
const DELETE_EVENTS: &str = "DELETE FROM events WHERE id IN
        (SELECT id FROM events e WHERE created_at <= ?1
           AND NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE event_id = e.id) LIMIT ?2)
     RETURNING project_id, id";
const NOTE_DELETED: &str =
    "UPDATE projects SET events_deleted = ?2 WHERE id = ?1 AND events_deleted < ?2";

impl Store {
    /// Deletes stored responses older than 24 hours, and final deliveries and their events older than `retention`, in every
    /// project. Returns the number of deleted rows; 0 when nothing is left to delete.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn delete_expired(&self, retention: Duration) -> Result<usize, StoreError> {
        self.write(Queue::SERVER, move |tx| {
            let oldest_event = tx.now.before(retention);
            let responses = tx
                .sql
                .change(DELETE_RESPONSES, args![tx.now.before(RETENTION), BATCH])?;
            let deliveries = tx
                .sql
                .change(DELETE_DELIVERIES, args![oldest_event, BATCH])?;
            Ok(responses + deliveries + delete_events(tx, oldest_event)?)
        })
        .await
    }
}

/// Deletes events, and notes the last one of each project, so that who reads them later learns that some are missing.
fn delete_events(tx: &Tx<'_>, oldest: Timestamp) -> Result<usize, StoreError> {
    let read = |row: &Row<'_>| Ok((row.get::<ProjectId>("project_id")?, row.get::<i64>("id")?));
    let deleted = tx.sql.many(DELETE_EVENTS, args![oldest, BATCH], read)?;
    let count = deleted.len();
    let mut last = BTreeMap::new();
    for (project, id) in deleted {
        last.entry(project)
            .and_modify(|last: &mut i64| *last = id.max(*last))
            .or_insert(id);
    }
    last.iter()
        .try_for_each(|(project, id)| tx.sql.put(NOTE_DELETED, args![project, *id]))?;
    Ok(count)
}
