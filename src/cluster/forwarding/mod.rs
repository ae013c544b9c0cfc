//! Decides the course of a forwarded request, as a state machine without I/O: send it, wait, or give up.
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
//! A request is *reached* once the active node may have read a part of it. A request that was not reached is always sent again. If the
//! connection breaks later, the request is repeated only if it cannot make a change twice, and only three times: a request that makes
//! each node fail must not go through all of them. All attempts that fail at one dead node count once.

#[cfg(test)]
mod tests;

use std::time::Duration;

/// Number of nodes at which a request may break off before it is given up.
const MOST_BREAKS: u32 = 3;
/// Delay before a request is sent to the same node again. Doubled each time.
const FIRST_DELAY: Duration = Duration::from_millis(25);
/// Maximum delay.
const LONGEST_DELAY: Duration = Duration::from_secs(1);

/// Whether a request may be sent again after the connection to the active node broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Always: it changes nothing, or a repetition returns the first result.
    Always,
    /// Only if the node has read nothing: a change may have been made.
    UnlessReached,
}

/// Next step for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardStep {
    /// Send it to the active node.
    Send,
    /// Wait until this time, or until another node is active.
    WaitUntil(Duration),
    /// Respond with this failure.
    GiveUp(ForwardFailure),
}

/// Reason for giving a request up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardFailure {
    /// No node accepted it in time. It has changed nothing.
    NotTaken,
    /// The active node was lost while it had the request, whose change may have been made.
    NodeLost,
    /// The connection to each active node broke while the node had the request. A repetition does no harm.
    BrokeOff,
}

/// Outcome of an attempt that got no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptFailure {
    /// The node has read nothing.
    NotReached,
    /// The node is not active, but may become so. It has changed nothing.
    Refused,
    /// The node is no longer active. It has changed nothing.
    Stopping,
    /// The node may have read the request, and sent no valid response.
    Broken,
}

/// Forwarding state of a request.
#[derive(Debug)]
pub struct Forwarding {
    repeat: Repeat,
    max_buffer_time: Duration,
    /// Time since which no node has it.
    buffered_since: Option<Duration>,
    /// Last attempt's epoch, and the time for the next one at that node; `None` if it must not get another.
    last: Option<(i64, Option<Duration>)>,
    delay: Duration,
    /// Number of nodes whose connection broke while they had the request.
    breaks: u32,
    /// Epoch of the last of these nodes.
    broken_in: Option<i64>,
    failure: Option<ForwardFailure>,
}

impl Forwarding {
    /// Creates the state of a request that was just received. It is buffered for at most `max_buffer_time` while no node accepts it.
    #[must_use]
    pub const fn new(repeat: Repeat, max_buffer_time: Duration) -> Self {
        Self {
            repeat,
            max_buffer_time,
            buffered_since: None,
            last: None,
            delay: FIRST_DELAY,
            breaks: 0,
            broken_in: None,
            failure: None,
        }
    }

    /// Returns the next step, with the epoch of the node that is active and serves.
    pub fn step(&mut self, now: Duration, active: Option<i64>) -> ForwardStep {
        if let Some(failure) = self.failure {
            return ForwardStep::GiveUp(failure);
        }
        let limit = self.buffered_since.unwrap_or(now) + self.max_buffer_time;
        if now >= limit {
            return ForwardStep::GiveUp(if self.breaks > 0 {
                ForwardFailure::BrokeOff
            } else {
                ForwardFailure::NotTaken
            });
        }
        match active {
            Some(epoch) if self.may_send_to(epoch, now) => {
                // Without a time: until the attempt fails, the same node does not get the request again.
                self.last = Some((epoch, None));
                ForwardStep::Send
            }
            _ => {
                self.buffered_since.get_or_insert(now);
                // A time for a node that is no longer active does not count.
                let again = self
                    .last
                    .filter(|(epoch, _)| Some(*epoch) == active)
                    .and_then(|(_, again)| again);
                ForwardStep::WaitUntil(again.map_or(limit, |again| again.min(limit)))
            }
        }
    }

    fn may_send_to(&self, epoch: i64, now: Duration) -> bool {
        self.last
            .is_none_or(|(last, again)| last != epoch || again.is_some_and(|again| again <= now))
    }

    /// Returns whether a response counts, given the active node's epoch. It does not if another node has taken over from the sender.
    #[must_use]
    pub fn counts(&self, active: Option<i64>) -> bool {
        active.is_none_or(|active| self.last.is_some_and(|(sent_to, _)| sent_to == active))
    }

    /// Records a failed attempt. `is_buffered` is whether the whole request is still buffered.
    pub fn failed(&mut self, now: Duration, outcome: AttemptFailure, is_buffered: bool) {
        if outcome == AttemptFailure::Broken {
            let epoch = self.last.map(|(epoch, _)| epoch);
            // Every attempt at a dead node fails until the next takeover. These attempts count once.
            if self.broken_in != epoch {
                self.broken_in = epoch;
                self.breaks += 1;
                // The node had the request, so the time limit starts again for the next one.
                self.buffered_since = None;
            }
            self.failure = match self.repeat {
                Repeat::UnlessReached => Some(ForwardFailure::NodeLost),
                Repeat::Always if self.breaks == MOST_BREAKS || !is_buffered => {
                    Some(ForwardFailure::BrokeOff)
                }
                Repeat::Always => None,
            };
        } else if !is_buffered {
            self.failure = Some(ForwardFailure::NotTaken);
        }
        self.buffered_since.get_or_insert(now);
        if let Some((_, again)) = &mut self.last {
            *again = (outcome != AttemptFailure::Stopping).then_some(now + self.delay);
        }
        self.delay = (self.delay * 2).min(LONGEST_DELAY);
    }
}
