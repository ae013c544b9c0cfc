//! The times of the lease. Every server of a database must have the same.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::Beat;

/// The times of the lease, by the steady clock of each server.
///
/// A server's clock may run up to a third faster than another's: the silence after which a standby takes over is a third longer than
/// the trust of the active server in itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTiming {
    /// Interval at which the active server renews the lease.
    pub renewal: Duration,
    /// How long the active server may act outside the database, from the sending of the last renewal that was confirmed.
    pub trust: Duration,
    /// Interval at which a standby reads the lease.
    pub read: Duration,
    /// How long a standby has to see no renewal before it takes over.
    pub silence: Duration,
    /// Delay before a request that failed is made again.
    pub retry: Duration,
    /// Time that the database has to answer a read or a renewal.
    pub answer: Duration,
    /// Interval at which a server says what it is, and reads what the others are.
    pub report: Duration,
    /// Time that the database has to answer a claim, which waits for the running transactions of the server before.
    pub claim: Duration,
}

impl LeaseTiming {
    /// How much of the silence one answered read counts for at most. So the silence takes at least four answered reads, and a
    /// database that has not answered for a while shows no more silence than one that answered at once.
    #[must_use]
    pub fn longest_gap(&self) -> Duration {
        self.silence / 4
    }
}

impl Default for LeaseTiming {
    fn default() -> Self {
        Self {
            renewal: Duration::from_secs(1),
            trust: Duration::from_secs(3),
            read: Duration::from_millis(500),
            silence: Duration::from_secs(4),
            retry: Duration::from_millis(250),
            answer: Duration::from_secs(2),
            report: Duration::from_secs(3),
            claim: Duration::from_secs(10),
        }
    }
}

/// Returns the time since the machine was started. Unlike `Instant`, it goes on while the machine sleeps: a server that wakes must
/// not trust a renewal from before.
pub(super) fn steady_now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or_default(),
        u32::try_from(now.tv_nsec).unwrap_or_default(),
    )
}

/// How long a renewal has been the last one, as answered reads have shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation {
    last: Beat,
    /// When the last answer arrived.
    answered: Duration,
    silence: Duration,
}

impl Observation {
    /// Notes an answered read.
    pub(super) fn after(
        before: Option<Self>,
        now: Duration,
        last: Beat,
        timing: &LeaseTiming,
    ) -> Self {
        let silence =
            before
                .filter(|before| before.last == last)
                .map_or(Duration::ZERO, |before| {
                    before.silence
                        + now
                            .saturating_sub(before.answered)
                            .min(timing.longest_gap())
                });
        Self {
            last,
            answered: now,
            silence,
        }
    }

    /// The same, without the silence: the database refuses writes, and with them the renewals of the active server.
    pub(super) fn restarted(self) -> Self {
        Self {
            silence: Duration::ZERO,
            ..self
        }
    }

    /// Since when the renewal has been the last one, by the time that the answered reads account for.
    pub(super) fn begun(&self) -> Duration {
        self.answered.saturating_sub(self.silence)
    }

    /// Whether the active server has been silent for long enough for another to take over.
    pub(super) fn is_over(&self, timing: &LeaseTiming) -> bool {
        self.silence >= timing.silence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: LeaseTiming = LeaseTiming {
        renewal: Duration::from_secs(1),
        trust: Duration::from_secs(3),
        read: Duration::from_millis(500),
        silence: Duration::from_secs(4),
        retry: Duration::from_millis(250),
        answer: Duration::from_secs(2),
        report: Duration::from_secs(3),
        claim: Duration::from_secs(10),
    };

    /// Reads that are answered at these milliseconds, of which some show another renewal.
    fn over_at(reads: &[(u64, i64)]) -> Option<u64> {
        let mut seen = None;
        reads.iter().find_map(|(millis, beat)| {
            let beat = Beat {
                epoch: 1,
                number: *beat,
            };
            let observation =
                Observation::after(seen, Duration::from_millis(*millis), beat, &TIMING);
            seen = Some(observation);
            observation.is_over(&TIMING).then_some(*millis)
        })
    }

    #[test]
    fn silence_is_counted_from_the_first_answer_that_shows_the_last_renewal() {
        let every_half_second = |from: u64| (from..from + 12).map(|half| (half * 500, 7));
        assert_eq!(
            over_at(&every_half_second(0).collect::<Vec<_>>()),
            Some(4_000)
        );
        let renewed: Vec<_> = every_half_second(0)
            .take(7)
            .chain([(3_500, 8)])
            .chain((8..20).map(|half| (half * 500, 8)))
            .collect();
        assert_eq!(over_at(&renewed), Some(7_500));
    }

    #[test]
    fn a_database_that_does_not_answer_shows_one_second_of_silence_at_most() {
        assert_eq!(
            over_at(&[
                (0, 7),
                (60_000, 7),
                (60_500, 7),
                (61_000, 7),
                (62_000, 7),
                (62_500, 7),
                (63_000, 7)
            ]),
            Some(63_000)
        );
        let seldom: Vec<_> = (0..6).map(|read| (read * 30_000, 7)).collect();
        assert_eq!(
            over_at(&seldom),
            Some(120_000),
            "the fourth read after the first"
        );
    }
}
