//! What becomes of a request that a standby has received, as a state machine without I/O: send it, wait, or give up.
//!
//! ```text
//!             a node is active                         answered
//!  waiting ─────────────────────▶ sent ──────────────────────────────▶ done
//!   │   ▲                          │
//!   │   ├── not reached, refused ◀─┤
//!   │   └── broken, repeatable ◀───┤
//!   │                              └── broken, not repeatable ──▶ given up: the node was lost
//!   └── 10 s without a node that takes it ──▶ given up: not taken
//! ```
//!
//! A request is *reached* once the active node may have read a part of it. What was not reached is always sent again. What was reached
//! and broke off is sent again only if that cannot make a change twice, and not for ever: a request that makes each node fail must not
//! go through all of them. A node that has died breaks off each attempt until another is active, which counts once.

#[cfg(test)]
mod tests;

use std::time::Duration;

/// At how many nodes in a row a request may break off before it is given up.
const MOST_BREAKS: u32 = 3;
/// Delay before a request is sent to the same node again. It is doubled each time.
const FIRST_DELAY: Duration = Duration::from_millis(25);
/// The longest such delay.
const LONGEST_DELAY: Duration = Duration::from_secs(1);

/// Whether a request may be sent again after the active node has broken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Always: it changes nothing, or the second time returns the result of the first.
    Always,
    /// Only if the node has not read a part of it: it may have made a change.
    UnlessReached,
}

/// What is to be done with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Send it to the node that is active.
    Send,
    /// Wait until this time, or until another node is active.
    WaitUntil(Duration),
    /// Answer that it failed.
    GiveUp(Failure),
}

/// Why a request is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No node has taken it in time. It has changed nothing.
    NotTaken,
    /// The active node was lost while it had the request, which may have made its change.
    NodeLost,
    /// Each node that was active broke off when it had the request. Another try does no harm.
    BrokeOff,
}

/// How an attempt to send a request has ended, other than with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The node has read nothing of it.
    NotReached,
    /// The node is not active, and may be soon. It has made no change.
    Refused,
    /// The node is not active any more. It has made no change.
    Stopping,
    /// The node may have read it, and gave no answer that counts.
    Broken,
}

/// A request on its way to the active node.
#[derive(Debug)]
pub struct Passage {
    repeat: Repeat,
    longest_hold: Duration,
    /// Since when no node has it.
    held_since: Option<Duration>,
    /// The epoch that it was sent to last, and when it may be sent there again; never if there is no time.
    last: Option<(i64, Option<Duration>)>,
    delay: Duration,
    /// The nodes at which it broke off.
    breaks: u32,
    /// The epoch in which it broke off last.
    broken_in: Option<i64>,
    failure: Option<Failure>,
}

impl Passage {
    /// A request that was just received. It is held for at most `longest_hold` while no node takes it.
    #[must_use]
    pub const fn new(repeat: Repeat, longest_hold: Duration) -> Self {
        Self {
            repeat,
            longest_hold,
            held_since: None,
            last: None,
            delay: FIRST_DELAY,
            breaks: 0,
            broken_in: None,
            failure: None,
        }
    }

    /// Returns what is to be done while the node of this epoch is active and serves.
    pub fn step(&mut self, now: Duration, active: Option<i64>) -> Step {
        if let Some(failure) = self.failure {
            return Step::GiveUp(failure);
        }
        let limit = self.held_since.unwrap_or(now) + self.longest_hold;
        if now >= limit {
            return Step::GiveUp(if self.breaks > 0 {
                Failure::BrokeOff
            } else {
                Failure::NotTaken
            });
        }
        match active {
            Some(epoch) if self.may_send_to(epoch, now) => {
                self.last = Some((epoch, None));
                Step::Send
            }
            _ => {
                self.held_since.get_or_insert(now);
                let again = self
                    .last
                    .filter(|(epoch, _)| Some(*epoch) == active)
                    .and_then(|(_, again)| again);
                Step::WaitUntil(again.map_or(limit, |again| again.min(limit)))
            }
        }
    }

    fn may_send_to(&self, epoch: i64, now: Duration) -> bool {
        self.last
            .is_none_or(|(last, again)| last != epoch || again.is_some_and(|again| again <= now))
    }

    /// Whether an answer counts while the node of this epoch is active: not if another has taken over from the one that gave it.
    #[must_use]
    pub fn counts(&self, active: Option<i64>) -> bool {
        active.is_none_or(|active| self.last.is_some_and(|(sent_to, _)| sent_to == active))
    }

    /// Notes that the attempt has failed. `is_kept` tells whether all of the request is still there.
    pub fn failed(&mut self, now: Duration, outcome: Outcome, is_kept: bool) {
        if outcome == Outcome::Broken {
            let epoch = self.last.map(|(epoch, _)| epoch);
            if self.broken_in != epoch {
                self.broken_in = epoch;
                self.breaks += 1;
                self.held_since = None;
            }
            self.failure = match self.repeat {
                Repeat::UnlessReached => Some(Failure::NodeLost),
                Repeat::Always if self.breaks == MOST_BREAKS || !is_kept => Some(Failure::BrokeOff),
                Repeat::Always => None,
            };
        } else if !is_kept {
            self.failure = Some(Failure::NotTaken);
        }
        self.held_since.get_or_insert(now);
        if let Some((_, again)) = &mut self.last {
            *again = (outcome != Outcome::Stopping).then_some(now + self.delay);
        }
        self.delay = (self.delay * 2).min(LONGEST_DELAY);
    }
}
