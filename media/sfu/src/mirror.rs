//! Mirrors: packet transfer from a publisher's worker to the room's other workers.
//!
//! A worker with receivers for another worker's track has a *mirror* of it: a local track fed by a [`MirrorRing`]. The
//! publisher's worker has a [`Tap`] per mirror, and puts each packet into its ring once, however many receivers the
//! mirror has. The payload is shared. A ring is announced to its reader once, until the reader has emptied it, so a
//! burst costs one wake-up.
//!
//! A ring is bounded. A full audio ring loses its oldest packet. Video skips to the next key frame, which is requested,
//! since nothing after a gap can be decoded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;

use crate::codec::TrackMedium;
use crate::packet::Packet;
use crate::track::Quality;
use crate::transport::TrackKey;

/// Audio packets in a ring: more than a second at 20 ms each.
const AUDIO_PACKETS: usize = 64;

/// Video packets in a ring: a second of three layers, with a large key frame.
const VIDEO_PACKETS: usize = 512;

/// Index of a worker within the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub usize);

/// Reader of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingReader {
    /// Worker with the mirror.
    pub worker: WorkerId,
    /// The mirror's key on that worker.
    pub track: TrackKey,
}

/// Packet for a track's mirrors.
pub struct MirroredPacket {
    /// Layer index.
    pub layer: usize,
    /// Packet as parsed by the publisher's worker.
    pub packet: Packet<'static>,
    /// The track's layering when the packet arrived.
    pub layering: Layering,
    /// Number of the track's layers, including any that are not sent now.
    pub layers: usize,
}

/// A track's layering, learned from its packets on the publisher's worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Layering {
    /// For simulcast, the stream that contains all layers, if there is one.
    pub stream: Option<usize>,
    /// Whether receivers of a layer need lower layers only at key frames.
    pub is_independent: bool,
}

pub struct RingEntry {
    /// Packet, shared by all of the track's rings.
    pub packet: Arc<MirroredPacket>,
    /// Whether earlier packets were lost because the ring was full.
    pub follows_loss: bool,
}

/// Packets waiting for a mirror. One worker adds them, another removes them.
pub struct MirrorRing {
    entries: ArrayQueue<RingEntry>,
    reader: RingReader,
    /// Whether the reader has been notified.
    is_announced: AtomicBool,
    /// Number of receivers of the mirror.
    receivers: AtomicUsize,
}

impl MirrorRing {
    pub fn new(medium: TrackMedium, reader: RingReader) -> Self {
        let packets = match medium {
            TrackMedium::Audio => AUDIO_PACKETS,
            TrackMedium::Video => VIDEO_PACKETS,
        };
        Self {
            entries: ArrayQueue::new(packets),
            reader,
            is_announced: AtomicBool::new(false),
            receivers: AtomicUsize::new(0),
        }
    }

    pub fn set_receivers(&self, receivers: usize) {
        // Read for inspection only, so a late value does no harm.
        self.receivers.store(receivers, Ordering::Relaxed);
    }

    /// Removes the oldest packet. When none is left, the next packet is announced again.
    pub fn take(&self) -> Option<RingEntry> {
        self.entries.pop().or_else(|| {
            self.is_announced.swap(false, Ordering::SeqCst);
            // A packet added before the flag was cleared was not announced, so look once more.
            self.entries.pop()
        })
    }

    /// Marks the ring as announced. Returns whether the reader must be notified.
    fn announce(&self) -> bool {
        // Sequentially consistent, as in `take`: here an entry is added before the flag is set, there the flag is
        // cleared before the ring is read. One of the two sees the other.
        !self.is_announced.swap(true, Ordering::SeqCst)
    }
}

/// The publisher's end of a ring.
pub struct Tap {
    ring: Arc<MirrorRing>,
    /// For each of the track's streams, whether it continues only at the next key frame.
    awaits_key_frame: [bool; Quality::ALL.len()],
    /// Number of layers, from the lowest, that the mirror's receivers use.
    pub used_layers: usize,
}

/// Outcome for a packet that was pushed to a ring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PushOutcome {
    /// Whether the reader must be notified.
    pub needs_wake_up: bool,
    /// Whether a packet was lost: this one, or the oldest.
    pub has_lost: bool,
    /// Whether a key frame must be requested.
    pub lacks_key_frame: bool,
}

impl Tap {
    /// Creates a tap that fills this ring.
    pub fn new(ring: Arc<MirrorRing>) -> Self {
        Self {
            ring,
            awaits_key_frame: [false; Quality::ALL.len()],
            used_layers: 0,
        }
    }

    /// Returns the ring's reader.
    pub fn reader(&self) -> RingReader {
        self.ring.reader
    }

    /// Returns the number of receivers of the mirror.
    pub fn receivers(&self) -> usize {
        self.ring.receivers.load(Ordering::Relaxed)
    }

    /// Puts a packet into the ring. `stream` is the layer that represents its stream's key frames.
    pub fn push(&mut self, packet: &Arc<MirroredPacket>, stream: usize) -> PushOutcome {
        let media = &packet.packet.media;
        let entry = |follows_loss| RingEntry {
            packet: Arc::clone(packet),
            follows_loss,
        };
        // Audio has no key frames, and late audio is useless: the oldest packet is dropped.
        if media.is_audio {
            let has_lost = self.ring.entries.force_push(entry(false)).is_some();
            return PushOutcome {
                needs_wake_up: self.ring.announce(),
                has_lost,
                lacks_key_frame: false,
            };
        }
        let Some(awaits) = self.awaits_key_frame.get_mut(stream) else {
            return PushOutcome::default();
        };
        if *awaits && !media.is_entry_point {
            // The key frame was requested when the ring became full.
            return PushOutcome {
                has_lost: true,
                ..PushOutcome::default()
            };
        }
        // The new packet is dropped, not the oldest: what is queued can still be decoded.
        let is_full = self.ring.entries.push(entry(*awaits)).is_err();
        *awaits = is_full;
        PushOutcome {
            needs_wake_up: !is_full && self.ring.announce(),
            has_lost: is_full,
            lacks_key_frame: is_full,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::time::Instant;

    use str0m::RtcConfig;
    use str0m::rtp::ExtensionValues;

    use super::*;
    use crate::adapt::MediaPacket;
    use crate::codec::Codec;
    use crate::packet::Incoming;

    const READER: WorkerId = WorkerId(1);

    fn tap(medium: TrackMedium) -> (Tap, Arc<MirrorRing>) {
        let reader = RingReader {
            worker: READER,
            track: TrackKey::default(),
        };
        let ring = Arc::new(MirrorRing::new(medium, reader));
        (Tap::new(Arc::clone(&ring)), ring)
    }

    /// Returns a packet: Opus, or H.264 with or without a key frame.
    fn packet(codec: Codec, number: u64, is_key: bool) -> Arc<MirroredPacket> {
        let payload: &[u8] = if is_key { &[0x65, 1] } else { &[0x41, 1] };
        let media = MediaPacket::from_payload(codec, payload.into(), number, 0, Instant::now());
        let rtc = RtcConfig::new().build(Instant::now());
        let params = *rtc.codec_config().params().first().unwrap();
        Arc::new(MirroredPacket {
            layer: 0,
            packet: Packet {
                media,
                incoming: Incoming {
                    params,
                    is_red: false,
                },
                payload_type: params.pt(),
                is_last: true,
                is_layered: false,
                extensions: Cow::Owned(ExtensionValues::default()),
                report: None,
            },
            layering: Layering::default(),
            layers: 1,
        })
    }

    /// Returns the sequence numbers in a ring, and those marked as following a loss.
    fn taken(ring: &MirrorRing) -> (Vec<u64>, Vec<u64>) {
        let entries: Vec<_> = std::iter::from_fn(|| ring.take()).collect();
        let number = |entry: &RingEntry| entry.packet.packet.media.sequence;
        let after = entries.iter().filter(|entry| entry.follows_loss);
        (
            entries.iter().map(number).collect(),
            after.map(number).collect(),
        )
    }

    #[test]
    fn a_burst_is_announced_once_until_the_reader_has_taken_it() {
        let (mut tap, ring) = tap(TrackMedium::Audio);
        let news = |tap: &mut Tap, number| {
            tap.push(&packet(Codec::Opus, number, true), 0)
                .needs_wake_up
        };
        assert!(news(&mut tap, 1) && !news(&mut tap, 2));
        assert!(ring.take().is_some() && !news(&mut tap, 3));
        assert_eq!(taken(&ring).0, [2, 3]);
        assert!(news(&mut tap, 4) && !news(&mut tap, 5));
    }

    #[test]
    fn a_full_ring_of_audio_loses_the_oldest_packets() {
        let (mut tap, ring) = tap(TrackMedium::Audio);
        let count = AUDIO_PACKETS as u64 + 3;
        let lost = (0..count).filter(|number| {
            let outcome = tap.push(&packet(Codec::Opus, *number, true), 0);
            assert!(!outcome.lacks_key_frame);
            outcome.has_lost
        });
        assert_eq!(lost.count(), 3);
        assert_eq!(taken(&ring), (Vec::from_iter(3..count), vec![]));
    }

    #[test]
    fn a_full_ring_of_video_goes_on_with_a_key_frame_which_is_requested() {
        let (mut tap, ring) = tap(TrackMedium::Video);
        let full = VIDEO_PACKETS as u64;
        let mut push = |number, is_key, stream| {
            let outcome = tap.push(&packet(Codec::H264, number, is_key), stream);
            (outcome.has_lost, outcome.lacks_key_frame)
        };
        assert!((0..full).all(|number| push(number, number == 0, 0) == (false, false)));
        assert_eq!(push(full, false, 0), (true, true));
        assert_eq!(push(full + 1, false, 0), (true, false), "once");
        assert_eq!(push(full + 2, true, 0), (true, true), "it has passed");
        assert_eq!(taken(&ring).0.len(), VIDEO_PACKETS);
        assert_eq!(push(full + 3, false, 0), (true, false));
        assert_eq!(push(full + 4, false, 1), (false, false), "another stream");
        assert_eq!(push(full + 5, true, 0), (false, false));
        assert_eq!(push(full + 6, false, 0), (false, false));
        let numbers = vec![full + 4, full + 5, full + 6];
        assert_eq!(taken(&ring), (numbers, vec![full + 5]));
    }
}
