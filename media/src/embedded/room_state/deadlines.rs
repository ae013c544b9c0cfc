//! A room's timers: at most one time per [`Deadline`], on the monotonic clock, which clock adjustments do not affect.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use conclave_model::{EgressId, ParticipantSid};

/// Event that a timer triggers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::embedded) enum Deadline {
    /// A participant's bitrate has been above or below its limit for long enough.
    Bitrate(ParticipantSid),
    /// An egress's next timed transition is due.
    Egress(EgressId),
    /// A client must have connected its media.
    Join(ParticipantSid),
    /// Delayed participant updates must be sent.
    Updates,
}

/// A room's timers.
#[derive(Debug, Default)]
pub(in crate::embedded) struct Deadlines {
    reading: Duration,
    by_time: BTreeSet<(Duration, Deadline)>,
    times: HashMap<Deadline, Duration>,
}

impl Deadlines {
    /// Sets the monotonic clock's reading.
    pub fn set_reading(&mut self, reading: Duration) {
        self.reading = reading;
    }

    pub fn reading(&self) -> Duration {
        self.reading
    }

    /// Returns the reading at which the first deadline is due.
    pub fn next(&self) -> Option<Duration> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Returns a deadline's time; `None` if it is not set.
    pub fn get(&self, deadline: &Deadline) -> Option<Duration> {
        self.times.get(deadline).copied()
    }

    /// Sets or replaces a deadline's time; `None` removes it.
    pub fn set(&mut self, deadline: Deadline, at: Option<Duration>) {
        // `by_time` finds its entries by time, so the old time must go before a new one is known.
        self.remove(&deadline);
        if let Some(at) = at {
            // Two indexes, since a deadline is both taken by time and moved by name.
            self.times.insert(deadline.clone(), at);
            self.by_time.insert((at, deadline));
        }
    }

    pub fn remove(&mut self, deadline: &Deadline) {
        if let Some((deadline, at)) = self.times.remove_entry(deadline) {
            self.by_time.remove(&(at, deadline));
        }
    }

    /// Removes and returns the first deadline that is due.
    pub fn take_due(&mut self) -> Option<Deadline> {
        self.next().filter(|at| *at <= self.reading)?;
        let (_, due) = self.by_time.pop_first()?;
        self.times.remove(&due);
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn deadlines_are_taken_once_they_are_due_in_the_order_of_their_times() {
        let mut deadlines = Deadlines::default();
        let join = Deadline::Join("PA_1".parse().unwrap());
        deadlines.set(Deadline::Updates, Some(at(2)));
        deadlines.set(join.clone(), Some(at(1)));
        assert_eq!(
            (deadlines.next(), deadlines.take_due()),
            (Some(at(1)), None)
        );
        deadlines.set_reading(at(2));
        let due: Vec<_> = std::iter::from_fn(|| deadlines.take_due()).collect();
        assert_eq!(due, [join, Deadline::Updates]);
        assert_eq!(deadlines.next(), None);
    }

    #[test]
    fn a_deadline_has_one_time_and_is_gone_once_it_is_removed() {
        let mut deadlines = Deadlines::default();
        deadlines.set(Deadline::Updates, Some(at(5)));
        deadlines.set(Deadline::Updates, Some(at(3)));
        assert_eq!(deadlines.get(&Deadline::Updates), Some(at(3)));
        assert_eq!(deadlines.next(), Some(at(3)));
        deadlines.set(Deadline::Updates, None);
        assert_eq!(
            (deadlines.get(&Deadline::Updates), deadlines.next()),
            (None, None)
        );
        deadlines.set(Deadline::Updates, Some(at(4)));
        deadlines.remove(&Deadline::Updates);
        assert_eq!(deadlines.next(), None);
    }
}
