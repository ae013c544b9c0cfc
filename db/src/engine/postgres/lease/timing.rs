//! Lease intervals, which must be equal on all servers.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::Beat;

/// Lease intervals, measured by each server's steady clock.
///
/// A server's clock may run up to a third faster than another's: the silence after which a standby takes over is a third longer than the
/// active server's trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTiming {
    /// Interval at which the active server renews the lease.
    pub renewal: Duration,
    /// Time for which the active server may act outside the database, counted from the sending of its last confirmed renewal.
    pub trust: Duration,
    /// Interval at which a standby reads the lease.
    pub read: Duration,
    /// Time without a renewal after which a standby takes over.
    pub silence: Duration,
    /// Delay before a failed request is repeated.
    pub retry: Duration,
    /// Time limit for the reply to a read or a renewal.
    pub answer: Duration,
    /// Interval of a server's reports.
    pub report: Duration,
    /// Time limit for the reply to a claim, which waits for the previous server's running transactions.
    pub claim: Duration,
}

impl LeaseTiming {
    /// Returns the maximum silence that one successful read adds. At a quarter of the limit, a takeover needs at least four such reads, and
    /// a time in which the database was unreachable hardly counts.
    #[must_use]
    pub fn longest_gap(&self) -> Duration {
        self.silence / 4
    }
}

impl Default for LeaseTiming {
    fn default() -> Self {
        // The silence is 4/3 of the trust, for clocks that differ by up to a third.
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

/// Returns the time since the system was booted. Unlike `Instant`, it includes time in suspend: a server that wakes must not trust a
/// renewal from before.
pub(super) fn steady_now() -> Duration {
    // CLOCK_MONOTONIC stops in suspend.
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or_default(),
        u32::try_from(now.tv_nsec).unwrap_or_default(),
    )
}

/// Last renewal, and the silence since then, according to successful reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation {
    last: Beat,
    /// Time of the last reply.
    answered: Duration,
    silence: Duration,
}

impl Observation {
    /// Adds a successful read.
    pub(super) fn after(
        before: Option<Self>,
        now: Duration,
        last: Beat,
        timing: &LeaseTiming,
    ) -> Self {
        let silence = before
            // A new renewal restarts the count.
            .filter(|before| before.last == last)
            .map_or(Duration::ZERO, |before| {
                // At most a quarter of the silence per read: the time in which the database did not reply counts for little.
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

    /// Restarts the silence: the database refuses writes, and with them the active server's renewals.
    pub(super) fn restarted(self) -> Self {
        Self {
            silence: Duration::ZERO,
            ..self
        }
    }

    /// Returns the start of the silence, as far as the reads account for it.
    pub(super) fn since(&self) -> Duration {
        self.answered.saturating_sub(self.silence)
    }

    /// Returns whether the active server has been silent for long enough for a takeover.
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

    /// Returns when the silence is over the limit, for reads with replies at these milliseconds that show these renewals.
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
