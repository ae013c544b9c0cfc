//! Whether a standby's forwarded requests reach the active node, as a state machine without I/O.
//!
//! They do if the active node has recently responded to a probe through this node, and during a takeover, since requests are buffered here
//! meanwhile. A takeover that takes longer than requests are buffered does not count.

use std::time::Duration;

use super::MAX_BUFFER_TIME;

/// Time for which a response from the active node counts: one probe may fail.
const LATELY: Duration = Duration::from_secs(4);
/// Time without a renewal after which the active node may have died. Leases are renewed every second, so at least one renewal is missing.
const SILENCE: Duration = Duration::from_secs(2);

/// This node's view of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseView {
    /// The active node's epoch, if there is one.
    pub epoch: Option<i64>,
    /// Whether this node reaches the database, and so learns of a takeover.
    pub is_database_answering: bool,
    /// Time since the active node's last renewal, if known.
    pub silence: Option<Duration>,
}

/// The active node's state, as probes and lease show it.
#[derive(Debug, Default)]
pub struct Reachability {
    answered: Option<Duration>,
    epoch: Option<i64>,
    /// Start of the current takeover.
    waiting: Option<Duration>,
}

impl Reachability {
    /// Records a response from the active node.
    pub fn answered(&mut self, now: Duration) {
        self.answered = Some(now);
    }

    /// Records the lease.
    pub fn observe(&mut self, now: Duration, lease: LeaseView) {
        // Also at the first observation: requests are buffered until the first probe.
        let has_changed = lease.epoch != self.epoch;
        self.epoch = lease.epoch;
        let is_silent =
            lease.epoch.is_none() || lease.silence.is_some_and(|silence| silence >= SILENCE);
        self.waiting = match self.waiting {
            // Without the database, this node would not learn which node takes over.
            _ if !lease.is_database_answering => None,
            // The next active node starts to serve.
            _ if has_changed => Some(now),
            Some(since) if is_silent || now.saturating_sub(since) < MAX_BUFFER_TIME => Some(since),
            // A takeover that took too long is over; it may start again with the next silence.
            _ => is_silent.then_some(now),
        };
    }

    /// Returns whether forwarded requests get a response, or wait for a takeover that is under way.
    #[must_use]
    pub fn is_ready(&self, now: Duration) -> bool {
        let within = |since: Option<Duration>, limit| {
            since.is_some_and(|since| now.saturating_sub(since) < limit)
        };
        within(self.answered, LATELY) || within(self.waiting, MAX_BUFFER_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn lease(epoch: impl Into<Option<i64>>, silence: u64) -> LeaseView {
        LeaseView {
            epoch: epoch.into(),
            is_database_answering: true,
            silence: Some(at(silence)),
        }
    }

    /// A standby whose active node responded until the 100th second.
    fn served() -> Reachability {
        let mut known = Reachability::default();
        known.observe(at(0), lease(1, 0));
        known.answered(at(100));
        known.observe(at(100), lease(1, 0));
        assert!(known.is_ready(at(101)));
        known
    }

    #[test]
    fn a_standby_that_knows_of_no_node_is_not_ready() {
        let mut known = Reachability::default();
        assert!(!known.is_ready(at(0)));
        known.observe(
            at(0),
            LeaseView {
                epoch: None,
                is_database_answering: false,
                silence: None,
            },
        );
        assert!(!known.is_ready(at(1)));
    }

    #[test]
    fn a_standby_that_is_cut_off_from_a_node_that_renews_is_not_ready() {
        let mut known = served();
        (101..130).for_each(|second| known.observe(at(second), lease(1, 0)));
        assert!(known.is_ready(at(103)) && !known.is_ready(at(104)));
    }

    #[test]
    fn a_takeover_is_waited_for_as_long_as_requests_wait() {
        let mut known = served();
        known.observe(at(102), lease(1, 2));
        assert!(known.is_ready(at(111)) && !known.is_ready(at(112)));
        known.observe(at(106), lease(2, 0));
        assert!(known.is_ready(at(115)), "the next one begins to serve");
        known.answered(at(115));
        assert!(known.is_ready(at(118)));
        (116..140).for_each(|second| known.observe(at(second), lease(2, 0)));
        assert!(!known.is_ready(at(140)));
        known.observe(at(140), lease(None, 0));
        assert!(known.is_ready(at(141)), "it was stopped well");
        (141..160).for_each(|second| known.observe(at(second), lease(None, 20)));
        assert!(!known.is_ready(at(160)), "nobody takes over");
    }

    #[test]
    fn without_the_database_nobody_is_waited_for() {
        let mut known = served();
        let unknown = LeaseView {
            is_database_answering: false,
            ..lease(1, 5)
        };
        known.observe(at(102), unknown);
        assert!(known.is_ready(at(103)) && !known.is_ready(at(104)));
    }
}
