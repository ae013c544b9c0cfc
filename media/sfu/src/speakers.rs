//! Who is speaking, by the audio levels that clients send with their packets.

use std::time::{Duration, Instant};

/// How much sound makes a window of the detection, in milliseconds.
pub const WINDOW_MILLISECONDS: u32 = 400;

/// Packets at least this loud count as speech, in dBov.
const ACTIVE_DBOV: i8 = -35;

/// How much of a window must be speech, in percent.
const ACTIVE_PERCENT: u32 = 40;

/// How long the sound in the first packet is assumed to be, in milliseconds: that of WebRTC's audio packets.
const PACKET_MILLISECONDS: u32 = 20;

/// After what time without a packet nothing is heard any more: two windows.
const SILENCE: Duration = Duration::from_millis(2 * WINDOW_MILLISECONDS as u64);

/// The levels that are reported are multiples of one over this.
const LEVEL_STEPS: f32 = 8.0;

/// Detects whether one audio track is speech.
///
/// A window is full when the packets in it span 400 ms by their timestamps, as with LiveKit's server: a packet counts for the time since
/// the one before it. Clients send next to nothing in silence (DTX), so that a short sound after it still fills a window.
#[derive(Debug, Clone, Default)]
pub struct SpeechDetector {
    last: Option<(u32, Instant)>,
    heard_milliseconds: u32,
    loud_milliseconds: u32,
    loudest_dbov: Option<i8>,
    smoothed: f32,
}

impl SpeechDetector {
    /// Adds the level of a packet, in dBov: 0 is the loudest, -127 silence.
    pub fn observe(&mut self, dbov: i8, timestamp: u32, clock_rate: u32, now: Instant) {
        let Some(milliseconds) = self.milliseconds_until(timestamp, clock_rate) else {
            return;
        };
        self.last = Some((timestamp, now));
        self.heard_milliseconds += milliseconds;
        if dbov >= ACTIVE_DBOV {
            self.loud_milliseconds += milliseconds;
            self.loudest_dbov = Some(self.loudest_dbov.map_or(dbov, |loudest| loudest.max(dbov)));
        }
        if self.heard_milliseconds >= WINDOW_MILLISECONDS {
            self.end_window();
        }
    }

    /// Returns the level from 0 to 1 in steps, 0 if the track is not speech.
    pub fn level(&mut self, now: Instant) -> f32 {
        if self
            .last
            .is_none_or(|(_, at)| now.saturating_duration_since(at) >= SILENCE)
        {
            (
                self.heard_milliseconds,
                self.loud_milliseconds,
                self.loudest_dbov,
            ) = (0, 0, None);
            self.smoothed = 0.0;
        }
        if self.smoothed < linear(ACTIVE_DBOV) {
            return 0.0;
        }
        (self.smoothed * LEVEL_STEPS).ceil() / LEVEL_STEPS
    }

    /// Returns the time from the last packet to this one, at most a window; `None` for one that is late.
    fn milliseconds_until(&self, timestamp: u32, clock_rate: u32) -> Option<u32> {
        let Some((last, _)) = self.last else {
            return Some(PACKET_MILLISECONDS);
        };
        let ticks = timestamp.wrapping_sub(last);
        let milliseconds = u64::from(ticks) * 1_000 / u64::from(clock_rate.max(1));
        let is_later = (1..=u32::MAX / 2).contains(&ticks);
        is_later.then(|| {
            u32::try_from(milliseconds)
                .unwrap_or(u32::MAX)
                .min(WINDOW_MILLISECONDS)
        })
    }

    fn end_window(&mut self) {
        let is_speech = self.loud_milliseconds * 100 >= WINDOW_MILLISECONDS * ACTIVE_PERCENT;
        let share = f32::min(
            self.loud_milliseconds as f32 / WINDOW_MILLISECONDS as f32,
            1.0,
        );
        self.smoothed = match self.loudest_dbov.filter(|_| is_speech) {
            // An average over two windows.
            Some(loudest) => self.smoothed + (linear(loudest) * share - self.smoothed) * 2.0 / 3.0,
            None => 0.0,
        };
        (
            self.heard_milliseconds,
            self.loud_milliseconds,
            self.loudest_dbov,
        ) = (0, 0, None);
    }
}

fn linear(dbov: i8) -> f32 {
    10_f32.powf(f32::from(dbov) / 20.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK_RATE: u32 = 48_000;

    /// A microphone whose packets follow each other in the time of a test.
    struct Microphone {
        detector: SpeechDetector,
        begun: Instant,
        milliseconds: u32,
    }

    impl Microphone {
        fn new() -> Self {
            Self {
                detector: SpeechDetector::default(),
                begun: Instant::now(),
                milliseconds: 0,
            }
        }

        fn now(&self) -> Instant {
            self.begun + Duration::from_millis(self.milliseconds.into())
        }

        /// Sends so many packets of this level, each so long after the one before it.
        fn send(&mut self, packets: usize, dbov: i8, milliseconds: u32) {
            for _ in 0..packets {
                self.milliseconds += milliseconds;
                // Timestamps begin anywhere, and wrap.
                let timestamp =
                    (u32::MAX - 48_000).wrapping_add(self.milliseconds * CLOCK_RATE / 1_000);
                self.detector
                    .observe(dbov, timestamp, CLOCK_RATE, self.now());
            }
        }

        fn level(&mut self) -> f32 {
            let now = self.now();
            self.detector.level(now)
        }
    }

    #[test]
    fn speech_is_loud_for_a_part_of_the_window() {
        for (loud, dbov, is_speech) in [
            (7, -10, false),
            (20, -50, false),
            (8, -10, true),
            (20, -36, false),
            (20, -30, true),
        ] {
            let mut microphone = Microphone::new();
            microphone.send(loud, dbov, 20);
            microphone.send(20 - loud, -127, 20);
            let level = microphone.level();
            assert_eq!(level > 0.0, is_speech, "{loud} packets of {dbov}: {level}");
            assert!(
                (level * LEVEL_STEPS).fract().abs() < f32::EPSILON && level <= 1.0,
                "{level}"
            );
        }
        let mut microphone = Microphone::new();
        microphone.send(20, -20, 20);
        let low = microphone.level();
        microphone.send(20, -1, 20);
        assert!(microphone.level() > low);
    }

    #[test]
    fn a_short_sound_between_pauses_in_which_nothing_is_sent_is_speech() {
        let mut microphone = Microphone::new();
        let mut levels = Vec::new();
        for _ in 0..5 {
            // A beep of 200 ms in each second, and in between two packets of comfort noise.
            for (packets, dbov, milliseconds) in [(1, -127, 400), (1, -127, 400), (10, -10, 20)] {
                microphone.send(packets, dbov, milliseconds);
                levels.push(microphone.level());
            }
        }
        let heard = levels.iter().filter(|level| **level > 0.0).count();
        assert_eq!(
            heard, 4,
            "once for each beep, when the next packet fills the window: {levels:?}"
        );
    }

    #[test]
    fn speech_ends_with_the_next_window_of_silence_or_without_packets() {
        let mut microphone = Microphone::new();
        microphone.send(20, -10, 20);
        assert!(microphone.level() > 0.0);
        microphone.send(20, -127, 20);
        assert!(microphone.level().abs() < f32::EPSILON);
        microphone.send(20, -10, 20);
        microphone.milliseconds += 799;
        assert!(microphone.level() > 0.0);
        microphone.milliseconds += 1;
        assert!(microphone.level().abs() < f32::EPSILON);
    }

    #[test]
    fn packets_that_come_late_or_after_a_long_pause_do_not_count_for_more_than_a_window() {
        let (mut detector, now) = (SpeechDetector::default(), Instant::now());
        detector.observe(-10, 48_000, CLOCK_RATE, now);
        detector.observe(-10, 47_040, CLOCK_RATE, now);
        assert_eq!(
            (detector.heard_milliseconds, detector.loud_milliseconds),
            (20, 20),
            "the late one is ignored"
        );
        detector.observe(-10, 48_000 * 60, CLOCK_RATE, now);
        let level = detector.level(now);
        assert!(level > 0.0 && level <= 1.0, "{level}");
    }
}
