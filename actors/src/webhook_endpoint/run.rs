//! One run of a webhook endpoint: posts batches of due deliveries until none is due.
//!
//! Posts block, so each takes a thread of the runtime's blocking pool, which grows on demand: receivers that hang could
//! use up a fixed pool and delay all others. Posts of one room go one after another, so first attempts keep the order of
//! events; rooms are posted in parallel while the receiver answers with success.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use conclave_db::{Attempt, DueDelivery, StoreError};
use conclave_model::webhook::WebhookEndpoint;
use conclave_model::{EndpointId, Timestamp};
use futures_util::StreamExt;
use futures_util::stream;
use tokio::sync::watch;

use super::{LastResponse, RunFinished};
use crate::context::ActorContext;
use crate::delivery::sender::{AttemptOutcome, DeliveryRequest};

/// Number of deliveries in a batch (contract "Retry schedule").
const BATCH: u32 = 50;
/// Number of rooms posted in parallel to a receiver whose last response was a success; one otherwise.
const ROOMS_AT_ONCE: usize = 4;
/// Delay before a result is written again that the store could not write; doubled up to the longest.
const FIRST_RECORD_DELAY: Duration = Duration::from_millis(100);
const LONGEST_RECORD_DELAY: Duration = Duration::from_secs(5);

/// A run that has not started.
pub(super) struct Run {
    pub(super) context: Arc<ActorContext>,
    pub(super) endpoint: EndpointId,
    /// Becomes true when the actor stops.
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) progress: Arc<Progress>,
    pub(super) last_was_success: bool,
}

/// What a run does at the moment, for the debug endpoint.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Posts without a response yet.
    pub(super) in_flight: AtomicUsize,
    /// Results that the store could not write yet.
    pub(super) unrecorded: AtomicUsize,
}

/// The reason why a run ends while deliveries are due.
enum Halt {
    /// The endpoint was deleted.
    Deleted,
    /// The actor is stopping.
    Stopping,
    /// The store did not answer; the next tick tries again.
    Store(StoreError),
}

impl Run {
    /// Posts batches until none is due.
    pub(super) async fn drain_due(self) -> RunFinished {
        let mut last_response = None;
        let halted = loop {
            match self.batch(&mut last_response).await {
                Ok(0) => break None,
                Ok(_) => {}
                Err(halt) => break Some(halt),
            }
        };
        let next_due = match halted {
            Some(Halt::Deleted) => return RunFinished { next_due: None, deleted: true, last_response },
            Some(Halt::Stopping) => None,
            Some(Halt::Store(error)) => {
                log::error!(endpoint = self.endpoint.to_string().as_str(); "deliveries wait for the store: {error}");
                Some(self.context.clock.now())
            }
            None => self.next_due().await,
        };
        RunFinished { next_due, deleted: false, last_response }
    }

    async fn next_due(&self) -> Option<Timestamp> {
        match self.context.store.endpoint_queue(self.endpoint).await {
            Ok(queue) => queue.next_due,
            // The next tick looks again.
            Err(_) => Some(self.context.clock.now()),
        }
    }

    /// Posts one batch. Returns the number of deliveries in it.
    async fn batch(&self, last: &mut Option<LastResponse>) -> Result<usize, Halt> {
        let store = &self.context.store;
        // Read again for each batch, since a deleted endpoint gets nothing more.
        let endpoint = store.active_webhook_endpoint(self.endpoint).await.map_err(Halt::Store)?.ok_or(Halt::Deleted)?;
        let (project, now) = (endpoint.project_id.clone(), self.context.clock.now());
        let due = store.due_deliveries(project, self.endpoint, now, BATCH).await.map_err(Halt::Store)?;
        let (count, rooms) = (due.len(), by_room(due));
        let at_once =
            if last.as_ref().map_or(self.last_was_success, |last| last.error.is_none()) { ROOMS_AT_ONCE } else { 1 };
        let mut posted = stream::iter(rooms).map(|room| self.room(&endpoint, room)).buffer_unordered(at_once);
        // To the end also when the actor stops, since a post whose result is not recorded is made again.
        while let Some(response) = posted.next().await {
            *last = response.or(last.take());
        }
        if self.is_stopping() { Err(Halt::Stopping) } else { Ok(count) }
    }

    fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Posts the deliveries of one room in order, and none after the actor began to stop. Returns the last response.
    async fn room(&self, endpoint: &WebhookEndpoint, due: Vec<DueDelivery>) -> Option<LastResponse> {
        let mut last = None;
        for delivery in due {
            if self.is_stopping() {
                break;
            }
            last = Some(self.attempt(endpoint, delivery).await);
        }
        last
    }

    async fn attempt(&self, endpoint: &WebhookEndpoint, delivery: DueDelivery) -> LastResponse {
        let (id, number, due) = (delivery.id, delivery.attempts + 1, delivery.due);
        let outcome = self.post(endpoint, delivery).await;
        let at = self.context.clock.now();
        let retry_at = outcome.error.as_ref().and_then(|_| self.context.settings.retry.next_attempt(number, at));
        let response =
            LastResponse { at, response_status: outcome.response_status, error: outcome.error, attempt: number };
        let attempt = Attempt {
            project_id: endpoint.project_id.clone(),
            id,
            number,
            at,
            response_status: response.response_status,
            error: response.error.clone(),
            retry_at,
        };
        let outcome = match (&attempt.error, attempt.retry_at) {
            (None, _) => "delivered",
            (Some(_), Some(_)) => "retried",
            (Some(_), None) => "failed",
        };
        self.record(attempt).await;
        self.context.metrics.deliveries.with_label_values(&[outcome]).inc();
        self.context.metrics.delivery_lag.observe(at.since(due).as_secs_f64());
        response
    }

    /// Writes the result of an attempt. While the store cannot, the run waits here and posts nothing more: without its
    /// result, the same delivery would be posted again at every tick, uncounted.
    async fn record(&self, attempt: Attempt) {
        let Err(error) = self.context.store.record_attempt(attempt.clone()).await else { return };
        log::error!(delivery = attempt.id.to_string().as_str(); "the result of a post waits for the store: {error}");
        self.progress.unrecorded.fetch_add(1, Ordering::Relaxed);
        let mut delay = FIRST_RECORD_DELAY;
        loop {
            self.context.clock.sleep_until(self.context.clock.now().after(delay)).await;
            if self.context.store.record_attempt(attempt.clone()).await.is_ok() {
                break;
            }
            delay = LONGEST_RECORD_DELAY.min(delay * 2);
        }
        self.progress.unrecorded.fetch_sub(1, Ordering::Relaxed);
    }

    async fn post(&self, endpoint: &WebhookEndpoint, delivery: DueDelivery) -> AttemptOutcome {
        let request = DeliveryRequest {
            url: endpoint.url.clone(),
            secret: endpoint.secret.clone(),
            delivery_id: delivery.id,
            event_type: delivery.event_type,
            payload: delivery.payload,
            at: self.context.clock.now(),
        };
        let sender = Arc::clone(&self.context.sender);
        self.progress.in_flight.fetch_add(1, Ordering::Relaxed);
        let outcome = tokio::task::spawn_blocking(move || sender.post(&request)).await;
        self.progress.in_flight.fetch_sub(1, Ordering::Relaxed);
        // A panic, or the lack of a thread, is a failed attempt.
        outcome.unwrap_or_else(|error| AttemptOutcome { response_status: None, error: Some(error.to_string()) })
    }
}

/// Groups a batch by room, in the order in which the deliveries were queued.
fn by_room(due: Vec<DueDelivery>) -> Vec<Vec<DueDelivery>> {
    let mut rooms: BTreeMap<String, Vec<DueDelivery>> = BTreeMap::new();
    for delivery in due {
        rooms.entry(delivery.room.clone()).or_default().push(delivery);
    }
    rooms.into_values().collect()
}
