//! What the network to the client carries, by the estimates of its bandwidth.

use std::time::{Duration, Instant};

use str0m::bwe::Bitrate;

use super::Transport;
use super::settings::INITIAL_BITRATE;
use crate::allocate::Capacity;

/// Over which time str0m takes the mean of estimates before it reports them.
const ESTIMATE_WINDOW: Duration = Duration::from_secs(3);

/// How long no more bandwidth is tried after a source of video was added. A client answers an offer before it reads the sources of it, and
/// str0m tries bandwidth with packets that it repeats. Pion (4.2) gives up a source, without a word to the application, if the first
/// packet that it reads of it is a repeated one, of which it does not know the codec.
const SETTLING: Duration = Duration::from_millis(500);

impl Transport {
    /// Lets the estimation of the bandwidth rest while no video is to be sent, and go on from where it was. On a connection with a
    /// source of video, str0m sends padding up to 50 kbit/s, whatever is wanted, but never more than the estimate; so that is 0
    /// while it rests. Returns whether something has changed.
    pub fn rest(&mut self, is_resting: bool, now: Instant) -> bool {
        if std::mem::replace(&mut self.is_resting, is_resting) == is_resting {
            return false;
        }
        let estimate = if is_resting {
            Bitrate::ZERO
        } else {
            self.estimate.unwrap_or(INITIAL_BITRATE)
        };
        self.rested_until = (!is_resting).then(|| now + ESTIMATE_WINDOW);
        self.change_or_fail(|rtc| rtc.bwe().reset(estimate));
        true
    }

    /// Takes an estimate of the bandwidth, `None` if there is none any more. Returns whether it counts: at rest it is about sound and
    /// padding, and raises what is padded.
    pub fn note_estimate(&mut self, estimate: Option<Bitrate>, now: Instant) -> bool {
        if self.is_resting && estimate.is_some_and(|estimate| estimate > Bitrate::ZERO) {
            self.change_or_fail(|rtc| rtc.bwe().reset(Bitrate::ZERO));
        }
        let counts = estimate.is_none()
            || !(self.is_resting || self.rested_until.is_some_and(|until| now < until));
        if counts {
            self.estimate = estimate;
        }
        counts
    }

    /// Returns what the network to the client carries while so much is sent, in bits per second; `None` without an estimate.
    pub fn update_capacity(&mut self, sent: u64, now: Instant) -> Option<u64> {
        match self.estimate {
            Some(estimate) => self.capacity.observe(estimate.as_u64(), sent, now),
            None => self.capacity = Capacity::default(),
        }
        self.capacity.bits_per_second()
    }

    /// Tells the estimation which bitrates are to be tried: the next step and the best, in bits per second. Returns whether they are
    /// others than before. None are while a new source of video settles.
    pub fn set_bitrates(&mut self, next: u64, best: u64, now: Instant) -> bool {
        let is_settling = self.settled_at.is_some_and(|at| now < at);
        let (next, best) = if is_settling { (0, 0) } else { (next, best) };
        if std::mem::replace(&mut self.bitrates, (next, best)) == (next, best) {
            return false;
        }
        self.change_or_fail(|rtc| {
            rtc.bwe()
                .set_bitrate(Bitrate::from(next), Bitrate::from(best));
        });
        true
    }

    /// Tries no more bandwidth until a new source of video has settled, from when the bitrates are set next: by the allocation, in which
    /// the source counts.
    pub fn settle(&mut self, now: Instant) {
        self.settled_at = Some(now + SETTLING);
    }

    /// Lets the estimation start anew at the capacity if more is to be sent than it allows: else it would feel its way up to what
    /// the network has carried already.
    pub fn make_room(&mut self, bits_per_second: u64) {
        let Some(capacity) = self.capacity.bits_per_second().map(Bitrate::from) else {
            return;
        };
        let is_lower =
            |estimate: Bitrate| estimate.as_u64() < bits_per_second && estimate < capacity;
        if !self.is_resting && self.estimate.is_some_and(is_lower) {
            self.estimate = Some(capacity);
            self.change_or_fail(|rtc| rtc.bwe().reset(capacity));
        }
    }

    /// Lets the estimation start anew, at the present estimate, if that has not changed for some time although more is wanted.
    pub fn leave_stagnation(&mut self, wanted: u64, now: Instant) {
        let Some(estimate) = self.estimate else {
            return;
        };
        if self.stagnation.observe(estimate.as_u64(), wanted, now) {
            self.change_or_fail(|rtc| rtc.bwe().reset(estimate));
        }
    }
}
