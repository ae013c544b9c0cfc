//! Comparison of a participant's measured bitrate with its limit. A bitrate above the limit, or below it again, is
//! reported once it has lasted [`MIN_DURATION`] without interruption, so that bursts cause no events.

use std::time::Duration;

/// Minimum time above the limit, or below it again, before a report.
const MIN_DURATION: Duration = Duration::from_secs(5);

/// Last measurement and last reported state.
#[derive(Debug, Clone, Default)]
pub(super) struct BitrateMeter {
    kbps: u32,
    max_kbps: u32,
    exceeded: bool,
    deadline: Option<Duration>,
}

/// A change that has lasted long enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LimitChange {
    /// Whether the bitrate is above the limit now, as opposed to below it again.
    pub exceeded: bool,
    /// Measured bitrate in kbit/s.
    pub kbps: u32,
    /// Limit in kbit/s.
    pub max_kbps: u32,
}

impl BitrateMeter {
    /// Returns the last measured bitrate in kbit/s.
    pub fn kbps(&self) -> u32 {
        self.kbps
    }

    /// Records a measurement. Without a limit, no bitrate exceeds it; if the limit is removed while exceeded, that
    /// counts as falling below it.
    pub fn measure(&mut self, kbps: u32, max_kbps: Option<u32>, reading: Duration) {
        self.kbps = kbps;
        // The report of a removed limit names the limit that had been exceeded.
        self.max_kbps = max_kbps.unwrap_or(self.max_kbps);
        let is_changed = max_kbps.is_some_and(|max| kbps > max) != self.exceeded;
        // The first measurement in the new state sets the deadline. One in the old state removes it, so that only
        // uninterrupted changes count.
        self.deadline = is_changed.then(|| self.deadline.unwrap_or_else(|| reading + MIN_DURATION));
    }

    /// Returns the monotonic reading at which the current change will have lasted long enough.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Returns the change that has lasted long enough by this reading, once.
    pub fn take_change(&mut self, reading: Duration) -> Option<LimitChange> {
        self.deadline.take_if(|deadline| *deadline <= reading)?;
        self.exceeded = !self.exceeded;
        Some(LimitChange {
            exceeded: self.exceeded,
            kbps: self.kbps,
            max_kbps: self.max_kbps,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_limit_is_exceeded_after_five_seconds_above_it_and_cleared_after_five_seconds_at_it() {
        let mut meter = BitrateMeter::default();
        meter.measure(101, Some(100), at(0));
        meter.measure(150, Some(100), at(3));
        assert_eq!(meter.take_change(at(4)), None);
        assert_eq!(
            meter.take_change(at(5)),
            Some(LimitChange {
                exceeded: true,
                kbps: 150,
                max_kbps: 100
            })
        );
        assert_eq!((meter.take_change(at(60)), meter.deadline()), (None, None));
        // Exactly at the limit is not above it.
        meter.measure(100, Some(100), at(60));
        assert_eq!(meter.deadline(), Some(at(65)));
        assert_eq!(
            meter.take_change(at(65)),
            Some(LimitChange {
                exceeded: false,
                kbps: 100,
                max_kbps: 100
            })
        );
    }

    #[test]
    fn an_interruption_restarts_the_duration() {
        let mut meter = BitrateMeter::default();
        meter.measure(101, Some(100), at(0));
        meter.measure(99, Some(100), at(4));
        assert_eq!(meter.take_change(at(9)), None);
        meter.measure(101, Some(100), at(9));
        assert_eq!(meter.deadline(), Some(at(14)));
    }

    #[test]
    fn nothing_is_exceeded_without_a_limit() {
        let mut meter = BitrateMeter::default();
        meter.measure(u32::MAX, None, at(0));
        assert_eq!(meter.deadline(), None);
    }

    #[test]
    fn removing_a_limit_clears_it_with_its_last_value() {
        let mut meter = BitrateMeter::default();
        meter.measure(150, Some(100), at(0));
        assert!(
            meter
                .take_change(at(5))
                .is_some_and(|change| change.exceeded)
        );
        // As after a change to a role without a limit.
        meter.measure(150, None, at(6));
        assert_eq!(
            meter.take_change(at(11)),
            Some(LimitChange {
                exceeded: false,
                kbps: 150,
                max_kbps: 100
            })
        );
    }
}
