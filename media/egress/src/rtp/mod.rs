//! From RTP packets to frames on the egress's time line.
//!
//! A [`TrackReader`] takes one track's packets. [`Reorder`] sorts them by sequence number, `clock`
//! assigns capture times on the time line that an egress's tracks share, and `codec` assembles the
//! payloads. A missing packet is waited for briefly. After that, video continues at its next key
//! frame, which must be requested.

mod clock;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use conclave_sfu::{Codec, RecordedPacket};

use crate::codec::{AnnouncedSize, EncodedFrame, FrameAssembly, announced};
pub use clock::PublisherClock;
use clock::TrackClock;

// Far more than any key frame takes.
const MAX_FRAME_BYTES: usize = 8 * 1024 * 1024;
// Longer than a retransmission takes on most networks, and shorter than the 800 ms by which a
// composition is behind.
const REORDER_WAIT: Duration = Duration::from_millis(300);
/// Maximum packets that wait for a missing one.
const REORDER_CAPACITY: usize = 1_024;

/// Assembles a track's frames from its packets. After a loss, video continues at the next key
/// frame.
#[derive(Debug)]
pub struct TrackReader {
    codec: Codec,
    /// Egress start.
    start: Instant,
    reorder: Reorder,
    clock: TrackClock,
    /// Frame that is being received.
    open: Option<OpenFrame>,
    assembly: FrameAssembly,
    /// Whether frames are dropped until a key frame.
    awaits_key_frame: bool,
    /// Loss since which a key frame is awaited.
    lost_at: Option<Instant>,
    /// Maximum wait for a key frame after a loss; `None` for no limit.
    key_frame_timeout: Option<Duration>,
    /// Frames lost.
    pub lost: u64,
    /// Whether a frame was refused because it would take a decoder too much memory.
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
    /// Creates a reader for a codec. `start` is the egress's start.
    pub fn new(codec: Codec, start: Instant) -> Self {
        Self {
            codec,
            start,
            reorder: Reorder::default(),
            clock: TrackClock::new(codec.clock_rate().into()),
            open: None,
            assembly: FrameAssembly::new(codec),
            // Recording may start in the middle of a video, which decodes from its next key frame
            // on.
            awaits_key_frame: codec != Codec::Opus,
            lost_at: None,
            key_frame_timeout: None,
            lost: 0,
            is_too_large: false,
            last: None,
        }
    }

    /// Limits the wait for a key frame after a loss. A publisher with intra refresh may never send
    /// another key frame, and decoders recover without one.
    #[must_use]
    pub const fn with_key_frame_timeout(mut self, key_frame_timeout: Duration) -> Self {
        self.key_frame_timeout = Some(key_frame_timeout);
        self
    }

    /// Returns whether a key frame must be requested.
    pub const fn needs_key_frame(&self) -> bool {
        self.awaits_key_frame
    }

    /// Returns whether frames were too large since the last call.
    pub fn take_too_large(&mut self) -> bool {
        std::mem::take(&mut self.is_too_large)
    }

    /// Processes a packet. Returns the frames that it completes.
    pub fn push(
        &mut self,
        packet: RecordedPacket,
        publisher: &mut PublisherClock,
    ) -> Vec<EncodedFrame> {
        let mut frames = Vec::new();
        for ordered in self.reorder.push(packet) {
            let arrived = self.micros_since_start(ordered.packet.arrived);
            let at = self.clock.time(&ordered.packet, arrived, publisher);
            if self.codec == Codec::Opus {
                let (timestamp, payload) = (ordered.packet.timestamp, &ordered.packet.payload);
                // Opus packets decode independently, so gaps need no key frame.
                frames.extend(self.complete((at, timestamp), true, payload.to_vec()));
            } else {
                if ordered.is_after_gap {
                    self.record_loss(ordered.packet.arrived);
                }
                self.recover(ordered.packet.arrived);
                if ordered.packet.payload.is_empty() {
                    // Padding, with which publishers probe for bandwidth.
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

    fn record_loss(&mut self, now: Instant) {
        self.lost += u64::from(self.open.is_some());
        self.open = None;
        self.assembly.take();
        self.awaits_key_frame = true;
        // Before the first key frame, there is nothing to recover from.
        self.lost_at = self.last.and(self.lost_at.or(Some(now)));
    }

    /// Stops waiting for a key frame after the timeout.
    fn recover(&mut self, now: Instant) {
        let waited = self
            .lost_at
            .map(|lost_at| now.saturating_duration_since(lost_at));
        if self
            .key_frame_timeout
            .zip(waited)
            .is_some_and(|(key_frame_timeout, waited)| waited >= key_frame_timeout)
        {
            (self.awaits_key_frame, self.lost_at) = (false, None);
        }
    }

    fn push_video(
        &mut self,
        packet: &RecordedPacket,
        at: i64,
    ) -> impl Iterator<Item = EncodedFrame> + use<> {
        // If the marked packet was lost, a new timestamp ends the frame.
        let before = self.open.take_if(|open| open.timestamp != packet.timestamp);
        let ended = before.and_then(|open| self.end(open));
        let open = self.open.get_or_insert(OpenFrame {
            timestamp: packet.timestamp,
            at,
            arrived: packet.arrived,
            is_key: false,
            is_damaged: false,
        });
        // Any packet may mark the frame.
        open.is_key |= packet.is_entry_point;
        // A publisher that never sets the marker must not fill the memory.
        let fits = self.assembly.bytes() + packet.payload.len() <= MAX_FRAME_BYTES;
        open.is_damaged |= !fits || !self.assembly.push(&packet.payload);
        let completed = self
            .open
            .take_if(|_| packet.is_marked)
            .and_then(|open| self.end(open));
        ended.into_iter().chain(completed)
    }

    /// Ends a video frame.
    fn end(&mut self, open: OpenFrame) -> Option<EncodedFrame> {
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

    /// Returns a frame, unless it is empty or too large. Frames captured before the egress's start
    /// are moved to it.
    fn complete(
        &mut self,
        (at, timestamp): (i64, u32),
        is_key: bool,
        data: Vec<u8>,
    ) -> Option<EncodedFrame> {
        let at = Duration::from_micros(at.max(0).unsigned_abs());
        // A better offset estimate moves times back, which containers do not allow.
        let at = self.last.map_or(at, |last| at.max(last));
        self.last = Some(at);
        let dimensions = match announced(self.codec, &data) {
            AnnouncedSize::Unspecified => None,
            AnnouncedSize::Size(width, height) => Some((width, height)),
            AnnouncedSize::Refused => {
                self.lost += 1;
                (self.awaits_key_frame, self.is_too_large) = (true, true);
                return None;
            }
        };
        (!data.is_empty()).then_some(EncodedFrame {
            at,
            timestamp,
            is_key,
            data,
            dimensions,
        })
    }
}

/// Sorts one layer's packets. Duplicates and late packets are dropped.
#[derive(Debug, Default)]
struct Reorder {
    layer: Option<usize>,
    /// Next expected sequence number.
    next: u64,
    waiting: BTreeMap<u64, RecordedPacket>,
}

/// Packet in sequence.
struct OrderedPacket {
    packet: RecordedPacket,
    /// Whether packets before it are missing, or were from another layer.
    is_after_gap: bool,
}

impl Reorder {
    /// Adds a packet. Returns the packets that are now in sequence.
    fn push(&mut self, packet: RecordedPacket) -> Vec<OrderedPacket> {
        let now = packet.arrived;
        let mut is_after_gap = false;
        if self.layer != Some(packet.layer) {
            self.waiting.clear();
            // The new layer's frames do not refer to the old one, so the reader waits for a key
            // frame.
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
            ordered.push(OrderedPacket {
                packet,
                is_after_gap: std::mem::take(&mut is_after_gap),
            });
        }
        ordered
    }

    /// Returns whether the first buffered packet is the next one, or has waited long enough for its
    /// predecessors.
    fn is_next_due(&self, now: Instant) -> bool {
        let Some((sequence, packet)) = self.waiting.first_key_value() else {
            return false;
        };
        let waited = now.saturating_duration_since(packet.arrived);
        *sequence == self.next || waited >= REORDER_WAIT || self.waiting.len() > REORDER_CAPACITY
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Camera that sends two-packet frames every 33 ms.
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
        let key_frame_timeout = Duration::from_secs(1);
        let mut reader =
            TrackReader::new(Codec::Vp8, camera.start).with_key_frame_timeout(key_frame_timeout);
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
        assert!(
            waited >= key_frame_timeout && waited < key_frame_timeout * 2,
            "{waited:?}"
        );
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
