//! Message times on the RTP clocks and on this machine's clock.

use std::time::{Duration, Instant};

/// A time line's start. Above zero, so that messages from before the first one have a time, too.
const START: Duration = Duration::from_secs(10);
/// Maximum difference between consecutive messages, in milliseconds. A larger one means that the encoder's clock was
/// set.
const MAX_STEP: u64 = 10_000;

/// Maps message timestamps, in milliseconds, to times.
#[derive(Debug)]
pub struct Timeline {
    /// The last timestamp, and its time.
    last: Option<(u32, Duration)>,
    /// The instant of time 0.
    origin: Option<Instant>,
}

/// A message's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaTime {
    /// Time since the start of the time line.
    pub time: Duration,
    /// Instant on this machine's clock. Audio and video with the same time have the same instant.
    pub captured: Instant,
}

impl MediaTime {
    /// Returns the RTP timestamp for a clock with this many ticks per millisecond. It wraps.
    pub fn rtp(&self, ticks: u128) -> u32 {
        let ticks = self.time.as_micros() * ticks / 1_000;
        u32::try_from(ticks & u128::from(u32::MAX)).unwrap_or_default()
    }
}

impl Timeline {
    /// Creates a time line, which starts with the first message.
    pub const fn new() -> Self {
        Self {
            last: None,
            origin: None,
        }
    }

    /// Returns the time for a message that arrives now.
    pub fn message(&mut self, timestamp: u32, now: Instant) -> MediaTime {
        let time = match self.last {
            Some((last, time)) => step(time, last, timestamp),
            None => START,
        };
        self.last = Some((timestamp, time));
        self.at(time, now)
    }

    /// Returns the instant of a time that is known now. The message with the shortest delay sets the origin, so that no
    /// message is captured in the future.
    pub fn at(&mut self, time: Duration, now: Instant) -> MediaTime {
        // An instant before this machine's start may not exist.
        let latest = now.checked_sub(time).unwrap_or(now);
        let origin = self.origin.map_or(latest, |origin| origin.min(latest));
        self.origin = Some(origin);
        MediaTime {
            time,
            captured: origin + time,
        }
    }
}

/// RTP clock rate for video, per second.
const VIDEO_RATE: i64 = 90_000;
/// Maximum step back between consecutive frames, in ticks: B-frames are sent after the frames that they precede.
const MOST_BACK: i64 = -VIDEO_RATE;
/// Maximum pause in a video, in ticks. A larger difference means that the encoder's clock was set.
const MAX_PAUSE: i64 = 600 * VIDEO_RATE;
/// Assumed frame duration where the encoder's clock was set.
const UNKNOWN_STEP: Duration = Duration::from_millis(20);

/// Maps RTP timestamps of video frames, in sending order, to times. Transcoded frames keep these times, which lead back
/// to their capture instants.
#[derive(Debug, Default)]
pub struct FrameTimeline {
    /// The last timestamp, and its time.
    last: Option<(u32, Duration)>,
    /// The latest time, and the instant of time 0 according to its frame.
    newest: Option<(Duration, Instant)>,
}

impl FrameTimeline {
    /// Returns the time for a frame with this capture instant.
    pub fn frame(&mut self, timestamp: u32, captured: Instant) -> Duration {
        let time = match self.last {
            Some((last, time)) => {
                let ticks = i64::from(timestamp.wrapping_sub(last).cast_signed());
                let micros = Duration::from_micros((ticks * 1_000_000 / VIDEO_RATE).unsigned_abs());
                match ticks {
                    ..MOST_BACK | MAX_PAUSE.. => time + UNKNOWN_STEP,
                    ..0 => time.saturating_sub(micros),
                    _ => time + micros,
                }
            }
            None => START,
        };
        self.last = Some((timestamp, time));
        // A B-frame's capture instant is clamped to the previous frame's, so it does not determine the origin.
        if self.newest.is_none_or(|(newest, _)| time > newest) {
            self.newest = Some((time, captured.checked_sub(time).unwrap_or(captured)));
        }
        time
    }

    /// Returns the instant of a time.
    pub fn at(&self, time: Duration) -> MediaTime {
        let origin = self.newest.map_or_else(Instant::now, |(_, origin)| origin);
        MediaTime {
            time,
            captured: origin + time,
        }
    }
}

/// Returns a timestamp's time, derived from another timestamp. Timestamps wrap.
fn step(time: Duration, from: u32, to: u32) -> Duration {
    let (ahead, behind) = (
        u64::from(to.wrapping_sub(from)),
        u64::from(from.wrapping_sub(to)),
    );
    if ahead <= MAX_STEP {
        time + Duration::from_millis(ahead)
    } else if behind <= MAX_STEP {
        time.saturating_sub(Duration::from_millis(behind))
    // The clock was set: the stream continues without a gap.
    } else {
        time
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn audio_and_video_of_one_timestamp_have_one_time() {
        let (mut timeline, now) = (Timeline::new(), Instant::now());
        let first = timeline.message(5_000, now);
        assert_eq!((first.time, first.captured), (START, now));
        let late = timeline.message(5_040, now + Duration::from_millis(90));
        let same = timeline.message(5_040, now + Duration::from_millis(40));
        assert_eq!((late.time, late.captured), (same.time, same.captured));
        assert_eq!(late.captured, now + Duration::from_millis(40));
        assert_eq!(late.rtp(90) - first.rtp(90), 3_600);
        let earlier = timeline.message(4_990, now + Duration::from_millis(41));
        assert_eq!(START - earlier.time, Duration::from_millis(10));
    }

    #[test]
    fn a_timestamp_wraps_and_a_clock_that_is_set_goes_on() {
        let (mut timeline, now) = (Timeline::new(), Instant::now());
        let times = [u32::MAX - 19, 20, 3_600_000, 3_600_040]
            .map(|timestamp| timeline.message(timestamp, now).time);
        assert_eq!(
            times.map(|time| (time - START).as_millis()),
            [0, 40, 40, 80]
        );
    }

    #[test]
    fn frames_have_the_distances_of_their_timestamps_and_the_instants_of_their_capture() {
        let (mut timeline, now) = (FrameTimeline::default(), Instant::now());
        let after = |milliseconds| now + Duration::from_millis(milliseconds);
        let first = timeline.frame(u32::MAX - 1_799, now);
        assert_eq!((first, timeline.at(first).captured), (START, now));
        // A B-frame: sent second, shown first.
        let later = timeline.frame(5_400, after(80));
        let between = timeline.frame(1_800, after(80));
        assert_eq!(
            [later, between].map(|time| (time - START).as_millis()),
            [80, 40]
        );
        assert_eq!(timeline.at(between).captured, after(40));
        // The encoder's clock turns out to be 15 ms ahead.
        let next = timeline.frame(9_000, after(105));
        assert_eq!(timeline.at(next).captured, after(105));
        // It is set back by an hour.
        let reset = timeline.frame(9_000_u32.wrapping_sub(324_000_000), after(160));
        assert_eq!(reset, next + UNKNOWN_STEP);
        assert_eq!(timeline.at(reset).captured, after(160));
    }

    proptest! {
        #[test]
        fn nothing_is_captured_in_the_future(messages in prop::collection::vec((any::<u32>(), 0_u64..5_000), 1..50)) {
            let (mut timeline, mut now) = (Timeline::new(), Instant::now());
            for (timestamp, wait) in messages {
                now += Duration::from_millis(wait);
                prop_assert!(timeline.message(timestamp, now).captured <= now);
            }
        }
    }
}
