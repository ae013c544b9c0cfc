//! Generated media: video in three layers, and Opus. Sizes, rates and pacing match LiveKit's clients with a 720p camera; the video is
//! noise, which only recordings decode.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use str0m::format::Codec;
use str0m::media::Rid;

use super::payload;

/// A camera layer.
pub struct Layer {
    pub rid: &'static str,
    pub width: u32,
    pub height: u32,
    /// Bits per second.
    pub bitrate: u32,
    /// Frames per second.
    rate: u32,
}

/// LiveKit's client presets for 720p, worst first. VP8 has a stream for each; VP9 and AV1 have all in one stream, where all have the best
/// layer's frame rate.
pub const LAYERS: [Layer; 3] = [
    Layer {
        rid: "q",
        width: 320,
        height: 180,
        bitrate: 160_000,
        rate: 20,
    },
    Layer {
        rid: "h",
        width: 640,
        height: 360,
        bitrate: 450_000,
        rate: 20,
    },
    Layer {
        rid: "f",
        width: 1280,
        height: 720,
        bitrate: 1_700_000,
        rate: 30,
    },
];

/// Maximum payload per packet.
const MAX_PAYLOAD: usize = 1100;
/// Key frame size relative to other frames.
const KEY_FRAME_FACTOR: f64 = 6.0;
/// Pacing rate relative to the bitrate, as in libwebrtc: a frame is spread over a part of its interval.
const PACING_FACTOR: f64 = 2.5;
const VIDEO_CLOCK: u32 = 90_000;
const AUDIO_INTERVAL: Duration = Duration::from_millis(20);
const AUDIO_TIMESTAMPS: u32 = 960;
/// Opus packet size at 32 kbit/s.
const AUDIO_PAYLOAD: usize = 80;

/// Approximate packets per second from a client with a camera and a microphone.
pub const PACKET_RATE: f64 = 340.0;

/// Length of the trailer in every payload: its kind and its sending time.
pub const STAMP: usize = 16;
const MAGIC: [u8; 7] = *b"cnclvBM";

/// A packet to send.
pub struct Packet {
    pub codec: Codec,
    /// The layer, if each has its own stream.
    pub rid: Option<Rid>,
    pub sequence: u64,
    pub timestamp: u32,
    pub marker: bool,
    pub payload: Vec<u8>,
    /// AV1's dependency descriptor.
    pub descriptor: Option<Vec<u8>>,
}

/// Returns the wall-clock time in nanoseconds.
pub fn wall_clock() -> u64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns whether a payload is video, and its sending time in nanoseconds; `None` for foreign payloads.
pub fn read_stamp(payload: &[u8]) -> Option<(bool, u64)> {
    let (magic, rest) = payload.last_chunk::<STAMP>()?.split_at(MAGIC.len());
    let (is_video, nanos) = rest.split_first()?;
    (magic == MAGIC).then_some((*is_video == 1, u64::from_be_bytes(nanos.try_into().ok()?)))
}

fn stamp(payload: &mut Vec<u8>, is_video: bool) {
    payload.extend(MAGIC);
    payload.push(u8::from(is_video));
    payload.extend(wall_clock().to_be_bytes());
}

/// A camera's encoder.
pub struct Camera {
    streams: Vec<Stream>,
}

struct Stream {
    codec: Codec,
    /// The stream's layers: one, or all.
    layers: &'static [Layer],
    next_frame: Instant,
    next_packet: Instant,
    /// Unsent packets.
    queue: VecDeque<Part>,
    is_key_wanted: bool,
    /// The last frame's number.
    picture: u32,
    sequence: u64,
}

/// A packet before it is written.
pub struct Part {
    pub is_key: bool,
    /// Index of the frame's layer in the stream.
    pub layer: u8,
    /// Whether it is its frame's first packet, and its last one.
    pub is_first: bool,
    pub is_last: bool,
    pub picture: u32,
    pub bytes: usize,
}

impl Camera {
    /// Encodes in VP8, VP9 or AV1.
    pub fn new(codec: Codec, now: Instant) -> Self {
        let layers = LAYERS.chunks(if is_simulcast(codec) { 1 } else { LAYERS.len() });
        Self {
            streams: layers
                .map(|layers| Stream::new(codec, layers, now))
                .collect(),
        }
    }

    /// Makes a layer's next frame a key frame; all layers' without a layer.
    pub fn request_key_frame(&mut self, rid: Option<Rid>) {
        let wanted = |stream: &&mut Stream| rid.is_none_or(|rid| stream.rid() == Some(rid));
        self.streams
            .iter_mut()
            .filter(wanted)
            .for_each(|stream| stream.is_key_wanted = true);
    }

    /// Returns the packets that are due.
    pub fn due(&mut self, now: Instant) -> impl Iterator<Item = Packet> {
        self.streams
            .iter_mut()
            .flat_map(move |stream| std::iter::from_fn(move || stream.next(now)))
    }
}

/// Returns whether a codec has a stream per layer.
pub fn is_simulcast(codec: Codec) -> bool {
    codec == Codec::Vp8
}

impl Stream {
    fn new(codec: Codec, layers: &'static [Layer], now: Instant) -> Self {
        let mut stream = Self {
            codec,
            layers,
            next_frame: now,
            next_packet: now,
            queue: VecDeque::new(),
            is_key_wanted: true,
            picture: fastrand::u32(..0x4000),
            sequence: fastrand::u64(1..10_000),
        };
        // Different cameras do not capture their frames at the same time.
        stream.next_frame += stream.interval().mul_f64(fastrand::f64());
        stream
    }

    fn rid(&self) -> Option<Rid> {
        is_simulcast(self.codec).then(|| self.layers[0].rid.into())
    }

    /// Returns the frames per second.
    fn rate(&self) -> u32 {
        self.layers[self.layers.len() - 1].rate
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(1) / self.rate()
    }

    fn next(&mut self, now: Instant) -> Option<Packet> {
        while self.next_frame <= now {
            self.next_frame += self.interval();
            self.encode();
        }
        if self.next_packet > now {
            return None;
        }
        let part = self.queue.pop_front()?;
        let bits = (part.bytes * 8) as f64;
        let bitrate: u32 = self.layers.iter().map(|layer| layer.bitrate).sum();
        let gap = Duration::from_secs_f64(bits / (PACING_FACTOR * f64::from(bitrate)));
        // A late sender does not catch up faster than its pacing rate.
        self.next_packet = now.max(self.next_packet + gap).min(now + gap);
        self.sequence += 1;
        let mut payload = payload::head(self.codec, &part, self.layers);
        payload.resize(payload.len().max(part.bytes.saturating_sub(STAMP)), 0xaa);
        stamp(&mut payload, true);
        Some(Packet {
            codec: self.codec,
            rid: self.rid(),
            sequence: self.sequence,
            timestamp: part.picture.wrapping_mul(VIDEO_CLOCK / self.rate()),
            marker: part.is_last && usize::from(part.layer) + 1 == self.layers.len(),
            payload,
            descriptor: (self.codec == Codec::Av1).then(|| payload::descriptor(&part)),
        })
    }

    /// Queues a frame's packets, for each layer.
    fn encode(&mut self) {
        let is_key = std::mem::take(&mut self.is_key_wanted);
        let (rate, layers) = (self.rate(), self.layers);
        self.picture = self.picture.wrapping_add(1);
        for (number, layer) in (0..).zip(layers) {
            let mean = f64::from(layer.bitrate / 8 / rate);
            let size = mean
                * if is_key {
                    KEY_FRAME_FACTOR
                } else {
                    0.7 + 0.6 * fastrand::f64()
                };
            let packets = (size as usize).div_ceil(MAX_PAYLOAD).max(1);
            self.queue.extend((0..packets).map(|packet| Part {
                is_key,
                layer: number,
                is_first: packet == 0,
                is_last: packet + 1 == packets,
                picture: self.picture,
                bytes: size as usize / packets,
            }));
        }
    }
}

/// A microphone's encoder.
pub struct Microphone {
    next: Instant,
    sequence: u64,
}

impl Microphone {
    pub fn new(now: Instant) -> Self {
        Self {
            next: now + AUDIO_INTERVAL.mul_f64(fastrand::f64()),
            sequence: fastrand::u64(1..10_000),
        }
    }

    /// Returns the packets that are due.
    pub fn due(&mut self, now: Instant) -> impl Iterator<Item = Packet> {
        std::iter::from_fn(move || {
            (self.next <= now).then(|| {
                self.next += AUDIO_INTERVAL;
                self.sequence += 1;
                let mut payload = vec![0x78; AUDIO_PAYLOAD - STAMP];
                stamp(&mut payload, false);
                let timestamp = (self.sequence as u32).wrapping_mul(AUDIO_TIMESTAMPS);
                Packet {
                    codec: Codec::Opus,
                    rid: None,
                    sequence: self.sequence,
                    timestamp,
                    marker: false,
                    payload,
                    descriptor: None,
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a stream's packets over a time.
    fn packets(
        camera: &mut Camera,
        rid: Option<&str>,
        from: Instant,
        time: Duration,
    ) -> Vec<Packet> {
        let steps = (0..time.as_millis() as u64).map(|step| from + Duration::from_millis(step));
        let all: Vec<_> = steps
            .flat_map(|now| camera.due(now).collect::<Vec<_>>())
            .collect();
        all.into_iter()
            .filter(|packet| packet.rid == rid.map(Rid::from))
            .collect()
    }

    #[test]
    fn each_stream_keeps_its_bitrate() {
        let now = Instant::now();
        let all = LAYERS.iter().map(|layer| layer.bitrate).sum();
        let simulcast = LAYERS
            .iter()
            .map(|layer| (Codec::Vp8, Some(layer.rid), layer.bitrate));
        for (codec, rid, bitrate) in
            simulcast.chain([(Codec::Vp9, None, all), (Codec::Av1, None, all)])
        {
            let mut camera = Camera::new(codec, now);
            // The first frame is a key frame, which takes longer.
            packets(&mut camera, rid, now, Duration::from_secs(1));
            let seen = packets(
                &mut camera,
                rid,
                now + Duration::from_secs(1),
                Duration::from_secs(10),
            );
            let bits: usize = seen.iter().map(|packet| packet.payload.len() * 8).sum();
            let share = bits as f64 / (10.0 * f64::from(bitrate));
            assert!((0.9..1.1).contains(&share), "{codec} {rid:?}: {share}");
        }
    }

    #[test]
    fn a_key_frame_comes_at_the_start_and_on_request() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let is_key: [fn(&Packet) -> bool; 3] = [
            |packet| packet.payload[0] == 0x90 && packet.payload[6] & 1 == 0,
            |packet| packet.payload[0] & 0x4a == 0x0a,
            |packet| packet.descriptor.as_ref().unwrap().len() > 3,
        ];
        for ((codec, rid), is_key) in [
            (Codec::Vp8, Some("f")),
            (Codec::Vp9, None),
            (Codec::Av1, None),
        ]
        .into_iter()
        .zip(is_key)
        {
            let mut camera = Camera::new(codec, now);
            let count = |from: Instant, camera: &mut Camera| {
                packets(camera, rid, from, second)
                    .into_iter()
                    .filter(is_key)
                    .count()
            };
            assert_eq!(
                [count(now, &mut camera), count(now + second, &mut camera)],
                [1, 0],
                "{codec}"
            );
            camera.request_key_frame(rid.map(Rid::from));
            assert_eq!(count(now + 2 * second, &mut camera), 1, "{codec}");
        }
    }

    #[test]
    fn the_time_of_sending_is_read_from_the_end_of_a_payload() {
        let before = wall_clock();
        let mut payload = vec![1, 2, 3];
        stamp(&mut payload, true);
        let (is_video, at) = read_stamp(&payload).unwrap();
        assert!(is_video && (before..=wall_clock()).contains(&at));
        assert_eq!(read_stamp(&payload[1..payload.len() - 1]), None);
    }
}
