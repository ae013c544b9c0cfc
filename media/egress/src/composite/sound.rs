//! Sounds on one time line, their sum, and who speaks, by how loud participants are.
//!
//! A sample is a pair: left and right. There are 48,000 a second.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use conclave_model::ParticipantSid;

/// What is mixed at once.
pub const CHUNK: Duration = Duration::from_millis(20);
/// Samples of a chunk.
pub const CHUNK_SAMPLES: usize = 960;
/// How far the time of samples may be from the end of those before without making a gap: what rounding and a small drift
/// of clocks make.
const TOLERANCE: u64 = 48 * 40;
/// Samples that wait, at most: half a minute. A composition on a busy machine is late by less.
const CAPACITY: u64 = 1_440_000;
/// The fewest chunks for which a participant is shown: a second and a half.
const SHOWN: u64 = 75;
/// The loudness above which a participant speaks, as a mean square of samples.
const SPEECH: u64 = 150 * 150;
/// How many times as loud as the participant that is shown another one has to be.
const LOUDER: u64 = 4;

/// Samples of one track that wait for their time.
#[derive(Debug, Default)]
pub struct SampleQueue {
    /// Parts without gaps: the number of the first sample since the start, and left and right in turn.
    parts: VecDeque<(u64, VecDeque<i16>)>,
}

impl SampleQueue {
    /// Takes samples, left and right in turn, of which the first belongs to this moment since the start.
    pub fn push(&mut self, at: Duration, samples: &[i16]) {
        let at = sample_number(at);
        match self.parts.back_mut() {
            Some((begin, part)) if *begin + pairs(part) + TOLERANCE >= at => {
                // Of samples that overlap by more than that, only the rest is new.
                let overlap = (*begin + pairs(part)).saturating_sub(at);
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
        while self.parts.iter().map(|(_, part)| pairs(part)).sum::<u64>() > CAPACITY {
            self.parts.pop_front();
        }
    }

    /// Adds the samples of a chunk to a sum, and forgets them. Returns their mean square: how loud they are.
    pub fn take(&mut self, chunk: u64, sum: &mut [i32]) -> u64 {
        let begin = chunk * CHUNK_SAMPLES as u64;
        let end = begin + CHUNK_SAMPLES as u64;
        let mut energy = 0;
        while let Some((first, part)) = self.parts.front_mut().filter(|(first, _)| *first < end) {
            // What is before the chunk came too late.
            let late = begin.saturating_sub(*first).min(pairs(part));
            part.drain(..index(late));
            *first += late;
            let offset = index(first.saturating_sub(begin));
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

/// Keeps the sum of sounds within what samples can hold: it lowers the volume while the sum is too loud, and raises it slowly.
#[derive(Debug)]
pub struct Limiter {
    /// The volume in 65,536ths.
    gain: i64,
}

/// The volume that changes nothing.
const UNCHANGED: i64 = 65_536;
/// The loudest sample.
const LOUDEST: i64 = 32_000;

impl Default for Limiter {
    fn default() -> Self {
        Self { gain: UNCHANGED }
    }
}

impl Limiter {
    /// Returns the samples of a chunk as bytes, least significant first.
    pub fn limit(&mut self, sum: &[i32]) -> Vec<u8> {
        let peak = i64::from(
            sum.iter()
                .map(|sample| sample.unsigned_abs())
                .max()
                .unwrap_or_default(),
        );
        let before = self.gain;
        let allowed = if peak > 0 {
            (LOUDEST * UNCHANGED / peak).min(UNCHANGED)
        } else {
            UNCHANGED
        };
        // Back to the usual volume within about a second.
        self.gain = allowed.min(before + UNCHANGED / 50);
        let count = i64::try_from(sum.len()).unwrap_or(1).max(1);
        // A volume that rises does so evenly; one that has to fall is lower from the first sample on.
        let rise = (self.gain - before).max(0);
        let begin = self.gain - rise;
        let limited = sum.iter().zip(0..).flat_map(|(sample, at)| {
            let gain = begin + rise * at / count;
            let value =
                (i64::from(*sample) * gain / UNCHANGED).clamp(i16::MIN.into(), i16::MAX.into());
            i16::try_from(value).unwrap_or_default().to_le_bytes()
        });
        limited.collect()
    }
}

/// The participant that is shown as the speaker.
#[derive(Debug, Default)]
pub struct ActiveSpeaker {
    current: Option<ParticipantSid>,
    /// The chunk in which the speaker changed last.
    since: u64,
    /// The loudness of each participant over about half a second.
    loudness: HashMap<ParticipantSid, u64>,
}

impl ActiveSpeaker {
    /// Returns the participant that is shown.
    pub const fn current(&self) -> Option<&ParticipantSid> {
        self.current.as_ref()
    }

    /// Takes how loud each participant was in a chunk. Returns whether another one is shown from now on.
    pub fn observe(&mut self, chunk: u64, heard: &HashMap<ParticipantSid, u64>) -> bool {
        self.loudness.retain(|sid, _| heard.contains_key(sid));
        for (sid, energy) in heard {
            let mean = self.loudness.entry(sid.clone()).or_default();
            *mean = (*mean * 19 + energy) / 20;
        }
        let current = self
            .current
            .as_ref()
            .and_then(|sid| self.loudness.get(sid).copied());
        let loudest = self
            .loudness
            .iter()
            .max_by_key(|(sid, mean)| (**mean, *sid));
        let Some((sid, mean)) = loudest.filter(|(_, mean)| **mean > SPEECH) else {
            return false;
        };
        let is_clear =
            current.is_none_or(|current| *mean > current * LOUDER && chunk >= self.since + SHOWN);
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
        let (silent, heard) = ([0; CHUNK_SAMPLES], [7; CHUNK_SAMPLES]);
        assert_eq!(take(&mut queue, 1), [silent, heard].concat());
        assert_eq!(take(&mut queue, 2), [heard, silent].concat());
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

    fn heard(alice: u64, bob: u64) -> HashMap<ParticipantSid, u64> {
        HashMap::from([
            ("PA_alice".parse().unwrap(), alice),
            ("PA_bob".parse().unwrap(), bob),
        ])
    }

    fn hear(speaker: &mut ActiveSpeaker, chunks: Range<u64>, alice: u64, bob: u64) {
        for chunk in chunks {
            speaker.observe(chunk, &heard(alice, bob));
        }
    }

    #[test]
    fn the_speaker_is_who_speaks_and_not_who_coughs() {
        let mut speaker = ActiveSpeaker::default();
        hear(&mut speaker, 0..100, 0, 0);
        assert_eq!(speaker.current(), None, "nobody speaks");
        hear(&mut speaker, 100..200, 1_000_000, 0);
        assert_eq!(
            speaker.current().map(ParticipantSid::as_str),
            Some("PA_alice")
        );
        hear(&mut speaker, 200..203, 1_000_000, 1_500_000);
        assert_eq!(
            speaker.current().map(ParticipantSid::as_str),
            Some("PA_alice")
        );
        hear(&mut speaker, 203..300, 0, 1_000_000);
        assert_eq!(
            speaker.current().map(ParticipantSid::as_str),
            Some("PA_bob")
        );
        hear(&mut speaker, 300..400, 0, 0);
        assert_eq!(
            speaker.current().map(ParticipantSid::as_str),
            Some("PA_bob"),
            "the last one stays"
        );
    }
}
