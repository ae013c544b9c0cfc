//! The webhook endpoint actor: one receiver's due queue, driven by a tick.
//!
//! The state of a delivery lives in its table; this actor only drives it. At each tick something is due it starts one run
//! ([`run`]), which takes batches until none is due; then it sleeps until the tick after the next due instant. An endpoint
//! with nothing on its way costs nothing.

mod run;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conclave_model::{EndpointId, Timestamp};
use futures_util::FutureExt;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::context::ActorContext;
use crate::info::ActorInfo;
use crate::inspection::{InspectMessage, Inspection};
use crate::mailbox::Mailbox;
use crate::timer::Timer;
use run::Run;

/// How long a stopping endpoint waits for the posts that are on their way.
const LAST_POSTS: Duration = Duration::from_secs(10);

/// What an endpoint actor understands.
#[derive(Debug)]
pub enum WebhookEndpointMsg {
    /// Something was queued for this receiver.
    Queued,
    /// The tick something is due at.
    Tick,
    /// A run is over.
    RunFinished(RunFinished),
    /// Tell about yourself.
    Inspect(RpcReplyPort<Inspection>),
}

impl WebhookEndpointMsg {
    const fn name(&self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Tick => "tick",
            Self::RunFinished(_) => "run_finished",
            Self::Inspect(_) => "inspect",
        }
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct RunFinished {
    /// When something is due next.
    next_due: Option<Timestamp>,
    /// The receiver was deleted: there is nothing left to do.
    gone: bool,
    /// The last answer, if anything was posted.
    last_response: Option<LastResponse>,
}

/// What a receiver last answered.
#[derive(Debug, Clone, Serialize)]
pub struct LastResponse {
    at: Timestamp,
    response_status: Option<u16>,
    error: Option<String>,
    attempt: u32,
}

impl InspectMessage for WebhookEndpointMsg {
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self {
        Self::Inspect(reply)
    }
}

/// The actor's read-only parts.
pub struct WebhookEndpointActor {
    /// Shared parts.
    pub context: Arc<ActorContext>,
    /// Its info.
    pub info: Arc<ActorInfo>,
    /// Which receiver.
    pub id: EndpointId,
}

/// When it works next, what it does now, and how it last went.
pub struct WebhookEndpointState {
    tick: Option<Timer>,
    run: Option<Running>,
    /// Something was queued while a run was on; the run may have looked already.
    queued_meanwhile: bool,
    last_response: Option<LastResponse>,
}

/// A run that is on, and the flag that asks it to stop after the posts on their way.
struct Running {
    task: JoinHandle<()>,
    stopping: Arc<AtomicBool>,
    in_flight: Arc<std::sync::atomic::AtomicUsize>,
}

impl WebhookEndpointActor {
    /// Sleeps until the first tick to come at which `due` has passed. Ticks lie at whole multiples of the interval.
    fn sleep_until(&self, me: &Mailbox<WebhookEndpointMsg>, state: &mut WebhookEndpointState, due: Timestamp) {
        let at = next_tick(self.context.clock.now(), due, self.context.settings.webhook_tick);
        if state.tick.as_ref().is_none_or(|tick| tick.view().fires_at > at) {
            state.tick = Some(Timer::arm(&self.context.clock, "tick", at, me, WebhookEndpointMsg::Tick));
        }
    }

    fn start_run(&self, me: &Mailbox<WebhookEndpointMsg>, state: &mut WebhookEndpointState) {
        let stopping = Arc::new(AtomicBool::new(false));
        let in_flight = Arc::default();
        let good_standing = state.last_response.as_ref().is_some_and(|last| last.error.is_none());
        let run = Run {
            context: Arc::clone(&self.context),
            endpoint: self.id,
            stopping: Arc::clone(&stopping),
            in_flight: Arc::clone(&in_flight),
            good_standing,
        };
        let me = me.clone();
        let task = tokio::spawn(async move {
            // A run that panics must not leave its endpoint waiting for it: the next tick starts another.
            let rested = AssertUnwindSafe(run.drain_due()).catch_unwind().await;
            let rested = rested.unwrap_or(RunFinished {
                next_due: Some(Timestamp::from_millis(0)),
                gone: false,
                last_response: None,
            });
            let _ = me.cast(WebhookEndpointMsg::RunFinished(rested));
        });
        state.run = Some(Running { task, stopping, in_flight });
        state.queued_meanwhile = false;
    }

    fn rest(&self, me: &Mailbox<WebhookEndpointMsg>, state: &mut WebhookEndpointState, rested: RunFinished) {
        state.run = None;
        if rested.gone {
            return me.actor().stop(Some("deleted".into()));
        }
        if rested.last_response.is_some() {
            state.last_response = rested.last_response;
        }
        let due = if state.queued_meanwhile { Some(self.context.clock.now()) } else { rested.next_due };
        if let Some(due) = due {
            self.sleep_until(me, state, due);
        }
    }

    fn inspect(state: &WebhookEndpointState) -> Inspection {
        let in_flight = state.run.as_ref().map_or(0, |run| run.in_flight.load(Ordering::Relaxed));
        let backoff = state.last_response.as_ref().is_some_and(|last| last.error.is_some());
        let due = state.tick.as_ref().map(|tick| tick.view().fires_at);
        let state_json = json!({
            "due": due,
            "running": state.run.is_some(),
            "in_flight": in_flight,
            "backoff": backoff,
            "last_response": state.last_response,
        });
        Inspection { timers: state.tick.iter().map(Timer::view).collect(), state: state_json }
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
        let mut state = WebhookEndpointState { tick: None, run: None, queued_meanwhile: false, last_response: None };
        // What is pending from before is found by looking; the first tick looks.
        let queue = self.context.store.endpoint_queue(self.id).await?;
        if let Some(due) = queue.next_due {
            self.sleep_until(&me, &mut state, due);
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
        self.info.record_message(self.context.clock.now(), message.name());
        match message {
            WebhookEndpointMsg::Queued if state.run.is_some() => state.queued_meanwhile = true,
            WebhookEndpointMsg::Queued => self.sleep_until(&me, state, self.context.clock.now()),
            WebhookEndpointMsg::Tick => {
                state.tick = None;
                if state.run.is_none() {
                    self.start_run(&me, state);
                }
            }
            WebhookEndpointMsg::RunFinished(rested) => self.rest(&me, state, rested),
            WebhookEndpointMsg::Inspect(reply) => {
                let _ = reply.send(Self::inspect(state));
            }
        }
        Ok(())
    }

    /// Lets the posts on their way finish, so that what was taken is written down as taken.
    async fn post_stop(
        &self,
        _: ActorRef<WebhookEndpointMsg>,
        state: &mut WebhookEndpointState,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(run) = state.run.take() {
            run.stopping.store(true, Ordering::Relaxed);
            let _ = tokio::time::timeout(LAST_POSTS, run.task).await;
        }
        Ok(())
    }
}

/// The first whole multiple of `tick` that lies after `now` and not before `due`.
fn next_tick(now: Timestamp, due: Timestamp, tick: Duration) -> Timestamp {
    let tick = i64::try_from(tick.as_millis()).unwrap_or(i64::MAX).max(1);
    let (after_now, at_due) = (now.millis() / tick + 1, due.millis().saturating_add(tick - 1) / tick);
    Timestamp::from_millis(after_now.max(at_due).saturating_mul(tick))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(now: i64, due: i64) -> i64 {
        let at = Timestamp::from_millis;
        next_tick(at(now), at(due), Duration::from_secs(5)).millis()
    }

    #[test]
    fn what_is_due_waits_for_a_tick_after_now_at_most_one_interval_away() {
        assert_eq!((next(0, 0), next(1, 0), next(4_999, 4_999), next(5_000, 5_000)), (5_000, 5_000, 5_000, 10_000));
    }

    #[test]
    fn what_comes_due_at_a_tick_goes_at_that_tick() {
        assert_eq!((next(1, 60_000), next(1, 60_001), next(1, 64_999)), (60_000, 65_000, 65_000));
    }
}
