//! Queue of reliable messages for a participant that is slow, or that has not opened its channel yet.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Message;

/// Time that a message waits for a channel to open.
const WAITS_FOR_CHANNEL: Duration = Duration::from_secs(10);

/// Maximum bytes that wait for a channel to open.
const BYTES_BEFORE_CHANNEL: usize = 100 * 1000;

/// Queued bytes beyond which senders must wait. They keep a fast network busy, and newer messages are not far behind.
const BYTES_TO_WAIT_FOR: usize = 256 * 1024;

/// Period over which a receiver is measured before senders stop waiting for it.
const JUDGED: Duration = Duration::from_secs(5);

/// Bytes that a receiver must take within [`JUDGED`] for senders to keep waiting: half a megabit per second.
const LEAST_TAKEN: usize = 320 * 1024;

/// Reliable messages that wait for a participant, in order.
///
/// Senders wait for a receiver with many queued messages while it takes some. So the slowest receiver sets the speed of
/// a file transfer, and all receive the file. A receiver that takes almost nothing is *too slow*: nothing waits for it,
/// and it loses the messages beyond its queue until it has caught up.
#[derive(Debug, Default)]
pub struct Backlog {
    messages: VecDeque<(Instant, Message)>,
    bytes: usize,
    /// Since when senders have waited for it, and the bytes taken since then.
    judged: Option<(Instant, usize)>,
    is_too_slow: bool,
}

impl Backlog {
    /// Adds a message. Returns false and drops it if the queue would exceed `most_bytes`.
    #[must_use]
    pub fn push(&mut self, message: Message, most_bytes: usize, now: Instant) -> bool {
        if self.bytes + message.len() > most_bytes {
            return false;
        }
        self.bytes += message.len();
        self.messages.push_back((now, message));
        // The measurement starts when senders wait: a receiver without a queue has nothing to take.
        if self.is_awaited() {
            self.judged.get_or_insert((now, 0));
        }
        true
    }

    /// Returns whether senders must wait for it.
    pub const fn is_awaited(&self) -> bool {
        self.bytes > BYTES_TO_WAIT_FOR && !self.is_too_slow
    }

    /// Judges the receiver by the bytes that it has taken. Returns whether it has become too slow.
    pub fn judge(&mut self, now: Instant) -> bool {
        // Half of the limit, so that a receiver does not alternate between slow and fast.
        if self.bytes <= BYTES_TO_WAIT_FOR / 2 {
            (self.judged, self.is_too_slow) = (None, false);
        }
        let is_over =
            |(since, _): &mut (Instant, usize)| now.saturating_duration_since(*since) >= JUDGED;
        let Some((_, taken)) = self.judged.take_if(is_over) else {
            return false;
        };
        if taken < LEAST_TAKEN {
            // Reported once, however long the receiver stays too slow.
            return !std::mem::replace(&mut self.is_too_slow, true);
        }
        self.judged = Some((now, 0));
        false
    }

    /// Drops messages that may not wait for a channel to open: the oldest ones beyond the limit, and expired ones.
    pub fn limit_before_channel(&mut self, now: Instant) {
        while let Some((at, _)) = self.messages.front() {
            if self.bytes <= BYTES_BEFORE_CHANNEL
                && now.saturating_duration_since(*at) < WAITS_FOR_CHANNEL
            {
                return;
            }
            self.pop();
        }
    }

    /// Returns the next message.
    pub fn front(&self) -> Option<&Message> {
        self.messages.front().map(|(_, message)| message)
    }

    /// Removes the next message.
    pub fn pop(&mut self) {
        if let Some((_, message)) = self.messages.pop_front() {
            self.bytes -= message.len();
            if let Some((_, taken)) = &mut self.judged {
                *taken += message.len();
            }
        }
    }

    /// Returns the bytes of all messages.
    #[cfg(test)]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether no message is queued.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1024 * 1024;

    fn backlog_of(messages: usize, now: Instant) -> Backlog {
        let mut backlog = Backlog::default();
        for _ in 0..messages {
            assert!(backlog.push(vec![0; 64 * 1024].into(), MOST, now));
        }
        backlog
    }

    #[test]
    fn senders_wait_for_a_receiver_that_takes_its_messages_slowly() {
        let mut now = Instant::now();
        let mut backlog = backlog_of(5, now);
        for _ in 0..100 {
            now += Duration::from_secs(1);
            backlog.pop();
            assert!(!backlog.is_awaited() && backlog.push(vec![0; 64 * 1024].into(), MOST, now));
            assert!(!backlog.judge(now) && backlog.is_awaited());
        }
    }

    #[test]
    fn senders_do_not_wait_for_a_receiver_that_takes_nothing_until_it_has_caught_up() {
        let start = Instant::now();
        let mut backlog = backlog_of(5, start);
        assert!(!backlog.judge(start + JUDGED - Duration::from_millis(1)) && backlog.is_awaited());
        assert!(backlog.judge(start + JUDGED), "it has become too slow");
        assert!(
            !backlog.is_awaited() && !backlog.judge(start + 2 * JUDGED),
            "once"
        );
        for _ in 5..16 {
            assert!(backlog.push(vec![0; 64 * 1024].into(), MOST, start + JUDGED));
        }
        assert!(
            !backlog.push(vec![0; 1].into(), MOST, start + JUDGED),
            "its memory is bounded"
        );
        while backlog.bytes > BYTES_TO_WAIT_FOR / 2 {
            assert!(!backlog.judge(start + 3 * JUDGED) && !backlog.is_awaited());
            backlog.pop();
        }
        assert!(!backlog.judge(start + 3 * JUDGED));
        let again = backlog.push(vec![0; 256 * 1024].into(), MOST, start + 3 * JUDGED);
        assert!(again && backlog.is_awaited());
    }
}
