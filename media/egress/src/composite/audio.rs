//! Mixing of audio, and active speaker detection by loudness.
//!
//! Audio has 48,000 samples per second and channel. Where samples are counted, a left and a right
//! one count as one.
//!
//! 1. Each track has a [`SampleQueue`], in which decoded packets wait at their capture time.
//!    Packets may be up to 40 ms off without leaving a gap, since their timestamps are rounded and
//!    clocks drift.
//! 2. Every 20 ms, the composition takes a chunk from each queue and adds the samples up, in 32
//!    bits. Missing samples are silence. Each queue also returns how loud its chunk is.
//! 3. The [`Limiter`] brings the sum back to 16 bits. A plain clip would distort as soon as two
//!    participants speak, and a fixed division would make everybody quiet in a large room.
//! 4. [`ActiveSpeaker`] averages the loudness per participant over half a second. A participant
//!    becomes the speaker if it is four times as loud as the current one, which has been shown for
//!    a second and a half at least.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use conclave_model::ParticipantSid;

/// Mixing interval.
pub const CHUNK: Duration = Duration::from_millis(20);
/// Samples per channel in a chunk.
pub const CHUNK_SAMPLES: usize = 960;
/// Deviation in samples (40 ms) from the previous packet's end within which a packet is appended
/// without a gap. Rounded timestamps and clock drift stay below it.
const TOLERANCE: u64 = 48 * 40;
// Half a minute, more than a composition may be late.
const MAX_QUEUED_SAMPLES: u64 = 1_440_000;
// A second and a half. Faster changes make the layout flicker in a lively conversation.
const MIN_SPEAKER_CHUNKS: u64 = 75;
// As a 16-bit mean square; about -47 dBFS.
const SPEECH_LEVEL: u64 = 150 * 150;
// As a mean square: twice the current speaker's amplitude.
const SWITCH_FACTOR: u64 = 4;

/// One track's samples, buffered until their time.
#[derive(Debug, Default)]
pub struct SampleQueue {
    /// Parts without gaps: the first sample's number since the start, and interleaved left and
    /// right samples.
    parts: VecDeque<(u64, VecDeque<i16>)>,
}

impl SampleQueue {
    /// Buffers interleaved samples. The first one belongs to `at`, since the start.
    pub fn push(&mut self, at: Duration, samples: &[i16]) {
        let at = sample_number(at);
        match self.parts.back_mut() {
            Some((start, part)) if *start + pairs(part) + TOLERANCE >= at => {
                // A larger overlap repeats known samples, and only the rest is new.
                let overlap = (*start + pairs(part)).saturating_sub(at);
                let known = if overlap > TOLERANCE {
                    index(overlap)
                } else {
                    0
                };
                part.extend(samples.get(known..).unwrap_or_default());
            }
            _ => self
                .parts
                .push_back((at, samples.iter().copied().collect())),
        }
        // If the composition is later than that, the oldest samples go.
        while self.parts.iter().map(|(_, part)| pairs(part)).sum::<u64>() > MAX_QUEUED_SAMPLES {
            self.parts.pop_front();
        }
    }

    /// Removes a chunk's samples and adds them to `sum`. Returns their mean square.
    pub fn take(&mut self, chunk: u64, sum: &mut [i32]) -> u64 {
        let start = chunk * CHUNK_SAMPLES as u64;
        let end = start + CHUNK_SAMPLES as u64;
        let mut energy = 0;
        while let Some((first, part)) = self.parts.front_mut().filter(|(first, _)| *first < end) {
            // Samples before this chunk arrived too late to be mixed.
            let late = start.saturating_sub(*first).min(pairs(part));
            part.drain(..index(late));
            *first += late;
            let offset = index(first.saturating_sub(start));
            let taken = index(end.saturating_sub(*first)).min(part.len());
            for (sample, target) in part.drain(..taken).zip(sum.iter_mut().skip(offset)) {
                *target += i32::from(sample);
                energy += u64::from(sample.unsigned_abs()).pow(2);
            }
            *first += (taken / 2) as u64;
            if !part.is_empty() {
                break;
            }
            self.parts.pop_front();
        }
        energy / sum.len().max(1) as u64
    }
}

fn sample_number(at: Duration) -> u64 {
    u64::try_from(at.as_micros() * 48 / 1_000).unwrap_or(u64::MAX)
}

fn pairs(part: &VecDeque<i16>) -> u64 {
    (part.len() / 2) as u64
}

fn index(pairs: u64) -> usize {
    usize::try_from(pairs.saturating_mul(2)).unwrap_or(usize::MAX)
}

/// Limiter, which keeps the mix within 16 bits: it lowers the gain at once when the mix is too
/// loud, and raises it slowly.
#[derive(Debug)]
pub struct Limiter {
    /// Gain, where 65,536 changes nothing.
    gain: i64,
}

const UNITY_GAIN: i64 = 65_536;
const MAX_SAMPLE: i64 = 32_000;

impl Default for Limiter {
    fn default() -> Self {
        Self { gain: UNITY_GAIN }
    }
}

impl Limiter {
    /// Returns a chunk's samples as little-endian bytes.
    pub fn limit(&mut self, sum: &[i32]) -> Vec<u8> {
        let peak = i64::from(
            sum.iter()
                .map(|sample| sample.unsigned_abs())
                .max()
                .unwrap_or_default(),
        );
        let before = self.gain;
        let allowed = if peak > 0 {
            (MAX_SAMPLE * UNITY_GAIN / peak).min(UNITY_GAIN)
        } else {
            UNITY_GAIN
        };
        // At most 1/50 per 20 ms chunk, so that full gain is restored within about a second and
        // speech does not pump.
        self.gain = allowed.min(before + UNITY_GAIN / 50);
        let count = i64::try_from(sum.len()).unwrap_or(1).max(1);
        // A step up would click, so the gain rises across the chunk. A step down is applied from
        // the first sample on, since a peak may be there.
        let rise = (self.gain - before).max(0);
        let start = self.gain - rise;
        let limited = sum.iter().zip(0..).flat_map(|(sample, at)| {
            let gain = start + rise * at / count;
            let value =
                (i64::from(*sample) * gain / UNITY_GAIN).clamp(i16::MIN.into(), i16::MAX.into());
            i16::try_from(value).unwrap_or_default().to_le_bytes()
        });
        limited.collect()
    }
}

/// Speaker shown in the large tile.
#[derive(Debug, Default)]
pub struct ActiveSpeaker {
    current: Option<ParticipantSid>,
    /// Chunk with the last change.
    since: u64,
    /// Loudness per participant, averaged over about half a second.
    loudness: HashMap<ParticipantSid, u64>,
}

impl ActiveSpeaker {
    pub const fn current(&self) -> Option<&ParticipantSid> {
        self.current.as_ref()
    }

    /// Records each participant's loudness in a chunk. Returns whether the speaker changed.
    pub fn observe(&mut self, chunk: u64, loudness_of: &HashMap<ParticipantSid, u64>) -> bool {
        self.loudness.retain(|sid, _| loudness_of.contains_key(sid));
        for (sid, energy) in loudness_of {
            let mean = self.loudness.entry(sid.clone()).or_default();
            // Exponential moving average over 20 chunks: a cough is over before it counts.
            *mean = (*mean * 19 + energy) / 20;
        }
        let current = self
            .current
            .as_ref()
            .and_then(|sid| self.loudness.get(sid).copied());
        let loudest = self
            .loudness
            .iter()
            // Ties are broken by sid, so that the result does not depend on the map's order.
            .max_by_key(|(sid, mean)| (**mean, *sid));
        let Some((sid, mean)) = loudest.filter(|(_, mean)| **mean > SPEECH_LEVEL) else {
            return false;
        };
        let is_clear = current.is_none_or(|current| {
            *mean > current * SWITCH_FACTOR && chunk >= self.since + MIN_SPEAKER_CHUNKS
        });
        if !is_clear || self.current.as_ref() == Some(sid) {
            return false;
        }
        (self.current, self.since) = (Some(sid.clone()), chunk);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use proptest::prelude::*;

    use super::*;

    fn take(queue: &mut SampleQueue, chunk: u64) -> Vec<i32> {
        let mut sum = vec![0; CHUNK_SAMPLES * 2];
        queue.take(chunk, &mut sum);
        sum
    }

    #[test]
    fn samples_come_out_at_their_time_and_gaps_are_silent() {
        let mut queue = SampleQueue::default();
        queue.push(Duration::from_millis(30), &[7; CHUNK_SAMPLES * 2]);
        assert_eq!(take(&mut queue, 0), [0; CHUNK_SAMPLES * 2]);
        let (silent, tone) = ([0; CHUNK_SAMPLES], [7; CHUNK_SAMPLES]);
        assert_eq!(take(&mut queue, 1), [silent, tone].concat());
        assert_eq!(take(&mut queue, 2), [tone, silent].concat());
        assert_eq!(take(&mut queue, 3), [0; CHUNK_SAMPLES * 2]);
    }

    #[test]
    fn rounded_times_make_no_gaps_and_late_samples_are_left_out() {
        let mut queue = SampleQueue::default();
        for (millis, packet) in [(0, 0), (21, 1), (39, 2)] {
            queue.push(
                Duration::from_millis(millis),
                &[packet + 1; CHUNK_SAMPLES * 2],
            );
        }
        let chunks = [0, 1, 2].map(|chunk| take(&mut queue, chunk));
        assert_eq!(
            chunks.concat(),
            [
                [1; CHUNK_SAMPLES * 2],
                [2; CHUNK_SAMPLES * 2],
                [3; CHUNK_SAMPLES * 2]
            ]
            .concat()
        );
        queue.push(Duration::from_millis(10), &[9; CHUNK_SAMPLES * 2]);
        assert_eq!(take(&mut queue, 3), [0; CHUNK_SAMPLES * 2]);
    }

    #[test]
    fn a_sum_that_is_too_loud_is_lowered_and_rises_again() {
        let mut limiter = Limiter::default();
        let samples = |bytes: &[u8]| {
            bytes
                .chunks(2)
                .map(|b| i16::from_le_bytes([b[0], b[1]]))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            samples(&limiter.limit(&[20_000, -20_000])),
            [20_000, -20_000],
            "nothing is too loud"
        );
        assert!(
            samples(&limiter.limit(&[90_000, -90_000]))
                .iter()
                .all(|sample| sample.abs() <= 32_000)
        );
        assert!(
            samples(&limiter.limit(&[1_000; 2]))[0] < 500,
            "the volume does not jump"
        );
        (0..60).for_each(|_| drop(limiter.limit(&[0; 2])));
        assert_eq!(samples(&limiter.limit(&[1_000; 2])), [1_000; 2]);
    }

    proptest! {
        #[test]
        fn samples_of_any_times_do_no_harm(
            pushed in prop::collection::vec((0u64..3_000, 0usize..3_000), 0..20), chunks in 0u64..100,
        ) {
            let mut queue = SampleQueue::default();
            for (millis, samples) in pushed {
                queue.push(Duration::from_millis(millis), &vec![1; samples * 2]);
            }
            for chunk in 0..chunks {
                prop_assert!(take(&mut queue, chunk).iter().all(|sample| (0..=1).contains(sample)));
            }
        }
    }

    fn loudness_of(alice: u64, bob: u64) -> HashMap<ParticipantSid, u64> {
        HashMap::from([
            ("PA_alice".parse().unwrap(), alice),
            ("PA_bob".parse().unwrap(), bob),
        ])
    }

    fn observe(speaker: &mut ActiveSpeaker, chunks: Range<u64>, alice: u64, bob: u64) {
        for chunk in chunks {
            speaker.observe(chunk, &loudness_of(alice, bob));
        }
    }

    #[test]
    fn the_speaker_is_who_speaks_and_not_who_coughs() {
        let mut speaker = ActiveSpeaker::default();
        observe(&mut speaker, 0..100, 0, 0);
        assert_eq!(speaker.current(), None, "nobody speaks");
        observe(&mut speaker, 100..200, 1_000_000, 0);
        assert_eq!(
            speaker.current().map(ParticipantSid::as_str),
            Some("PA_alice")
        );
        observe(&mut speaker, 200..203, 1_000_000, 1_500_000);
        assert_eq!(
            speaker.current().map(ParticipantSid::as_str),
            Some("PA_alice")
        );
        observe(&mut speaker, 203..300, 0, 1_000_000);
        assert_eq!(
            speaker.current().map(ParticipantSid::as_str),
            Some("PA_bob")
        );
        observe(&mut speaker, 300..400, 0, 0);
        assert_eq!(
            speaker.current().map(ParticipantSid::as_str),
            Some("PA_bob"),
            "the last one stays"
        );
    }
}
