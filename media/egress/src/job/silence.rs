//! When the packets of a file of audio are heard: one after another, with silence in the pauses.

use std::time::Duration;

/// The duration of a packet of silence.
const STEP: Duration = Duration::from_millis(20);
/// A pause from which on it is filled with silence.
const PAUSE: Duration = Duration::from_millis(60);

/// The time line of a file of audio.
#[derive(Debug, Default)]
pub struct AudioTimeline {
    /// Up to where it is written, since the start.
    end: Duration,
    /// Up to where packets come too late: their time has been filled with silence.
    closed: Duration,
}

impl AudioTimeline {
    /// Returns the times of the packets of silence that a pause needs up to a moment. The time line goes on behind them.
    pub fn fill(&mut self, until: Duration) -> Vec<Duration> {
        let mut silence = Vec::new();
        if until >= self.end + PAUSE {
            while self.end + STEP <= until {
                silence.push(self.end);
                self.end += STEP;
            }
        }
        silence
    }

    /// Fills like [`AudioTimeline::fill`] what no packet is waited for any more.
    pub fn close(&mut self, until: Duration) -> Vec<Duration> {
        let silence = self.fill(until);
        if !silence.is_empty() {
            self.closed = self.end;
        }
        silence
    }

    /// Returns the time of a packet that was captured at a moment, and those of the silence before it; `None` if it comes too late.
    pub fn place(
        &mut self,
        captured: Duration,
        duration: Duration,
    ) -> Option<(Vec<Duration>, Duration)> {
        if captured < self.closed {
            return None;
        }
        let silence = self.fill(captured);
        let at = self.end;
        self.end += duration;
        Some((silence, at))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn what_is_heard_first_after_a_mute_has_its_time_and_what_comes_too_late_is_left_out() {
        let mut timeline = AudioTimeline::default();
        assert!(timeline.close(millis(50)).is_empty(), "no pause yet");
        assert_eq!(timeline.close(millis(70)), [0, 20, 40].map(millis));
        assert_eq!(timeline.place(millis(59), STEP), None);
        assert_eq!(
            timeline.place(millis(110), STEP),
            Some((vec![], millis(60))),
            "no pause"
        );
        assert_eq!(
            timeline.place(millis(205), STEP),
            Some((
                [80, 100, 120, 140, 160, 180].map(millis).to_vec(),
                millis(200)
            ))
        );
    }

    proptest! {
        #[test]
        fn packets_follow_each_other_without_gaps_close_to_their_time(
            packets in prop::collection::vec((0_u64..200, any::<bool>()), 1..100),
        ) {
            let (mut timeline, mut now, mut written) = (AudioTimeline::default(), Duration::ZERO, Vec::new());
            for (step, is_packet) in packets {
                now += millis(step.max(20));
                if is_packet {
                    let (silence, at) = timeline.place(now, STEP).expect("nothing is late");
                    prop_assert!(at <= now && now < at + PAUSE + STEP, "{now:?} at {at:?}");
                    written.extend(silence);
                    written.push(at);
                } else {
                    written.extend(timeline.close(now));
                }
            }
            for pair in written.windows(2) {
                prop_assert_eq!(pair[0] + STEP, pair[1]);
            }
        }
    }
}
