//! Locks on idempotency keys: of two concurrent requests with one key, the second waits for the first.

use std::collections::HashMap;
use std::sync::Arc;

use conclave_model::idempotency::IdempotencySlot;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// Keys of running and waiting requests. An entry exists while a request runs or waits with it.
#[derive(Debug, Default)]
pub struct KeyLocks(Mutex<HashMap<IdempotencySlot, Arc<tokio::sync::Mutex<()>>>>);

/// Locked key. Dropping it lets the next request run.
pub struct KeyGuard<'a> {
    locks: &'a KeyLocks,
    slot: IdempotencySlot,
    held: Option<OwnedMutexGuard<()>>,
}

impl KeyLocks {
    /// Waits until no other request runs with this key. Waiting requests lock no data.
    pub async fn lock(&self, slot: IdempotencySlot) -> KeyGuard<'_> {
        // The map's lock is released before the wait: a guard of `parking_lot` must not be held across an await.
        let queue = {
            let mut locks = self.0.lock();
            Arc::clone(locks.entry(slot.clone()).or_default())
        };
        KeyGuard {
            locks: self,
            slot,
            held: Some(queue.lock_owned().await),
        }
    }
}

impl Drop for KeyGuard<'_> {
    fn drop(&mut self) {
        // Released before the count below, so that only waiting requests keep the entry.
        self.held = None;
        let mut locks = self.locks.0.lock();
        if locks
            .get(&self.slot)
            .is_some_and(|queue| Arc::strong_count(queue) == 1)
        {
            locks.remove(&self.slot);
        }
    }
}
