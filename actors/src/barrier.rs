//! A barrier in an actor's mailbox: one actor waits until a sibling has handled everything that it was sent before.
//!
//! Their supervisor puts the [`Barrier`] into the mailbox of the one and hands the [`BarrierWait`] to the other, so neither
//! needs to know the other, and no actor calls upward.

use std::time::Duration;

use tokio::sync::oneshot;

/// The half that lies in a mailbox.
#[derive(Debug)]
pub struct Barrier(oneshot::Sender<()>);

/// The half that waits.
#[derive(Debug)]
pub struct BarrierWait(oneshot::Receiver<()>);

/// Returns both halves of a barrier.
pub fn barrier() -> (Barrier, BarrierWait) {
    let (passed, wait) = oneshot::channel();
    (Barrier(passed), BarrierWait(wait))
}

impl Barrier {
    /// Releases the waiting actor. Dropping the barrier does the same.
    pub fn pass(self) {
        // The other half may have stopped waiting.
        let _ = self.0.send(());
    }
}

impl BarrierWait {
    /// Waits until the barrier is passed, for `limit` at most. Returns whether it was passed.
    pub async fn passed(self, limit: Duration) -> bool {
        matches!(tokio::time::timeout(limit, self.0).await, Ok(Ok(())))
    }
}
