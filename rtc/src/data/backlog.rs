//! Reliable messages that wait for a slow participant, or for one whose channel is not open yet.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Message;

/// How long a message waits for a channel to open.
const WAITS_FOR_CHANNEL: Duration = Duration::from_secs(10);

/// The most bytes that wait for a channel to open.
const BYTES_BEFORE_CHANNEL: usize = 100 * 1000;

/// Reliable messages that wait for a participant, in order.
#[derive(Debug, Default)]
pub struct Backlog {
    messages: VecDeque<(Instant, Message)>,
    bytes: usize,
}

impl Backlog {
    /// Adds a message.
    pub fn push(&mut self, message: Message, now: Instant) {
        self.bytes += message.len();
        self.messages.push_back((now, message));
    }

    /// Drops what does not wait for a channel to open: the oldest messages of too many, and those that are too old.
    pub fn limit_before_channel(&mut self, now: Instant) {
        while let Some((at, _)) = self.messages.front() {
            if self.bytes <= BYTES_BEFORE_CHANNEL && now.saturating_duration_since(*at) < WAITS_FOR_CHANNEL {
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
        }
    }

    /// Returns the bytes of all messages.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}
