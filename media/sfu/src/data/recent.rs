//! A room's last reliable messages, for participants that resume.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::Routed;

/// Time for which messages are kept.
const KEPT: Duration = Duration::from_secs(10);

/// Maximum bytes kept per room.
const KEPT_BYTES: usize = 1024 * 1024;

/// A room's last reliable messages, in order.
#[derive(Debug, Default)]
pub struct RecentMessages {
    messages: VecDeque<RecentMessage>,
    bytes: usize,
}

/// Recently sent reliable message.
#[derive(Debug)]
struct RecentMessage {
    at: Instant,
    /// The sender's sid.
    sender: String,
    routed: Routed,
}

impl RecentMessages {
    /// Stores a message, and drops expired and excess ones.
    pub fn push(&mut self, sender: String, routed: Routed, now: Instant) {
        self.bytes += routed.message.len();
        self.messages.push_back(RecentMessage {
            at: now,
            sender,
            routed,
        });
        while let Some(oldest) = self.messages.front() {
            if now.saturating_duration_since(oldest.at) < KEPT && self.bytes <= KEPT_BYTES {
                return;
            }
            // The payload is shared with the receivers' queues, so this may free it only later.
            self.bytes -= oldest.routed.message.len();
            self.messages.pop_front();
        }
    }

    /// Returns, in order, the messages that a participant has missed which joined at `joined` and has received each
    /// sender's messages up to a sequence number. Messages from before the join and expired ones are excluded.
    pub fn missed<'a>(
        &'a self,
        received: &'a HashMap<&str, u32>,
        joined: Instant,
        now: Instant,
    ) -> impl Iterator<Item = &'a Routed> {
        let is_missed = move |message: &&RecentMessage| {
            // Expired messages stay until the next push, so their age is checked here, too.
            let last = received.get(message.sender.as_str());
            message.at >= joined
                && now.saturating_duration_since(message.at) < KEPT
                && last.is_some_and(|last| message.routed.sequence > *last)
        };
        self.messages
            .iter()
            .filter(is_missed)
            .map(|message| &message.routed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Receivers;

    #[test]
    fn old_and_too_many_messages_are_dropped() {
        let now = Instant::now();
        let routed = |sequence, bytes| Routed {
            sequence,
            to: Receivers::default(),
            message: vec![0; bytes].into(),
        };
        let mut recent = RecentMessages::default();
        let received = HashMap::from([("alice", 0)]);
        let kept = |recent: &RecentMessages| {
            recent
                .missed(&received, now, now + KEPT)
                .map(|routed| routed.sequence)
                .collect::<Vec<_>>()
        };
        recent.push("alice".to_owned(), routed(1, 10), now);
        recent.push("bob".to_owned(), routed(9, 10), now);
        recent.push("alice".to_owned(), routed(2, 10), now + KEPT);
        assert_eq!(kept(&recent), [2]);
        recent.push("alice".to_owned(), routed(3, KEPT_BYTES), now + KEPT);
        assert_eq!(kept(&recent), [3]);
    }

    #[test]
    fn a_participant_misses_what_came_after_its_join_lately_and_has_a_higher_number() {
        let start = Instant::now();
        let second = |seconds| start + Duration::from_secs(seconds);
        let mut recent = RecentMessages::default();
        for number in 1..=5 {
            let routed = Routed {
                sequence: number,
                to: Receivers::default(),
                message: vec![0; 10].into(),
            };
            recent.push("alice".to_owned(), routed, second(number.into()));
        }
        let missed = |received: &[(&str, u32)], joined, now| {
            let received = received.iter().copied().collect();
            recent
                .missed(&received, second(joined), second(now))
                .map(|routed| routed.sequence)
                .collect::<Vec<_>>()
        };
        assert_eq!(missed(&[("alice", 0)], 0, 5), [1, 2, 3, 4, 5]);
        assert_eq!(missed(&[("alice", 3)], 0, 5), [4, 5]);
        assert_eq!(missed(&[("alice", 0)], 4, 5), [4, 5]);
        assert_eq!(
            missed(&[("alice", 0)], 0, 13),
            [4, 5],
            "the others are too old, though nothing has replaced them"
        );
        assert!(missed(&[("bob", 0)], 0, 5).is_empty() && missed(&[], 0, 5).is_empty());
    }
}
