//! Webhook deliveries. Their state is stored here; the endpoint's actor only drives it.

use std::collections::{BTreeSet, HashSet};

use conclave_model::event::EndpointDisabledEvent;
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::page::{Page, PageRequest};
use conclave_model::webhook::{Attempt, Delivery, DeliveryStatus};
use conclave_model::{DeliveryId, EndpointId, ErrorCode, Problem, ProjectId, Timestamp};

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::sql::query_builder::QueryBuilder;
use crate::sql::values::args;
use crate::sql::{Row, Sql};

/// Delivery list filters; `None` matches all.
#[derive(Debug, Clone, Default)]
pub struct DeliveryFilter {
    /// Only deliveries with this status.
    pub status: Option<DeliveryStatus>,
    /// Only deliveries of events with this name.
    pub event_type: Option<String>,
    /// Only deliveries to this webhook endpoint.
    pub endpoint_id: Option<EndpointId>,
}

/// Pending delivery whose next attempt is due.
#[derive(Debug, Clone)]
pub struct DueDelivery {
    /// Delivery id, which the webhook endpoint also receives.
    pub id: DeliveryId,
    /// Event name.
    pub event_type: String,
    /// Room of the event. Within a room, first attempts keep their order.
    pub room: String,
    /// Exact request body.
    pub payload: Box<str>,
    /// Attempts so far.
    pub attempts: u32,
    /// Time at which this attempt was due.
    pub due: Timestamp,
}

/// A webhook endpoint's queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndpointQueue {
    /// Whether a delivery waits for its first attempt, which is due at once, even if the clock was set back after it was queued.
    pub has_first_attempts: bool,
    /// Next retry's due time; `None` if there is none.
    pub next_retry: Option<Timestamp>,
    /// Last retry's due time; `None` if there is none.
    pub last_retry: Option<Timestamp>,
    /// Whether the endpoint has ever accepted a delivery, as far as the log goes back.
    pub has_delivered: bool,
}

impl EndpointQueue {
    /// Returns the due time of the next delivery; `None` if there is none.
    #[must_use]
    pub fn next_due(&self, now: Timestamp) -> Option<Timestamp> {
        if self.has_first_attempts {
            Some(now)
        } else {
            self.next_retry
        }
    }
}

const SELECT: &str = "SELECT d.id, d.endpoint_id, d.endpoint_url, d.event_type, e.payload, d.status, d.attempts, \
                             d.next_attempt_at, d.delivered_at, d.created_at, d.last_error, d.response_status \
                      FROM webhook_deliveries d JOIN events e ON e.id = d.event_id";
/// First attempts after a position in event order, even if the clock was set back between two events.
const SELECT_FIRST: &str = "SELECT d.seq, d.id, e.type, e.room, e.payload, d.attempts, d.next_attempt_at
     FROM webhook_deliveries d JOIN events e ON e.id = d.event_id
     WHERE d.endpoint_id = ?1 AND d.project_id = ?2 AND d.status = 'pending' AND d.attempts = 0 AND d.seq > ?4
     ORDER BY d.seq LIMIT ?3";
const SELECT_RETRIES: &str = "SELECT d.id, e.type, e.room, e.payload, d.attempts, d.next_attempt_at
     FROM webhook_deliveries d JOIN events e ON e.id = d.event_id
     WHERE d.endpoint_id = ?1 AND d.project_id = ?2 AND d.status = 'pending' AND d.attempts > 0
       AND d.next_attempt_at <= ?3
     ORDER BY d.next_attempt_at, d.seq LIMIT ?4";
/// First attempt to deliver a disabled endpoint's last event. The endpoint's other deliveries are not attempted.
const SELECT_NOTICE: &str = "SELECT d.id, e.type, e.room, e.payload, d.attempts, d.next_attempt_at
     FROM webhook_deliveries d JOIN events e ON e.id = d.event_id
     WHERE d.endpoint_id = ?1 AND d.project_id = ?2 AND d.status = 'pending' AND d.attempts = 0 AND d.event_type = ?3
     ORDER BY d.seq LIMIT ?4";
/// Rooms with an event whose first attempt failed.
const WAITING_ROOMS: &str = "SELECT e.room FROM webhook_deliveries d JOIN events e ON e.id = d.event_id
     WHERE d.endpoint_id = ?1 AND d.project_id = ?2 AND d.status = 'pending' AND d.attempts > 0 AND d.next_attempt_at > 0
     LIMIT ?3";
const HAS_NOTICE: &str = "SELECT EXISTS
     (SELECT 1 FROM webhook_deliveries WHERE endpoint_id = ?1 AND status = 'pending' AND attempts = 0 AND event_type = ?2)";
const HAS_FIRST: &str = "SELECT EXISTS
     (SELECT 1 FROM webhook_deliveries WHERE endpoint_id = ?1 AND status = 'pending' AND attempts = 0)";
const NEXT_RETRY: &str = "SELECT min(next_attempt_at) FROM webhook_deliveries
     WHERE endpoint_id = ?1 AND status = 'pending' AND attempts > 0";
const LAST_RETRY: &str = "SELECT max(next_attempt_at) FROM webhook_deliveries
     WHERE endpoint_id = ?1 AND status = 'pending' AND attempts > 0";
/// In one query, since each is a round trip.
const STATE: &str = "SELECT enabled,
        EXISTS (SELECT 1 FROM webhook_deliveries WHERE endpoint_id = ?1 AND status = 'delivered') AS has_delivered
     FROM webhook_endpoints WHERE id = ?1";
const BRING_FORWARD: &str = "UPDATE webhook_deliveries SET next_attempt_at = ?3 WHERE seq IN
     (SELECT seq FROM webhook_deliveries
      WHERE endpoint_id = ?1 AND project_id = ?5 AND status = 'pending' AND attempts > 0 AND next_attempt_at > ?2
      LIMIT ?4)";
/// Queries of an endpoint's queue, each with the index that serves it.
#[cfg(test)]
pub(crate) const QUEUE: [(&str, &str); 10] = [
    (SELECT_NOTICE, "webhook_deliveries_first"),
    (HAS_NOTICE, "webhook_deliveries_first"),
    (WAITING_ROOMS, "webhook_deliveries_retries"),
    (SELECT_FIRST, "webhook_deliveries_first"),
    (HAS_FIRST, "webhook_deliveries_first"),
    (SELECT_RETRIES, "webhook_deliveries_retries"),
    (NEXT_RETRY, "webhook_deliveries_retries"),
    (LAST_RETRY, "webhook_deliveries_retries"),
    (BRING_FORWARD, "webhook_deliveries_retries"),
    (STATE, "webhook_deliveries_of_endpoint_by_status"),
];
/// Maximum waiting retries up to which first attempts are made between ticks. A receiver with more is failing, and its rooms are not worth
/// comparing.
const MAX_WAITING: u32 = 100;
/// Pages read to find an event of another room behind the first attempts of rooms that are skipped. More would cost each event of a busy
/// room more than an event behind them loses, which leaves with the next batch or tick.
const MAX_PAGES: u32 = 3;
/// Maximum deliveries changed by one write.
const STEP: u32 = 1_000;
const REQUEUE: &str =
    "UPDATE webhook_deliveries SET status = 'pending', attempts = 0, next_attempt_at = ?3
     WHERE id = ?1 AND project_id = ?2 AND status = 'failed'
       AND EXISTS (SELECT 1 FROM webhook_endpoints w WHERE w.id = endpoint_id AND w.active = 1 AND w.enabled = 1)";
const IS_DELETED: &str =
    "SELECT NOT EXISTS (SELECT 1 FROM webhook_endpoints WHERE id = ?1 AND active = 1)";
const FAILS: &str = "UPDATE webhook_endpoints SET failing_since = ?3
     WHERE id = ?1 AND project_id = ?2 AND failing_since IS NULL";
const RECOVERS: &str = "UPDATE webhook_endpoints SET failing_since = NULL
     WHERE id = ?1 AND project_id = ?2 AND failing_since IS NOT NULL";
const RECORD_ATTEMPT: &str = "UPDATE webhook_deliveries
     SET status = ?3, attempts = ?4, next_attempt_at = ?5, delivered_at = ?6, last_error = ?7, response_status = ?8, endpoint_url = ?9
     WHERE id = ?1 AND project_id = ?2 AND status = 'pending'
       AND EXISTS (SELECT 1 FROM webhook_endpoints w WHERE w.id = endpoint_id AND w.active = 1)";
/// Hides the pending deliveries of a deleted endpoint, whose rows exist until they are purged.
const NOT_DELETED: &str = "(d.status <> 'pending' OR
     EXISTS (SELECT 1 FROM webhook_endpoints w WHERE w.id = d.endpoint_id AND w.active = 1))";

fn delivery(row: &Row<'_>) -> Result<Delivery, StoreError> {
    Ok(Delivery {
        id: row.get("id")?,
        endpoint_id: row.get("endpoint_id")?,
        endpoint_url: row.get("endpoint_url")?,
        event_type: row.get("event_type")?,
        payload: row.get("payload")?,
        status: row.get("status")?,
        attempts: row.get("attempts")?,
        next_attempt_at: row.get("next_attempt_at")?,
        delivered_at: row.get("delivered_at")?,
        created_at: row.get("created_at")?,
        last_error: row.get("last_error")?,
        response_status: row.get("response_status")?,
    })
}

fn due(row: &Row<'_>) -> Result<DueDelivery, StoreError> {
    Ok(DueDelivery {
        id: row.get("id")?,
        event_type: row.get("type")?,
        room: row.get("room")?,
        payload: row.get("payload")?,
        attempts: row.get("attempts")?,
        due: row.get("next_attempt_at")?,
    })
}

fn existing(sql: Sql<'_>, project: &ProjectId, id: DeliveryId) -> Result<Delivery, StoreError> {
    let query = format!("{SELECT} WHERE d.id = ?1 AND d.project_id = ?2 AND {NOT_DELETED}");
    let message = "no webhook delivery by that id in this project";
    let not_found = || Problem::new(ErrorCode::DeliveryNotFound, message);
    Ok(sql
        .one(&query, args![id, project], delivery)?
        .ok_or_else(not_found)?)
}

fn not_retryable<T>(message: &'static str) -> Result<T, StoreError> {
    StoreError::refuse(Problem::new(ErrorCode::DeliveryNotRetryable, message))
}

/// Returns the query that lists a project's deliveries, newest first.
pub(crate) fn list_query<'a>(
    project: &'a ProjectId,
    filter: &'a DeliveryFilter,
) -> QueryBuilder<'a> {
    QueryBuilder::new(SELECT, "d.project_id", project, "d.seq DESC")
        .and("d.status =", filter.status)
        .and("d.event_type =", filter.event_type.as_deref())
        .and("d.endpoint_id =", filter.endpoint_id)
        // Only pending deliveries can belong to a deleted endpoint, so other statuses need no subquery.
        .and_condition(
            filter
                .status
                .is_none_or(|status| status == DeliveryStatus::Pending)
                .then_some(NOT_DELETED),
        )
}

/// Webhook delivery records.
#[derive(Debug, Clone)]
pub struct Deliveries(pub(crate) Database);

impl Deliveries {
    /// Lists a project's deliveries, newest first.
    ///
    /// # Errors
    /// Fails when the database cannot be read, or takes too long.
    pub async fn list(
        &self,
        project: ProjectId,
        filter: DeliveryFilter,
        page: PageRequest,
    ) -> Result<Page<Delivery>, StoreError> {
        self.0
            .list(project, move |sql, project| {
                list_query(project, &filter).page(sql, page, delivery)
            })
            .await
    }

    /// Reads a delivery.
    ///
    /// # Errors
    /// Refused when the project has no such delivery.
    pub async fn get(&self, project: ProjectId, id: DeliveryId) -> Result<Delivery, StoreError> {
        self.0.read(move |sql| existing(sql, &project, id)).await
    }

    /// Returns a failed delivery to the queue, with no attempts counted.
    ///
    /// # Errors
    /// Refused when the project has no such delivery, it has not failed, or its endpoint was deleted or is not active.
    pub async fn retry(
        &self,
        project: ProjectId,
        id: DeliveryId,
        record: Option<ResponseRecorder<Delivery>>,
    ) -> Result<Delivery, StoreError> {
        self.0
            .write_recorded(Queue::for_project(&project), record, move |tx| {
                // First, so that an unknown delivery is refused as such.
                existing(tx.sql, &project, id)?;
                let requeued = tx.sql.change(REQUEUE, args![id, &project, tx.now])?;
                let delivery = existing(tx.sql, &project, id)?;
                // The condition of the update is the rule. The row read afterwards only decides which refusal it was.
                match (requeued, delivery.status) {
                    (0, DeliveryStatus::Failed)
                        if tx.sql.value(IS_DELETED, args![delivery.endpoint_id])? =>
                    {
                        not_retryable("its endpoint has been deleted")
                    }
                    (0, DeliveryStatus::Failed) => {
                        not_retryable("its endpoint is not active; enable it first")
                    }
                    (0, _) => not_retryable("only a failed delivery can be retried"),
                    _ => Ok(delivery),
                }
            })
            .await
    }

    /// Reads at most `limit` due deliveries of a webhook endpoint: first attempts in event order, then retries by due time. Up to half of
    /// them are retries, if that many are due.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn due(
        &self,
        project: ProjectId,
        endpoint: EndpointId,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<DueDelivery>, StoreError> {
        self.0
            // Retries first, up to half of the limit: an endpoint with many new events must not starve them.
            .read(move |sql| {
                let retries = sql.many(
                    SELECT_RETRIES,
                    args![endpoint, &project, now, limit / 2],
                    due,
                )?;
                // First attempts get the rest, which is more than half if few retries are due.
                let left = limit.saturating_sub(u32::try_from(retries.len()).unwrap_or(limit));
                let mut found =
                    sql.many(SELECT_FIRST, args![endpoint, &project, left, 0i64], due)?;
                found.extend(retries);
                Ok(found)
            })
            .await
    }

    /// Reads at most `limit` first attempts that may leave between ticks: in event order, without `busy` rooms and rooms in which an earlier
    /// event waits for its next attempt.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn due_at_once(
        &self,
        project: ProjectId,
        endpoint: EndpointId,
        busy: BTreeSet<String>,
        limit: u32,
    ) -> Result<Vec<DueDelivery>, StoreError> {
        self.0
            .read(move |sql| {
                let rooms = sql.many(
                    WAITING_ROOMS,
                    args![endpoint, &project, MAX_WAITING + 1],
                    |row| row.get::<String>("room"),
                )?;
                if rooms.len() > MAX_WAITING as usize {
                    return Ok(Vec::new());
                }
                let mut skipped: HashSet<String> = rooms.into_iter().collect();
                // Events about no room keep no order.
                skipped.remove("");
                skipped.extend(busy);
                let mut after = 0i64;
                for _ in 0..MAX_PAGES {
                    let row = args![endpoint, &project, limit, after];
                    let page = sql.many(SELECT_FIRST, row, |row| {
                        Ok((row.get::<i64>("seq")?, due(row)?))
                    })?;
                    let is_last = page.len() < limit as usize;
                    after = page.last().map_or(after, |(seq, _)| *seq);
                    let mut found: Vec<_> = page.into_iter().map(|(_, due)| due).collect();
                    found.retain(|due| !skipped.contains(&due.room));
                    if is_last || !found.is_empty() {
                        return Ok(found);
                    }
                }
                Ok(Vec::new())
            })
            .await
    }

    /// Reads the last event of a disabled webhook endpoint, if its only attempt has not been made.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn due_notice(
        &self,
        project: ProjectId,
        endpoint: EndpointId,
    ) -> Result<Vec<DueDelivery>, StoreError> {
        self.0
            .read(move |sql| {
                let name = EndpointDisabledEvent::NAME;
                sql.many(SELECT_NOTICE, args![endpoint, &project, name, 1u32], due)
            })
            .await
    }

    /// Reads the due times of a webhook endpoint's deliveries. If it is not active, only its last event is due.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn queue(&self, endpoint: EndpointId) -> Result<EndpointQueue, StoreError> {
        self.0
            .read(move |sql| {
                let state: Option<(bool, bool)> = sql.one(STATE, args![endpoint], |row| {
                    Ok((row.get("enabled")?, row.get("has_delivered")?))
                })?;
                // The rows of a deleted endpoint are purged.
                let Some((is_active, has_delivered)) = state else {
                    return Ok(EndpointQueue::default());
                };
                if !is_active {
                    let name = EndpointDisabledEvent::NAME;
                    return Ok(EndpointQueue {
                        has_first_attempts: sql.value(HAS_NOTICE, args![endpoint, name])?,
                        has_delivered,
                        ..EndpointQueue::default()
                    });
                }
                Ok(EndpointQueue {
                    // Four short index reads in one snapshot.
                    has_first_attempts: sql.value(HAS_FIRST, args![endpoint])?,
                    next_retry: sql.value(NEXT_RETRY, args![endpoint])?,
                    last_retry: sql.value(LAST_RETRY, args![endpoint])?,
                    has_delivered,
                })
            })
            .await
    }

    /// Makes retries due now whose due time is after `latest`, at most 1,000 per call. A clock that was set back since had scheduled them.
    /// Returns their number.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn bring_retries_forward(
        &self,
        project: ProjectId,
        endpoint: EndpointId,
        latest: Timestamp,
    ) -> Result<usize, StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                tx.sql.change(
                    BRING_FORWARD,
                    args![endpoint, latest, tx.now, STEP, &project],
                )
            })
            .await
    }

    /// Records the result of an attempt, and since when the endpoint has failed. A delivery that is no longer pending, because its endpoint was deleted meanwhile, does not change.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn record_attempt(&self, attempt: Attempt) -> Result<(), StoreError> {
        self.0
            // The update requires `pending`, so a repeated record of the same attempt changes nothing once the delivery is final.
            .write(Queue::for_project(&attempt.project_id), move |tx| {
                let status = attempt.status();
                let row = args![
                    attempt.delivery_id,
                    &attempt.project_id,
                    status,
                    attempt.number,
                    attempt
                        .retry_at
                        // A final delivery has no next attempt.
                        .filter(|_| status == DeliveryStatus::Pending),
                    (status == DeliveryStatus::Delivered).then_some(attempt.at),
                    attempt.outcome.error.as_deref().unwrap_or(""),
                    attempt.outcome.response_status,
                    &attempt.url,
                ];
                tx.sql.put(RECORD_ATTEMPT, row)?;
                let endpoint = attempt.endpoint_id;
                if attempt.outcome.error.is_some() {
                    tx.sql
                        .put(FAILS, args![endpoint, &attempt.project_id, attempt.at])
                } else {
                    tx.sql.put(RECOVERS, args![endpoint, &attempt.project_id])
                }
            })
            .await
    }
}
