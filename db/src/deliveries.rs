//! Webhook deliveries. Their state lives here; an endpoint's actor only drives it.

use conclave_model::idempotency::ResponseRecorder;
use conclave_model::page::{Page, PageRequest};
use conclave_model::webhook::{Delivery, DeliveryStatus};
use conclave_model::{DeliveryId, EndpointId, ErrorCode, Problem, ProjectId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::columns::Columns;
use crate::error::OrStoreError;
use crate::query_builder::QueryBuilder;
use crate::{Store, StoreError};

/// Which deliveries are wanted; `None` is every.
#[derive(Debug, Clone, Default)]
pub struct DeliveryFilter {
    /// Standing so.
    pub status: Option<DeliveryStatus>,
    /// Of this event.
    pub event_type: Option<String>,
    /// To this receiver.
    pub endpoint_id: Option<EndpointId>,
}

/// A delivery whose time has come.
#[derive(Debug, Clone)]
pub struct DueDelivery {
    /// The delivery.
    pub id: DeliveryId,
    /// The event's name.
    pub event_type: String,
    /// The room it happened in: first attempts keep their order within it.
    pub room: String,
    /// The exact body.
    pub payload: Box<str>,
    /// Times posted so far.
    pub attempts: u32,
    /// When this attempt was due.
    pub due: Timestamp,
}

/// How a receiver's queue stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndpointQueue {
    /// When the next pending delivery is due.
    pub next_due: Option<Timestamp>,
}

/// What became of one attempt.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Which delivery.
    pub id: DeliveryId,
    /// Its number, from 1.
    pub number: u32,
    /// When it ended.
    pub at: Timestamp,
    /// What the receiver answered.
    pub response_status: Option<u16>,
    /// Why it failed; `None` when it was taken.
    pub error: Option<String>,
    /// When to post again; `None` gives up.
    pub retry_at: Option<Timestamp>,
}

const SELECT: &str = "SELECT d.id, d.endpoint_id, d.endpoint_url, e.type, e.payload, d.status, d.attempts, \
                             d.next_attempt_at, d.delivered_at, d.created_at, d.last_error, d.response_status \
                      FROM webhook_deliveries d JOIN events e ON e.id = d.event_id";

fn delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    Ok(Delivery {
        id: DeliveryId(row.get(0)?),
        endpoint_id: EndpointId(row.get(1)?),
        endpoint_url: row.get(2)?,
        event_type: row.get(3)?,
        payload: row.get::<_, String>(4)?.into(),
        status: row.word(5, |word| word.parse().ok())?,
        attempts: row.get(6)?,
        next_attempt_at: row.time_opt(7)?,
        delivered_at: row.time_opt(8)?,
        created_at: row.time(9)?,
        last_error: row.get(10)?,
        response_status: row.get(11)?,
    })
}

fn existing(sql: &Connection, project: &ProjectId, id: DeliveryId) -> Result<Delivery, StoreError> {
    let found = sql
        .prepare_cached(&format!("{SELECT} WHERE d.id = ?1 AND d.project_id = ?2"))
        .and_then(|mut s| s.query_row(params![id.0, project.as_str()], delivery).optional())
        .or_store_error()?;
    found.ok_or_else(|| {
        let message = "no webhook delivery by that id in this project";
        StoreError::Refused(Problem::new(ErrorCode::DeliveryNotFound, message))
    })
}

fn not_retryable(message: &'static str) -> StoreError {
    StoreError::Refused(Problem::new(ErrorCode::DeliveryNotRetryable, message))
}

impl Store {
    /// A project's deliveries, newest first.
    ///
    /// # Errors
    /// The store's own.
    pub async fn deliveries(
        &self,
        project: ProjectId,
        filter: DeliveryFilter,
        page: PageRequest,
    ) -> Result<Page<Delivery>, StoreError> {
        self.read(move |sql| {
            let mut wanted = QueryBuilder::of_project("d.project_id", &project);
            wanted.and("d.status = ?", filter.status.map(DeliveryStatus::as_str));
            wanted.and("e.type = ?", filter.event_type);
            wanted.and("d.endpoint_id = ?", filter.endpoint_id.map(|id| id.0));
            wanted.page(sql, SELECT, "d.seq DESC", page, delivery)
        })
        .await
    }

    /// Puts a failed delivery back in the queue, its attempts counted anew.
    ///
    /// # Errors
    /// Refused when the project has no such delivery, it has not failed, or its receiver is gone.
    pub async fn retry_delivery(
        &self,
        project: ProjectId,
        id: DeliveryId,
        keep: Option<ResponseRecorder<Delivery>>,
    ) -> Result<Delivery, StoreError> {
        self.write(move |tx| {
            existing(tx.sql, &project, id)?;
            let requeued = tx
                .sql
                .execute(
                    "UPDATE webhook_deliveries SET status = 'pending', attempts = 0, next_attempt_at = ?2
                     WHERE id = ?1 AND status = 'failed'
                       AND EXISTS (SELECT 1 FROM webhook_endpoints w WHERE w.id = endpoint_id AND w.active = 1)",
                    params![id.0, tx.now.millis()],
                )
                .or_store_error()?;
            let delivery = existing(tx.sql, &project, id)?;
            match (requeued, delivery.status) {
                (0, DeliveryStatus::Failed) => Err(not_retryable("its endpoint has been deleted")),
                (0, _) => Err(not_retryable("only a failed delivery can be retried")),
                _ => {
                    tx.store_response(keep.as_ref(), &delivery)?;
                    Ok(delivery)
                }
            }
        })
        .await
    }

    /// Up to `limit` deliveries of a receiver that are due, in the order they were queued for.
    ///
    /// # Errors
    /// The store's own.
    pub async fn due_deliveries(
        &self,
        endpoint: EndpointId,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<DueDelivery>, StoreError> {
        self.read(move |sql| {
            let mut statement = sql
                .prepare_cached(
                    "SELECT d.id, e.type, e.room, e.payload, d.attempts, d.next_attempt_at
                     FROM webhook_deliveries d JOIN events e ON e.id = d.event_id
                     WHERE d.endpoint_id = ?1 AND d.status = 'pending' AND d.next_attempt_at <= ?2
                     ORDER BY d.next_attempt_at, d.seq LIMIT ?3",
                )
                .or_store_error()?;
            let due = |row: &Row<'_>| {
                Ok(DueDelivery {
                    id: DeliveryId(row.get(0)?),
                    event_type: row.get(1)?,
                    room: row.get(2)?,
                    payload: row.get::<_, String>(3)?.into(),
                    attempts: row.get(4)?,
                    due: row.time(5)?,
                })
            };
            let rows = statement.query_map(params![endpoint.0, now.millis(), limit], due);
            rows.and_then(Iterator::collect).or_store_error()
        })
        .await
    }

    /// How a receiver's queue stands.
    ///
    /// # Errors
    /// The store's own.
    pub async fn endpoint_queue(&self, endpoint: EndpointId) -> Result<EndpointQueue, StoreError> {
        self.read(move |sql| {
            sql.prepare_cached(
                "SELECT min(next_attempt_at) FROM webhook_deliveries WHERE endpoint_id = ?1 AND status = 'pending'",
            )
            .and_then(|mut s| s.query_row([endpoint.0], |row| Ok(EndpointQueue { next_due: row.time_opt(0)? })))
            .or_store_error()
        })
        .await
    }

    /// Writes what became of an attempt. A delivery that is no longer pending, because its receiver was deleted
    /// meanwhile, stays as it is.
    ///
    /// # Errors
    /// The store's own.
    pub async fn record_attempt(&self, attempt: Attempt) -> Result<(), StoreError> {
        self.write(move |tx| {
            let status = match (&attempt.error, attempt.retry_at) {
                (None, _) => DeliveryStatus::Delivered,
                (Some(_), Some(_)) => DeliveryStatus::Pending,
                (Some(_), None) => DeliveryStatus::Failed,
            };
            let delivered_at = (status == DeliveryStatus::Delivered).then_some(attempt.at.millis());
            let retry_at = attempt.retry_at.filter(|_| status == DeliveryStatus::Pending);
            tx.sql
                .prepare_cached(
                    "UPDATE webhook_deliveries
                     SET status = ?2, attempts = ?3, next_attempt_at = ?4, delivered_at = ?5, last_error = ?6,
                         response_status = ?7
                     WHERE id = ?1 AND status = 'pending'",
                )
                .and_then(|mut s| {
                    s.execute(params![
                        attempt.id.0,
                        status.as_str(),
                        attempt.number,
                        retry_at.map(Timestamp::millis),
                        delivered_at,
                        attempt.error.as_deref().unwrap_or(""),
                        attempt.response_status,
                    ])
                })
                .or_store_error()?;
            Ok(())
        })
        .await
    }
}
