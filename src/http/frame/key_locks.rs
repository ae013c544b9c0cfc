//! Locks on idempotency keys: of two requests with one key at once, the second waits for the first.

use std::collections::HashMap;
use std::sync::Arc;

use conclave_model::idempotency::IdempotencySlot;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// The keys of requests that are running or waiting. An entry lives as long as a request holds it or waits for it.
#[derive(Debug, Default)]
pub struct KeyLocks(Mutex<HashMap<IdempotencySlot, Arc<tokio::sync::Mutex<()>>>>);

/// A held key; dropping it lets the next request run.
pub struct KeyGuard<'a> {
    locks: &'a KeyLocks,
    slot: IdempotencySlot,
    held: Option<OwnedMutexGuard<()>>,
}

impl KeyLocks {
    /// Waits until no other request runs with this key. Requests queue here by design: no data is locked meanwhile.
    pub async fn lock(&self, slot: IdempotencySlot) -> KeyGuard<'_> {
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
