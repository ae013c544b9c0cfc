//! Flow control for messages to the participants on another worker.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes in flight to another worker beyond which senders must wait.
pub const BYTES_TO_WAIT_FOR: usize = 256 * 1024;

/// Memory that a message takes besides its bytes.
const MESSAGE_OVERHEAD: usize = 256;

/// Messages in flight from one of a room's workers to another. Senders wait while there are too many, or while one of
/// their receivers must catch up.
#[derive(Debug, Default)]
pub struct DataLink {
    bytes: AtomicUsize,
    /// Whether a receiver must catch up.
    is_slow: AtomicBool,
    /// Whether a sender waits.
    is_waited_for: AtomicBool,
    /// Whether the receiving worker has closed the room, or has ended.
    is_closed: AtomicBool,
}

impl DataLink {
    /// Adds a message of `bytes`. Returns false if more than `most` bytes would be in flight, or if the link is closed.
    #[must_use]
    pub fn add(&self, bytes: usize, most: usize) -> bool {
        let added = bytes + MESSAGE_OVERHEAD;
        // Only one worker adds, so the check and the addition need no compare-and-swap; others can only subtract
        // meanwhile.
        let has_room = self.bytes.load(Ordering::SeqCst) + added <= most
            && !self.is_closed.load(Ordering::SeqCst);
        if has_room {
            self.bytes.fetch_add(added, Ordering::SeqCst);
        }
        has_room
    }

    /// Subtracts a message that has arrived.
    pub fn subtract(&self, bytes: usize) {
        self.bytes
            .fetch_sub(bytes + MESSAGE_OVERHEAD, Ordering::SeqCst);
    }

    /// Sets whether a receiver must catch up.
    pub fn set_slow(&self, is_slow: bool) {
        self.is_slow.store(is_slow, Ordering::SeqCst);
    }

    /// Closes the receiving end: what is in flight never arrives, so no sender waits any longer.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Returns whether a sender must wait. If so, [`Self::release`] returns true on the other side when the wait is
    /// over.
    pub fn is_awaited(&self) -> bool {
        if !self.has_to_catch_up() {
            return false;
        }
        // Set before the second check: in the other order, the other side could catch up in between, and no sender would be released.
        self.is_waited_for.store(true, Ordering::SeqCst);
        self.has_to_catch_up()
    }

    /// Returns whether waiting senders must be released now. Returns true once per wait.
    pub fn release(&self) -> bool {
        !self.has_to_catch_up() && self.is_waited_for.swap(false, Ordering::SeqCst)
    }

    fn has_to_catch_up(&self) -> bool {
        let is_late = self.is_slow.load(Ordering::SeqCst)
            || self.bytes.load(Ordering::SeqCst) > BYTES_TO_WAIT_FOR;
        is_late && !self.is_closed.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_are_told_once_when_what_they_wait_for_has_caught_up() {
        let link = DataLink::default();
        assert!(link.add(BYTES_TO_WAIT_FOR, usize::MAX) && !link.release());
        assert!(link.is_awaited() && !link.release());
        link.set_slow(true);
        link.subtract(BYTES_TO_WAIT_FOR);
        assert!(!link.release(), "a receiver is slow");
        link.set_slow(false);
        assert!(link.release() && !link.release());
        assert!(!link.is_awaited() && !link.release());
    }

    #[test]
    fn what_is_on_its_way_is_bounded() {
        let link = DataLink::default();
        let most = 2 * (100 + MESSAGE_OVERHEAD);
        assert!(link.add(100, most) && link.add(100, most) && !link.add(100, most));
        link.subtract(100);
        assert!(link.add(100, most));
    }

    #[test]
    fn nobody_waits_for_a_closed_end_and_nothing_is_added() {
        let link = DataLink::default();
        assert!(link.add(BYTES_TO_WAIT_FOR, usize::MAX) && link.is_awaited());
        link.close();
        assert!(!link.is_awaited() && !link.add(1, usize::MAX));
    }
}
