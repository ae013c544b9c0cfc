//! The webhook endpoint actor: posts the deliveries of one webhook endpoint when they are due.
//!
//! The state of a delivery is in its table; this actor only drives it. At each tick at which a delivery is due it starts one
//! run ([`run`]), which posts batches until none is due. Then it sleeps until the tick after the next due instant, so an
//! endpoint without pending deliveries costs nothing.
//!
//! Limits: one run at a time; ticks lie at multiples of `webhooks.tick`.
//!
//! Supervision: the project actor starts it for each active endpoint and rebuilds it after a failure; it then reads its queue
//! from the table. It stops when the endpoint was deleted. A stopping actor starts no more posts, and waits until the results
//! of those in flight are written, or [`Settings::stop_timeout`](crate::Settings::stop_timeout) is over.

mod run;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use conclave_model::webhook::Attempt;
use conclave_model::{EndpointId, ProjectId, Timestamp};
use futures_util::FutureExt;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::context::ActorContext;
use crate::info::ActorInfo;
use crate::mailbox::{Mailbox, Timer};
use crate::registry::{InspectMessage, Inspection};
use run::{Progress, Run};

/// A message to a webhook endpoint actor.
#[derive(Debug, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum WebhookEndpointMsg {
    /// A delivery was queued for this endpoint.
    Queued,
    /// The tick at which a delivery is due.
    Tick,
    /// A run has finished.
    RunFinished(RunFinished),
    /// Return a snapshot.
    Inspect(RpcReplyPort<Inspection>),
}

/// The result of a run.
#[derive(Debug)]
pub struct RunFinished {
    /// The instant at which the next delivery is due; absent if none is pending.
    next_due: Option<Timestamp>,
    /// The endpoint was deleted.
    deleted: bool,
    /// The last attempt, if anything was posted.
    last_attempt: Option<Attempt>,
}

impl InspectMessage for WebhookEndpointMsg {
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self {
        Self::Inspect(reply)
    }
}

/// The parts of a webhook endpoint actor that do not change.
pub struct WebhookEndpointActor {
    /// What all actors share.
    pub context: Arc<ActorContext>,
    /// Identity and counters.
    pub info: Arc<ActorInfo>,
    /// The project of the webhook endpoint.
    pub project: ProjectId,
    /// The id of the webhook endpoint.
    pub id: EndpointId,
}

/// The next tick, the current run, and the last attempt.
pub struct WebhookEndpointState {
    tick: Option<Timer>,
    run: Option<Running>,
    /// A delivery was queued during the current run, which may not find it.
    queued_meanwhile: bool,
    last_attempt: Option<Attempt>,
}

/// The current run, and the flag that stops it after the posts in flight.
struct Running {
    task: JoinHandle<()>,
    stopping: watch::Sender<bool>,
    progress: Arc<Progress>,
}

impl WebhookEndpointActor {
    /// Arms the timer for the first tick at or after `due`, unless it is armed for an earlier one.
    fn sleep_until(
        &self,
        me: &Mailbox<WebhookEndpointMsg>,
        state: &mut WebhookEndpointState,
        due: Timestamp,
    ) {
        let at = next_tick(
            self.context.clock.now(),
            due,
            self.context.settings.webhooks.tick,
        );
        if state
            .tick
            .as_ref()
            .is_none_or(|tick| tick.view().fires_at > at)
        {
            state.tick = Some(Timer::arm(
                &self.context.clock,
                "tick",
                at,
                me,
                WebhookEndpointMsg::Tick,
            ));
        }
    }

    fn start_run(&self, me: &Mailbox<WebhookEndpointMsg>, state: &mut WebhookEndpointState) {
        let (stopping, stops) = watch::channel(false);
        let progress = Arc::default();
        let run = Run {
            context: Arc::clone(&self.context),
            project: self.project.clone(),
            endpoint: self.id,
            stopping: stops,
            progress: Arc::clone(&progress),
            last: state.last_attempt.clone(),
        };
        let me = me.clone();
        let task = tokio::spawn(async move {
            // After a run that panicked, the next tick starts another.
            let finished = AssertUnwindSafe(run.drain_due()).catch_unwind().await;
            let finished = finished.unwrap_or(RunFinished {
                next_due: Some(Timestamp::from_millis(0)),
                deleted: false,
                last_attempt: None,
            });
            let _ = me.cast(WebhookEndpointMsg::RunFinished(finished));
        });
        state.run = Some(Running {
            task,
            stopping,
            progress,
        });
        state.queued_meanwhile = false;
    }

    fn run_finished(
        &self,
        me: &Mailbox<WebhookEndpointMsg>,
        state: &mut WebhookEndpointState,
        finished: RunFinished,
    ) {
        state.run = None;
        if finished.deleted {
            return me.actor().stop(Some("deleted".into()));
        }
        if finished.last_attempt.is_some() {
            state.last_attempt = finished.last_attempt;
        }
        let due = if state.queued_meanwhile {
            Some(self.context.clock.now())
        } else {
            finished.next_due
        };
        if let Some(due) = due {
            self.sleep_until(me, state, due);
        }
    }

    fn inspect(state: &WebhookEndpointState) -> Inspection {
        let progress = |count: fn(&Progress) -> &AtomicUsize| {
            state
                .run
                .as_ref()
                .map_or(0, |run| count(&run.progress).load(Ordering::Relaxed))
        };
        let backoff = state
            .last_attempt
            .as_ref()
            .is_some_and(|last| last.outcome.error.is_some());
        let due = state.tick.as_ref().map(|tick| tick.view().fires_at);
        let state_json = json!({
            "due": due,
            "running": state.run.is_some(),
            "in_flight": progress(|progress| &progress.in_flight),
            "unrecorded": progress(|progress| &progress.unrecorded),
            "backoff": backoff,
            "last_response": state.last_attempt,
        });
        Inspection {
            timers: state.tick.iter().map(Timer::view).collect(),
            state: state_json,
        }
    }
}

impl Actor for WebhookEndpointActor {
    type Msg = WebhookEndpointMsg;
    type State = WebhookEndpointState;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<WebhookEndpointMsg>,
        (): (),
    ) -> Result<WebhookEndpointState, ActorProcessingErr> {
        self.info.record_start(self.context.clock.now());
        let me = Mailbox::new(myself, Arc::clone(&self.info));
        let mut state = WebhookEndpointState {
            tick: None,
            run: None,
            queued_meanwhile: false,
            last_attempt: None,
        };
        // Deliveries may be pending from before.
        let queue = self.context.store.deliveries().queue(self.id).await?;
        let now = self.context.clock.now();
        let latest = now.after(self.context.settings.webhooks.longest_delay());
        if let Some(due) = queue.next_due(now) {
            // One due later was scheduled by a clock that was ahead; the run corrects it.
            self.sleep_until(&me, &mut state, if due > latest { now } else { due });
        }
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<WebhookEndpointMsg>,
        message: WebhookEndpointMsg,
        state: &mut WebhookEndpointState,
    ) -> Result<(), ActorProcessingErr> {
        let me = Mailbox::new(myself, Arc::clone(&self.info));
        self.info.record_message(self.context.clock.now(), &message);
        match message {
            WebhookEndpointMsg::Queued if state.run.is_some() => state.queued_meanwhile = true,
            WebhookEndpointMsg::Queued => self.sleep_until(&me, state, self.context.clock.now()),
            WebhookEndpointMsg::Tick => {
                state.tick = None;
                if state.run.is_none() {
                    self.start_run(&me, state);
                }
            }
            WebhookEndpointMsg::RunFinished(finished) => self.run_finished(&me, state, finished),
            WebhookEndpointMsg::Inspect(reply) => {
                let _ = reply.send(Self::inspect(state));
            }
        }
        Ok(())
    }

    /// Lets the posts in flight finish, so that their outcomes are written.
    async fn post_stop(
        &self,
        _: ActorRef<WebhookEndpointMsg>,
        state: &mut WebhookEndpointState,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(run) = state.run.take() {
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

/// Deletes the pending deliveries of deleted webhook endpoints, then the endpoints, in small steps between which other writes run.
/// What is left when the store does not answer or the server stops is deleted by the next housekeeping.
pub(crate) async fn purge_deleted(context: Arc<ActorContext>) {
    loop {
        match context.store.webhook_endpoints().purge_deleted().await {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                log::warn!(
                    "the deliveries of deleted webhook endpoints wait for the store: {error}"
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
