//! What the network to the client carries, by the estimates of its bandwidth.

use std::time::Instant;

use str0m::bwe::Bitrate;

use super::Transport;
use crate::forward::Capacity;

impl Transport {
    /// Returns what the network to the client carries while so much is sent, in bits per second; `None` without an estimate.
    pub fn update_capacity(&mut self, sent: u64, now: Instant) -> Option<u64> {
        match self.estimate {
            Some(estimate) => self.capacity.observe(estimate.as_u64(), sent, now),
            None => self.capacity = Capacity::default(),
        }
        self.capacity.bits_per_second()
    }

    /// Tells the estimation which bitrates are to be tried: the next step and the best, in bits per second. Returns whether they are
    /// others than before.
    pub fn set_bitrates(&mut self, next: u64, best: u64) -> bool {
        if std::mem::replace(&mut self.bitrates, (next, best)) == (next, best) {
            return false;
        }
        self.change_or_fail(|rtc| rtc.bwe().set_bitrate(Bitrate::from(next), Bitrate::from(best)));
        true
    }

    /// Lets the estimation start anew at the capacity if more is to be sent than it allows: else it would feel its way up to what
    /// the network has carried already.
    pub fn make_room(&mut self, bits_per_second: u64) {
        let Some(capacity) = self.capacity.bits_per_second().map(Bitrate::from) else { return };
        let is_lower = |estimate: Bitrate| estimate.as_u64() < bits_per_second && estimate < capacity;
        if self.estimate.is_some_and(is_lower) {
            self.estimate = Some(capacity);
            self.change_or_fail(|rtc| rtc.bwe().reset(capacity));
        }
    }

    /// Lets the estimation start anew, at the present estimate, if that has not changed for some time although more is wanted.
    pub fn leave_stagnation(&mut self, wanted: u64, now: Instant) {
        let Some(estimate) = self.estimate else { return };
        if self.stagnation.observe(estimate.as_u64(), wanted, now) {
            self.change_or_fail(|rtc| rtc.bwe().reset(estimate));
        }
    }
}
