//! Bandwidth estimation for a receiver's network.

use std::time::{Duration, Instant};

use str0m::bwe::Bitrate;

/// Assumed bandwidth before the first estimate.
pub const INITIAL_BITRATE: Bitrate = Bitrate::mbps(2);

/// Period over which str0m averages estimates before it reports them.
const ESTIMATE_WINDOW: Duration = Duration::from_secs(3);

/// Time without probes after a video source was added.
///
/// A client answers an offer before it reads the SSRCs in it, and str0m probes with repeated packets. If the first
/// packet of an SSRC is such a repeated one, Pion (4.2) cannot determine its codec, and drops the source without
/// reporting that to the application.
const SETTLING: Duration = Duration::from_millis(500);

/// Bandwidth estimation for one client: interprets str0m's estimates. Methods return the values that the connection has
/// to set in str0m.
#[derive(Debug, Default)]
pub struct Estimation {
    /// Estimated bandwidth to the client.
    estimate: Option<Bitrate>,
    /// Capacity of the client's network, derived from the estimates so far.
    capacity: Capacity,
    /// Detects estimates that stay too low.
    stagnation: Stagnation,
    /// Whether the estimation rests because no video is sent.
    is_resting: bool,
    /// Until when str0m's averages include the rest.
    rested_until: Option<Instant>,
    /// Time at which probing resumes after a video source was added.
    settled_at: Option<Instant>,
    /// Bitrates last set in str0m: the next step and the best, in bits per second.
    bitrates: (u64, u64),
}

/// Whether an estimate is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EstimateUse {
    /// The estimate is valid from now on.
    Counts,
    /// The average includes a rest, so the estimate is ignored.
    Ignored,
    /// It measures audio and padding during a rest, and would raise the padding, so str0m must be reset to zero.
    AtRest,
}

impl Estimation {
    /// Returns the estimated bandwidth; `None` before the first estimate.
    pub const fn estimate(&self) -> Option<Bitrate> {
        self.estimate
    }

    /// Returns the next step that str0m probes for, in bits per second; 0 for none.
    pub const fn next_step(&self) -> u64 {
        self.bitrates.0
    }

    /// Starts or ends a rest, during which no video is sent. Returns the bitrate to which str0m must be reset; `None`
    /// if nothing changed.
    ///
    /// On a connection with a video source, str0m sends padding of up to 50 kbit/s even if no bitrate is requested, but
    /// never more than the estimate. So the estimate is zero during a rest.
    pub fn rest(&mut self, is_resting: bool, now: Instant) -> Option<Bitrate> {
        if std::mem::replace(&mut self.is_resting, is_resting) == is_resting {
            return None;
        }
        // After the rest, str0m's averages still include zeros for a whole window.
        self.rested_until = (!is_resting).then(|| now + ESTIMATE_WINDOW);
        Some(if is_resting {
            Bitrate::ZERO
        } else {
            // A rest reveals nothing about the network, so continue where it started.
            self.estimate.unwrap_or(INITIAL_BITRATE)
        })
    }

    /// Processes an estimate; `None` if str0m no longer has one.
    pub fn observe(&mut self, estimate: Option<Bitrate>, now: Instant) -> EstimateUse {
        // Losing the estimate counts during a rest as well.
        if estimate.is_some() {
            if self.is_resting && estimate > Some(Bitrate::ZERO) {
                return EstimateUse::AtRest;
            }
            if self.is_resting || self.rested_until.is_some_and(|until| now < until) {
                return EstimateUse::Ignored;
            }
        }
        self.estimate = estimate;
        EstimateUse::Counts
    }

    /// Returns the capacity of the client's network in bits per second, given the bitrate that is sent now; `None`
    /// without an estimate.
    pub fn update_capacity(&mut self, sent: u64, now: Instant) -> Option<u64> {
        match self.estimate {
            Some(estimate) => self.capacity.observe(estimate.as_u64(), sent, now),
            // A client that cannot probe, or stopped reporting, must not be limited by an old estimate.
            None => self.capacity = Capacity::default(),
        }
        self.capacity.bits_per_second()
    }

    /// Sets the bitrates to probe for: the next step and the best, in bits per second; zero while a new video source
    /// settles. Returns the bitrates to set in str0m, if they changed.
    pub fn set_bitrates(&mut self, next: u64, best: u64, now: Instant) -> Option<(u64, u64)> {
        let is_settling = self.settled_at.is_some_and(|at| now < at);
        let bitrates = if is_settling { (0, 0) } else { (next, best) };
        let before = std::mem::replace(&mut self.bitrates, bitrates);
        (before != bitrates).then_some(bitrates)
    }

    /// Stops probing until a new video source has settled. That takes effect at the next call of
    /// [`Self::set_bitrates`], made by the allocation that includes the source.
    pub fn settle(&mut self, now: Instant) {
        self.settled_at = Some(now + SETTLING);
    }

    /// Returns the capacity if more is about to be sent than the estimate allows; str0m must be reset to it. Otherwise
    /// it would probe its way up to a bitrate that the network has already carried.
    pub fn make_room(&mut self, bits_per_second: u64) -> Option<Bitrate> {
        let capacity = self.capacity.bits_per_second().map(Bitrate::from)?;
        let is_lower =
            |estimate: Bitrate| estimate.as_u64() < bits_per_second && estimate < capacity;
        // During a rest, str0m must stay at zero.
        if self.is_resting || !self.estimate.is_some_and(is_lower) {
            return None;
        }
        self.estimate = Some(capacity);
        Some(capacity)
    }

    /// Returns the current estimate if it has not changed for some time although `wanted` exceeds it; str0m must be
    /// reset to it, which makes it probe again.
    pub fn leave_stagnation(&mut self, wanted: u64, now: Instant) -> Option<Bitrate> {
        let estimate = self.estimate?;
        self.stagnation
            .observe(estimate.as_u64(), wanted, now)
            .then_some(estimate)
    }
}

/// Time for which a lower estimate is ignored while everything that is sent fits into it.
const DOUBT: Duration = Duration::from_secs(30);

/// Assumed capacity of a receiver's network.
///
/// At the first late packets, an estimate falls to the bitrate that is being sent, however low. That proves only that
/// the network carries this much. So a lower estimate is doubted for some time while the sent bitrate fits into it:
/// otherwise a receiver of a low layer would wait for 3 to 11 seconds, until the estimation has probed its way up,
/// before it gets a higher one.
#[derive(Debug, Clone, Copy, Default)]
struct Capacity {
    bits_per_second: Option<u64>,
    /// Since when estimates are doubted.
    doubted_since: Option<Instant>,
}

impl Capacity {
    /// Processes an estimate, given the bitrate that is sent now, both in bits per second.
    fn observe(&mut self, estimate: u64, sent: u64, now: Instant) {
        let is_higher = self
            .bits_per_second
            .is_none_or(|capacity| estimate >= capacity);
        let is_old = self
            .doubted_since
            .is_some_and(|since| now.saturating_duration_since(since) >= DOUBT);
        // An estimate below the sent bitrate means congestion, and is valid at once.
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
    fn bits_per_second(&self) -> Option<u64> {
        self.bits_per_second
    }
}

/// Time without a change before the estimation is reset for the first time.
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// Maximum time between two resets: the wait doubles after each reset without effect.
const LONGEST_WAIT: Duration = Duration::from_secs(40);

/// Smallest change of the estimate that counts, in percent.
const CHANGE_PERCENT: u64 = 5;

/// Detects an estimate that does not change although more bandwidth is wanted. After congestion, an estimation can stop
/// probing, and stay low for a minute after the network has recovered. A reset makes it probe once, with a few packets.
#[derive(Debug, Clone, Default)]
struct Stagnation {
    /// Unchanged estimate in bits per second, and since when.
    since: Option<(u64, Instant)>,
    /// Resets without effect.
    restarts: u32,
}

impl Stagnation {
    /// Returns whether the estimation should be reset now. `wanted` is the budget for the next step, in bits per
    /// second; 0 if every video has its best layer.
    fn observe(&mut self, estimate: u64, wanted: u64, now: Instant) -> bool {
        if wanted <= estimate {
            *self = Self::default();
            return false;
        }
        let (reference, since) = *self.since.get_or_insert((estimate, now));
        // An estimate that moves is a working estimation, even if it is slow.
        if estimate.abs_diff(reference) * 100 > reference * CHANGE_PERCENT {
            *self = Self {
                since: Some((estimate, now)),
                restarts: 0,
            };
            return false;
        }
        // The exponent is bounded only against overflow; three resets reach LONGEST_WAIT.
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

    /// Returns the seconds of a two-minute run at which the estimation is reset, with an estimate and a demand per
    /// second.
    fn restarts(at: impl Fn(u64) -> (u64, u64)) -> Vec<u64> {
        let (mut stagnation, start) = (Stagnation::default(), Instant::now());
        let is_due = |second: &u64| {
            let (estimate, wanted) = at(*second);
            stagnation.observe(estimate, wanted, start + Duration::from_secs(*second))
        };
        (0..120).filter(is_due).collect()
    }

    #[test]
    fn an_estimate_that_stays_too_low_starts_anew_with_growing_waits() {
        // Waits of 5, 10, 20 and then 40 seconds.
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
        // The fall at second 7 starts the waits anew: 7 + 5, then 10 more.
        assert_eq!(falls_once[..3], [5, 12, 22]);
    }

    #[test]
    fn estimates_of_a_rest_do_not_count_and_the_last_one_before_it_goes_on() {
        let (mut estimation, start) = (Estimation::default(), Instant::now());
        let (before, later) = (Bitrate::kbps(900), start + ESTIMATE_WINDOW);
        assert_eq!(estimation.observe(Some(before), start), EstimateUse::Counts);
        assert_eq!(estimation.rest(true, start), Some(Bitrate::ZERO));
        assert_eq!(estimation.rest(true, start), None, "it rests already");
        let padding = Some(Bitrate::kbps(50));
        assert_eq!(estimation.observe(padding, start), EstimateUse::AtRest);
        assert_eq!(
            estimation.observe(Some(Bitrate::ZERO), start),
            EstimateUse::Ignored
        );
        assert_eq!(estimation.rest(false, start), Some(before));
        assert_eq!(estimation.observe(padding, start), EstimateUse::Ignored);
        assert_eq!(estimation.estimate(), Some(before));
        assert_eq!(estimation.observe(padding, later), EstimateUse::Counts);
        assert_eq!(estimation.estimate(), padding);
        assert_eq!(estimation.rest(true, later), Some(Bitrate::ZERO));
        assert_eq!(estimation.observe(None, later), EstimateUse::Counts);
        assert_eq!(
            estimation.rest(false, later),
            Some(INITIAL_BITRATE),
            "the estimate is discarded"
        );
    }

    #[test]
    fn no_bandwidth_is_tried_until_a_new_source_has_settled() {
        let (mut estimation, start) = (Estimation::default(), Instant::now());
        assert_eq!(estimation.set_bitrates(1, 2, start), Some((1, 2)));
        assert_eq!(
            estimation.set_bitrates(1, 2, start),
            None,
            "the bitrates are already set"
        );
        estimation.settle(start);
        assert_eq!(estimation.next_step(), 1);
        assert_eq!(estimation.set_bitrates(1, 2, start), Some((0, 0)));
        assert_eq!(estimation.next_step(), 0);
        assert_eq!(
            estimation.set_bitrates(1, 2, start + SETTLING),
            Some((1, 2))
        );
    }

    #[test]
    fn an_estimate_is_raised_to_what_the_network_has_carried() {
        let (mut estimation, now) = (Estimation::default(), Instant::now());
        assert_eq!(estimation.make_room(1_000_000), None, "nothing is known");
        estimation.observe(Some(Bitrate::mbps(2)), now);
        assert_eq!(estimation.update_capacity(SMALL, now), Some(2_000_000));
        estimation.observe(Some(Bitrate::kbps(200)), now);
        assert_eq!(
            estimation.update_capacity(SMALL, now),
            Some(2_000_000),
            "all fits, so it is doubted"
        );
        assert_eq!(estimation.make_room(SMALL), None, "it is allowed");
        assert_eq!(estimation.make_room(1_000_000), Some(Bitrate::mbps(2)));
        assert_eq!(estimation.estimate(), Some(Bitrate::mbps(2)));
    }
}
