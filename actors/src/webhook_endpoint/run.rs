//! One run of a webhook endpoint: posts batches of due deliveries until none is due.
//!
//! A room's deliveries are posted one after another, so first attempts keep the order of events; rooms are posted in parallel while the
//! receiver succeeds. POSTs need permits of the [`DeliveryPool`](conclave_outbound::webhook::DeliveryPool). A run takes them before it
//! reads a batch, so a waiting run keeps no payloads in memory, and returns them after a timeout or 5 s, so that a project's endpoints
//! alternate.
//!
//! A run that was started between ticks makes first attempts only, until a tick includes everything that is due.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use conclave_db::{DueDelivery, StoreError};
use conclave_model::event::EndpointDisabledEvent;
use conclave_model::permits::ProjectPermit;
use conclave_model::webhook::{Attempt, AttemptOutcome, DeliveryStatus, WebhookEndpoint};
use conclave_model::{EndpointId, ProjectId, Timestamp};
use conclave_outbound::webhook::{Delivery, ReceiverClass};
use futures_util::StreamExt;
use futures_util::future::{Either, join, select};
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, watch};

use super::RunFinished;
use crate::context::ActorContext;

/// Due deliveries read at once.
const BATCH: u32 = 50;
/// Rooms posted in parallel to a receiver whose last response was a success; otherwise one.
const ROOMS_AT_ONCE: usize = 4;
/// Time after which a run returns its permits.
const PERMIT_TIME: Duration = Duration::from_secs(5);
/// Delay before a result is written again that the store could not write. It doubles up to the longest.
const FIRST_RECORD_DELAY: Duration = Duration::from_millis(100);
const LONGEST_RECORD_DELAY: Duration = Duration::from_secs(5);

/// Run that has not started.
pub(super) struct Run {
    pub(super) context: Arc<ActorContext>,
    pub(super) project: ProjectId,
    pub(super) endpoint: EndpointId,
    /// Becomes true when the actor stops.
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) progress: Arc<RunProgress>,
    /// Last attempt, of this run or an earlier one.
    pub(super) last: Option<Attempt>,
}

/// Run progress, for the debug endpoint.
#[derive(Debug, Default)]
pub(super) struct RunProgress {
    /// POSTs without a response yet.
    pub(super) in_flight: AtomicUsize,
    /// Results that the store could not write yet.
    pub(super) unrecorded: AtomicUsize,
    /// Whether retries, and first attempts behind them, are included.
    is_for_all: AtomicBool,
    /// Whether the endpoint was changed since the batch has read it.
    is_outdated: AtomicBool,
    /// Wakes a batch that waits for responses while permits are free.
    queued: Notify,
}

impl RunProgress {
    /// Returns the progress of a run for everything that is due.
    pub(super) fn for_all() -> Self {
        let progress = Self::default();
        progress.include_all();
        progress
    }

    /// Includes everything that is due, from the next batch on.
    pub(super) fn include_all(&self) {
        self.is_for_all.store(true, Ordering::SeqCst);
    }

    /// Makes the run read the endpoint again before its next POST.
    pub(super) fn reload(&self) {
        self.is_outdated.store(true, Ordering::SeqCst);
    }

    /// Makes the current batch look for rooms that are not in it, if a permit is free.
    pub(super) fn wake(&self) {
        self.queued.notify_one();
    }
}

/// Results of a batch.
#[derive(Default)]
struct BatchResults {
    last: Option<Attempt>,
    has_delivered: bool,
    /// Error of a delivery that has failed for good, if any.
    final_error: Option<String>,
}

impl BatchResults {
    fn add(&mut self, attempt: Attempt) {
        match attempt.status() {
            DeliveryStatus::Delivered => self.has_delivered = true,
            DeliveryStatus::Failed => self.final_error.clone_from(&attempt.outcome.error),
            DeliveryStatus::Pending => {}
        }
        self.last = Some(attempt);
    }
}

/// Reason why a run stops while deliveries are due.
enum Halt {
    /// The endpoint was deleted.
    Deleted,
    /// The actor is stopping.
    Stopping,
    /// This server may not post, because its lease is not confirmed. The next tick tries again.
    NoLease,
    /// The store was unavailable. The next tick tries again.
    Store(StoreError),
}

impl Run {
    /// Posts batches until no delivery is due.
    pub(super) async fn drain_due(mut self) -> RunFinished {
        let next_due = loop {
            match self.post_due().await {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(next_due)) => break next_due,
                Err(Halt::Deleted) => {
                    return RunFinished {
                        next_due: None,
                        deleted: true,
                        last_attempt: self.last,
                    };
                }
                // Without a time: the deliveries are found at the next start.
                Err(Halt::Stopping) => break None,
                Err(Halt::NoLease) => break Some(self.context.clock.now()),
                Err(Halt::Store(error)) => {
                    log::error!(endpoint = self.endpoint.to_string().as_str(); "deliveries are delayed because the store failed: {error}");
                    break Some(self.context.clock.now());
                }
            }
        };
        RunFinished {
            next_due,
            deleted: false,
            last_attempt: self.last,
        }
    }

    /// Posts one batch. If nothing is due, breaks with the due time of the next delivery, if one is pending.
    async fn post_due(&mut self) -> Result<ControlFlow<Option<Timestamp>>, Halt> {
        // Checked per batch, and again by the pool before each POST.
        if !self.context.deliveries.may_post() {
            return Err(Halt::NoLease);
        }
        let queue = self
            .context
            .store
            .deliveries()
            .queue(self.endpoint)
            .await
            .map_err(Halt::Store)?;
        let now = self.context.clock.now();
        let latest = now.after(self.context.settings.webhooks.longest_delay());
        if queue.last_retry.is_some_and(|last| last > latest) {
            // The clock was ahead when they were scheduled. The next iteration looks for more of them.
            let project = self.project.clone();
            self.context
                .store
                .deliveries()
                .bring_retries_forward(project, self.endpoint, latest)
                .await
                .map_err(Halt::Store)?;
            return if self.is_stopping() {
                Err(Halt::Stopping)
            } else {
                Ok(ControlFlow::Continue(()))
            };
        }
        let next_due = queue.next_due(now);
        if next_due.is_none_or(|due| due > now) {
            return Ok(ControlFlow::Break(next_due));
        }
        let permits = self.permits(queue.has_delivered).await?;
        let posted = self.batch(&permits).await?;
        // A due delivery that was not in the batch waits for the next tick, as retries do in a run between ticks.
        Ok(if posted == 0 {
            ControlFlow::Break(next_due)
        } else {
            ControlFlow::Continue(())
        })
    }

    /// Waits for a batch's permits: one, and more if they are free and the receiver succeeds.
    async fn permits(&self, has_delivered: bool) -> Result<Vec<ProjectPermit>, Halt> {
        let class = match &self.last {
            // After a restart the log shows whether the receiver has ever accepted a delivery.
            None if has_delivered => ReceiverClass::Answering,
            None => ReceiverClass::Untried,
            Some(last) if last.outcome.timed_out => ReceiverClass::TimedOut,
            Some(_) => ReceiverClass::Answering,
        };
        let at_once = if self
            .last
            .as_ref()
            .is_some_and(|last| last.outcome.error.is_none())
        {
            ROOMS_AT_ONCE
        } else {
            1
        };
        let mut stopping = self.stopping.clone();
        // A stop must not wait for a permit, which slow receivers may have.
        let stopped = pin!(async move { drop(stopping.wait_for(|stopping| *stopping).await) });
        match select(
            pin!(
                self.context
                    .deliveries
                    .permits(&self.project, class, at_once)
            ),
            stopped,
        )
        .await
        {
            Either::Left((permits, _)) => Ok(permits),
            Either::Right(_) => Err(Halt::Stopping),
        }
    }

    /// Posts one batch. Returns the number of deliveries in it.
    async fn batch(&mut self, permits: &[ProjectPermit]) -> Result<usize, Halt> {
        let (store, started) = (&self.context.store, Instant::now());
        // Read again for each batch, since a deleted endpoint receives nothing more.
        // Before the read: a change after it must be seen.
        self.progress.is_outdated.store(false, Ordering::SeqCst);
        let endpoint = store
            .webhook_endpoints()
            .with_secrets(self.endpoint)
            .await
            .map_err(Halt::Store)?
            .ok_or(Halt::Deleted)?;
        let endpoint = Arc::new(endpoint);
        // Read after the permits, and only as many as one batch.
        let due = self.due(&endpoint).await?;
        let (count, results) = (due.len(), self.post_rooms(&endpoint, due, permits, started));
        let results = results.await;
        if let Some(error) = results.final_error.filter(|_| !results.has_delivered) {
            self.disable_if_failing(&endpoint, &error).await?;
        }
        self.last = results.last.or(self.last.take());
        if self.is_stopping() {
            Err(Halt::Stopping)
        } else {
            Ok(count)
        }
    }

    /// Reads the deliveries that this run may post now.
    async fn due(&self, endpoint: &WebhookEndpoint) -> Result<Vec<DueDelivery>, Halt> {
        let (project, now) = (self.project.clone(), self.context.clock.now());
        let deliveries = self.context.store.deliveries();
        let due = if !endpoint.active {
            deliveries.due_notice(project, self.endpoint).await
        } else if self.progress.is_for_all.load(Ordering::SeqCst) {
            deliveries.due(project, self.endpoint, now, BATCH).await
        } else {
            let busy = BTreeSet::new();
            deliveries
                .due_at_once(project, self.endpoint, busy, BATCH)
                .await
        };
        due.map_err(Halt::Store)
    }

    /// Reads first attempts in rooms other than the busy ones, in which a POST is in progress.
    async fn due_beside(
        &self,
        endpoint: &WebhookEndpoint,
        busy: &BTreeSet<String>,
    ) -> Vec<DueDelivery> {
        if !endpoint.active {
            return Vec::new();
        }
        let (project, busy) = (self.project.clone(), busy.clone());
        let deliveries = self.context.store.deliveries();
        let due = deliveries
            .due_at_once(project, self.endpoint, busy, BATCH)
            .await;
        // An error ends this batch only: the next one reports it.
        due.unwrap_or_default()
    }

    /// Posts rooms in parallel, one per permit. Rooms whose first event is queued meanwhile are included while a permit is free.
    async fn post_rooms(
        &self,
        endpoint: &Arc<WebhookEndpoint>,
        due: Vec<DueDelivery>,
        permits: &[ProjectPermit],
        started: Instant,
    ) -> BatchResults {
        let at_once = permits.len().max(1);
        // A full batch may hide other rooms, which must not wait for all of it.
        if due.len() == BATCH as usize {
            self.progress.wake();
        }
        let (mut waiting, mut busy) = (VecDeque::from(by_room(due)), BTreeSet::new());
        let (mut posts, mut results) = (FuturesUnordered::new(), BatchResults::default());
        let mut is_ending = false;
        loop {
            while posts.len() < at_once
                && let Some((room, due)) = waiting.pop_front()
            {
                busy.insert(room.clone());
                posts.push(async move { (room, self.room(endpoint, due, started).await) });
            }
            if posts.is_empty() {
                return results;
            }
            // To the end even if the actor stops: a POST whose result is not recorded is repeated.
            let has_timed_out = results
                .last
                .as_ref()
                .is_some_and(|last| last.outcome.timed_out);
            let may_add = posts.len() < at_once
                && started.elapsed() < PERMIT_TIME
                && !has_timed_out
                && !is_ending;
            tokio::select! {
                Some((room, attempts)) = posts.next() => {
                    busy.remove(&room);
                    // Nothing was posted, as after a change of the endpoint. Its deliveries would be found again and again.
                    is_ending |= attempts.is_empty();
                    attempts.into_iter().for_each(|attempt| results.add(attempt));
                }
                () = self.progress.queued.notified(), if may_add => {
                    let due = self.due_beside(endpoint, &busy).await;
                    if due.len() == BATCH as usize {
                        self.progress.wake();
                    }
                    waiting.extend(by_room(due));
                }
                else => return results,
            }
        }
    }

    /// Disables the endpoint if it has accepted no delivery for `webhooks.disable_after`.
    async fn disable_if_failing(
        &self,
        endpoint: &WebhookEndpoint,
        error: &str,
    ) -> Result<(), Halt> {
        let (project, id) = (self.project.clone(), self.endpoint);
        let now = self.context.clock.now();
        let after = self.context.settings.webhooks.disable_after;
        let Some(since) = endpoint
            .failing_since
            .filter(|since| now.since(*since) >= after)
        else {
            return Ok(());
        };
        let reason = format!("every attempt since {since} has failed, the last with: {error}");
        let endpoints = self.context.store.webhook_endpoints();
        if endpoints
            .disable_failing(project, id, since, reason.clone())
            .await
            .map_err(Halt::Store)?
        {
            let (project, id) = (self.project.to_string(), id.to_string());
            log::warn!(project = project.as_str(), endpoint = id.as_str(); "webhook endpoint disabled until it is enabled again: {reason}");
        }
        Ok(())
    }

    fn is_stopping(&self) -> bool {
        // Without its actor, no one would receive the result of a run.
        *self.stopping.borrow() || self.stopping.has_changed().is_err()
    }

    /// Posts a room's deliveries in order, until the permits' time is over, the endpoint is changed or the actor stops. Returns the attempts.
    ///
    /// The result of a POST is written during the next POST, and before the next result: after a crash, deliveries that were posted and not
    /// recorded are posted again in the same order.
    async fn room(
        &self,
        endpoint: &Arc<WebhookEndpoint>,
        due: Vec<DueDelivery>,
        started: Instant,
    ) -> Vec<Attempt> {
        let mut attempts: Vec<Attempt> = Vec::new();
        for delivery in due {
            let last = attempts.last();
            if self.is_stopping()
                || self.progress.is_outdated.load(Ordering::SeqCst)
                || started.elapsed() > PERMIT_TIME
                || last.is_some_and(|last| self.must_wait_after(last))
            {
                break;
            }
            let (attempt, ()) = join(self.attempt(endpoint, delivery), self.record(last)).await;
            // The lease is no longer confirmed, and the previous result has been recorded.
            let Some(attempt) = attempt else {
                return attempts;
            };
            attempts.push(attempt);
        }
        self.record(attempts.last()).await;
        attempts
    }

    /// Returns whether a room's next delivery waits for a later batch.
    fn must_wait_after(&self, last: &Attempt) -> bool {
        // A receiver that has timed out would make the other deliveries wait for its timeout, too.
        last.outcome.timed_out
            // Between ticks, no event leaves while an earlier one of its room waits.
            || (last.outcome.error.is_some() && !self.progress.is_for_all.load(Ordering::SeqCst))
    }

    /// Makes an attempt; `None` if this server may not post.
    async fn attempt(
        &self,
        endpoint: &Arc<WebhookEndpoint>,
        delivery: DueDelivery,
    ) -> Option<Attempt> {
        let (delivery_id, number, due) = (delivery.id, delivery.attempts + 1, delivery.due);
        // The endpoint is disabled, so nothing is attempted again.
        let is_last = delivery.event_type == EndpointDisabledEvent::NAME;
        let outcome = self.post(endpoint, delivery).await?;
        // The next delay counts from the response, and not from the start of the POST.
        let at = self.context.clock.now();
        let retry_at = outcome
            .error
            .as_ref()
            .filter(|_| !is_last)
            .and_then(|_| self.context.settings.webhooks.next_attempt(number, at));
        Some(Attempt {
            project_id: endpoint.project_id.clone(),
            endpoint_id: endpoint.id,
            delivery_id,
            url: endpoint.url.clone(),
            number,
            due,
            at,
            outcome,
            retry_at,
        })
    }

    /// Writes an attempt's result, if there is one. While the store is unavailable, the room waits here: without its result, the same
    /// delivery would be posted again at every tick, uncounted.
    async fn record(&self, attempt: Option<&Attempt>) {
        let Some(attempt) = attempt else { return };
        if let Err(error) = self
            .context
            .store
            .deliveries()
            .record_attempt(attempt.clone())
            .await
        {
            self.record_later(attempt, &error).await;
        }
        self.context
            .metrics
            .deliveries
            .with_label_values(&[label(attempt)])
            .inc();
        self.context
            .metrics
            .delivery_lag
            .observe(attempt.at.since(attempt.due).as_secs_f64());
    }

    async fn record_later(&self, attempt: &Attempt, error: &StoreError) {
        let delivery = attempt.delivery_id.to_string();
        log::error!(delivery = delivery.as_str(); "writing a delivery's result failed and is repeated: {error}");
        self.progress.unrecorded.fetch_add(1, Ordering::Relaxed);
        // Without an end: the result must not be lost while the process lives. A stop gives up after its own timeout.
        let mut delay = FIRST_RECORD_DELAY;
        loop {
            self.context
                .clock
                .sleep_until(self.context.clock.now().after(delay))
                .await;
            if self
                .context
                .store
                .deliveries()
                .record_attempt(attempt.clone())
                .await
                .is_ok()
            {
                break;
            }
            delay = LONGEST_RECORD_DELAY.min(delay * 2);
        }
        self.progress.unrecorded.fetch_sub(1, Ordering::Relaxed);
    }

    async fn post(
        &self,
        endpoint: &Arc<WebhookEndpoint>,
        due: DueDelivery,
    ) -> Option<AttemptOutcome> {
        let DueDelivery {
            id,
            event_type,
            payload,
            ..
        } = due;
        let delivery = Delivery {
            endpoint: Arc::clone(endpoint),
            id,
            event_type,
            payload,
            at: self.context.clock.now(),
        };
        self.progress.in_flight.fetch_add(1, Ordering::Relaxed);
        let outcome = self.context.deliveries.post(delivery).await;
        self.progress.in_flight.fetch_sub(1, Ordering::Relaxed);
        outcome
    }
}

/// Returns an attempt's label in the metrics.
const fn label(attempt: &Attempt) -> &'static str {
    match attempt.status() {
        DeliveryStatus::Delivered => "delivered",
        DeliveryStatus::Pending => "retried",
        DeliveryStatus::Failed => "failed",
    }
}

/// Groups a batch by room. Each room's deliveries keep their order.
fn by_room(due: Vec<DueDelivery>) -> Vec<(String, Vec<DueDelivery>)> {
    let mut rooms: BTreeMap<String, Vec<DueDelivery>> = BTreeMap::new();
    for delivery in due {
        rooms
            .entry(delivery.room.clone())
            .or_default()
            .push(delivery);
    }
    rooms.into_iter().collect()
}
