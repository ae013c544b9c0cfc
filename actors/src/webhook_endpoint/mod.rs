//! The webhook endpoint actor: one receiver's due queue, driven by a tick.
//!
//! The state of a delivery lives in its table; this actor only drives it. At each tick something is due it starts one run
//! ([`run`]), which takes batches until none is due; then it sleeps until the tick after the next due instant. An endpoint
//! with nothing on its way costs nothing.
//!
//! - [`signature`]: the two signatures a delivery carries.
//! - [`resolver`]: resolves, checks and hands out the very address that is dialled.
//! - [`sender`]: posts one delivery.

pub mod resolver;
mod run;
pub mod sender;
pub mod signature;

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

use crate::card::{Card, Inspection, Mailbox};
use crate::timer::Timer;
use crate::wiring::Wiring;
use run::Run;

/// How long a stopping endpoint waits for the posts that are on their way.
const LAST_POSTS: Duration = Duration::from_secs(10);

/// What an endpoint actor understands.
#[derive(Debug)]
pub enum EndpointMsg {
    /// Something was queued for this receiver.
    Queued,
    /// The tick something is due at.
    Tick,
    /// A run is over.
    Rested(Rested),
    /// Tell about yourself.
    Inspect(RpcReplyPort<Inspection>),
}

impl EndpointMsg {
    const fn name(&self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Tick => "tick",
            Self::Rested(_) => "rested",
            Self::Inspect(_) => "inspect",
        }
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Rested {
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

/// The actor's read-only parts.
pub struct EndpointActor {
    /// Shared parts.
    pub wiring: Arc<Wiring>,
    /// Its card.
    pub card: Arc<Card>,
    /// Which receiver.
    pub id: EndpointId,
}

/// When it works next, what it does now, and how it last went.
pub struct EndpointState {
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

impl EndpointActor {
    /// Sleeps until the first tick to come at which `due` has passed. Ticks lie at whole multiples of the interval.
    fn sleep_until(&self, me: &Mailbox<EndpointMsg>, state: &mut EndpointState, due: Timestamp) {
        let at = next_tick(self.wiring.clock.now(), due, self.wiring.settings.webhook_tick);
        if state.tick.as_ref().is_none_or(|tick| tick.view().fires_at > at) {
            state.tick = Some(Timer::arm(&self.wiring.clock, "tick", at, me, EndpointMsg::Tick));
        }
    }

    fn start_run(&self, me: &Mailbox<EndpointMsg>, state: &mut EndpointState) {
        let stopping = Arc::new(AtomicBool::new(false));
        let in_flight = Arc::default();
        let good_standing = state.last_response.as_ref().is_some_and(|last| last.error.is_none());
        let run = Run {
            wiring: Arc::clone(&self.wiring),
            endpoint: self.id,
            stopping: Arc::clone(&stopping),
            in_flight: Arc::clone(&in_flight),
            good_standing,
        };
        let me = me.clone();
        let task = tokio::spawn(async move {
            // A run that panics must not leave its endpoint waiting for it: the next tick starts another.
            let rested = AssertUnwindSafe(run.work_off()).catch_unwind().await;
            let rested = rested.unwrap_or(Rested {
                next_due: Some(Timestamp::from_millis(0)),
                gone: false,
                last_response: None,
            });
            let _ = me.cast(EndpointMsg::Rested(rested));
        });
        state.run = Some(Running { task, stopping, in_flight });
        state.queued_meanwhile = false;
    }

    fn rest(&self, me: &Mailbox<EndpointMsg>, state: &mut EndpointState, rested: Rested) {
        state.run = None;
        if rested.gone {
            return me.actor().stop(Some("deleted".into()));
        }
        if rested.last_response.is_some() {
            state.last_response = rested.last_response;
        }
        let due = if state.queued_meanwhile { Some(self.wiring.clock.now()) } else { rested.next_due };
        if let Some(due) = due {
            self.sleep_until(me, state, due);
        }
    }

    fn inspect(state: &EndpointState) -> Inspection {
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

impl Actor for EndpointActor {
    type Msg = EndpointMsg;
    type State = EndpointState;
    type Arguments = ();

    async fn pre_start(&self, myself: ActorRef<EndpointMsg>, (): ()) -> Result<EndpointState, ActorProcessingErr> {
        self.card.started(self.wiring.clock.now());
        let me = Mailbox::new(myself, Arc::clone(&self.card));
        let mut state = EndpointState { tick: None, run: None, queued_meanwhile: false, last_response: None };
        // What is pending from before is found by looking; the first tick looks.
        let queue = self.wiring.store.endpoint_queue(self.id).await?;
        if let Some(due) = queue.next_due {
            self.sleep_until(&me, &mut state, due);
        }
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<EndpointMsg>,
        message: EndpointMsg,
        state: &mut EndpointState,
    ) -> Result<(), ActorProcessingErr> {
        let me = Mailbox::new(myself, Arc::clone(&self.card));
        self.card.handling(self.wiring.clock.now(), message.name());
        match message {
            EndpointMsg::Queued if state.run.is_some() => state.queued_meanwhile = true,
            EndpointMsg::Queued => self.sleep_until(&me, state, self.wiring.clock.now()),
            EndpointMsg::Tick => {
                state.tick = None;
                if state.run.is_none() {
                    self.start_run(&me, state);
                }
            }
            EndpointMsg::Rested(rested) => self.rest(&me, state, rested),
            EndpointMsg::Inspect(reply) => {
                let _ = reply.send(Self::inspect(state));
            }
        }
        Ok(())
    }

    /// Lets the posts on their way finish, so that what was taken is written down as taken.
    async fn post_stop(&self, _: ActorRef<EndpointMsg>, state: &mut EndpointState) -> Result<(), ActorProcessingErr> {
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
