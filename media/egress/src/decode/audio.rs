//! The decoder of sound, in this process: a child for each track would be as many processes as a participant publishes tracks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use opus_pure::{MAX_PACKET_SAMPLES, OpusDecoder};

use super::Place;
use crate::codec::{Frame, opus_duration};
use crate::composite::SampleQueue;

const SAMPLES_PER_SECOND: i32 = 48_000;
const CHANNELS: usize = 2;
/// How much more sound than time there may be. A publisher that sends more is decoded only as fast as sound passes.
const AHEAD: Duration = Duration::from_secs(2);
/// How long a track may send nothing, until its decoder is given up. The next one begins with any packet.
const IDLE: Duration = Duration::from_secs(5);

/// A decoder of Opus.
pub struct AudioDecoder {
    decoder: OpusDecoder,
    samples: SampleQueue,
    /// What a packet becomes, left and right in turn.
    buffer: Vec<i16>,
    /// When the first packet arrived, and the last one.
    began: Instant,
    last: Instant,
    /// The sound of the packets until now.
    decoded: Duration,
    _places: Vec<Place>,
}

impl AudioDecoder {
    /// Starts with a packet that arrives now.
    ///
    /// # Errors
    /// The decoder refuses the format, which it does not.
    pub fn start(places: Vec<Place>, now: Instant) -> Result<Self, String> {
        let decoder =
            OpusDecoder::new(SAMPLES_PER_SECOND, CHANNELS).map_err(|error| error.to_string())?;
        Ok(Self {
            decoder,
            samples: SampleQueue::default(),
            buffer: vec![0; MAX_PACKET_SAMPLES * CHANNELS],
            began: now,
            last: now,
            decoded: Duration::ZERO,
            _places: places,
        })
    }

    /// Decodes a packet. One that is malformed is left out. Returns whether the decoder can go on.
    pub fn push(&mut self, packet: &Frame, arrived: Instant) -> bool {
        self.last = arrived;
        let Some(duration) = opus_duration(&packet.data) else {
            return true;
        };
        if self.decoded + duration > arrived.saturating_duration_since(self.began) + AHEAD {
            return true;
        }
        self.decoded += duration;
        let (decoder, buffer) = (&mut self.decoder, &mut self.buffer);
        // A packet is what a stranger's program has made: a panic costs its track a decoder, not the recording its thread.
        match catch_unwind(AssertUnwindSafe(|| {
            decoder.decode_s16(&packet.data, MAX_PACKET_SAMPLES, buffer)
        })) {
            Ok(Ok(count)) => {
                self.samples.push(
                    packet.at,
                    self.buffer.get(..count * CHANNELS).unwrap_or_default(),
                );
                true
            }
            Ok(Err(_)) => true,
            Err(_) => false,
        }
    }

    /// Adds the samples of a chunk to a sum; returns how loud they are.
    pub fn mix(&mut self, chunk: u64, sum: &mut [i32]) -> u64 {
        self.samples.take(chunk, sum)
    }

    /// Returns whether nothing has come for so long that the decoder can be given up.
    pub fn is_idle(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) > IDLE
    }
}

#[cfg(test)]
pub mod tests {
    use opus_pure::{Application, MAX_PACKET_BYTES, OpusEncoder};
    use proptest::prelude::*;

    use super::*;
    use crate::composite::CHUNK_SAMPLES;

    const PACKET: Duration = Duration::from_millis(20);

    /// Packets of a tone whose left channel is twice as loud as the right one.
    pub fn tone(packets: u32, channels: usize) -> Vec<Frame> {
        let mut encoder =
            OpusEncoder::new(SAMPLES_PER_SECOND, channels, Application::Audio).unwrap();
        let wave = |sample: u32| f64::from(sample) * 440.0 * std::f64::consts::TAU / 48_000.0;
        let packet = |number: u32| {
            let samples = (number * 960..(number + 1) * 960).flat_map(|sample| {
                #[expect(clippy::cast_possible_truncation, reason = "the values are small")]
                let value = (8_000.0 * wave(sample).sin()) as i16;
                [value, value / 2].into_iter().take(channels)
            });
            let mut data = vec![0; MAX_PACKET_BYTES];
            let bytes = encoder
                .encode_s16(&samples.collect::<Vec<_>>(), 960, &mut data)
                .unwrap();
            data.truncate(bytes);
            Frame {
                at: PACKET * number,
                timestamp: 0,
                is_key: true,
                data,
                dimensions: None,
            }
        };
        (0..packets).map(packet).collect()
    }

    fn decoder(now: Instant) -> AudioDecoder {
        AudioDecoder::start(Vec::new(), now).unwrap()
    }

    /// The mean squares of left and right in a chunk.
    fn loudness(decoder: &mut AudioDecoder, chunk: u64) -> [i64; 2] {
        let mut sum = vec![0; CHUNK_SAMPLES * 2];
        decoder.mix(chunk, &mut sum);
        let square = |side: usize| {
            sum.iter()
                .skip(side)
                .step_by(2)
                .map(|sample| i64::from(*sample).pow(2))
                .sum::<i64>()
        };
        [0, 1].map(|side| square(side) / 960)
    }

    #[test]
    fn tones_in_stereo_and_in_mono_are_heard_as_loud_as_they_were() {
        let now = Instant::now();
        for (channels, right) in [(2, 8_000_000), (1, 32_000_000)] {
            let mut decoder = decoder(now);
            tone(50, channels)
                .iter()
                .for_each(|packet| assert!(decoder.push(packet, now + packet.at)));
            for chunk in 0..5 {
                loudness(&mut decoder, chunk);
            }
            for chunk in 5..50 {
                let heard = loudness(&mut decoder, chunk);
                // A sine of the amplitude 8,000 has the mean square 32,000,000.
                let is_near = |one: i64, other: i64| (one - other).abs() < other / 4;
                assert!(
                    is_near(heard[0], 32_000_000) && is_near(heard[1], right),
                    "{channels} {chunk}: {heard:?}"
                );
            }
        }
    }

    /// Proves S-51.
    #[test]
    fn more_sound_than_time_is_not_decoded_and_a_silent_track_gives_its_decoder_up() {
        let now = Instant::now();
        let mut decoder = decoder(now);
        tone(500, 1)
            .iter()
            .for_each(|packet| assert!(decoder.push(packet, now)));
        assert_eq!(decoder.decoded, AHEAD);
        assert!(!decoder.is_idle(now + IDLE) && decoder.is_idle(now + IDLE + PACKET));
    }

    proptest! {
        /// Proves S-51.
        #[test]
        fn a_decoder_takes_any_bytes(
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        ) {
            let now = Instant::now();
            let mut decoder = decoder(now);
            let mut tone = tone(20, 2);
            for (packet, (index, byte)) in tone.iter_mut().zip(flips) {
                let place = index.index(packet.data.len());
                packet.data[place] = byte;
            }
            let random = packets.into_iter().map(|data| Frame { at: PACKET, timestamp: 0, is_key: true, data, dimensions: None });
            for packet in tone.into_iter().chain(random) {
                prop_assert!(decoder.push(&packet, now));
            }
        }
    }
}
