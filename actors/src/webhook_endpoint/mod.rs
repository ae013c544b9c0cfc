//! The webhook endpoint actor: posts one endpoint's deliveries when they are due.
//!
//! # Parts
//!
//! - The outbox: `Tx::emit` in `conclave_db` writes an event and one pending delivery per active endpoint, in the transaction of the
//!   change.
//! - [`EventRelay`](crate::EventRelay): the store's commit hook. It sends [`WebhookEndpointMsg::Queued`] to the endpoint.
//! - [`LiveWebhookEndpoint`]: this actor's state: the next tick, the current run and the last attempt.
//! - [`Run`]: one task that posts batches of due deliveries until none is due.
//! - [`DeliveryPool`](conclave_outbound::webhook::DeliveryPool): the threads that post, with permits per project and concurrency class.
//! - `Deliveries` in `conclave_db`: queue, due deliveries, and the results of attempts. A delivery's state is in its row only.
//!
//! 1. A change commits with its event and its deliveries. The hook sends `Queued`, and the actor starts a run at once, or wakes the one
//!    that runs: a burst of events costs one run. Such a run makes first attempts only, and leaves out rooms in which an earlier event
//!    waits for its next attempt. These and retries wait for the next multiple of `webhooks.tick`, at which a full run starts.
//! 2. A run takes permits before it reads a batch, so that a waiting run keeps no payloads in memory.
//! 3. Deliveries of one room are posted one after another, so first attempts keep the order of events. Rooms are posted in parallel while
//!    the receiver succeeds.
//! 4. The result of a POST is written during the next POST, and before the next result. A failure gets the time of its next attempt from
//!    `webhooks.retry_delays` in `Run::attempt`; after the last delay the delivery is `failed`.
//! 5. When nothing is due, [`RunFinished`] contains the time of the next delivery, and the actor sleeps until the tick after it. An
//!    endpoint without pending deliveries costs nothing.
//!
//! # Failures
//!
//! - `Queued` is lost, or the actor fails: the actor reads the queue from the table at start and after each run.
//! - The server is killed between a POST and its result: the delivery is posted again. Receivers deduplicate by the delivery's id.
//! - The store cannot be written: the room's next POST waits until the result is recorded. Otherwise every tick would repeat the POST
//!   without counting it.
//! - The receiver times out: its permits are returned, and its next attempts compete only with other timed-out receivers.
//! - The endpoint is deleted: the next batch finds no endpoint, and the actor stops.
//! - The endpoint is changed: the actor writes the change, and the run reads the endpoint again before its next POST. While the endpoint is
//!   not active, its pending deliveries wait.
//! - The receiver fails for days: after a delivery that has failed for good, the run disables the endpoint. One event about that is the last
//!   that is posted.
//! - The server stops: no further POST is started, and `post_stop` waits for the results of those in flight.
//! - The lease is not confirmed: nothing is posted, and the next tick tries again.
//! - The clock was ahead when retries were scheduled: retries later than the longest delay are moved forward.
//!
//! # Why not simpler
//!
//! A task per delivery would need no ticks, but it would lose the order within a room, and keep every payload in memory. A pool that polls
//! the table for all endpoints would let one slow receiver delay the others. With an actor per endpoint, an idle endpoint is at most a
//! timer.

mod run;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use conclave_db::StoreError;
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::webhook::{Attempt, WebhookEndpoint, WebhookEndpointChange};
use conclave_model::{EndpointId, ErrorCode, ProjectId, Secret, Timestamp};
use futures_util::FutureExt;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::context::ActorContext;
use crate::error::TreeError;
use crate::info::ActorInfo;
use crate::mailbox::{Mailbox, Timer};
use crate::registry::{InspectMessage, Inspection};
use run::{Run, RunProgress};

/// Delay before a previous secret is erased again that the store could not erase.
const ERASE_DELAY: Duration = Duration::from_secs(60);

/// Reply to a change of an endpoint.
pub type WebhookEndpointReply = RpcReplyPort<Result<WebhookEndpoint, TreeError>>;

/// Request to replace an endpoint's secret.
#[derive(Debug)]
pub struct RotateSecretRequest {
    /// New secret.
    pub secret: Secret,
    /// Time for which deliveries are also signed with the previous one.
    pub overlap: Duration,
    /// Response to store with the change.
    pub recorder: Option<ResponseRecorder<WebhookEndpoint>>,
}

/// Message to a webhook endpoint actor.
#[derive(Debug, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum WebhookEndpointMsg {
    /// A delivery was queued for this endpoint.
    Queued,
    /// A delivery may be due.
    Tick,
    /// A run has finished.
    RunFinished(RunFinished),
    /// Change the endpoint.
    Update {
        /// Fields to change.
        change: Box<WebhookEndpointChange>,
        /// Replied to once the change is durable.
        reply: WebhookEndpointReply,
    },
    /// Replace the endpoint's secret.
    RotateSecret {
        /// The new secret, and the overlap with the previous one.
        request: Box<RotateSecretRequest>,
        /// Replied to once the new secret is durable.
        reply: WebhookEndpointReply,
    },
    /// Deliveries are no longer signed with the previous secret.
    OverlapEnded,
    /// Return a snapshot.
    Inspect(RpcReplyPort<Inspection>),
}

/// Run result.
#[derive(Debug)]
pub struct RunFinished {
    /// Time at which the next delivery is due; absent if none is pending.
    next_due: Option<Timestamp>,
    /// Whether the endpoint was deleted.
    deleted: bool,
    /// Last attempt, if anything was posted.
    last_attempt: Option<Attempt>,
}

impl InspectMessage for WebhookEndpointMsg {
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self {
        Self::Inspect(reply)
    }
}

/// Arguments for a webhook endpoint's actor, set once by the project.
pub struct WebhookEndpointActor {
    /// Services and settings shared by all actors.
    pub context: Arc<ActorContext>,
    /// Identity and counters.
    pub info: Arc<ActorInfo>,
    /// The webhook endpoint's project.
    pub project: ProjectId,
    /// Id of the webhook endpoint.
    pub id: EndpointId,
}

/// Webhook endpoint with an actor: the next tick, the current run, and the last attempt.
pub struct LiveWebhookEndpoint {
    context: Arc<ActorContext>,
    me: Mailbox<WebhookEndpointMsg>,
    project: ProjectId,
    id: EndpointId,
    tick: Option<Timer>,
    /// Timer for the end of an overlap of two secrets.
    overlap: Option<Timer>,
    run: Option<CurrentRun>,
    /// Whether a delivery was queued during the current run, which may not find it.
    queued_meanwhile: bool,
    last_attempt: Option<Attempt>,
}

/// Current run, and the flag that stops it after the POSTs in flight.
struct CurrentRun {
    task: JoinHandle<()>,
    stopping: watch::Sender<bool>,
    progress: Arc<RunProgress>,
}

impl LiveWebhookEndpoint {
    fn new(actor: &WebhookEndpointActor, me: ActorRef<WebhookEndpointMsg>) -> Self {
        Self {
            context: Arc::clone(&actor.context),
            me: Mailbox::new(me, Arc::clone(&actor.info)),
            project: actor.project.clone(),
            id: actor.id,
            tick: None,
            overlap: None,
            run: None,
            queued_meanwhile: false,
            last_attempt: None,
        }
    }

    async fn handle(&mut self, message: WebhookEndpointMsg) {
        match message {
            WebhookEndpointMsg::Queued => self.queued(),
            WebhookEndpointMsg::Tick => {
                self.tick = None;
                // One run at a time, since two would post the same deliveries.
                match &self.run {
                    // Its next batch includes what is due at this tick.
                    Some(run) => run.progress.include_all(),
                    None => self.start_run(RunProgress::for_all()),
                }
            }
            WebhookEndpointMsg::RunFinished(finished) => self.run_finished(finished),
            WebhookEndpointMsg::Update { change, reply } => {
                let result = self.update(*change).await;
                self.changed(&result);
                let _ = reply.send(result);
            }
            WebhookEndpointMsg::RotateSecret { request, reply } => {
                let result = self.rotate_secret(*request).await;
                self.changed(&result);
                let _ = reply.send(result);
            }
            WebhookEndpointMsg::OverlapEnded => self.erase_previous_secret().await,
            WebhookEndpointMsg::Inspect(reply) => {
                let _ = reply.send(self.inspect());
            }
        }
    }

    /// Makes first attempts at once.
    fn queued(&mut self) {
        match &self.run {
            Some(run) => {
                run.progress.wake();
                // The run may already have read the queue for the last time.
                self.queued_meanwhile = true;
            }
            None => self.start_run(RunProgress::default()),
        }
    }

    async fn update(&self, change: WebhookEndpointChange) -> Result<WebhookEndpoint, TreeError> {
        let endpoints = self.context.store.webhook_endpoints();
        Ok(endpoints
            .update(self.project.clone(), self.id, change)
            .await?)
    }

    async fn rotate_secret(
        &self,
        request: RotateSecretRequest,
    ) -> Result<WebhookEndpoint, TreeError> {
        let RotateSecretRequest {
            secret,
            overlap,
            recorder,
        } = request;
        let until = self.context.clock.now().after(overlap);
        let endpoints = self.context.store.webhook_endpoints();
        Ok(endpoints
            .rotate_secret(self.project.clone(), self.id, secret, until, recorder)
            .await?)
    }

    /// Applies a change that the store has written, or refused because the endpoint was deleted.
    fn changed(&mut self, result: &Result<WebhookEndpoint, TreeError>) {
        match result {
            Ok(endpoint) => {
                self.follow_overlap(endpoint);
                // Before the reply: a POST that starts after it uses the new URL and secrets.
                if let Some(run) = &self.run {
                    run.progress.reload();
                }
                // Deliveries that have waited while it was not active leave at the next tick.
                if endpoint.active {
                    self.sleep_until(self.context.clock.now());
                }
            }
            Err(TreeError::Refused(problem)) if problem.code == ErrorCode::EndpointNotFound => {
                self.me.actor().stop(Some("deleted".into()));
            }
            Err(_) => {}
        }
    }

    /// Arms the timer for the end of the overlap of two secrets, if there is one.
    fn follow_overlap(&mut self, endpoint: &WebhookEndpoint) {
        let until = endpoint
            .previous_secret
            .as_ref()
            .map(|previous| previous.until);
        self.overlap = until.map(|until| self.overlap_timer(until));
    }

    fn overlap_timer(&self, at: Timestamp) -> Timer {
        let ended = WebhookEndpointMsg::OverlapEnded;
        Timer::arm(&self.context.clock, "overlap", at, &self.me, ended)
    }

    /// Erases the previous secret. If the clock was set back meanwhile, the timer fired too early, and the store refuses.
    async fn erase_previous_secret(&mut self) {
        let endpoints = self.context.store.webhook_endpoints();
        let erased = endpoints.forget_previous_secret(self.project.clone(), self.id);
        let left = match erased.await {
            Ok(left) => left,
            Err(error) => {
                log::warn!(endpoint = self.id.to_string().as_str(); "erasing a previous webhook secret failed and is repeated: {error}");
                Some(self.context.clock.now().after(ERASE_DELAY))
            }
        };
        self.overlap = left.map(|at| self.overlap_timer(at));
    }

    /// Arms the timer for the first tick at or after `due`, unless it is armed for an earlier one.
    fn sleep_until(&mut self, due: Timestamp) {
        let at = next_tick(
            self.context.clock.now(),
            due,
            self.context.settings.webhooks.tick,
        );
        if self
            .tick
            .as_ref()
            .is_none_or(|tick| tick.view().fires_at > at)
        {
            self.tick = Some(Timer::arm(
                &self.context.clock,
                "tick",
                at,
                &self.me,
                WebhookEndpointMsg::Tick,
            ));
        }
    }

    fn start_run(&mut self, progress: RunProgress) {
        let (stopping, stops) = watch::channel(false);
        let progress = Arc::new(progress);
        let run = Run {
            context: Arc::clone(&self.context),
            project: self.project.clone(),
            endpoint: self.id,
            stopping: stops,
            progress: Arc::clone(&progress),
            last: self.last_attempt.clone(),
        };
        let me = self.me.clone();
        let task = tokio::spawn(async move {
            // After a run that panicked, the next tick starts another one.
            let finished = AssertUnwindSafe(run.drain_due()).catch_unwind().await;
            let finished = finished.unwrap_or(RunFinished {
                // In the past, which means the next tick.
                next_due: Some(Timestamp::from_millis(0)),
                deleted: false,
                last_attempt: None,
            });
            let _ = me.cast(WebhookEndpointMsg::RunFinished(finished));
        });
        self.run = Some(CurrentRun {
            task,
            stopping,
            progress,
        });
        // Deliveries announced up to now are in the table, which the run reads.
        self.queued_meanwhile = false;
    }

    fn run_finished(&mut self, finished: RunFinished) {
        self.run = None;
        // A stop and not a drain: the messages that remain are about deliveries that are deleted, too.
        if finished.deleted {
            return self.me.actor().stop(Some("deleted".into()));
        }
        // A run may post nothing, for example without a lease.
        if finished.last_attempt.is_some() {
            self.last_attempt = finished.last_attempt;
        }
        if let Some(due) = finished.next_due {
            self.sleep_until(due);
        }
        if self.queued_meanwhile {
            self.start_run(RunProgress::default());
        }
    }

    fn inspect(&self) -> Inspection {
        let progress = |count: fn(&RunProgress) -> &AtomicUsize| {
            self.run
                .as_ref()
                .map_or(0, |run| count(&run.progress).load(Ordering::Relaxed))
        };
        let backoff = self
            .last_attempt
            .as_ref()
            .is_some_and(|last| last.outcome.error.is_some());
        let due = self.tick.as_ref().map(|tick| tick.view().fires_at);
        let state_json = json!({
            "due": due,
            "running": self.run.is_some(),
            "in_flight": progress(|progress| &progress.in_flight),
            "unrecorded": progress(|progress| &progress.unrecorded),
            "backoff": backoff,
            "last_response": self.last_attempt,
        });
        Inspection {
            timers: self
                .tick
                .iter()
                .chain(&self.overlap)
                .map(Timer::view)
                .collect(),
            state: state_json,
        }
    }
}

impl Actor for WebhookEndpointActor {
    type Msg = WebhookEndpointMsg;
    type State = LiveWebhookEndpoint;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<WebhookEndpointMsg>,
        (): (),
    ) -> Result<LiveWebhookEndpoint, ActorProcessingErr> {
        self.info.record_start(self.context.clock.now());
        let mut endpoint = LiveWebhookEndpoint::new(self, myself);
        let endpoints = self.context.store.webhook_endpoints();
        match endpoints.get(self.project.clone(), self.id).await {
            Ok(record) => endpoint.follow_overlap(&record),
            // Deleted meanwhile, which the first run finds.
            Err(StoreError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
        // Deliveries from earlier runs of the server may be pending.
        let queue = self.context.store.deliveries().queue(self.id).await?;
        let now = self.context.clock.now();
        let latest = now.after(self.context.settings.webhooks.longest_delay());
        if let Some(due) = queue.next_due(now) {
            // A later one was scheduled by a clock that was ahead. The run corrects it.
            endpoint.sleep_until(if due > latest { now } else { due });
        }
        Ok(endpoint)
    }

    async fn handle(
        &self,
        _: ActorRef<WebhookEndpointMsg>,
        message: WebhookEndpointMsg,
        endpoint: &mut LiveWebhookEndpoint,
    ) -> Result<(), ActorProcessingErr> {
        self.info.record_message(self.context.clock.now(), &message);
        endpoint.handle(message).await;
        Ok(())
    }

    /// Waits for the POSTs in flight, so that their outcomes are written.
    async fn post_stop(
        &self,
        _: ActorRef<WebhookEndpointMsg>,
        endpoint: &mut LiveWebhookEndpoint,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(run) = endpoint.run.take() {
            // An error means that the run has just finished.
            let _ = run.stopping.send(true);
            if tokio::time::timeout(self.context.settings.stop_timeout(0), run.task)
                .await
                .is_err()
            {
                log::warn!(endpoint = self.id.to_string().as_str(); "posts were not recorded before the stop");
            }
        }
        Ok(())
    }
}

/// Returns the first multiple of `tick` after `now` and not before `due`.
fn next_tick(now: Timestamp, due: Timestamp, tick: Duration) -> Timestamp {
    let tick = i64::try_from(tick.as_millis()).unwrap_or(i64::MAX).max(1);
    let (after_now, at_due) = (
        now.millis() / tick + 1,
        due.millis().saturating_add(tick - 1) / tick,
    );
    Timestamp::from_millis(after_now.max(at_due).saturating_mul(tick))
}

/// Deletes the pending deliveries of deleted webhook endpoints, then the endpoints, in small steps between which other writes run. If the
/// store is unavailable or the server stops, the next housekeeping continues.
pub(crate) async fn purge_deleted(context: Arc<ActorContext>) {
    loop {
        match context.store.webhook_endpoints().purge_deleted().await {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                log::warn!(
                    "deleting the deliveries of deleted webhook endpoints failed and is repeated later: {error}"
                );
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(now: i64, due: i64) -> i64 {
        let at = Timestamp::from_millis;
        next_tick(at(now), at(due), Duration::from_secs(5)).millis()
    }

    #[test]
    fn a_due_delivery_waits_for_the_next_tick() {
        assert_eq!(
            (
                next(0, 0),
                next(1, 0),
                next(4_999, 4_999),
                next(5_000, 5_000)
            ),
            (5_000, 5_000, 5_000, 10_000)
        );
    }

    #[test]
    fn a_delivery_that_becomes_due_at_a_tick_is_posted_at_that_tick() {
        assert_eq!(
            (next(1, 60_000), next(1, 60_001), next(1, 64_999)),
            (60_000, 65_000, 65_000)
        );
    }
}
