//! Timers that actors own: named, on the injected clock, and gone when dropped.

use conclave_model::{Clock, Timestamp};
use ractor::Message;
use serde::Serialize;
use tokio::task::JoinHandle;

use crate::mailbox::Mailbox;

/// A message an actor gets at an instant. Dropping the timer cancels it; a message that was already on its way may still
/// arrive, so its handler looks at the state and not at the message.
#[derive(Debug)]
pub struct Timer {
    name: &'static str,
    fires_at: Timestamp,
    task: JoinHandle<()>,
}

/// A timer as the debug endpoint shows it.
#[derive(Debug, Clone, Serialize)]
pub struct TimerView {
    /// What it is for.
    pub name: &'static str,
    /// When it fires.
    pub fires_at: Timestamp,
}

impl Timer {
    /// Sends `message` to `to` at `fires_at`, or at once when that is past.
    pub fn arm<M: Message>(
        clock: &Clock,
        name: &'static str,
        fires_at: Timestamp,
        to: &Mailbox<M>,
        message: M,
    ) -> Self {
        let (clock, to) = (clock.clone(), to.clone());
        let task = tokio::spawn(async move {
            clock.sleep_until(fires_at).await;
            // The actor may be gone; then nobody wants the message.
            let _ = to.cast(message);
        });
        Self { name, fires_at, task }
    }

    /// As the debug endpoint shows it.
    #[must_use]
    pub fn view(&self) -> TimerView {
        TimerView { name: self.name, fires_at: self.fires_at }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
