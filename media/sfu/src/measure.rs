//! Measurements of streams and connections: bitrates, loss and delay, speech.

use std::time::{Duration, Instant};

use crate::event::ConnectionQuality;

/// Measures a stream's bitrate over periods of about a second.
#[derive(Debug, Clone)]
pub struct RateMeter {
    since: Instant,
    bytes: u64,
    /// Bitrate of the last full period, in bits per second.
    pub bits_per_second: u64,
    /// Moving average, in which each period counts one third: a single key frame, which can double a period's bitrate,
    /// changes it little. Starts anew after a pause. In bits per second.
    pub mean_bits_per_second: u64,
    /// Peak bitrate, which falls by an eighth of the difference per period. Starts anew after a pause. In bits per
    /// second.
    pub peak_bits_per_second: u64,
    /// Packets since the start.
    pub packets: u64,
}

impl RateMeter {
    /// Starts to measure now.
    pub const fn new(now: Instant) -> Self {
        Self {
            since: now,
            bytes: 0,
            bits_per_second: 0,
            mean_bits_per_second: 0,
            peak_bits_per_second: 0,
            packets: 0,
        }
    }

    /// Counts a packet.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.packets += 1;
    }

    /// Returns the last full period's bitrate in kilobits per second.
    pub fn kbps(&self) -> u32 {
        kilobits(self.bits_per_second)
    }

    /// Ends the period now and starts the next one. Does nothing in a period's first 100 ms.
    pub fn roll(&mut self, now: Instant) {
        const SHORTEST: Duration = Duration::from_millis(100);
        let elapsed = now.saturating_duration_since(self.since);
        // Over a shorter time, a single packet would look like a high bitrate.
        if elapsed < SHORTEST {
            return;
        }
        let milliseconds = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        // An average with the zeros of a pause would underestimate the stream for several seconds.
        let was_paused = self.bits_per_second == 0;
        self.bits_per_second = self.bytes.saturating_mul(8000) / milliseconds;
        let mean = (self
            .mean_bits_per_second
            .saturating_mul(2)
            .saturating_add(self.bits_per_second))
            / 3;
        self.mean_bits_per_second = if was_paused {
            self.bits_per_second
        } else {
            mean
        };
        let faded = self.peak_bits_per_second
            - self
                .peak_bits_per_second
                .saturating_sub(self.bits_per_second)
                / 8;
        self.peak_bits_per_second = if was_paused {
            self.bits_per_second
        } else {
            faded.max(self.bits_per_second)
        };
        self.bytes = 0;
        self.since = now;
    }
}

/// Converts a bitrate to kilobits per second.
pub fn kilobits(bits_per_second: u64) -> u32 {
    u32::try_from(bits_per_second / 1000).unwrap_or(u32::MAX)
}

/// Loss and delay of a connection, smoothed over some seconds.
#[derive(Debug, Clone, Default)]
pub struct LinkQuality {
    /// Share of lost packets in the worse direction, 0 to 1.
    loss: f32,
    /// Last round-trip time.
    pub round_trip: Option<Duration>,
}

/// Measurements of a connection since the last reading, for the samples of session quality.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkMeter {
    /// Time that the other numbers cover.
    pub time: Duration,
    /// Media packets from the client.
    pub received_packets: u32,
    /// Media packets to the client.
    pub sent_packets: u32,
    /// Bytes of media from the client.
    pub received_bytes: u64,
    /// Bytes of media to the client.
    pub sent_bytes: u64,
    /// Shares of lost packets from the client, each second.
    pub ingress_loss: MeanShare,
    /// Shares of lost packets to the client, each second.
    pub egress_loss: MeanShare,
    /// Sum and number of the round-trip times, each second.
    pub round_trips: (Duration, u32),
    /// Sum and number of the scores, each second.
    pub scores: (f32, u8),
    /// Largest jitter of a stream from the client.
    pub ingress_jitter: Option<Duration>,
    /// Largest jitter of a stream to the client, as it reports it.
    pub egress_jitter: Option<Duration>,
}

/// Mean of shares from 0 to 1.
#[derive(Debug, Clone, Copy, Default)]
pub struct MeanShare {
    sum: f32,
    count: u8,
}

impl MeanShare {
    /// Adds a share, if it was measured.
    pub fn add(&mut self, share: Option<f32>) {
        if let Some(share) = share.filter(|share| share.is_finite()) {
            self.sum += share.clamp(0.0, 1.0);
            self.count = self.count.saturating_add(1);
        }
    }

    /// Returns the mean; 0 without any.
    pub fn mean(&self) -> f32 {
        self.sum / f32::from(self.count.max(1))
    }
}

/// Weight of the last second in the smoothed loss.
const WEIGHT: f32 = 0.3;

/// Best score of an Opus call: the E-model's default R of 93.2.
const BEST_R: f32 = 93.2;

impl LinkQuality {
    /// Adds the measurements of one second.
    pub fn observe(&mut self, loss: f32, round_trip: Option<Duration>) {
        self.loss += (loss - self.loss) * WEIGHT;
        self.round_trip = round_trip.or(self.round_trip);
    }

    /// Returns the estimated mean opinion score, 1 to 4.5, by a simplified E-model (ITU-T G.107).
    pub fn score(&self) -> f32 {
        let one_way = self.round_trip.unwrap_or_default().as_secs_f32() * 1000.0 / 2.0;
        // The E-model's threshold in milliseconds, above which delay disturbs a conversation.
        let late = (one_way - 177.3).max(0.0);
        let r = (BEST_R - 0.024 * one_way - 0.11 * late - 30.0 * (1.0 + 15.0 * self.loss).ln())
            // R without loss, minus the impairments by delay and by loss; the scale of R ends at 100.
            .clamp(0.0, 100.0);
        1.0 + 0.035 * r + 7e-6 * r * (r - 60.0) * (100.0 - r)
    }

    /// Returns the class of a score.
    pub fn class(score: f32) -> ConnectionQuality {
        match score {
            // Near the highest possible score, 4.4.
            score if score >= 4.2 => ConnectionQuality::Excellent,
            score if score >= 3.6 => ConnectionQuality::Good,
            _ => ConnectionQuality::Poor,
        }
    }
}

/// Counts a video stream's frames, and its freezes as browsers define them (`freezeCount` in W3C's WebRTC Statistics): an
/// interval between two frames of more than three times the mean, and more than 150 ms above it.
#[derive(Debug, Clone, Default)]
pub struct FrameMeter {
    /// RTP timestamp and arrival of the newest frame's first packet.
    last: Option<(u32, Instant)>,
    /// Moving average of the intervals between frames.
    interval: Duration,
    /// Intervals in the average, up to [`FRAMES_AVERAGED`].
    averaged: u32,
    counts: FrameCounts,
}

/// Frames and freezes since the last reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Frames.
    pub frames: u32,
    /// Freezes.
    pub freezes: u32,
    /// Total length of the freezes.
    pub frozen: Duration,
}

/// Intervals in the average, as in the definition of freezes.
const FRAMES_AVERAGED: u32 = 30;

/// Intervals before the average is used: an encoder's first frames are irregular.
const FRAMES_BEFORE: u32 = 10;

/// Minimum excess of a freeze over the average interval.
const FREEZE_EXCESS: Duration = Duration::from_millis(150);

impl FrameMeter {
    /// Counts a packet with this RTP timestamp. Packets of one frame share it.
    pub fn observe(&mut self, timestamp: u32, now: Instant) {
        let Some((newest, at)) = self.last.replace((timestamp, now)) else {
            self.counts.frames = self.counts.frames.saturating_add(1);
            return;
        };
        // Timestamps wrap: a difference in the upper half belongs to an earlier frame, whose packet was late.
        if !(1..=u32::MAX / 2).contains(&timestamp.wrapping_sub(newest)) {
            self.last = Some((newest, at));
            return;
        }
        self.counts.frames = self.counts.frames.saturating_add(1);
        let interval = now.saturating_duration_since(at);
        let is_freeze = self.averaged >= FRAMES_BEFORE
            && interval > self.interval * 3
            && interval > self.interval + FREEZE_EXCESS;
        if is_freeze {
            self.counts.freezes = self.counts.freezes.saturating_add(1);
            self.counts.frozen += interval;
            // Not averaged: otherwise a long freeze would hide the next ones.
            return;
        }
        self.averaged = (self.averaged + 1).min(FRAMES_AVERAGED);
        let others = self.interval * (self.averaged - 1);
        self.interval = (others + interval) / self.averaged;
    }

    /// Restarts with the next frame: the time until then is no freeze.
    pub fn pause(&mut self) {
        self.last = None;
    }

    /// Returns the counts since the last call.
    pub fn take(&mut self) -> FrameCounts {
        std::mem::take(&mut self.counts)
    }
}

/// Length of audio in a detection window, in milliseconds.
pub const WINDOW_MILLISECONDS: u32 = 400;

/// Minimum level of a packet with speech, in dBov.
const ACTIVE_DBOV: i8 = -35;

/// Minimum share of speech in a window, in percent.
const ACTIVE_PERCENT: u32 = 40;

/// Assumed length of the first packet in milliseconds: the usual length of WebRTC's audio packets.
const PACKET_MILLISECONDS: u32 = 20;

/// Time without packets after which a track counts as silent: two windows.
const SILENCE: Duration = Duration::from_millis(2 * WINDOW_MILLISECONDS as u64);

/// Reported levels are multiples of one divided by this.
const LEVEL_STEPS: f32 = 8.0;

/// Detects speech in an audio track.
///
/// A window is full when its packets span 400 ms by their timestamps, as in LiveKit's server: a packet counts for the
/// time since the previous one. Clients send almost nothing during silence (DTX), so a short noise after it still fills
/// a window.
#[derive(Debug, Clone, Default)]
pub struct SpeechDetector {
    last: Option<(u32, Instant)>,
    heard_milliseconds: u32,
    loud_milliseconds: u32,
    loudest_dbov: Option<i8>,
    smoothed: f32,
}

impl SpeechDetector {
    /// Adds a packet's level in dBov: 0 is the loudest, -127 silence.
    pub fn observe(&mut self, dbov: i8, timestamp: u32, clock_rate: u32, now: Instant) {
        let Some(milliseconds) = self.milliseconds_until(timestamp, clock_rate) else {
            return;
        };
        self.last = Some((timestamp, now));
        self.heard_milliseconds += milliseconds;
        // Quieter packets count as time in the window, so they lower the share of speech.
        if dbov >= ACTIVE_DBOV {
            self.loud_milliseconds += milliseconds;
            self.loudest_dbov = Some(self.loudest_dbov.map_or(dbov, |loudest| loudest.max(dbov)));
        }
        if self.heard_milliseconds >= WINDOW_MILLISECONDS {
            self.end_window();
        }
    }

    /// Returns the level from 0 to 1 in steps; 0 without speech.
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
            // With DTX, a client may send nothing at all in silence, so no window would ever end.
            self.smoothed = 0.0;
        }
        if self.smoothed < linear(ACTIVE_DBOV) {
            return 0.0;
        }
        (self.smoothed * LEVEL_STEPS).ceil() / LEVEL_STEPS
    }

    /// Returns the time from the last packet to this one, at most a window; `None` for a late packet.
    fn milliseconds_until(&self, timestamp: u32, clock_rate: u32) -> Option<u32> {
        let Some((last, _)) = self.last else {
            return Some(PACKET_MILLISECONDS);
        };
        let ticks = timestamp.wrapping_sub(last);
        let milliseconds = u64::from(ticks) * 1_000 / u64::from(clock_rate.max(1));
        // Timestamps wrap: a difference in the upper half is a packet from the past.
        let is_later = (1..=u32::MAX / 2).contains(&ticks);
        is_later.then(|| {
            u32::try_from(milliseconds)
                .unwrap_or(u32::MAX)
                .min(WINDOW_MILLISECONDS)
        })
    }

    fn end_window(&mut self) {
        let is_speech = self.loud_milliseconds * 100 >= WINDOW_MILLISECONDS * ACTIVE_PERCENT;
        // Loudness counts in proportion to its length, so that a click is not as loud as a sentence.
        let share = f32::min(
            self.loud_milliseconds as f32 / WINDOW_MILLISECONDS as f32,
            1.0,
        );
        self.smoothed = match self.loudest_dbov.filter(|_| is_speech) {
            // A moving average over two windows.
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

    #[test]
    fn a_rate_is_that_of_the_last_period() {
        let start = Instant::now();
        let mut meter = RateMeter::new(start);
        for _ in 0..100 {
            // 100 packets with 1,250 bytes are a megabit.
            meter.add(1250);
        }
        meter.roll(start + Duration::from_secs(1));
        assert_eq!(meter.bits_per_second, 1_000_000);
        meter.roll(start + Duration::from_secs(2));
        assert_eq!((meter.bits_per_second, meter.packets), (0, 100));
    }

    #[test]
    fn the_mean_follows_slowly_and_begins_anew_after_a_pause() {
        let (start, mut meter) = (Instant::now(), RateMeter::new(Instant::now()));
        let means = [300_000, 300_000, 900_000, 300_000, 0, 600_000]
            .into_iter()
            .zip(1..)
            .map(|(bits, second)| {
                meter.add(bits / 8);
                meter.roll(start + Duration::from_secs(second));
                meter.mean_bits_per_second / 1000
            });
        assert_eq!(means.collect::<Vec<_>>(), [300, 300, 500, 433, 288, 600]);
    }

    #[test]
    fn a_peak_fades_and_begins_anew_after_a_pause() {
        let (start, mut meter) = (Instant::now(), RateMeter::new(Instant::now()));
        let peaks = [300_000, 900_000, 100_000, 100_000, 900_000, 0, 200_000]
            .into_iter()
            .zip(1..)
            .map(|(bits, second)| {
                meter.add(bits / 8);
                meter.roll(start + Duration::from_secs(second));
                meter.peak_bits_per_second / 1000
            });
        assert_eq!(
            peaks.collect::<Vec<_>>(),
            [300, 900, 800, 712, 900, 787, 200]
        );
    }

    fn class(loss: f32, round_trip: u64) -> ConnectionQuality {
        let mut quality = LinkQuality::default();
        // Long enough for the smoothed loss to reach its final value.
        (0..30).for_each(|_| quality.observe(loss, Some(Duration::from_millis(round_trip))));
        LinkQuality::class(quality.score())
    }

    #[test]
    fn loss_and_delay_lower_the_class() {
        assert_eq!(class(0.0, 20), ConnectionQuality::Excellent);
        assert_eq!(class(0.01, 100), ConnectionQuality::Excellent);
        assert_eq!(class(0.05, 50), ConnectionQuality::Good);
        assert_eq!(class(0.3, 50), ConnectionQuality::Poor);
        assert_eq!(class(0.0, 1500), ConnectionQuality::Poor);
    }

    /// Returns the counts of frames with these intervals in milliseconds, each with two packets.
    fn frames(intervals: &[u64]) -> FrameCounts {
        let (mut meter, mut now) = (FrameMeter::default(), Instant::now());
        // Close to the end of the range, so that timestamps wrap.
        let mut timestamp = u32::MAX - 9_000;
        for interval in intervals {
            now += Duration::from_millis(*interval);
            timestamp = timestamp.wrapping_add(u32::try_from(interval * 90).unwrap());
            meter.observe(timestamp, now);
            meter.observe(timestamp, now);
            // A late packet of an earlier frame.
            meter.observe(timestamp.wrapping_sub(90), now);
        }
        meter.take()
    }

    #[test]
    fn a_freeze_is_an_interval_far_above_the_average() {
        let regular = [33; 60];
        let count = |frames, freezes, millis| FrameCounts {
            frames,
            freezes,
            frozen: Duration::from_millis(millis),
        };
        assert_eq!(frames(&regular), count(60, 0, 0));
        assert_eq!(frames(&[&regular[..], &[180]].concat()), count(61, 0, 0));
        assert_eq!(
            frames(&[&regular[..], &[190, 33, 900]].concat()),
            count(63, 2, 1_090)
        );
        // A slow video is not frozen.
        assert_eq!(frames(&[1_000; 20]), count(20, 0, 0));
    }

    #[test]
    fn a_pause_is_no_freeze() {
        let (mut meter, mut now) = (FrameMeter::default(), Instant::now());
        for frame in 0..40 {
            if frame == 30 {
                meter.pause();
                now += Duration::from_secs(5);
            }
            now += Duration::from_millis(33);
            meter.observe(frame * 3_000, now);
        }
        assert_eq!(meter.take().freezes, 0);
        assert_eq!(meter.take(), FrameCounts::default());
    }

    const CLOCK_RATE: u32 = 48_000;

    /// A microphone whose packets follow each other on the test's clock.
    struct Microphone {
        detector: SpeechDetector,
        start: Instant,
        milliseconds: u32,
    }

    impl Microphone {
        fn new() -> Self {
            Self {
                detector: SpeechDetector::default(),
                start: Instant::now(),
                milliseconds: 0,
            }
        }

        fn now(&self) -> Instant {
            self.start + Duration::from_millis(self.milliseconds.into())
        }

        /// Sends packets with this level, one every `milliseconds`.
        fn send(&mut self, packets: usize, dbov: i8, milliseconds: u32) {
            for _ in 0..packets {
                self.milliseconds += milliseconds;
                // Timestamps start anywhere, and wrap.
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
            // 40 % of a window's 20 packets are 8.
            (7, -10, false),
            (20, -50, false),
            (8, -10, true),
            // The threshold is -35 dBov.
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
        // Silence starts after 800 ms without a packet.
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
        // A minute after the first packet, which counts as one window at most.
        detector.observe(-10, 48_000 * 60, CLOCK_RATE, now);
        let level = detector.level(now);
        assert!(level > 0.0 && level <= 1.0, "{level}");
    }
}
