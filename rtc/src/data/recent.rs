//! The last reliable messages of a room, for participants that resume.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Routed;

/// How long messages are kept.
const KEPT: Duration = Duration::from_secs(10);

/// The most bytes that are kept of a room.
const KEPT_BYTES: usize = 1024 * 1024;

/// The last reliable messages of a room, in order.
#[derive(Debug, Default)]
pub struct RecentMessages {
    messages: VecDeque<RecentMessage>,
    bytes: usize,
}

/// A reliable message that was sent lately.
#[derive(Debug)]
struct RecentMessage {
    at: Instant,
    /// The sid of its sender.
    sender: String,
    routed: Routed,
}

impl RecentMessages {
    /// Keeps a message, and drops those that are too old or too many.
    pub fn push(&mut self, sender: String, routed: Routed, now: Instant) {
        self.bytes += routed.message.len();
        self.messages.push_back(RecentMessage { at: now, sender, routed });
        while let Some(oldest) = self.messages.front() {
            if now.saturating_duration_since(oldest.at) < KEPT && self.bytes <= KEPT_BYTES {
                return;
            }
            self.bytes -= oldest.routed.message.len();
            self.messages.pop_front();
        }
    }

    /// Returns the messages of a sender behind this number, in order.
    pub fn after<'a>(&'a self, sender: &'a str, sequence: u32) -> impl Iterator<Item = &'a Routed> {
        let of_sender = self.messages.iter().filter(move |message| message.sender == sender);
        of_sender.map(|message| &message.routed).filter(move |routed| routed.sequence > sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Receivers;

    #[test]
    fn old_and_too_many_messages_are_dropped() {
        let now = Instant::now();
        let routed = |sequence, bytes| Routed { sequence, to: Receivers::default(), message: vec![0; bytes].into() };
        let mut recent = RecentMessages::default();
        let kept = |recent: &RecentMessages| recent.after("alice", 0).map(|routed| routed.sequence).collect::<Vec<_>>();
        recent.push("alice".to_owned(), routed(1, 10), now);
        recent.push("bob".to_owned(), routed(9, 10), now);
        recent.push("alice".to_owned(), routed(2, 10), now + KEPT);
        assert_eq!(kept(&recent), [2]);
        recent.push("alice".to_owned(), routed(3, KEPT_BYTES), now + KEPT);
        assert_eq!(kept(&recent), [3]);
    }
}
