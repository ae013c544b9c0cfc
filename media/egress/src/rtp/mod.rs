//! From RTP packets to frames on the time line of an egress.
//!
//! A [`TrackReader`] takes the packets of one track. It puts them into the order of their sequence numbers ([`Reorder`]), gives them a time
//! on the time line that all tracks of an egress share (`clock`), and lets the codec put their payloads together (`codec`). A packet that
//! is missing is waited for a moment; after that, video goes on at its next key frame, which has to be requested.

mod clock;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use conclave_sfu::{Codec, RecordedPacket};

use crate::codec::{Announced, Assembly, Frame, announced};
pub use clock::PublisherClock;
use clock::TrackClock;

/// The largest frame, in bytes: far more than a key frame of the largest picture has.
const MAX_FRAME: usize = 8 * 1024 * 1024;
/// How long a missing packet is waited for: longer than a repetition takes over most networks, and shorter than the delay of a
/// composition.
const REORDER_PATIENCE: Duration = Duration::from_millis(300);
/// Number of packets that wait for a missing one.
const REORDER_CAPACITY: usize = 1_024;

/// Makes the frames of a track from its packets. After a loss, video goes on at its next key frame.
#[derive(Debug)]
pub struct TrackReader {
    codec: Codec,
    /// The start of the egress.
    start: Instant,
    reorder: Reorder,
    clock: TrackClock,
    /// The frame that is being received.
    open: Option<OpenFrame>,
    assembly: Assembly,
    /// Whether frames are dropped until a key frame.
    awaits_key_frame: bool,
    /// Time of the loss, while a key frame is awaited because of it.
    lost_at: Option<Instant>,
    /// Longest wait for a key frame after a loss; unlimited if `None`.
    patience: Option<Duration>,
    /// Frames that were lost.
    pub lost: u64,
    /// Whether a frame was refused because a decoder would take too much memory for its pictures.
    is_too_large: bool,
    last: Option<Duration>,
}

#[derive(Debug)]
struct OpenFrame {
    timestamp: u32,
    at: i64,
    arrived: Instant,
    is_key: bool,
    is_damaged: bool,
}

impl TrackReader {
    /// Starts with the codec of the first packet. `start` is the start of the egress.
    pub fn new(codec: Codec, start: Instant) -> Self {
        Self {
            codec,
            start,
            reorder: Reorder::default(),
            clock: TrackClock::new(codec.clock_rate().into()),
            open: None,
            assembly: Assembly::new(codec),
            awaits_key_frame: codec != Codec::Opus,
            lost_at: None,
            patience: None,
            lost: 0,
            is_too_large: false,
            last: None,
        }
    }

    /// Limits the wait for a key frame after a loss. A publisher with intra refresh may send no further key frames, and a decoder
    /// recovers without.
    #[must_use]
    pub const fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Returns whether a key frame has to be requested.
    pub const fn needs_key_frame(&self) -> bool {
        self.awaits_key_frame
    }

    /// Returns whether pictures were too large since the last call.
    pub fn take_too_large(&mut self) -> bool {
        std::mem::take(&mut self.is_too_large)
    }

    /// Takes a packet, and returns the frames that it completes.
    pub fn push(&mut self, packet: RecordedPacket, publisher: &mut PublisherClock) -> Vec<Frame> {
        let mut frames = Vec::new();
        for ordered in self.reorder.push(packet) {
            let arrived = self.micros_since_start(ordered.packet.arrived);
            let at = self.clock.time(&ordered.packet, arrived, publisher);
            if self.codec == Codec::Opus {
                let (timestamp, payload) = (ordered.packet.timestamp, &ordered.packet.payload);
                frames.extend(self.complete((at, timestamp), true, payload.to_vec()));
            } else {
                if ordered.is_after_gap {
                    self.note_loss(ordered.packet.arrived);
                }
                self.recover(ordered.packet.arrived);
                if ordered.packet.payload.is_empty() {
                    // Padding, by which the publisher looks for bandwidth.
                    continue;
                }
                frames.extend(self.push_video(&ordered.packet, at));
            }
        }
        frames
    }

    fn micros_since_start(&self, arrived: Instant) -> i64 {
        let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        match arrived.checked_duration_since(self.start) {
            Some(after) => micros(after),
            None => -micros(self.start.saturating_duration_since(arrived)),
        }
    }

    fn note_loss(&mut self, now: Instant) {
        self.lost += u64::from(self.open.is_some());
        self.open = None;
        self.assembly.take();
        self.awaits_key_frame = true;
        // Before the first key frame, there is nothing to recover from.
        self.lost_at = self.last.and(self.lost_at.or(Some(now)));
    }

    /// Stops waiting for a key frame if the loss was long enough ago.
    fn recover(&mut self, now: Instant) {
        let waited = self
            .lost_at
            .map(|lost_at| now.saturating_duration_since(lost_at));
        if self
            .patience
            .zip(waited)
            .is_some_and(|(patience, waited)| waited >= patience)
        {
            (self.awaits_key_frame, self.lost_at) = (false, None);
        }
    }

    fn push_video(
        &mut self,
        packet: &RecordedPacket,
        at: i64,
    ) -> impl Iterator<Item = Frame> + use<> {
        // Without its marker, a frame ends where the next one begins.
        let before = self.open.take_if(|open| open.timestamp != packet.timestamp);
        let ended = before.and_then(|open| self.end(open));
        let open = self.open.get_or_insert(OpenFrame {
            timestamp: packet.timestamp,
            at,
            arrived: packet.arrived,
            is_key: false,
            is_damaged: false,
        });
        open.is_key |= packet.is_entry_point;
        let fits = self.assembly.bytes() + packet.payload.len() <= MAX_FRAME;
        open.is_damaged |= !fits || !self.assembly.push(&packet.payload);
        let completed = self
            .open
            .take_if(|_| packet.is_marked)
            .and_then(|open| self.end(open));
        ended.into_iter().chain(completed)
    }

    /// Ends a frame of video.
    fn end(&mut self, open: OpenFrame) -> Option<Frame> {
        let data = self.assembly.take();
        if open.is_damaged || data.is_empty() {
            self.lost += 1;
            self.awaits_key_frame = true;
            self.lost_at = self.last.and(self.lost_at.or(Some(open.arrived)));
        }
        self.awaits_key_frame &= !open.is_key || open.is_damaged;
        if self.awaits_key_frame {
            return None;
        }
        self.lost_at = None;
        self.complete((open.at, open.timestamp), open.is_key, data)
    }

    /// Returns a frame. What was captured before the start belongs to the start.
    fn complete(
        &mut self,
        (at, timestamp): (i64, u32),
        is_key: bool,
        data: Vec<u8>,
    ) -> Option<Frame> {
        let at = Duration::from_micros(at.max(0).unsigned_abs());
        let at = self.last.map_or(at, |last| at.max(last));
        self.last = Some(at);
        let dimensions = match announced(self.codec, &data) {
            Announced::Nothing => None,
            Announced::Size(width, height) => Some((width, height)),
            Announced::Refused => {
                self.lost += 1;
                (self.awaits_key_frame, self.is_too_large) = (true, true);
                return None;
            }
        };
        (!data.is_empty()).then_some(Frame {
            at,
            timestamp,
            is_key,
            data,
            dimensions,
        })
    }
}

/// Puts packets of one layer at a time into order. Packets that come twice or too late are dropped.
#[derive(Debug, Default)]
struct Reorder {
    layer: Option<usize>,
    /// The next sequence number.
    next: u64,
    waiting: BTreeMap<u64, RecordedPacket>,
}

/// A packet in its order.
struct Ordered {
    /// The packet as it was received.
    packet: RecordedPacket,
    /// Whether packets before it are missing, or belong to another layer.
    is_after_gap: bool,
}

impl Reorder {
    /// Takes a packet, and returns those whose turn it is.
    fn push(&mut self, packet: RecordedPacket) -> Vec<Ordered> {
        let now = packet.arrived;
        let mut is_after_gap = false;
        if self.layer != Some(packet.layer) {
            self.waiting.clear();
            (self.layer, self.next, is_after_gap) = (Some(packet.layer), packet.sequence, true);
        }
        if packet.sequence >= self.next {
            self.waiting.insert(packet.sequence, packet);
        }
        let mut ordered = Vec::new();
        while self.is_next_due(now) {
            let Some((sequence, packet)) = self.waiting.pop_first() else {
                break;
            };
            is_after_gap |= sequence != self.next;
            self.next = sequence + 1;
            ordered.push(Ordered {
                packet,
                is_after_gap: std::mem::take(&mut is_after_gap),
            });
        }
        ordered
    }

    /// Returns whether the first waiting packet is the next one, or has waited long enough for those before it.
    fn is_next_due(&self, now: Instant) -> bool {
        let Some((sequence, packet)) = self.waiting.first_key_value() else {
            return false;
        };
        let waited = now.saturating_duration_since(packet.arrived);
        *sequence == self.next
            || waited >= REORDER_PATIENCE
            || self.waiting.len() > REORDER_CAPACITY
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A camera that sends frames of two packets, each 33 ms after the one before.
    struct Camera {
        start: Instant,
        sequence: u64,
        frames: u32,
    }

    impl Camera {
        fn frame(&mut self, is_key: bool) -> [RecordedPacket; 2] {
            self.frames += 1;
            let arrived = self.start + Duration::from_millis(33) * self.frames;
            [0x10_u8, 0x00].map(|descriptor| {
                self.sequence += 1;
                RecordedPacket {
                    track: "TR_1".parse().unwrap(),
                    layer: 0,
                    codec: Codec::Vp8,
                    sequence: self.sequence,
                    timestamp: self.frames * 2_970,
                    is_marked: descriptor == 0,
                    is_entry_point: is_key && descriptor == 0x10,
                    payload: Arc::from([
                        descriptor,
                        u8::from(!is_key),
                        self.frames.to_le_bytes()[0],
                    ]),
                    arrived,
                    report: None,
                }
            })
        }
    }

    fn read(
        reader: &mut TrackReader,
        packets: impl IntoIterator<Item = RecordedPacket>,
    ) -> Vec<(u128, bool)> {
        let mut publisher = PublisherClock::default();
        let frames = packets
            .into_iter()
            .flat_map(|packet| reader.push(packet, &mut publisher));
        frames
            .map(|frame| (frame.at.as_millis(), frame.is_key))
            .collect()
    }

    #[test]
    fn frames_are_whole_and_in_order_although_packets_are_not() {
        let mut camera = Camera {
            start: Instant::now(),
            sequence: 100,
            frames: 0,
        };
        let mut reader = TrackReader::new(Codec::Vp8, camera.start);
        let [a, b] = camera.frame(true);
        let [c, d] = camera.frame(false);
        assert_eq!(
            read(&mut reader, [a, d.clone(), c, b, d]),
            [(33, true), (66, false)]
        );
        assert!(!reader.needs_key_frame());
    }

    #[test]
    fn padding_is_no_part_of_a_frame() {
        let mut camera = Camera {
            start: Instant::now(),
            sequence: 100,
            frames: 0,
        };
        let mut reader = TrackReader::new(Codec::Vp8, camera.start);
        let mut packets = camera.frame(true).to_vec();
        camera.sequence += 1;
        packets.push(RecordedPacket {
            sequence: camera.sequence,
            is_marked: false,
            is_entry_point: false,
            payload: Arc::default(),
            ..packets[1].clone()
        });
        packets.extend(camera.frame(false));
        assert_eq!(read(&mut reader, packets), [(33, true), (66, false)]);
        assert_eq!((reader.lost, reader.needs_key_frame()), (0, false));
    }

    #[test]
    fn with_patience_frames_go_on_without_a_key_frame_some_time_after_a_loss() {
        let mut camera = Camera {
            start: Instant::now(),
            sequence: 100,
            frames: 0,
        };
        let patience = Duration::from_secs(1);
        let mut reader = TrackReader::new(Codec::Vp8, camera.start).with_patience(patience);
        for _ in 0..60 {
            let packets = camera.frame(false);
            assert!(
                read(&mut reader, packets).is_empty(),
                "nothing can start with it"
            );
        }
        read(&mut reader, camera.frame(true));
        let [_, end] = camera.frame(false);
        let lost_at = camera.frames;
        let mut next = read(&mut reader, [end]);
        while next.is_empty() {
            let packets = camera.frame(false);
            next = read(&mut reader, packets);
        }
        let waited = Duration::from_millis(33) * (camera.frames - lost_at);
        assert!(waited >= patience && waited < patience * 2, "{waited:?}");
        assert!(!reader.needs_key_frame());
        assert_eq!(read(&mut reader, camera.frame(false)).len(), 1);
    }

    #[test]
    fn after_a_loss_frames_are_dropped_until_a_key_frame() {
        let mut camera = Camera {
            start: Instant::now(),
            sequence: 100,
            frames: 0,
        };
        let mut reader = TrackReader::new(Codec::Vp8, camera.start);
        read(&mut reader, camera.frame(true));
        let [_, end] = camera.frame(false);
        let mut packets = vec![end];
        for _ in 0..12 {
            packets.extend(camera.frame(false));
        }
        assert!(read(&mut reader, packets).is_empty() && reader.needs_key_frame());
        let after = camera.frame(true);
        assert_eq!(read(&mut reader, after).len(), 1);
        assert!(!reader.needs_key_frame());
    }
}
