//! Detects steps of the machine's clock, and logs each once.

use std::time::Duration;

use conclave_model::{Clock, Timestamp};

/// Interval between comparisons of the clock with monotonic time.
const INTERVAL: Duration = Duration::from_secs(1);
/// Minimum step that is reported, in milliseconds. NTP corrects smaller offsets gradually.
const LEAST_STEP: i64 = 2_000;

/// Compares the time of day with monotonic time.
struct ClockWatch {
    /// Last difference between them, in milliseconds.
    offset: i64,
}

impl ClockWatch {
    fn new(now: Timestamp, monotonic: Duration) -> Self {
        Self {
            offset: offset(now, monotonic),
        }
    }

    /// Returns the clock's step since the last call, in milliseconds: positive if forward, negative if back.
    fn step(&mut self, now: Timestamp, monotonic: Duration) -> Option<i64> {
        // Compared with the last difference, not with the first: a slow drift must not add up to a step.
        let before = std::mem::replace(&mut self.offset, offset(now, monotonic));
        let step = self.offset - before;
        (step.abs() >= LEAST_STEP).then_some(step)
    }
}

fn offset(now: Timestamp, monotonic: Duration) -> i64 {
    now.millis() - i64::try_from(monotonic.as_millis()).unwrap_or(i64::MAX)
}

/// Spawns the task that watches the clock until its runtime ends.
pub(super) fn spawn(clock: Clock) {
    tokio::spawn(async move {
        let mut watch = ClockWatch::new(clock.now(), clock.monotonic());
        loop {
            tokio::time::sleep(INTERVAL).await;
            if let Some(step) = watch.step(clock.now(), clock.monotonic()) {
                let (direction, step) = (
                    if step > 0 { "forward" } else { "back" },
                    Duration::from_millis(step.unsigned_abs()),
                );
                log::warn!(
                    "the clock was set {direction} by {step:?}; due times and expiry follow it"
                );
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_700_000_000_000;

    /// The steps found by calls at these times: clock and monotonic time, in seconds since the start.
    fn steps(looks: &[(i64, u64)]) -> Vec<Option<i64>> {
        let at = |seconds: i64| Timestamp::from_millis(START + seconds * 1_000);
        let mut watch = ClockWatch::new(at(0), Duration::ZERO);
        looks
            .iter()
            .map(|(now, monotonic)| watch.step(at(*now), Duration::from_secs(*monotonic)))
            .collect()
    }

    #[test]
    fn a_step_is_reported_once_in_each_direction() {
        let seen = steps(&[(1, 1), (3_602, 2), (3_603, 3), (4, 4), (5, 5)]);
        assert_eq!(seen, [None, Some(3_600_000), None, Some(-3_600_000), None]);
    }

    #[test]
    fn a_late_look_and_a_small_correction_are_no_steps() {
        assert_eq!(steps(&[(60, 60), (62, 61), (120, 120)]), [None, None, None]);
    }
}
