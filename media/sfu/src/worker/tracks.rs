//! Published tracks, each in one codec, and their receivers.

use std::sync::Arc;
use std::time::Instant;

use conclave_model::participant::TrackSource;
use conclave_model::{EgressId, TrackSid};
use slotmap::SlotMap;
use str0m::media::{Mid, Pt, Rid};

use super::layer::{PublishedLayer, order_rids};
use super::sections::Section;
use super::subscription::{LayerChoice, Subscription};
use crate::adapt::{DependencyDescriptor, LayerReader, MediaPacket, SequenceNumbers};
use crate::allocate::QualityUse;
use crate::codec::{Codec, TrackMedium};
use crate::command::TrackSettings;
use crate::measure::SpeechDetector;
use crate::mirror::{Layering, MirrorRing, Tap, WorkerId};
use crate::packet::Incoming;
use crate::recorder::PacketSink;
use crate::track::{LayerInfo, NewTrack, Quality};
use crate::transport::{LayerKey, PeerKey, TrackKey, TransportKey};

/// A worker's published tracks.
#[derive(Default)]
pub struct Tracks {
    tracks: SlotMap<TrackKey, PublishedTrack>,
    /// Tracks with a layer that has just started to send.
    revived: Vec<TrackKey>,
}

impl Tracks {
    pub fn insert(&mut self, track: PublishedTrack) -> TrackKey {
        self.tracks.insert(track)
    }

    pub fn remove(&mut self, key: TrackKey) -> Option<PublishedTrack> {
        self.tracks.remove(key)
    }

    pub fn get(&self, key: TrackKey) -> Option<&PublishedTrack> {
        self.tracks.get(key)
    }

    pub fn get_mut(&mut self, key: TrackKey) -> Option<&mut PublishedTrack> {
        self.tracks.get_mut(key)
    }

    /// Returns all keys.
    pub fn keys(&self) -> Vec<TrackKey> {
        self.tracks.keys().collect()
    }

    #[cfg(test)]
    pub fn values(&self) -> impl Iterator<Item = &PublishedTrack> {
        self.tracks.values()
    }

    #[cfg(test)]
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut PublishedTrack> {
        self.tracks.values_mut()
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.tracks.is_empty()
    }

    /// Counts a packet of a layer. Returns its track; `None` if there is no such layer.
    pub fn receive(
        &mut self,
        key: LayerKey,
        media: &MediaPacket,
        now: Instant,
    ) -> Option<&mut PublishedTrack> {
        let track = self.tracks.get_mut(key.track)?;
        if track.layers.get_mut(key.layer)?.record(media, now) {
            // Only queued here: allocation may switch receivers, and the caller is still forwarding this packet.
            self.revived.push(key.track);
        }
        // If one stream has all layers, a key frame covers them all and satisfies their common request.
        if media.is_entry_point && !media.is_audio {
            let layer = track.key_frame_layer(key.layer);
            track.layers.get_mut(layer)?.record_key_frame(now);
        }
        Some(track)
    }

    /// Returns whether [`Tracks::take_revived`] has something to return.
    pub fn has_revived(&self) -> bool {
        !self.revived.is_empty()
    }

    /// Removes and returns the tracks with a layer that has just started to send.
    pub fn take_revived(&mut self) -> Vec<TrackKey> {
        std::mem::take(&mut self.revived)
    }

    /// Ends a measurement period for all bitrates.
    pub fn roll(&mut self, now: Instant) {
        for track in self.tracks.values_mut() {
            for layer in &mut track.layers {
                layer.roll(now);
            }
            for subscription in &mut track.subscriptions {
                subscription.rate.roll(now);
            }
        }
    }

    /// Filters `tracks` by sid. A track has one key per codec.
    pub fn with_sid(&self, tracks: &[TrackKey], sid: &TrackSid) -> Vec<TrackKey> {
        let is_of = |key: &TrackKey| self.get(*key).is_some_and(|track| track.sid == *sid);
        tracks.iter().copied().filter(is_of).collect()
    }

    /// Returns the track with this sid among `tracks`, in its first codec.
    pub fn first_with_sid(&self, tracks: &[TrackKey], sid: &TrackSid) -> Option<TrackKey> {
        let is_of = |track: &PublishedTrack| track.sid == *sid && !track.info.is_backup;
        let mut tracks = tracks.iter().copied();
        tracks.find(|key| self.get(*key).is_some_and(is_of))
    }

    /// Sorts first codecs to the front. If tracks are removed in this order, each ends together with its backup codecs,
    /// and no receiver is switched to one of these first.
    pub fn first_codecs_first(&self, tracks: &mut [TrackKey]) {
        tracks.sort_by_key(|key| self.get(*key).is_some_and(|track| track.info.is_backup));
    }

    /// Returns the receivers of a track in any codec, including waiting ones. `first` is the track in its first codec.
    pub fn receivers(&self, first: TrackKey) -> Vec<PeerKey> {
        let Some(first) = self.get(first) else {
            return Vec::new();
        };
        let backups = first
            .backups
            .iter()
            .filter_map(|backup| self.get(backup.streams?));
        let receivers = std::iter::once(first)
            .chain(backups)
            .flat_map(|track| &track.subscriptions);
        let awaiting = first.awaiting.iter().map(|awaiting| awaiting.peer);
        receivers
            .map(|subscription| subscription.peer)
            .chain(awaiting)
            .collect()
    }

    /// Removes a peer's subscription to a section's track, whether it receives the track or waits for a codec.
    pub fn take_subscription(
        &mut self,
        section: &mut Section,
        peer: PeerKey,
    ) -> Option<Subscription> {
        if let Some(sent) = section.cease() {
            let subscriptions = &mut self.get_mut(sent)?.subscriptions;
            let position = subscriptions
                .iter()
                .position(|subscription| subscription.peer == peer)?;
            // Subscriptions have no order, so this need not move the others.
            return Some(subscriptions.swap_remove(position));
        }
        let awaiting = &mut self.get_mut(section.track()?)?.awaiting;
        let position = awaiting.iter().position(|awaiting| awaiting.peer == peer)?;
        awaiting.swap_remove(position).subscription
    }
}

/// Published track in one codec. A track with backup codecs consists of several, with the same sid. The first codec
/// represents the track and refers to the others.
pub struct PublishedTrack {
    /// Sid assigned by the control plane.
    pub sid: TrackSid,
    /// Publisher.
    pub peer: PeerKey,
    /// Packet source.
    pub feed: Feed,
    /// Camera, microphone or screen.
    pub source: TrackSource,
    /// Negotiated codec. Packets in other codecs are dropped.
    pub codec: Codec,
    /// The publisher's announcement.
    pub info: NewTrack,
    /// Whether forwarding is stopped.
    pub is_muted: bool,
    /// Layers, lowest first. Without simulcast, there is a single layer.
    pub layers: Vec<PublishedLayer>,
    /// Receivers in this codec.
    pub subscriptions: Vec<Subscription>,
    /// Backup codecs, preferred ones first. Used only in the first codec.
    pub backups: Vec<BackupCodec>,
    /// Receivers waiting for a backup codec that is not being sent. Used only in the first codec.
    pub awaiting: Vec<AwaitedCodec>,
    pub recorders: Vec<Recorder>,
    /// Mirrors on other workers that receive the track.
    pub taps: Vec<Tap>,
    /// Whether there has ever been a subscription. Used only in the first codec.
    pub was_subscribed: bool,
    /// Last payload type, with its parameters if they belong to the track's codec.
    pub payload: Option<(Pt, Option<Incoming>)>,
    pub speech: SpeechDetector,
    /// Layers in use, as reported to the publisher.
    pub quality_use: QualityUse,
    /// Parser for the layers in a stream.
    layer_reader: LayerReader,
    /// Layering, learned from packets.
    layering: Layering,
}

/// Packet source of a track.
pub enum Feed {
    /// Section of the publisher's connection.
    Connection { transport: TransportKey, mid: Mid },
    /// Packets from the control side.
    Source {
        /// Sequence number of the last packet.
        sequence: u64,
    },
    /// Worker of the publisher.
    Mirror(Mirror),
}

/// Feed from another worker.
#[derive(Default)]
pub struct Mirror {
    /// Ring, while the mirror has receivers.
    pub ring: Option<Arc<MirrorRing>>,
    /// Number of layers in use, as last sent to the publisher's worker.
    pub used_layers: Option<usize>,
}

/// Backup codec of a track.
#[derive(Debug, Clone)]
pub struct BackupCodec {
    /// A codec from the publisher's announcement.
    pub codec: Codec,
    /// The track in this codec; `None` while it is not being sent.
    pub streams: Option<TrackKey>,
    /// Whether it has been requested from the publisher.
    pub is_requested: bool,
    /// Other workers with receivers waiting for it.
    pub awaited_on: Vec<WorkerId>,
}

/// Receiver that waits for a codec.
pub struct AwaitedCodec {
    /// Subscriber.
    pub peer: PeerKey,
    /// Backup codec that the subscriber can decode.
    pub codec: Codec,
    /// Earlier subscription in another codec, if there was one. It keeps the RTP stream continuous.
    pub subscription: Option<Subscription>,
    /// Time at which the subscription is reported as unsupported; `None` after the report.
    pub reported_at: Option<Instant>,
}

/// Recorder of a track.
pub struct Recorder {
    /// Egress.
    pub egress: EgressId,
    /// Requested layer, in the form of a subscriber's settings.
    pub settings: TrackSettings,
    /// Packet queue.
    pub sink: Arc<dyn PacketSink>,
    /// Recorded layer.
    pub choice: LayerChoice,
    /// Sequence numbers in the recording, for a stream with layers.
    pub numbers: SequenceNumbers,
}

/// Minimum size of a layer relative to the displayed size, in tenths, as in LiveKit's server (`GetQualityForDimension`).
const SIZE_TOLERANCE_TENTHS: u32 = 9;

impl PublishedTrack {
    /// Creates a track after its section was negotiated.
    pub fn new(info: NewTrack, codec: Codec, peer: PeerKey, feed: Feed, now: Instant) -> Self {
        // The negotiated codec may itself be announced as a backup, since the SDP answer can fall back to it.
        let others = info.backup_codecs.iter().filter(|backup| **backup != codec);
        let backups = others
            .map(|codec| BackupCodec {
                codec: *codec,
                streams: None,
                is_requested: false,
                awaited_on: Vec::new(),
            })
            .collect();
        Self {
            sid: info.sid.clone(),
            peer,
            feed,
            source: info.source,
            codec,
            is_muted: info.is_muted,
            info,
            layers: Vec::new(),
            subscriptions: Vec::new(),
            backups,
            awaiting: Vec::new(),
            recorders: Vec::new(),
            taps: Vec::new(),
            was_subscribed: false,
            payload: None,
            speech: SpeechDetector::default(),
            quality_use: QualityUse::new(now),
            layer_reader: LayerReader::default(),
            layering: Layering::default(),
        }
    }

    pub fn medium(&self) -> TrackMedium {
        self.info.medium
    }

    /// Sets the layers by their ids, lowest first; without ids, there is one layer. Known layers keep their state.
    pub fn set_layers(&mut self, rids: &[String], now: Instant) {
        let ordered = order_rids(rids);
        // Layers in one stream have no ids: those learned from packets stay.
        if ordered.is_empty() && !self.layers.is_empty() {
            return;
        }
        let ids = if ordered.is_empty() {
            vec![None]
        } else {
            ordered.into_iter().map(Some).collect()
        };
        for (index, rid) in ids.into_iter().enumerate() {
            match self.layers.get_mut(index) {
                // Measurements and pending key frame requests stay with the quality.
                Some(layer) => layer.rid = rid,
                None => self.layers.push(PublishedLayer::new(rid, index, now)),
            }
        }
    }

    /// Returns the index of the layer with this id. Without an id, it is the lowest layer.
    pub fn layer_of(&self, rid: Option<Rid>) -> Option<usize> {
        let index = self.layers.iter().position(|layer| layer.rid == rid);
        // Covers a client that sends without the RIDs of its offer.
        index.or_else(|| (rid.is_none() && !self.layers.is_empty()).then_some(0))
    }

    /// Returns whether all layers are in one stream.
    pub fn is_layered(&self) -> bool {
        // VP9 and AV1 only: with other codecs, each spatial layer is a stream with a RID.
        let is_alone = self.layers.first().is_some_and(|layer| layer.rid.is_none());
        self.codec.has_layers() && (is_alone || self.layering.stream.is_some())
    }

    /// Records whether one simulcast stream contains all layers, as libwebrtc sends VP9 if no scalability mode was
    /// chosen.
    pub fn record_stream(&mut self, layer: usize, media: &MediaPacket) {
        match media.vp9.and_then(|descriptor| descriptor.spatial_layers) {
            Some(2..) => self.layering.stream = Some(layer),
            // Another stream has a single layer: the client has changed to one stream per layer.
            Some(_) if self.layering.stream.is_some_and(|stream| stream != layer) => {
                self.layering.stream = None;
            }
            // Most packets do not contain the number of layers, and change nothing.
            _ => {}
        }
    }

    /// Returns whether receivers of a layer also get all lower layers, in each frame.
    pub fn sends_lower_layers(&self) -> bool {
        self.is_layered() && !self.layering.is_independent
    }

    /// Returns the layer index of a packet in a stream with layers. Adds a layer at its first
    /// packet. Layers above LiveKit's three qualities count as the highest.
    pub fn read_layer(
        &mut self,
        media: &mut MediaPacket,
        descriptor: Option<&DependencyDescriptor>,
        now: Instant,
    ) -> usize {
        self.layer_reader.read(media, descriptor);
        self.layering.is_independent = self.layer_reader.has_independent_layers();
        // Without a readable layer, a packet counts for the lowest one.
        let spatial = media.layer.map_or(0, |layer| usize::from(layer.spatial));
        let layer = spatial.min(Quality::ALL.len() - 1);
        self.learn_layer(layer, now);
        layer
    }

    /// Adds layers up to this one.
    fn learn_layer(&mut self, layer: usize, now: Instant) {
        while self.layers.len() <= layer {
            self.layers
                .push(PublishedLayer::new(None, self.layers.len(), now));
        }
    }

    pub const fn layering(&self) -> Layering {
        self.layering
    }

    /// Adopts the layering and the number of layers that the publisher's worker sent with a packet.
    pub fn follow_layering(&mut self, layering: Layering, layers: usize, now: Instant) {
        self.layering = layering;
        // Includes layers that the publisher has stopped: it sends a layer again only once a receiver here can request it.
        self.learn_layer(layers.saturating_sub(1), now);
    }

    /// Returns whether the publisher is on another worker.
    pub const fn is_mirror(&self) -> bool {
        matches!(self.feed, Feed::Mirror(_))
    }

    /// Returns the layer for which a layer's key frames are counted: layers in one stream share them.
    pub fn key_frame_layer(&self, layer: usize) -> usize {
        if self.is_layered() {
            self.layering.stream.unwrap_or(0)
        } else {
            layer
        }
    }

    /// Returns a participant's subscription.
    pub fn subscription_of(&mut self, peer: PeerKey) -> Option<&mut Subscription> {
        self.subscriptions
            .iter_mut()
            .find(|subscription| subscription.peer == peer)
    }

    /// Returns the layer choices for receivers and recorders.
    pub fn choices(&mut self) -> impl Iterator<Item = &mut LayerChoice> {
        let recorded = self
            .recorders
            .iter_mut()
            .map(|recorder| &mut recorder.choice);
        self.subscriptions
            .iter_mut()
            .map(|subscription| &mut subscription.choice)
            .chain(recorded)
    }

    /// Returns the lowest live layer, if receivers without video should start there. This is the case when many
    /// participants join one after another: they exhaust the key frame requests of their target layer, while the lowest
    /// layer has its own budget.
    pub fn starting_layer(&self, now: Instant) -> Option<usize> {
        // All layers share key frames, so a lower one would not start earlier.
        if self.is_layered() {
            return None;
        }
        let lowest = self.layers.iter().position(|layer| layer.is_live(now))?;
        let waits_long = |target: usize| {
            // The lowest layer has no lower one to start with: its receivers wait.
            target > lowest
                && self
                    .layers
                    .get(target)
                    .is_some_and(|layer| layer.key_frames.is_exhausted(now))
        };
        let starts = |choice: &LayerChoice| {
            choice.current.is_none() && choice.target.is_some_and(waits_long)
        };
        self.subscriptions
            .iter()
            .any(|subscription| starts(&subscription.choice))
            .then_some(lowest)
    }

    /// Returns whether a layer has sent recently. Before the first packet, all layers count as live.
    pub fn is_live(&self, layer: usize, now: Instant) -> bool {
        let has_started = self.layers.iter().any(|layer| layer.last_packet.is_some());
        !has_started
            || self
                .layers
                .get(layer)
                .is_some_and(|layer| layer.is_live(now))
    }

    /// Returns the highest live layer up to `wanted`, or the lowest live one above; `None` if no layer is live.
    pub fn best_live_layer(&self, wanted: usize, now: Instant) -> Option<usize> {
        let is_live = |layer: &usize| self.is_live(*layer, now);
        let below = (0..=wanted).rev().find(is_live);
        // A higher layer than wanted is better than no video.
        below.or_else(|| (wanted..self.layers.len()).find(is_live))
    }

    /// Returns the publisher's announcement for a layer.
    pub fn layer_info(&self, layer: usize) -> Option<&LayerInfo> {
        self.info
            .layers
            .iter()
            .find(|info| info.quality.index() == layer)
    }

    /// Returns a layer's width and height in pixels as the publisher announced them; 0 if it did not.
    pub fn layer_size(&self, layer: usize) -> (u32, u32) {
        let largest = || self.info.layers.iter().max_by_key(|info| info.height);
        let info = if self.layers.len() == 1 {
            // A track without simulcast may announce its only layer as any quality.
            largest()
        } else {
            self.layer_info(layer)
        };
        info.map_or((0, 0), |info| (info.width, info.height))
    }

    /// Returns the layers' qualities.
    pub fn qualities(&self) -> Vec<Quality> {
        Quality::ALL.into_iter().take(self.layers.len()).collect()
    }

    /// Returns the highest layer that is useful for a subscriber: by displayed size if it is known, or by quality.
    pub fn wanted_layer(&self, settings: TrackSettings) -> Option<usize> {
        let best = self.layers.len().checked_sub(1)?;
        if settings.is_disabled {
            return None;
        }
        let has_size = settings.width > 0 && settings.height > 0;
        // WHIP encoders announce no layer sizes: then the highest layer fits.
        let by_size = has_size.then(|| self.layer_for_size(settings).unwrap_or(best));
        // With fewer layers than qualities, the best layer represents the others.
        Some(by_size.unwrap_or(settings.quality.index()).min(best))
    }

    /// Returns the smallest layer that is nearly as large as the displayed video; `None` if sizes are unknown. The
    /// shorter sides are compared, so that portrait and landscape video are treated alike.
    fn layer_for_size(&self, settings: TrackSettings) -> Option<usize> {
        let largest = self.info.layers.iter().max_by_key(|info| info.height)?;
        let is_portrait = largest.width < largest.height;
        let wanted = if is_portrait {
            settings.width
        } else {
            settings.height
        };
        let needed = wanted.saturating_mul(SIZE_TOLERANCE_TENTHS) / 10;
        let short_side = |layer: usize| {
            self.layer_info(layer)
                .map(|info| if is_portrait { info.width } else { info.height })
        };
        let fitting = (0..self.layers.len())
            .find(|layer| short_side(*layer).is_some_and(|side| side >= needed));
        // The video is displayed larger than any layer.
        fitting.or(self.layers.len().checked_sub(1))
    }

    /// Restarts all receivers at the next packet with which they can start.
    pub fn restart_receivers(&mut self) {
        self.choices().for_each(|choice| choice.current = None);
    }

    /// Restarts the receivers of a stream at its next key frame. `stream` is the layer that represents its key frames.
    pub fn restart_receivers_of(&mut self, stream: usize) {
        // Recorders are skipped: only mirrors restart single streams, and recorders are on the publisher's worker.
        let layered = self.is_layered();
        for subscription in &mut self.subscriptions {
            let choice = &mut subscription.choice;
            if layered || choice.current == Some(stream) {
                choice.current = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use slotmap::Key;
    use str0m::media::MediaKind;

    use super::*;
    use crate::worker::layer::LIVE;
    use crate::worker::tests::commands::new_track;

    /// Returns a video track with one layer.
    fn video(sid: &str, is_backup: bool, now: Instant) -> PublishedTrack {
        let info = NewTrack {
            is_backup,
            ..new_track(sid, "cid", MediaKind::Video)
        };
        let feed = Feed::Connection {
            transport: TransportKey::null(),
            mid: "0".into(),
        };
        let mut track = PublishedTrack::new(info, Codec::H264, PeerKey::null(), feed, now);
        track.set_layers(&[], now);
        track
    }

    #[test]
    fn a_layer_that_begins_to_send_is_told_once() {
        let (mut tracks, now) = (Tracks::default(), Instant::now());
        let track = tracks.insert(video("TR_VC1", false, now));
        let mut receive = |layer: usize, payload: &[u8], now: Instant| {
            let media = MediaPacket::from_payload(Codec::H264, payload.into(), 1, 0, now);
            let is_known = tracks.receive(LayerKey { track, layer }, &media, now);
            (is_known.is_some(), tracks.take_revived())
        };
        assert_eq!(receive(0, &[0x41, 1], now), (true, vec![track]));
        assert_eq!(receive(0, &[0x65, 1], now + LIVE / 2), (true, vec![]));
        assert_eq!(receive(0, &[0x41, 1], now + 2 * LIVE), (true, vec![track]));
        assert_eq!(receive(1, &[0x41, 1], now), (false, vec![]));
        let layer = &tracks.get(track).unwrap().layers[0];
        assert_eq!(layer.last_key_frame, Some(now + LIVE / 2));
        assert_eq!((layer.rate.packets, tracks.has_revived()), (3, false));
    }

    #[test]
    fn a_track_is_found_in_all_its_codecs_and_in_the_first_one() {
        let (mut tracks, now) = (Tracks::default(), Instant::now());
        let backup = tracks.insert(video("TR_VC1", true, now));
        let first = tracks.insert(video("TR_VC1", false, now));
        let other = tracks.insert(video("TR_VC2", false, now));
        let (mut published, sid) = ([backup, first, other], "TR_VC1".parse().unwrap());
        assert_eq!(tracks.with_sid(&published, &sid), [backup, first]);
        assert_eq!(tracks.first_with_sid(&published, &sid), Some(first));
        tracks.first_codecs_first(&mut published);
        assert_eq!(published, [first, other, backup]);
        tracks.remove(first);
        assert_eq!(tracks.first_with_sid(&published, &sid), None);
    }
}
