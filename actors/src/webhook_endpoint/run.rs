//! One run of an endpoint: batches of what is due, until none is.
//!
//! Posts block, so each takes a thread of the runtime's blocking pool, which grows on demand: a fixed pool could be used
//! up by receivers that hang, and then hold up those that do not. Within one room posts go one after another, so first
//! attempts keep the order of events; rooms go side by side once the receiver has answered well.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use conclave_db::{Attempt, DueDelivery, StoreError};
use conclave_model::webhook::WebhookEndpoint;
use conclave_model::{EndpointId, Timestamp};
use futures_util::StreamExt;
use futures_util::stream;

use super::{LastResponse, RunFinished};
use crate::context::ActorContext;
use crate::delivery::sender::{AttemptOutcome, DeliveryRequest};

/// Deliveries taken at a time (contract "Retry schedule").
const BATCH: u32 = 50;
/// Rooms posted side by side to a receiver that answers well. One that does not gets one post at a time.
const ROOMS_AT_ONCE: usize = 4;

/// What a run needs.
pub(super) struct Run {
    pub(super) context: Arc<ActorContext>,
    pub(super) endpoint: EndpointId,
    pub(super) stopping: Arc<AtomicBool>,
    pub(super) in_flight: Arc<AtomicUsize>,
    pub(super) good_standing: bool,
}

/// Why a run goes no further before nothing is due.
enum Halt {
    /// The receiver was deleted.
    Gone,
    /// The actor is stopping.
    Stopping,
    /// The store does not answer; the next tick tries again.
    Store(StoreError),
}

impl Run {
    /// Takes batches until none is due.
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
            Some(Halt::Gone) => return RunFinished { next_due: None, gone: true, last_response },
            Some(Halt::Stopping) => None,
            Some(Halt::Store(error)) => {
                log::error!(endpoint = self.endpoint.to_string().as_str(); "deliveries wait for the store: {error}");
                Some(self.context.clock.now())
            }
            None => self.next_due().await,
        };
        RunFinished { next_due, gone: false, last_response }
    }

    async fn next_due(&self) -> Option<Timestamp> {
        match self.context.store.endpoint_queue(self.endpoint).await {
            Ok(queue) => queue.next_due,
            // Not knowing is no reason to forget: the next tick looks again.
            Err(_) => Some(self.context.clock.now()),
        }
    }

    /// Posts one batch and says how many it held.
    async fn batch(&self, last: &mut Option<LastResponse>) -> Result<usize, Halt> {
        let store = &self.context.store;
        // Read anew for each batch: a receiver that was deleted gets nothing more.
        let endpoint = store.active_webhook_endpoint(self.endpoint).await.map_err(Halt::Store)?.ok_or(Halt::Gone)?;
        let due = store.due_deliveries(self.endpoint, self.context.clock.now(), BATCH).await.map_err(Halt::Store)?;
        let (count, rooms) = (due.len(), by_room(due));
        let at_once =
            if last.as_ref().map_or(self.good_standing, |last| last.error.is_none()) { ROOMS_AT_ONCE } else { 1 };
        let mut posted = stream::iter(rooms).map(|room| self.room(&endpoint, room)).buffer_unordered(at_once);
        while let Some(response) = posted.next().await {
            *last = response?.or(last.take());
        }
        Ok(count)
    }

    /// Posts one room's deliveries in order.
    async fn room(&self, endpoint: &WebhookEndpoint, due: Vec<DueDelivery>) -> Result<Option<LastResponse>, Halt> {
        let mut last = None;
        for delivery in due {
            if self.stopping.load(Ordering::Relaxed) {
                return Err(Halt::Stopping);
            }
            last = Some(self.attempt(endpoint, delivery).await?);
        }
        Ok(last)
    }

    async fn attempt(&self, endpoint: &WebhookEndpoint, delivery: DueDelivery) -> Result<LastResponse, Halt> {
        let (id, number, due) = (delivery.id, delivery.attempts + 1, delivery.due);
        let outcome = self.post(endpoint, delivery).await;
        let at = self.context.clock.now();
        let retry_at = outcome.error.as_ref().and_then(|_| self.context.settings.retry.next_attempt(number, at));
        let response =
            LastResponse { at, response_status: outcome.response_status, error: outcome.error, attempt: number };
        let attempt = Attempt {
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
        self.context.store.record_attempt(attempt).await.map_err(Halt::Store)?;
        self.context.metrics.deliveries.with_label_values(&[outcome]).inc();
        self.context.metrics.delivery_lag.observe(at.since(due).as_secs_f64());
        Ok(response)
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
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let outcome = tokio::task::spawn_blocking(move || sender.post(&request)).await;
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        // A panic, or no thread to be had, is a failed attempt like any other.
        outcome.unwrap_or_else(|error| AttemptOutcome { response_status: None, error: Some(error.to_string()) })
    }
}

/// Groups a batch by room, each in the order it was queued.
fn by_room(due: Vec<DueDelivery>) -> Vec<Vec<DueDelivery>> {
    let mut rooms: BTreeMap<String, Vec<DueDelivery>> = BTreeMap::new();
    for delivery in due {
        rooms.entry(delivery.room.clone()).or_default().push(delivery);
    }
    rooms.into_values().collect()
}
