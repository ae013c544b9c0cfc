//! Forgetting what is past its time, a bounded amount a call so that the writer is never held long.

use std::time::Duration;

use conclave_model::idempotency::RETENTION;
use rusqlite::params;

use crate::error::OrStoreError;
use crate::{Store, StoreError};

/// Rows removed of each kind a call.
const BATCH: u32 = 1_000;

impl Store {
    /// Removes kept answers past 24 hours, and final deliveries and their events past `retention`. Says how many rows
    /// went; 0 when there is no more to do.
    ///
    /// # Errors
    /// The store's own.
    pub async fn delete_expired(&self, retention: Duration) -> Result<usize, StoreError> {
        self.write(move |tx| {
            let old_answer = tx.now.before(RETENTION).millis();
            let old_event = tx.now.before(retention).millis();
            let answers = tx.sql.execute(
                "DELETE FROM idempotency WHERE (project_id, operation, key, caller) IN
                    (SELECT project_id, operation, key, caller FROM idempotency WHERE created_at <= ?1 LIMIT ?2)",
                params![old_answer, BATCH],
            );
            let deliveries = tx.sql.execute(
                "DELETE FROM webhook_deliveries WHERE seq IN
                    (SELECT d.seq FROM events e JOIN webhook_deliveries d ON d.event_id = e.id
                     WHERE e.created_at <= ?1 AND d.status <> 'pending' LIMIT ?2)",
                params![old_event, BATCH],
            );
            let events = tx.sql.execute(
                "DELETE FROM events WHERE id IN
                    (SELECT id FROM events e WHERE created_at <= ?1
                       AND NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE event_id = e.id) LIMIT ?2)",
                params![old_event, BATCH],
            );
            Ok(answers.or_store_error()? + deliveries.or_store_error()? + events.or_store_error()?)
        })
        .await
    }
}
