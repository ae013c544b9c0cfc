//! The estimation of the bandwidth to a receiver: what its network carries.

use std::time::{Duration, Instant};

use str0m::bwe::Bitrate;

/// How fast sending to a client starts before its bandwidth is known.
pub const INITIAL_BITRATE: Bitrate = Bitrate::mbps(2);

/// Over which time str0m takes the mean of estimates before it reports them.
const ESTIMATE_WINDOW: Duration = Duration::from_secs(3);

/// How long no more bandwidth is tried after a source of video was added. A client answers an offer before it reads the sources of it, and
/// str0m tries bandwidth with packets that it repeats. Pion (4.2) gives up a source, without a word to the application, if the first
/// packet that it reads of it is a repeated one, of which it does not know the codec.
const SETTLING: Duration = Duration::from_millis(500);

/// The estimation of the bandwidth to one client: the estimates of str0m, the conclusions from them, and the values that str0m has to
/// be told. The methods return the latter; the connection passes them on.
#[derive(Debug, Default)]
pub struct Estimation {
    /// The estimated bandwidth to the client.
    estimate: Option<Bitrate>,
    /// What the network to the client carries, by the estimates so far.
    capacity: Capacity,
    /// Whether the estimate stays too low.
    stagnation: Stagnation,
    /// Whether no video is to be sent, so that the estimation rests.
    is_resting: bool,
    /// Until when estimates are means that count its rest.
    rested_until: Option<Instant>,
    /// Until when no more bandwidth is tried, since a source of video is new.
    settled_at: Option<Instant>,
    /// The bitrates that str0m was told to try: the next step and the best, in bits per second.
    bitrates: (u64, u64),
}

/// The use of an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// It holds from now on.
    Counts,
    /// It counts the time of a rest, and changes nothing.
    Ignored,
    /// It came during a rest, and is about sound and padding. It raises the padding, so str0m has to start anew at zero.
    AtRest,
}

impl Estimation {
    /// Returns the estimated bandwidth to the client; `None` before the first estimate.
    pub const fn estimate(&self) -> Option<Bitrate> {
        self.estimate
    }

    /// Returns the bitrate of the next step that str0m was told to try, in bits per second; 0 for none.
    pub const fn next_step(&self) -> u64 {
        self.bitrates.0
    }

    /// Starts or ends a rest, in which no video is to be sent. On a connection with a source of video, str0m sends padding up to
    /// 50 kbit/s, whatever is wanted, but never more than the estimate; so that is 0 while it rests. Returns the bitrate at which the
    /// estimation has to start anew; `None` if nothing has changed.
    pub fn rest(&mut self, is_resting: bool, now: Instant) -> Option<Bitrate> {
        if std::mem::replace(&mut self.is_resting, is_resting) == is_resting {
            return None;
        }
        self.rested_until = (!is_resting).then(|| now + ESTIMATE_WINDOW);
        Some(if is_resting {
            Bitrate::ZERO
        } else {
            self.estimate.unwrap_or(INITIAL_BITRATE)
        })
    }

    /// Takes an estimate of the bandwidth, `None` if there is none any more.
    pub fn observe(&mut self, estimate: Option<Bitrate>, now: Instant) -> Observation {
        if estimate.is_some() {
            if self.is_resting && estimate > Some(Bitrate::ZERO) {
                return Observation::AtRest;
            }
            if self.is_resting || self.rested_until.is_some_and(|until| now < until) {
                return Observation::Ignored;
            }
        }
        self.estimate = estimate;
        Observation::Counts
    }

    /// Returns what the network to the client carries while so much is sent, in bits per second; `None` without an estimate.
    pub fn update_capacity(&mut self, sent: u64, now: Instant) -> Option<u64> {
        match self.estimate {
            Some(estimate) => self.capacity.observe(estimate.as_u64(), sent, now),
            None => self.capacity = Capacity::default(),
        }
        self.capacity.bits_per_second()
    }

    /// Sets which bitrates are to be tried: the next step and the best, in bits per second. None are while a new source of video settles.
    /// Returns those that str0m has to be told, if they are others than before.
    pub fn set_bitrates(&mut self, next: u64, best: u64, now: Instant) -> Option<(u64, u64)> {
        let is_settling = self.settled_at.is_some_and(|at| now < at);
        let bitrates = if is_settling { (0, 0) } else { (next, best) };
        let before = std::mem::replace(&mut self.bitrates, bitrates);
        (before != bitrates).then_some(bitrates)
    }

    /// Tries no more bandwidth until a new source of video has settled, from when the bitrates are set next: by the allocation, in which
    /// the source counts.
    pub fn settle(&mut self, now: Instant) {
        self.settled_at = Some(now + SETTLING);
    }

    /// Returns the capacity, at which the estimation has to start anew, if more is to be sent than it allows: else it would feel its way
    /// up to what the network has carried already.
    pub fn make_room(&mut self, bits_per_second: u64) -> Option<Bitrate> {
        let capacity = self.capacity.bits_per_second().map(Bitrate::from)?;
        let is_lower =
            |estimate: Bitrate| estimate.as_u64() < bits_per_second && estimate < capacity;
        if self.is_resting || !self.estimate.is_some_and(is_lower) {
            return None;
        }
        self.estimate = Some(capacity);
        Some(capacity)
    }

    /// Returns the present estimate, at which the estimation has to start anew, if that has not changed for some time although more is
    /// wanted.
    pub fn leave_stagnation(&mut self, wanted: u64, now: Instant) -> Option<Bitrate> {
        let estimate = self.estimate?;
        self.stagnation
            .observe(estimate.as_u64(), wanted, now)
            .then_some(estimate)
    }
}

/// How long an estimate is doubted that says nothing about more than is sent.
const DOUBT: Duration = Duration::from_secs(30);

/// What the network to a receiver is taken to carry, by the estimates of its bandwidth.
///
/// At the first packets that are late, an estimate falls to what is being sent, however little that is. It says then that the
/// network carries at least that, and nothing about more. So while what is sent fits, a lower estimate is doubted for some time:
/// else a receiver of a small layer would get a larger one only after the estimation has felt its way up again.
#[derive(Debug, Clone, Copy, Default)]
struct Capacity {
    bits_per_second: Option<u64>,
    /// Since when estimates are doubted.
    doubted_since: Option<Instant>,
}

impl Capacity {
    /// Takes an estimate, and what is being sent, in bits per second.
    fn observe(&mut self, estimate: u64, sent: u64, now: Instant) {
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
    fn bits_per_second(&self) -> Option<u64> {
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
struct Stagnation {
    /// The estimate that has not changed, in bits per second, and since when.
    since: Option<(u64, Instant)>,
    /// New starts that changed nothing.
    restarts: u32,
}

impl Stagnation {
    /// Returns whether the estimation should start anew now. `wanted` is what the next better choice would need, in bits per
    /// second; 0 if nothing is left out.
    fn observe(&mut self, estimate: u64, wanted: u64, now: Instant) -> bool {
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

    #[test]
    fn estimates_of_a_rest_do_not_count_and_the_last_one_before_it_goes_on() {
        let (mut estimation, start) = (Estimation::default(), Instant::now());
        let (before, later) = (Bitrate::kbps(900), start + ESTIMATE_WINDOW);
        assert_eq!(estimation.observe(Some(before), start), Observation::Counts);
        assert_eq!(estimation.rest(true, start), Some(Bitrate::ZERO));
        assert_eq!(estimation.rest(true, start), None, "it rests already");
        let padding = Some(Bitrate::kbps(50));
        assert_eq!(estimation.observe(padding, start), Observation::AtRest);
        assert_eq!(
            estimation.observe(Some(Bitrate::ZERO), start),
            Observation::Ignored
        );
        assert_eq!(estimation.rest(false, start), Some(before));
        assert_eq!(estimation.observe(padding, start), Observation::Ignored);
        assert_eq!(estimation.estimate(), Some(before));
        assert_eq!(estimation.observe(padding, later), Observation::Counts);
        assert_eq!(estimation.estimate(), padding);
        assert_eq!(estimation.rest(true, later), Some(Bitrate::ZERO));
        assert_eq!(estimation.observe(None, later), Observation::Counts);
        assert_eq!(
            estimation.rest(false, later),
            Some(INITIAL_BITRATE),
            "nothing is known any more"
        );
    }

    #[test]
    fn no_bandwidth_is_tried_until_a_new_source_has_settled() {
        let (mut estimation, start) = (Estimation::default(), Instant::now());
        assert_eq!(estimation.set_bitrates(1, 2, start), Some((1, 2)));
        assert_eq!(estimation.set_bitrates(1, 2, start), None, "it is told");
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
