//! Deletes expired records, a bounded number for each call so that the writer is never held long.

use std::time::Duration;

use conclave_model::idempotency::RETENTION;

use crate::error::StoreError;
use crate::store::Store;
use crate::values::args;
use crate::writer::Queue;

/// The most rows of each kind that one call deletes.
const BATCH: u32 = 1_000;

const DELETE_RESPONSES: &str = "DELETE FROM idempotency WHERE (project_id, operation, key, caller) IN
        (SELECT project_id, operation, key, caller FROM idempotency WHERE created_at <= ?1 LIMIT ?2)";
const DELETE_DELIVERIES: &str = "DELETE FROM webhook_deliveries WHERE seq IN
        (SELECT d.seq FROM events e JOIN webhook_deliveries d ON d.event_id = e.id
         WHERE e.created_at <= ?1 AND d.status <> 'pending' LIMIT ?2)";
const DELETE_EVENTS: &str = "DELETE FROM events WHERE id IN
        (SELECT id FROM events e WHERE created_at <= ?1
           AND NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE event_id = e.id) LIMIT ?2)";

impl Store {
    /// Deletes stored responses older than 24 hours, and final deliveries and their events older than `retention`, in every
    /// project. Returns the number of deleted rows; 0 when nothing is left to delete.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn delete_expired(&self, retention: Duration) -> Result<usize, StoreError> {
        self.write(Queue::SERVER, move |tx| {
            let oldest_event = tx.now.before(retention);
            let responses = tx.sql.change(DELETE_RESPONSES, args![tx.now.before(RETENTION), BATCH])?;
            let deliveries = tx.sql.change(DELETE_DELIVERIES, args![oldest_event, BATCH])?;
            let events = tx.sql.change(DELETE_EVENTS, args![oldest_event, BATCH])?;
            Ok(responses + deliveries + events)
        })
        .await
    }
}
