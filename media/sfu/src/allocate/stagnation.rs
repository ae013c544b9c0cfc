//! Estimates of the bandwidth that stay too low.

use std::time::{Duration, Instant};

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
