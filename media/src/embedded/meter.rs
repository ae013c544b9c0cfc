//! A participant's measured bitrate against its ceiling. A change of sides counts once it has lasted [`PATIENCE`] without
//! interruption, so that a burst raises no event.

use std::time::Duration;

use conclave_model::Timestamp;

/// How long a bitrate must stay on the other side of the ceiling before that is reported.
const PATIENCE: Duration = Duration::from_secs(5);

/// The measure.
#[derive(Debug, Clone, Default)]
pub(super) struct Meter {
    kbps: u32,
    max_kbps: u32,
    exceeded: bool,
    deadline: Option<Timestamp>,
}

/// A change of sides that has lasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crossing {
    /// Above the ceiling now, or back under it.
    pub exceeded: bool,
    /// Measured, in kilobits a second.
    pub kbps: u32,
    /// The ceiling, in kilobits a second.
    pub max_kbps: u32,
}

impl Meter {
    /// What was measured last, in kilobits a second.
    pub fn kbps(&self) -> u32 {
        self.kbps
    }

    /// Takes a measure in. Without a ceiling nothing is exceeded, and what was is back under the last one there was.
    pub fn measure(&mut self, kbps: u32, max_kbps: Option<u32>, now: Timestamp) {
        self.kbps = kbps;
        self.max_kbps = max_kbps.unwrap_or(self.max_kbps);
        let crossed = max_kbps.is_some_and(|ceiling| kbps > ceiling) != self.exceeded;
        self.deadline = crossed.then(|| self.deadline.unwrap_or_else(|| now.after(PATIENCE)));
    }

    /// When the crossing under way will have lasted long enough.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    /// The crossing that has lasted long enough by `now`, once.
    pub fn settle(&mut self, now: Timestamp) -> Option<Crossing> {
        self.deadline.take_if(|deadline| *deadline <= now)?;
        self.exceeded = !self.exceeded;
        Some(Crossing { exceeded: self.exceeded, kbps: self.kbps, max_kbps: self.max_kbps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn five_seconds_above_raise_and_five_at_the_ceiling_clear() {
        let mut meter = Meter::default();
        meter.measure(101, Some(100), at(0));
        meter.measure(150, Some(100), at(3));
        assert_eq!(meter.settle(at(4)), None);
        assert_eq!(meter.settle(at(5)), Some(Crossing { exceeded: true, kbps: 150, max_kbps: 100 }));
        assert_eq!((meter.settle(at(60)), meter.deadline()), (None, None));
        meter.measure(100, Some(100), at(60));
        assert_eq!(meter.deadline(), Some(at(65)));
        assert_eq!(meter.settle(at(65)), Some(Crossing { exceeded: false, kbps: 100, max_kbps: 100 }));
    }

    #[test]
    fn an_interruption_starts_the_count_anew() {
        let mut meter = Meter::default();
        meter.measure(101, Some(100), at(0));
        meter.measure(99, Some(100), at(4));
        assert_eq!(meter.settle(at(9)), None);
        meter.measure(101, Some(100), at(9));
        assert_eq!(meter.deadline(), Some(at(14)));
    }

    #[test]
    fn without_a_ceiling_nothing_is_exceeded() {
        let mut meter = Meter::default();
        meter.measure(u32::MAX, None, at(0));
        assert_eq!(meter.deadline(), None);
    }

    #[test]
    fn a_ceiling_that_goes_away_clears_by_its_last_value() {
        let mut meter = Meter::default();
        meter.measure(150, Some(100), at(0));
        assert!(meter.settle(at(5)).is_some_and(|crossing| crossing.exceeded));
        meter.measure(150, None, at(6));
        assert_eq!(meter.settle(at(11)), Some(Crossing { exceeded: false, kbps: 150, max_kbps: 100 }));
    }
}
