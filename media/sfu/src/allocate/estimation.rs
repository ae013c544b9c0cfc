//! What the network to a receiver carries.

use std::time::{Duration, Instant};

/// How long an estimate is doubted that says nothing about more than is sent.
const DOUBT: Duration = Duration::from_secs(30);

/// What the network to a receiver is taken to carry, by the estimates of its bandwidth.
///
/// At the first packets that are late, an estimate falls to what is being sent, however little that is. It says then that the
/// network carries at least that, and nothing about more. So while what is sent fits, a lower estimate is doubted for some time:
/// else a receiver of a small layer would get a larger one only after the estimation has felt its way up again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Capacity {
    bits_per_second: Option<u64>,
    /// Since when estimates are doubted.
    doubted_since: Option<Instant>,
}

impl Capacity {
    /// Takes an estimate, and what is being sent, in bits per second.
    pub fn observe(&mut self, estimate: u64, sent: u64, now: Instant) {
        let is_higher = self
            .bits_per_second
            .is_none_or(|capacity| estimate >= capacity);
        let is_old = self
            .doubted_since
            .is_some_and(|since| now.saturating_duration_since(since) >= DOUBT);
        if is_higher || is_old || estimate < sent {
            *self = Self {
                bits_per_second: Some(estimate),
                doubted_since: None,
            };
        } else {
            self.doubted_since.get_or_insert(now);
        }
    }

    /// Returns the capacity in bits per second; `None` without an estimate.
    pub fn bits_per_second(&self) -> Option<u64> {
        self.bits_per_second
    }
}

/// How long an estimate may stay where it is before the estimation starts anew for the first time.
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// The longest time between two new starts: the wait doubles while they change nothing.
const LONGEST_WAIT: Duration = Duration::from_secs(40);

/// A change of the estimate that counts, in percent.
const CHANGE_PERCENT: u64 = 5;

/// Finds estimates that no longer change although more is wanted. After congestion, an estimation can stop to try for more and
/// stay limited for a minute after the network has become fast again. When it starts anew, it probes the network once, with
/// a few packets.
#[derive(Debug, Clone, Default)]
pub struct Stagnation {
    /// The estimate that has not changed, in bits per second, and since when.
    since: Option<(u64, Instant)>,
    /// New starts that changed nothing.
    restarts: u32,
}

impl Stagnation {
    /// Returns whether the estimation should start anew now. `wanted` is what the next better choice would need, in bits per
    /// second; 0 if nothing is left out.
    pub fn observe(&mut self, estimate: u64, wanted: u64, now: Instant) -> bool {
        if wanted <= estimate {
            *self = Self::default();
            return false;
        }
        let (reference, since) = *self.since.get_or_insert((estimate, now));
        if estimate.abs_diff(reference) * 100 > reference * CHANGE_PERCENT {
            *self = Self {
                since: Some((estimate, now)),
                restarts: 0,
            };
            return false;
        }
        let wait = (FIRST_WAIT * 2_u32.saturating_pow(self.restarts.min(8))).min(LONGEST_WAIT);
        let is_due = now.saturating_duration_since(since) >= wait;
        if is_due {
            *self = Self {
                since: Some((reference, now)),
                restarts: self.restarts + 1,
            };
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: u64 = 150_000;

    fn after(estimates: &[(u64, u64)], seconds: u64) -> Option<u64> {
        let (mut capacity, start) = (Capacity::default(), Instant::now());
        for (estimate, sent) in estimates {
            capacity.observe(*estimate, *sent, start);
        }
        if let Some((estimate, sent)) = estimates.last().filter(|_| seconds > 0) {
            capacity.observe(*estimate, *sent, start + Duration::from_secs(seconds));
        }
        capacity.bits_per_second()
    }

    #[test]
    fn an_estimate_into_which_all_fits_is_doubted_for_half_a_minute() {
        let estimates = [(2_000_000, SMALL), (200_000, SMALL)];
        assert_eq!(
            (after(&estimates, 0), after(&estimates, 29)),
            (Some(2_000_000), Some(2_000_000))
        );
        assert_eq!(after(&estimates, 30), Some(200_000));
    }

    #[test]
    fn an_estimate_into_which_not_all_fits_holds_at_once() {
        assert_eq!(
            after(&[(2_000_000, 900_000), (500_000, 900_000)], 0),
            Some(500_000)
        );
        assert_eq!(
            after(&[(2_000_000, SMALL), (200_000, SMALL), (100_000, SMALL)], 0),
            Some(100_000)
        );
    }

    #[test]
    fn a_higher_estimate_holds_at_once_and_ends_the_doubt() {
        let estimates = [
            (1_000_000, SMALL),
            (200_000, SMALL),
            (1_200_000, SMALL),
            (300_000, SMALL),
        ];
        assert_eq!(
            (after(&[], 0), after(&estimates, 29)),
            (None, Some(1_200_000))
        );
    }

    /// Returns the seconds at which the estimation starts anew, of two minutes with an estimate and a demand for each second.
    fn restarts(at: impl Fn(u64) -> (u64, u64)) -> Vec<u64> {
        let (mut stagnation, begun) = (Stagnation::default(), Instant::now());
        let is_due = |second: &u64| {
            let (estimate, wanted) = at(*second);
            stagnation.observe(estimate, wanted, begun + Duration::from_secs(*second))
        };
        (0..120).filter(is_due).collect()
    }

    #[test]
    fn an_estimate_that_stays_too_low_starts_anew_with_growing_waits() {
        assert_eq!(restarts(|_| (400_000, 900_000)), [5, 15, 35, 75, 115]);
    }

    #[test]
    fn nothing_happens_while_all_that_is_wanted_fits() {
        assert!(restarts(|_| (400_000, 0)).is_empty());
        assert!(restarts(|second| (400_000, if second % 4 == 0 { 0 } else { 900_000 })).is_empty());
    }

    #[test]
    fn an_estimate_that_changes_is_left_alone() {
        assert!(restarts(|second| (400_000 + 30_000 * second, 1_000_000)).is_empty());
        let falls_once = restarts(|second| (if second < 7 { 500_000 } else { 400_000 }, 900_000));
        assert_eq!(falls_once[..3], [5, 12, 22]);
    }
}
