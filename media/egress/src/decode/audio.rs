//! Opus decoder, which runs in this process: participants may publish many audio tracks, and a
//! child process for each would cost too much.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use opus_pure::{MAX_PACKET_SAMPLES, OpusDecoder};

use super::Slot;
use crate::codec::{EncodedFrame, opus_duration};
use crate::composite::SampleQueue;

const SAMPLES_PER_SECOND: i32 = 48_000;
const CHANNELS: usize = 2;
// A publisher that sends audio faster than real time would otherwise have it all decoded. The lead tolerates bursts.
const MAX_LEAD: Duration = Duration::from_secs(2);
// An idle decoder returns its slot. The next one can start at any packet, so this loses nothing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Opus decoder for one track.
pub struct AudioDecoder {
    decoder: OpusDecoder,
    samples: SampleQueue,
    /// A packet's output: interleaved left and right samples.
    buffer: Vec<i16>,
    /// Arrival times: first and last packet.
    first: Instant,
    last: Instant,
    /// Total duration decoded so far.
    decoded: Duration,
    _slots: Vec<Slot>,
}

impl AudioDecoder {
    /// Starts a decoder with a packet that arrives now.
    ///
    /// # Errors
    /// Fails if the decoder rejects 48 kHz stereo, which it never does.
    pub fn start(slots: Vec<Slot>, now: Instant) -> Result<Self, String> {
        let decoder =
            // Always stereo, whatever the packets have: Opus decoders convert, and the mixer needs
            // one format.
            OpusDecoder::new(SAMPLES_PER_SECOND, CHANNELS).map_err(|error| error.to_string())?;
        Ok(Self {
            decoder,
            samples: SampleQueue::default(),
            buffer: vec![0; MAX_PACKET_SAMPLES * CHANNELS],
            first: now,
            last: now,
            decoded: Duration::ZERO,
            _slots: slots,
        })
    }

    /// Decodes a packet. A malformed one is skipped. Returns whether the decoder can continue.
    pub fn push(&mut self, packet: &EncodedFrame, arrived: Instant) -> bool {
        self.last = arrived;
        let Some(duration) = opus_duration(&packet.data) else {
            return true;
        };
        if self.decoded + duration > arrived.saturating_duration_since(self.first) + MAX_LEAD {
            return true;
        }
        self.decoded += duration;
        let (decoder, buffer) = (&mut self.decoder, &mut self.buffer);
        // A packet is untrusted input. If it makes the decoder panic, its track loses a decoder,
        // but the egress keeps its thread.
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

    /// Adds a chunk's samples to `sum`, and returns their mean square.
    pub fn mix(&mut self, chunk: u64, sum: &mut [i32]) -> u64 {
        self.samples.take(chunk, sum)
    }

    pub fn is_idle(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) > IDLE_TIMEOUT
    }
}

#[cfg(test)]
pub mod tests {
    use opus_pure::{Application, MAX_PACKET_BYTES, OpusEncoder};
    use proptest::prelude::*;

    use super::*;
    use crate::composite::CHUNK_SAMPLES;

    const PACKET: Duration = Duration::from_millis(20);

    /// Encodes a tone whose left channel is twice as loud as the right one.
    pub fn tone(packets: u32, channels: usize) -> Vec<EncodedFrame> {
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
            EncodedFrame {
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

    /// Returns a chunk's mean squares, left and right.
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
    fn stereo_and_mono_tones_keep_their_level() {
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
                let level = loudness(&mut decoder, chunk);
                // A sine with amplitude 8,000 has the mean square 32,000,000.
                let is_near = |one: i64, other: i64| (one - other).abs() < other / 4;
                assert!(
                    is_near(level[0], 32_000_000) && is_near(level[1], right),
                    "{channels} {chunk}: {level:?}"
                );
            }
        }
    }

    /// Proves S-51.
    #[test]
    fn audio_faster_than_real_time_is_dropped_and_an_idle_decoder_is_released() {
        let now = Instant::now();
        let mut decoder = decoder(now);
        tone(500, 1)
            .iter()
            .for_each(|packet| assert!(decoder.push(packet, now)));
        assert_eq!(decoder.decoded, MAX_LEAD);
        assert!(
            !decoder.is_idle(now + IDLE_TIMEOUT) && decoder.is_idle(now + IDLE_TIMEOUT + PACKET)
        );
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
                let offset = index.index(packet.data.len());
                packet.data[offset] = byte;
            }
            let random = packets.into_iter().map(|data| EncodedFrame { at: PACKET, timestamp: 0, is_key: true, data, dimensions: None });
            for packet in tone.into_iter().chain(random) {
                prop_assert!(decoder.push(&packet, now));
            }
        }
    }
}
