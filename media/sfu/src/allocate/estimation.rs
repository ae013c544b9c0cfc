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
}
