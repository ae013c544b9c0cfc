//! Messages on their way to the participants on another worker.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// More than this many bytes that wait for another worker make senders wait.
pub const BYTES_TO_WAIT_FOR: usize = 256 * 1024;

/// What a message takes besides its bytes.
const MESSAGE_OVERHEAD: usize = 256;

/// The messages that are on their way from one worker of a room to another. Senders wait while there are too many, or a receiver
/// of theirs has to catch up.
#[derive(Debug, Default)]
pub struct DataLink {
    bytes: AtomicUsize,
    /// Whether a receiver has to catch up.
    is_slow: AtomicBool,
    /// Whether a sender waits.
    is_waited_for: AtomicBool,
}

impl DataLink {
    /// Counts a message of so many bytes that is put onto the way. Returns whether there is room for it, with so many bytes at most.
    #[must_use]
    pub fn add(&self, bytes: usize, most: usize) -> bool {
        let added = bytes + MESSAGE_OVERHEAD;
        let has_room = self.bytes.load(Ordering::SeqCst) + added <= most;
        if has_room {
            self.bytes.fetch_add(added, Ordering::SeqCst);
        }
        has_room
    }

    /// Counts a message that has arrived.
    pub fn subtract(&self, bytes: usize) {
        self.bytes
            .fetch_sub(bytes + MESSAGE_OVERHEAD, Ordering::SeqCst);
    }

    /// Sets whether a receiver has to catch up.
    pub fn set_slow(&self, is_slow: bool) {
        self.is_slow.store(is_slow, Ordering::SeqCst);
    }

    /// Returns whether a sender has to wait. If so, it is told when it has not any more.
    pub fn is_awaited(&self) -> bool {
        if !self.has_to_catch_up() {
            return false;
        }
        self.is_waited_for.store(true, Ordering::SeqCst);
        // The other side may have caught up before it could know.
        self.has_to_catch_up()
    }

    /// Returns whether senders that have waited have to be told that they need not any more.
    pub fn release(&self) -> bool {
        !self.has_to_catch_up() && self.is_waited_for.swap(false, Ordering::SeqCst)
    }

    fn has_to_catch_up(&self) -> bool {
        self.is_slow.load(Ordering::SeqCst) || self.bytes.load(Ordering::SeqCst) > BYTES_TO_WAIT_FOR
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
}
