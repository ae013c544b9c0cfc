//! Ways for a message to reach an actor.
//!
//! - [`Mailbox`]: sends to an actor. Each message is counted in the actor's [`ActorInfo`].
//! - [`ReportPath`]: the path of the media plane's reports, for messages that must not overtake them.
//! - [`Barrier`]: one actor waits until a sibling has handled all earlier messages.
//! - [`Timer`]: sends a message at a given time.

use std::sync::Arc;
use std::time::Duration;

use conclave_model::{Alarm, Clock, Timestamp};
use ractor::rpc::CallResult;
use ractor::{ActorRef, Message, RpcReplyPort};
use serde::Serialize;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::info::ActorInfo;

/// Counted handle of an actor's mailbox.
#[derive(Debug)]
pub struct Mailbox<M> {
    actor: ActorRef<M>,
    info: Arc<ActorInfo>,
}

impl<M> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Self {
            actor: self.actor.clone(),
            info: Arc::clone(&self.info),
        }
    }
}

/// Failed call: the actor has stopped, or did not reply within the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the actor did not reply")]
pub struct NoReply;

impl<M: Message> Mailbox<M> {
    /// Creates the mailbox of `actor`, which counts in `info`.
    pub fn new(actor: ActorRef<M>, info: Arc<ActorInfo>) -> Self {
        Self { actor, info }
    }

    /// Returns the actor's identity and counters.
    pub fn info(&self) -> &Arc<ActorInfo> {
        &self.info
    }

    /// Returns ractor's reference to the actor.
    pub fn actor(&self) -> &ActorRef<M> {
        &self.actor
    }

    /// Sends a message without waiting for it to be handled.
    ///
    /// # Errors
    /// If the actor has stopped. Contains the message if ractor returns it.
    pub fn cast(&self, message: M) -> Result<(), Option<M>> {
        // Counted before it is sent, so that it is never handled before it counts.
        self.info.record_sent();
        self.actor
            .send_message(message)
            .map_err(|error| match error {
                ractor::MessagingErr::SendErr(message) => Some(message),
                ractor::MessagingErr::ChannelClosed | ractor::MessagingErr::InvalidActorType => {
                    None
                }
            })
    }

    /// Sends a message, and waits for its reply.
    ///
    /// # Errors
    /// If the actor has stopped, or takes longer than `timeout`.
    pub async fn call<T, F>(&self, message: F, timeout: Duration) -> Result<T, NoReply>
    where
        T: Send + 'static,
        F: FnOnce(RpcReplyPort<T>) -> M,
    {
        self.info.record_sent();
        match self.actor.call(message, Some(timeout)).await {
            // A dropped reply port and a timeout are the same to the caller.
            Ok(CallResult::Success(answer)) => Ok(answer),
            _ => Err(NoReply),
        }
    }
}

/// Handle that sends messages from the root down to one actor.
///
/// The media plane sends its reports to the root, which passes them down. An actor that has called the media plane must handle the reports
/// sent before the reply first, so it sends the reply to itself along the same path. Each supervisor narrows its own path to one child,
/// which can send nothing else up the tree.
pub struct ReportPath<M>(Arc<dyn Fn(M) + Send + Sync>);

impl<M> Clone for ReportPath<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: 'static> ReportPath<M> {
    /// Creates a path that sends with `send`.
    pub fn new(send: impl Fn(M) + Send + Sync + 'static) -> Self {
        Self(Arc::new(send))
    }

    /// Returns the path to a child: each message becomes a message to the parent through `wrap`.
    pub fn narrow<C: 'static>(
        &self,
        wrap: impl Fn(C) -> M + Send + Sync + 'static,
    ) -> ReportPath<C> {
        let path = self.clone();
        ReportPath::new(move |message| path.send(wrap(message)))
    }

    /// Sends a message, which is lost if the root has stopped.
    pub fn send(&self, message: M) {
        (self.0)(message);
    }
}

/// Half of a barrier in a mailbox: one actor waits until a sibling has handled all earlier messages.
///
/// Their supervisor puts the [`Barrier`] into one mailbox, and hands the [`BarrierWait`] to the other actor, so neither needs to know the
/// other, and no actor calls upward.
#[derive(Debug)]
pub struct Barrier(oneshot::Sender<()>);

/// Waiting half of a barrier.
#[derive(Debug)]
pub struct BarrierWait(oneshot::Receiver<()>);

/// Creates both halves of a barrier.
pub fn barrier() -> (Barrier, BarrierWait) {
    let (passed, wait) = oneshot::channel();
    (Barrier(passed), BarrierWait(wait))
}

impl Barrier {
    /// Releases the waiting actor, as does dropping the barrier.
    pub fn pass(self) {
        // The other half may have stopped waiting.
        let _ = self.0.send(());
    }
}

impl BarrierWait {
    /// Waits until the barrier is passed, for at most `limit`. Returns whether it was.
    pub async fn passed(self, limit: Duration) -> bool {
        matches!(tokio::time::timeout(limit, self.0).await, Ok(Ok(())))
    }
}

/// Timer that sends a message to an actor at a time of the injected clock. Dropping the timer cancels it, but a message that was already
/// sent still arrives, so its handler must check the state.
///
/// If the clock is set back meanwhile, the timer fires after the delay for which it was armed, before that time.
#[derive(Debug)]
pub struct Timer {
    name: &'static str,
    alarm: Alarm,
    task: JoinHandle<()>,
}

/// Timer in the debug endpoint.
#[derive(Debug, Clone, Serialize)]
pub struct TimerView {
    /// Purpose of the timer.
    pub name: &'static str,
    /// Time at which it fires.
    pub fires_at: Timestamp,
}

impl Timer {
    /// Arms a timer that sends `message` to `to` at `fires_at`, or at once if that has passed.
    pub fn arm<M: Message>(
        clock: &Clock,
        name: &'static str,
        fires_at: Timestamp,
        to: &Mailbox<M>,
        message: M,
    ) -> Self {
        // Set before the task runs: the clock may be set back in between.
        let alarm = clock.alarm(fires_at);
        let (clock, to) = (clock.clone(), to.clone());
        let task = tokio::spawn(async move {
            clock.sleep(alarm).await;
            // The actor may have stopped.
            let _ = to.cast(message);
        });
        Self { name, alarm, task }
    }

    /// Arms a timer with `arm` for `wanted`, unless it is already armed for that time; disarms it for `None`.
    pub fn rearm(
        timer: &mut Option<Self>,
        wanted: Option<Timestamp>,
        arm: impl FnOnce(Timestamp) -> Self,
    ) {
        if timer.as_ref().map(|timer| timer.alarm.at) != wanted {
            *timer = wanted.map(arm);
        }
    }

    /// Returns how far the clock was set back since the timer was armed, which is how long before its time it fired. Zero if it has not
    /// fired, or fired on time.
    pub fn set_back(&self, clock: &Clock) -> Duration {
        if clock.monotonic() < self.alarm.latest {
            Duration::ZERO
        } else {
            self.alarm.at.since(clock.now())
        }
    }

    /// Returns the timer for the debug endpoint.
    pub fn view(&self) -> TimerView {
        TimerView {
            name: self.name,
            fires_at: self.alarm.at,
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // A message that is on its way still arrives.
        self.task.abort();
    }
}
