//! Generated media: VP8 in three layers, and Opus. Sizes, rates and pacing are those of LiveKit's clients with a camera of
//! 720p; the pictures are noise, which only recordings decode.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use str0m::media::Rid;

/// A layer of the camera.
pub struct Layer {
    pub rid: &'static str,
    pub width: u32,
    pub height: u32,
    /// Bits a second.
    pub bitrate: u32,
    /// Frames a second.
    rate: u32,
}

/// The presets of LiveKit's clients for 720p, worst first.
pub const LAYERS: [Layer; 3] = [
    Layer { rid: "q", width: 320, height: 180, bitrate: 160_000, rate: 20 },
    Layer { rid: "h", width: 640, height: 360, bitrate: 450_000, rate: 20 },
    Layer { rid: "f", width: 1280, height: 720, bitrate: 1_700_000, rate: 30 },
];

/// The largest payload of a packet.
const MAX_PAYLOAD: usize = 1100;
/// How much larger a key frame is than another one.
const KEY_FRAME_FACTOR: f64 = 6.0;
/// Packets leave this much faster than the bitrate, as those of libwebrtc do: a frame is spread over a part of its interval.
const PACING_FACTOR: f64 = 2.5;
const VIDEO_CLOCK: u32 = 90_000;
const AUDIO_INTERVAL: Duration = Duration::from_millis(20);
const AUDIO_TIMESTAMPS: u32 = 960;
/// A packet of Opus at 32 kbit/s.
const AUDIO_PAYLOAD: usize = 80;

/// About how many packets a client with a camera and a microphone sends in a second.
pub const PACKET_RATE: f64 = 340.0;

/// The end of every payload: what it is, and when it was sent.
pub const STAMP: usize = 16;
const MAGIC: [u8; 7] = *b"cnclvBM";

/// A packet to be sent.
pub struct Packet {
    /// The layer; `None` for audio.
    pub rid: Option<Rid>,
    pub sequence: u64,
    pub timestamp: u32,
    pub marker: bool,
    pub payload: Vec<u8>,
}

/// Returns the nanoseconds of the wall clock.
pub fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns whether a payload is of video, and the nanoseconds at which it was sent; `None` for foreign payloads.
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
    encodings: Vec<Encoding>,
}

struct Encoding {
    layer: &'static Layer,
    next_frame: Instant,
    next_packet: Instant,
    /// The packets of the frames that were not sent yet.
    queue: VecDeque<Part>,
    is_key_wanted: bool,
    /// The number of the last frame.
    frame: u32,
    sequence: u64,
}

struct Part {
    is_key: bool,
    is_first: bool,
    is_last: bool,
    frame: u32,
    bytes: usize,
}

impl Camera {
    pub fn new(now: Instant) -> Self {
        let encodings = LAYERS.iter().map(|layer| Encoding {
            layer,
            // The frames of different cameras are not taken at the same time.
            next_frame: now + layer.interval().mul_f64(fastrand::f64()),
            next_packet: now,
            queue: VecDeque::new(),
            is_key_wanted: true,
            frame: fastrand::u32(..0x4000),
            sequence: fastrand::u64(1..10_000),
        });
        Self { encodings: encodings.collect() }
    }

    /// Makes the next frame of a layer a key frame; of all layers without one.
    pub fn request_key_frame(&mut self, rid: Option<Rid>) {
        let wanted = |encoding: &&mut Encoding| rid.is_none_or(|rid| *rid == *encoding.layer.rid);
        self.encodings.iter_mut().filter(wanted).for_each(|encoding| encoding.is_key_wanted = true);
    }

    /// Returns the packets that are due.
    pub fn due(&mut self, now: Instant) -> impl Iterator<Item = Packet> {
        self.encodings.iter_mut().flat_map(move |encoding| std::iter::from_fn(move || encoding.next(now)))
    }
}

impl Layer {
    fn interval(&self) -> Duration {
        Duration::from_secs(1) / self.rate
    }
}

impl Encoding {
    fn next(&mut self, now: Instant) -> Option<Packet> {
        while self.next_frame <= now {
            self.next_frame += self.layer.interval();
            self.encode();
        }
        if self.next_packet > now {
            return None;
        }
        let part = self.queue.pop_front()?;
        let bits = (part.bytes * 8) as f64;
        let gap = Duration::from_secs_f64(bits / (PACING_FACTOR * f64::from(self.layer.bitrate)));
        // A sender that was late does not catch up faster than it may send.
        self.next_packet = now.max(self.next_packet + gap).min(now + gap);
        self.sequence += 1;
        Some(Packet {
            rid: Some(self.layer.rid.into()),
            sequence: self.sequence,
            timestamp: part.frame.wrapping_mul(VIDEO_CLOCK / self.layer.rate),
            marker: part.is_last,
            payload: self.payload(&part),
        })
    }

    /// Puts the packets of a frame into the queue.
    fn encode(&mut self) {
        let is_key = std::mem::take(&mut self.is_key_wanted);
        let mean = f64::from(self.layer.bitrate / 8 / self.layer.rate);
        let size = mean * if is_key { KEY_FRAME_FACTOR } else { 0.7 + 0.6 * fastrand::f64() };
        let packets = (size as usize).div_ceil(MAX_PAYLOAD).max(1);
        self.frame = self.frame.wrapping_add(1);
        self.queue.extend((0..packets).map(|number| Part {
            is_key,
            is_first: number == 0,
            is_last: number + 1 == packets,
            frame: self.frame,
            bytes: size as usize / packets,
        }));
    }

    /// Builds a payload: descriptor, the header of the frame, the stamp.
    fn payload(&self, part: &Part) -> Vec<u8> {
        // The number of the picture has 15 bits; the marker says so.
        let [.., high, low] = (part.frame | 0x8000).to_be_bytes();
        let mut payload = Vec::with_capacity(part.bytes + STAMP);
        payload.extend([if part.is_first { 0x90 } else { 0x80 }, 0xf0, high, low, low, 0]);
        if part.is_first {
            // The first partition has 16 bytes, so that decoders take the frame, whatever it shows.
            payload.extend([0x10 | u8::from(!part.is_key), 2, 0]);
            if part.is_key {
                let [[width, wide], [height, tall]] =
                    [self.layer.width, self.layer.height].map(|side| u16::try_from(side).unwrap_or(0).to_le_bytes());
                payload.extend([0x9d, 0x01, 0x2a, width, wide, height, tall]);
            }
        }
        payload.resize(payload.len().max(part.bytes.saturating_sub(STAMP)), 0xaa);
        stamp(&mut payload, true);
        payload
    }
}

/// A microphone's encoder.
pub struct Microphone {
    next: Instant,
    sequence: u64,
}

impl Microphone {
    pub fn new(now: Instant) -> Self {
        Self { next: now + AUDIO_INTERVAL.mul_f64(fastrand::f64()), sequence: fastrand::u64(1..10_000) }
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
                Packet { rid: None, sequence: self.sequence, timestamp, marker: false, payload }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the packets of a layer over a time.
    fn packets(camera: &mut Camera, rid: &str, from: Instant, time: Duration) -> Vec<Packet> {
        let steps = (0..time.as_millis() as u64).map(|step| from + Duration::from_millis(step));
        let all: Vec<_> = steps.flat_map(|now| camera.due(now).collect::<Vec<_>>()).collect();
        all.into_iter().filter(|packet| packet.rid == Some(rid.into())).collect()
    }

    #[test]
    fn each_layer_keeps_its_bitrate() {
        let now = Instant::now();
        for layer in &LAYERS {
            let mut camera = Camera::new(now);
            // The first frame is a key frame, which takes longer.
            packets(&mut camera, layer.rid, now, Duration::from_secs(1));
            let seen = packets(&mut camera, layer.rid, now + Duration::from_secs(1), Duration::from_secs(10));
            let bits: usize = seen.iter().map(|packet| packet.payload.len() * 8).sum();
            let share = bits as f64 / (10.0 * f64::from(layer.bitrate));
            assert!((0.9..1.1).contains(&share), "{}: {share}", layer.rid);
        }
    }

    #[test]
    fn a_key_frame_comes_at_the_start_and_on_request() {
        let now = Instant::now();
        let mut camera = Camera::new(now);
        let is_key = |packet: &Packet| packet.payload[0] == 0x90 && packet.payload[6] & 1 == 0;
        let count = |packets: Vec<Packet>| packets.iter().filter(|packet| is_key(packet)).count();
        let second = Duration::from_secs(1);
        assert_eq!(count(packets(&mut camera, "f", now, second)), 1);
        assert_eq!(count(packets(&mut camera, "f", now + second, second)), 0);
        camera.request_key_frame(Some("f".into()));
        assert_eq!(count(packets(&mut camera, "f", now + 2 * second, second)), 1);
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
