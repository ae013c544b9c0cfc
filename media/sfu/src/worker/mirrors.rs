//! Packets between a room's workers, and requests from a mirror to its publisher's worker.
//!
//! The publisher's worker keeps a [`Tap`] per other worker with receivers. There, the track has a [`Mirror`] as its
//! feed, and otherwise works like a local track.

use std::sync::Arc;
use std::time::Instant;

use super::Worker;
use super::outputs::Outputs;
use super::shared_room::SharedRoom;
use super::tracks::{Feed, Mirror, PublishedTrack};
use crate::codec::Codec;
use crate::dropped::DropReason;
use crate::mirror::{MirrorRing, MirroredPacket, RingEntry, RingReader, Tap, WorkerId};
use crate::notice::{Notice, StreamName};
use crate::packet::Packet;
use crate::transport::{LayerKey, PeerKey, TrackKey};

/// Packets handled per mirror before the results are sent, so that other mirrors and clients are not delayed.
const BATCH: usize = 16;

/// Puts a packet into the rings of a track's mirrors, and counts the lost ones.
pub fn mirror_packet(
    track: &mut PublishedTrack,
    layer: usize,
    packet: &Packet<'_>,
    outputs: &mut Outputs,
) {
    // Most rooms are on one worker: they must not pay for a copy.
    if track.taps.is_empty() {
        return;
    }
    let stream = track.key_frame_layer(layer);
    // One copy for all mirrors. It shares the payload.
    let mirrored = Arc::new(MirroredPacket {
        layer,
        packet: packet.detached(),
        layering: track.layering(),
        layers: track.layers.len(),
    });
    let mut lacks_key_frame = false;
    for tap in &mut track.taps {
        let outcome = tap.push(&mirrored, stream);
        if outcome.has_lost {
            outputs.count_drop(DropReason::MirrorFull);
        } else {
            outputs.count_mirrored();
        }
        // The driver wakes the reader once per burst, however many packets the ring has.
        if outcome.needs_wake_up {
            outputs.announce(tap.reader());
        }
        lacks_key_frame |= outcome.lacks_key_frame;
    }
    // Sent with the next tick, within 100 ms: the ring must drain first anyway.
    if lacks_key_frame && let Some(layer) = track.layers.get_mut(stream) {
        layer.key_frames.want();
    }
}

impl PublishedTrack {
    /// Returns the ring that feeds a mirror, if there is one.
    fn ring(&self) -> Option<Arc<MirrorRing>> {
        match &self.feed {
            Feed::Mirror(mirror) => mirror.ring.clone(),
            Feed::Connection { .. } | Feed::Source { .. } => None,
        }
    }

    /// Returns the layers for which a key frame request is due, and records it as sent.
    fn take_key_frame_requests(&mut self, now: Instant) -> Vec<usize> {
        let layers = self.layers.iter_mut().enumerate();
        let due = layers.filter(|(_, layer)| layer.key_frames.is_due(now));
        due.map(|(index, layer)| {
            layer.key_frames.record_sent(now);
            index
        })
        .collect()
    }
}

impl Worker {
    /// Forwards packets from a mirror's ring. Returns whether there may be more.
    pub fn forward_mirrored(&mut self, key: TrackKey, now: Instant) -> bool {
        self.advance_clock(now);
        let Some(ring) = self.tracks.get(key).and_then(PublishedTrack::ring) else {
            return false;
        };
        for _ in 0..BATCH {
            let Some(entry) = ring.take() else {
                return false;
            };
            if let Err(reason) = self.forward_entry(key, &entry) {
                self.record_drop(None, reason);
            }
        }
        true
    }

    fn forward_entry(&mut self, key: TrackKey, entry: &RingEntry) -> Result<(), DropReason> {
        let MirroredPacket {
            layer,
            packet,
            layering,
            layers,
        } = &*entry.packet;
        let track = self.tracks.get_mut(key).ok_or(DropReason::Unclaimed)?;
        // Packets that a full ring lost, or that were sent before there was a ring, may have changed the layering, so each
        // packet carries it.
        track.follow_layering(*layering, *layers, self.now);
        // Receivers that continued without a key frame would show broken frames.
        if entry.follows_loss {
            let stream = track.key_frame_layer(*layer);
            track.restart_receivers_of(stream);
        }
        let layer = LayerKey {
            track: key,
            layer: *layer,
        };
        self.distribute(layer, packet)
    }

    /// Adds or removes a mirror's ring, which it needs only while it has receivers.
    pub(super) fn update_ring(&mut self, key: Option<TrackKey>) {
        let Some((key, track)) = key.and_then(|key| Some((key, self.tracks.get_mut(key)?))) else {
            return;
        };
        let (receivers, medium) = (track.subscriptions.len(), track.medium());
        let worker = self
            .roster
            .get(track.peer)
            .and_then(|peer| self.roster.shared(peer.room))
            .map(SharedRoom::worker);
        let (Feed::Mirror(mirror), Some(worker)) = (&mut track.feed, worker) else {
            return;
        };
        // The publisher's worker reads this number for inspection.
        match &mirror.ring {
            Some(ring) if receivers > 0 => ring.set_receivers(receivers),
            None if receivers == 0 => {}
            Some(_) => {
                // Resets the used layers, too: the next tap starts without any.
                *mirror = Mirror::default();
                self.notify_home(key, Notice::Untap);
            }
            None => {
                let ring = Arc::new(MirrorRing::new(medium, RingReader { worker, track: key }));
                ring.set_receivers(receivers);
                mirror.ring = Some(Arc::clone(&ring));
                self.notify_home(key, |stream| Notice::Tap(stream, ring));
            }
        }
    }

    /// Sends a notice about a mirrored track to its publisher's worker.
    fn notify_home(&mut self, key: TrackKey, notice: impl FnOnce(StreamName) -> Notice) {
        let Some(track) = self.tracks.get(key) else {
            return;
        };
        let Some(publisher) = self.roster.get(track.peer) else {
            return;
        };
        let stream = StreamName {
            publisher: publisher.info.sid.clone(),
            track: track.sid.clone(),
            codec: track.codec,
        };
        if let Some(home) = publisher.home() {
            let room = publisher.room;
            self.notify(room, home, notice(stream));
        }
    }

    /// Forwards a mirror's key frame requests.
    pub(super) fn request_mirrored_key_frames(&mut self, key: TrackKey) {
        let now = self.now;
        let track = self.tracks.get_mut(key);
        let layers = track.map_or_else(Vec::new, |track| track.take_key_frame_requests(now));
        for layer in layers {
            self.notify_home(key, |stream| Notice::KeyFrame { stream, layer });
        }
    }

    /// Sends the number of layers in use on this worker, if it has changed.
    pub(super) fn notify_used_layers(&mut self, key: TrackKey, layers: usize) {
        let Some(track) = self.tracks.get_mut(key) else {
            return;
        };
        let Feed::Mirror(mirror) = &mut track.feed else {
            return;
        };
        // Without a ring there is no tap to store the number in.
        if mirror.ring.is_some() && mirror.used_layers.replace(layers) != Some(layers) {
            self.notify_home(key, |stream| Notice::Used { stream, layers });
        }
    }

    /// Sends whether receivers on this worker wait for a backup codec.
    pub(super) fn notify_awaited_codec(&mut self, key: TrackKey, codec: Codec, is_awaited: bool) {
        self.notify_home(key, |stream| Notice::Awaited {
            stream: StreamName { codec, ..stream },
            is_awaited,
        });
    }

    /// Reports a subscription to a mirrored track.
    pub(super) fn notify_subscription(&mut self, key: TrackKey) {
        self.notify_home(key, |stream| Notice::Subscribed {
            publisher: stream.publisher,
            track: stream.track,
        });
    }

    /// Handles another worker's notice about a track that is published on this one.
    pub(super) fn serve_mirror(&mut self, from: WorkerId, notice: Notice) {
        match notice {
            Notice::Tap(stream, ring) => {
                if let Some(track) = self.published_stream(&stream) {
                    // After a quick unsubscribe and subscribe, the old ring may still be tapped.
                    track.taps.retain(|tap| tap.reader().worker != from);
                    track.taps.push(Tap::new(ring));
                }
            }
            Notice::Untap(stream) => {
                if let Some(track) = self.published_stream(&stream) {
                    track.taps.retain(|tap| tap.reader().worker != from);
                }
            }
            Notice::KeyFrame { stream, layer } => self.serve_key_frame(&stream, layer),
            Notice::Used { stream, layers } => {
                if let Some(track) = self.published_stream(&stream) {
                    let mut taps = track.taps.iter_mut();
                    if let Some(tap) = taps.find(|tap| tap.reader().worker == from) {
                        tap.used_layers = layers;
                    }
                    self.report_use_of(&stream);
                }
            }
            Notice::Awaited { stream, is_awaited } => self.serve_codec(from, &stream, is_awaited),
            // `handle_notice` handles the others.
            _ => {}
        }
    }

    /// Returns a stream's track, if its publisher is on this worker.
    fn stream_key(&self, stream: &StreamName) -> Option<TrackKey> {
        let publisher = self.publisher_here(stream)?;
        let in_codec = |key: &TrackKey| {
            self.tracks
                .get(*key)
                .is_some_and(|track| track.codec == stream.codec)
        };
        let mut tracks = self.tracks_of(publisher, &stream.track).into_iter();
        tracks.find(in_codec)
    }

    fn publisher_here(&self, stream: &StreamName) -> Option<PeerKey> {
        let publisher = self.roster.by_sid(&stream.publisher)?;
        self.roster.get(publisher).filter(|peer| peer.is_here())?;
        Some(publisher)
    }

    fn published_stream(&mut self, stream: &StreamName) -> Option<&mut PublishedTrack> {
        let key = self.stream_key(stream)?;
        self.tracks.get_mut(key)
    }

    /// Requests a key frame for receivers on another worker.
    fn serve_key_frame(&mut self, stream: &StreamName, layer: usize) {
        let Some(key) = self.stream_key(stream) else {
            return;
        };
        let Some(track) = self.tracks.get_mut(key) else {
            return;
        };
        // Layers of one stream share key frames, and this worker knows the layering better than the mirror.
        let layer = track.key_frame_layer(layer);
        if let Some(layer) = track.layers.get_mut(layer) {
            layer.key_frames.want();
        }
        // The mirror may receive the unmute command first. Then the request is sent when this worker receives it.
        if !track.is_muted {
            self.send_key_frame_requests(key);
        }
    }

    /// Records whether receivers on another worker wait for a backup codec.
    fn serve_codec(&mut self, from: WorkerId, stream: &StreamName, is_awaited: bool) {
        let first = self
            .publisher_here(stream)
            .and_then(|publisher| self.track_of(publisher, &stream.track));
        let Some(track) = first.and_then(|first| self.tracks.get_mut(first)) else {
            return;
        };
        if let Some(backup) = track.backup_of(stream.codec) {
            backup.awaited_on.retain(|worker| *worker != from);
            // The codec may have started while the notice was on its way.
            if is_awaited && backup.streams.is_none() {
                backup.awaited_on.push(from);
            }
        }
        self.report_use_of(stream);
    }

    /// Reports a track's used qualities after a change on another worker.
    fn report_use_of(&mut self, stream: &StreamName) {
        let publisher = self.publisher_here(stream);
        let first = publisher.and_then(|publisher| self.track_of(publisher, &stream.track));
        if let Some(first) = first {
            self.report_quality_use(first);
        }
    }
}
