//! Reliable messages that wait for a slow participant, or for one whose channel is not open yet.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Message;

/// How long a message waits for a channel to open.
const WAITS_FOR_CHANNEL: Duration = Duration::from_secs(10);

/// The most bytes that wait for a channel to open.
const BYTES_BEFORE_CHANNEL: usize = 100 * 1000;

/// More than this many waiting bytes make senders wait. It keeps a fast network busy, and what is sent later is not long behind.
const BYTES_TO_WAIT_FOR: usize = 256 * 1024;

/// How long a receiver is judged before senders stop waiting for it.
const JUDGED: Duration = Duration::from_secs(5);

/// The least bytes that a receiver takes meanwhile so that senders go on waiting for it: half a megabit a second.
const LEAST_TAKEN: usize = 320 * 1024;

/// Reliable messages that wait for a participant, in order.
///
/// Senders wait for a receiver with many, as long as it takes some: so the slowest one decides how fast a file is sent, and all get it.
/// One that takes next to none is *too slow*: nobody waits for it, and it loses what does not fit, until it has caught up.
#[derive(Debug, Default)]
pub struct Backlog {
    messages: VecDeque<(Instant, Message)>,
    bytes: usize,
    /// Since when senders have waited for it, and how many bytes it has taken since.
    judged: Option<(Instant, usize)>,
    is_too_slow: bool,
}

impl Backlog {
    /// Adds a message; returns whether it fits into so many bytes. Else it is dropped.
    #[must_use]
    pub fn push(&mut self, message: Message, most_bytes: usize, now: Instant) -> bool {
        if self.bytes + message.len() > most_bytes {
            return false;
        }
        self.bytes += message.len();
        self.messages.push_back((now, message));
        if self.is_awaited() {
            self.judged.get_or_insert((now, 0));
        }
        true
    }

    /// Returns whether senders have to wait for it.
    pub const fn is_awaited(&self) -> bool {
        self.bytes > BYTES_TO_WAIT_FOR && !self.is_too_slow
    }

    /// Judges the receiver by what it has taken; returns whether it has become too slow.
    pub fn judge(&mut self, now: Instant) -> bool {
        if self.bytes <= BYTES_TO_WAIT_FOR / 2 {
            (self.judged, self.is_too_slow) = (None, false);
        }
        let is_over =
            |(since, _): &mut (Instant, usize)| now.saturating_duration_since(*since) >= JUDGED;
        let Some((_, taken)) = self.judged.take_if(is_over) else {
            return false;
        };
        if taken < LEAST_TAKEN {
            return !std::mem::replace(&mut self.is_too_slow, true);
        }
        self.judged = Some((now, 0));
        false
    }

    /// Drops what does not wait for a channel to open: the oldest messages of too many, and those that are too old.
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

    /// Returns the message that is next.
    pub fn front(&self) -> Option<&Message> {
        self.messages.front().map(|(_, message)| message)
    }

    /// Removes the message that is next.
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

    /// Returns whether nothing waits.
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
