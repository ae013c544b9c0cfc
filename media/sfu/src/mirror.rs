//! Mirrors of tracks: how packets cross from the worker of their publisher to the other workers of its room.
//!
//! A worker on which somebody receives a track of another worker has a *mirror* of it: a track of its own, whose packets come from a
//! [`MirrorRing`]. The worker of the publisher has a [`Tap`] for each mirror, and puts every packet once into its ring, however many
//! receivers the mirror has; the payload is shared. A ring is announced to its reader once, until that has emptied it, so a burst
//! is one wake-up.
//!
//! A ring is bounded. Of audio, a full one loses the oldest packet. A video loses packets until the next key frame, which is requested:
//! after a gap, nothing else can be shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;

use crate::codec::TrackMedium;
use crate::packet::Packet;
use crate::track::Quality;
use crate::transport::TrackKey;

/// How many packets of audio a ring holds: a second and more.
const AUDIO_PACKETS: usize = 64;

/// How many packets of video a ring holds: a second of three layers, with a large key frame.
const VIDEO_PACKETS: usize = 512;

/// The position of a worker among those of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub usize);

/// Who reads a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingReader {
    /// The worker of the mirror.
    pub worker: WorkerId,
    /// The mirror, by its key on that worker.
    pub track: TrackKey,
}

/// A packet of a track, for its mirrors.
pub struct MirroredPacket {
    /// The index of its layer.
    pub layer: usize,
    /// The packet as the publisher's worker has read it.
    pub packet: Packet<'static>,
    /// How its track is layered.
    pub layering: Layering,
}

/// What the worker of a publisher has learned of the layers of a track from its packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Layering {
    /// Of simulcast: the one of the streams in which all layers are, if there is one.
    pub stream: Option<usize>,
    /// Whether receivers of a layer need the frames of those below it in key pictures only.
    pub is_independent: bool,
}

/// A packet in a ring.
pub struct RingEntry {
    /// The packet, which all rings of its track share.
    pub packet: Arc<MirroredPacket>,
    /// Whether packets before it were lost because the ring was full.
    pub follows_loss: bool,
}

/// The packets that wait for a mirror. One worker puts them in, and another takes them out.
pub struct MirrorRing {
    entries: ArrayQueue<RingEntry>,
    reader: RingReader,
    /// Whether the reader knows that there may be packets.
    is_announced: AtomicBool,
    /// How many participants receive the mirror.
    receivers: AtomicUsize,
}

impl MirrorRing {
    /// Creates an empty ring for a mirror.
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

    /// Sets how many participants receive the mirror.
    pub fn set_receivers(&self, receivers: usize) {
        self.receivers.store(receivers, Ordering::Relaxed);
    }

    /// Takes the packet that has waited for the longest time. Once there is none, the next one is announced again.
    pub fn take(&self) -> Option<RingEntry> {
        self.entries.pop().or_else(|| {
            self.is_announced.swap(false, Ordering::SeqCst);
            // One that came before that was not announced.
            self.entries.pop()
        })
    }

    /// Notes that the reader is told of packets. Returns whether it has to be.
    fn announce(&self) -> bool {
        !self.is_announced.swap(true, Ordering::SeqCst)
    }
}

/// The end of a ring on the worker of the publisher.
pub struct Tap {
    ring: Arc<MirrorRing>,
    /// For each stream of the track whether it goes on with its next key frame only.
    awaits_key_frame: [bool; Quality::ALL.len()],
    /// How many layers receivers of the mirror have a use for.
    pub used_layers: usize,
}

/// What became of a packet that was put into a ring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offered {
    /// Whether the reader has to be told.
    pub is_news: bool,
    /// Whether a packet was lost: this one, or the oldest.
    pub has_lost: bool,
    /// Whether a key frame has to be requested.
    pub lacks_key_frame: bool,
}

impl Tap {
    /// Starts to fill a ring.
    pub fn new(ring: Arc<MirrorRing>) -> Self {
        Self {
            ring,
            awaits_key_frame: [false; Quality::ALL.len()],
            used_layers: 0,
        }
    }

    /// Returns who reads the ring.
    pub fn reader(&self) -> RingReader {
        self.ring.reader
    }

    /// Returns how many participants receive the mirror.
    pub fn receivers(&self) -> usize {
        self.ring.receivers.load(Ordering::Relaxed)
    }

    /// Puts in a packet of a stream: of the layer that its key frames are of.
    pub fn offer(&mut self, packet: &Arc<MirroredPacket>, stream: usize) -> Offered {
        let media = &packet.packet.media;
        let entry = |follows_loss| RingEntry {
            packet: Arc::clone(packet),
            follows_loss,
        };
        if media.is_audio {
            let has_lost = self.ring.entries.force_push(entry(false)).is_some();
            return Offered {
                is_news: self.ring.announce(),
                has_lost,
                lacks_key_frame: false,
            };
        }
        let Some(awaits) = self.awaits_key_frame.get_mut(stream) else {
            return Offered::default();
        };
        if *awaits && !media.is_entry_point {
            return Offered {
                has_lost: true,
                ..Offered::default()
            };
        }
        let is_full = self.ring.entries.push(entry(*awaits)).is_err();
        *awaits = is_full;
        Offered {
            is_news: !is_full && self.ring.announce(),
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

    /// A packet of Opus, or of H.264 with or without a key frame.
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
        })
    }

    /// The numbers of what is in a ring, and which of them follow a loss.
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
        let news = |tap: &mut Tap, number| tap.offer(&packet(Codec::Opus, number, true), 0).is_news;
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
            let offered = tap.offer(&packet(Codec::Opus, *number, true), 0);
            assert!(!offered.lacks_key_frame);
            offered.has_lost
        });
        assert_eq!(lost.count(), 3);
        assert_eq!(taken(&ring), (Vec::from_iter(3..count), vec![]));
    }

    #[test]
    fn a_full_ring_of_video_goes_on_with_a_key_frame_which_is_requested() {
        let (mut tap, ring) = tap(TrackMedium::Video);
        let full = VIDEO_PACKETS as u64;
        let mut offer = |number, is_key, stream| {
            let offered = tap.offer(&packet(Codec::H264, number, is_key), stream);
            (offered.has_lost, offered.lacks_key_frame)
        };
        assert!((0..full).all(|number| offer(number, number == 0, 0) == (false, false)));
        assert_eq!(offer(full, false, 0), (true, true));
        assert_eq!(offer(full + 1, false, 0), (true, false), "once");
        assert_eq!(offer(full + 2, true, 0), (true, true), "it has passed");
        assert_eq!(taken(&ring).0.len(), VIDEO_PACKETS);
        assert_eq!(offer(full + 3, false, 0), (true, false));
        assert_eq!(offer(full + 4, false, 1), (false, false), "another stream");
        assert_eq!(offer(full + 5, true, 0), (false, false));
        assert_eq!(offer(full + 6, false, 0), (false, false));
        let numbers = vec![full + 4, full + 5, full + 6];
        assert_eq!(taken(&ring), (numbers, vec![full + 5]));
    }
}
