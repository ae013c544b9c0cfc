//! Pauses in an egress: from the call's time to the output's, which has none.
//!
//! All times are since the egress's start. The call's time goes on during a pause; the output's stands still. So audio and video
//! are moved by the same time, and stay together however often the egress is paused.

use std::collections::VecDeque;
use std::time::Duration;

use crate::composite::CHUNK;

/// An egress's pauses.
#[derive(Debug, Default)]
pub struct Pauses {
    /// Length of the pauses that are over for good.
    passed: Duration,
    /// Start and end of the others, in order. Only the last one may have no end.
    known: VecDeque<(Duration, Option<Duration>)>,
}

impl Pauses {
    /// Starts a pause at `at`, unless there is one. It starts at a multiple of 20 ms, like an audio chunk, and no later than
    /// requested.
    pub fn pause(&mut self, at: Duration) {
        if self.is_paused() {
            return;
        }
        // A pause that starts before the end of the one before continues it.
        match self.known.back_mut() {
            Some((_, end)) if end.is_some_and(|end| floor(at) <= end) => *end = None,
            _ => self.known.push_back((floor(at), None)),
        }
    }

    /// Ends the pause at `at`, if there is one: at a multiple of 20 ms, and no earlier than requested.
    pub fn resume(&mut self, at: Duration) {
        if let Some((start, end @ None)) = self.known.back_mut() {
            *end = Some(floor(at + CHUNK.saturating_sub(Duration::from_nanos(1))).max(*start));
        }
    }

    /// Moves the end of the last pause to `at`, if that is later.
    pub fn extend(&mut self, at: Duration) {
        if let Some((_, Some(end))) = self.known.back_mut() {
            *end = at.max(*end);
        }
    }

    /// Returns whether the last pause has no end.
    pub fn is_paused(&self) -> bool {
        matches!(self.known.back(), Some((_, None)))
    }

    /// Returns whether a moment is in a pause.
    pub fn contains(&self, at: Duration) -> bool {
        self.known
            .iter()
            .any(|(start, end)| *start <= at && end.is_none_or(|end| at < end))
    }

    /// Returns a moment's time in the output. All moments of a pause have the time of its start.
    pub fn output_time(&self, at: Duration) -> Duration {
        let before = self
            .known
            .iter()
            .map(|(start, end)| end.map_or(at, |end| end.min(at)).saturating_sub(*start))
            .sum::<Duration>();
        at.saturating_sub(self.passed + before)
    }

    /// Forgets the pauses that end at `done` or earlier, except for their length: no earlier moment will be needed.
    pub fn forget_until(&mut self, done: Duration) {
        while let Some((start, Some(end))) = self.known.front().copied()
            && end <= done
        {
            self.passed += end.saturating_sub(start);
            self.known.pop_front();
        }
    }
}

fn floor(at: Duration) -> Duration {
    CHUNK * u32::try_from(at.as_nanos() / CHUNK.as_nanos()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_output_stands_still_during_a_pause_and_goes_on_where_it_stopped() {
        let mut pauses = Pauses::default();
        assert_eq!(pauses.output_time(millis(1_000)), millis(1_000));
        pauses.pause(millis(1_010));
        pauses.pause(millis(1_500));
        assert!(
            pauses.is_paused() && pauses.contains(millis(1_000)) && !pauses.contains(millis(999))
        );
        assert_eq!(pauses.output_time(millis(9_000)), millis(1_000));
        pauses.resume(millis(2_010));
        pauses.resume(millis(3_000));
        assert!(pauses.contains(millis(2_019)) && !pauses.contains(millis(2_020)));
        assert_eq!(pauses.output_time(millis(2_020)), millis(1_000));
        assert_eq!(pauses.output_time(millis(2_500)), millis(1_480));
        pauses.forget_until(millis(2_020));
        assert!(pauses.known.is_empty());
        assert_eq!(pauses.output_time(millis(2_500)), millis(1_480));
    }

    #[test]
    fn a_pause_can_last_until_a_later_key_frame() {
        let mut pauses = Pauses::default();
        pauses.extend(millis(500));
        pauses.pause(millis(1_000));
        pauses.extend(millis(1_500));
        assert!(pauses.is_paused(), "a running pause has no end");
        pauses.resume(millis(2_000));
        pauses.extend(millis(2_345));
        assert_eq!(pauses.output_time(millis(2_345)), millis(1_000));
        assert_eq!(pauses.output_time(millis(2_445)), millis(1_100));
    }

    proptest! {
        #[test]
        fn the_output_never_goes_back_and_never_jumps(steps in prop::collection::vec((0_u64..400, any::<bool>()), 1..60)) {
            let (mut pauses, mut now, mut before) = (Pauses::default(), Duration::ZERO, Duration::ZERO);
            for (step, pauses_now) in steps {
                // As in a composition, which is behind the moments of requests.
                let at = now + millis(800);
                if pauses_now { pauses.pause(at) } else { pauses.resume(at) }
                for _ in 0..step {
                    now += millis(1);
                    let output = pauses.output_time(now);
                    prop_assert!(output >= before && output <= before + millis(1));
                    prop_assert_eq!(output > before, !pauses.contains(now - millis(1)), "{:?}", now);
                    before = output;
                }
                pauses.forget_until(now);
            }
        }
    }
}
