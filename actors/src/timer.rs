//! Timers that actors own. They follow the injected clock and are cancelled when dropped.

use std::time::Duration;

use conclave_model::{Alarm, Clock, Timestamp};
use ractor::Message;
use serde::Serialize;
use tokio::task::JoinHandle;

use crate::mailbox::Mailbox;

/// Sends a message to an actor at an instant. Dropping the timer cancels it, but a message that was already sent still
/// arrives, so its handler must check the state.
///
/// If the clock is set back meanwhile, the timer fires after the time for which it was armed, before that instant.
#[derive(Debug)]
pub struct Timer {
    name: &'static str,
    alarm: Alarm,
    task: JoinHandle<()>,
}

/// A timer in the debug endpoint.
#[derive(Debug, Clone, Serialize)]
pub struct TimerView {
    /// The purpose of the timer.
    pub name: &'static str,
    /// The instant at which it fires.
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
        // Set before the task begins to run: the clock may be set back in between.
        let alarm = clock.alarm(fires_at);
        let (clock, to) = (clock.clone(), to.clone());
        let task = tokio::spawn(async move {
            clock.sleep(alarm).await;
            // The actor may have stopped.
            let _ = to.cast(message);
        });
        Self { name, alarm, task }
    }

    /// Returns how far the clock was set back since the timer was armed: how long before its instant it has fired. Zero if it
    /// has not fired, or at its instant.
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
        self.task.abort();
    }
}
