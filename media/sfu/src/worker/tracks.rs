//! The published tracks of a worker, each in one codec, and those who receive them.

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

/// The published tracks of a worker, in their codecs.
#[derive(Default)]
pub struct Tracks {
    tracks: SlotMap<TrackKey, PublishedTrack>,
    /// Those of which a layer has begun to send.
    revived: Vec<TrackKey>,
}

impl Tracks {
    /// Adds a track.
    pub fn insert(&mut self, track: PublishedTrack) -> TrackKey {
        self.tracks.insert(track)
    }

    /// Removes a track.
    pub fn remove(&mut self, key: TrackKey) -> Option<PublishedTrack> {
        self.tracks.remove(key)
    }

    /// Returns a track.
    pub fn get(&self, key: TrackKey) -> Option<&PublishedTrack> {
        self.tracks.get(key)
    }

    /// Returns a track to change.
    pub fn get_mut(&mut self, key: TrackKey) -> Option<&mut PublishedTrack> {
        self.tracks.get_mut(key)
    }

    /// Returns all tracks.
    pub fn keys(&self) -> Vec<TrackKey> {
        self.tracks.keys().collect()
    }

    /// Returns all tracks, for tests that look into them.
    #[cfg(test)]
    pub fn values(&self) -> impl Iterator<Item = &PublishedTrack> {
        self.tracks.values()
    }

    /// Returns all tracks to change, for tests that look into them.
    #[cfg(test)]
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut PublishedTrack> {
        self.tracks.values_mut()
    }

    /// Returns whether there are none.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.tracks.is_empty()
    }

    /// Counts a packet of a layer. Returns its track; `None` if it has no such layer.
    pub fn receive(
        &mut self,
        key: LayerKey,
        media: &MediaPacket,
        now: Instant,
    ) -> Option<&mut PublishedTrack> {
        let track = self.tracks.get_mut(key.track)?;
        if track.layers.get_mut(key.layer)?.note(media, now) {
            self.revived.push(key.track);
        }
        if media.is_entry_point && !media.is_audio {
            let layer = track.key_frame_layer(key.layer);
            track.layers.get_mut(layer)?.note_key_frame(now);
        }
        Some(track)
    }

    /// Returns whether a layer of a track has begun to send since the last call of [`Tracks::take_revived`].
    pub fn has_revived(&self) -> bool {
        !self.revived.is_empty()
    }

    /// Takes the tracks of which a layer has begun to send.
    pub fn take_revived(&mut self) -> Vec<TrackKey> {
        std::mem::take(&mut self.revived)
    }

    /// Ends a period of all measurements.
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

    /// Returns those of some tracks that have a sid: one track in its codecs.
    pub fn with_sid(&self, tracks: &[TrackKey], sid: &TrackSid) -> Vec<TrackKey> {
        let is_of = |key: &TrackKey| self.get(*key).is_some_and(|track| track.sid == *sid);
        tracks.iter().copied().filter(is_of).collect()
    }

    /// Returns the one of some tracks that has a sid, in its first codec.
    pub fn first_with_sid(&self, tracks: &[TrackKey], sid: &TrackSid) -> Option<TrackKey> {
        let is_of = |track: &PublishedTrack| track.sid == *sid && !track.info.is_backup;
        let mut tracks = tracks.iter().copied();
        tracks.find(|key| self.get(*key).is_some_and(is_of))
    }

    /// Puts tracks in their first codec in front. So the end of a track ends its backup codecs as well, before a receiver gets one of
    /// them instead.
    pub fn first_codecs_first(&self, tracks: &mut [TrackKey]) {
        tracks.sort_by_key(|key| self.get(*key).is_some_and(|track| track.info.is_backup));
    }

    /// Returns those who receive a track in any of its codecs, or wait for one. The track is that of the first codec.
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

    /// Takes from a participant's section the stream that is sent on it, or would be if its codec were there.
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
            return Some(subscriptions.swap_remove(position));
        }
        let awaiting = &mut self.get_mut(section.track()?)?.awaiting;
        let position = awaiting.iter().position(|awaiting| awaiting.peer == peer)?;
        awaiting.swap_remove(position).subscription
    }
}

/// A published track of a worker in one codec. One that is sent in a backup codec as well is two of these, with the same sid: that of the
/// first codec stands for the track, and knows the others.
pub struct PublishedTrack {
    /// The track's sid, which the control plane has given it.
    pub sid: TrackSid,
    /// The participant that publishes it.
    pub peer: PeerKey,
    /// Where its packets come from.
    pub feed: Feed,
    /// The device or screen.
    pub source: TrackSource,
    /// The codec that was negotiated. Packets of another one are dropped.
    pub codec: Codec,
    /// What the publisher announced.
    pub info: NewTrack,
    /// Whether nothing is forwarded.
    pub is_muted: bool,
    /// The layers, worst first; one without simulcast.
    pub layers: Vec<PublishedLayer>,
    /// Those who receive it in this codec.
    pub subscriptions: Vec<Subscription>,
    /// In the first codec: the backup codecs of the track, those that are preferred first.
    pub backups: Vec<BackupCodec>,
    /// In the first codec: those who are to receive the track in a backup codec that is not sent.
    pub awaiting: Vec<AwaitedCodec>,
    /// The recorders that receive it.
    pub recorders: Vec<Recorder>,
    /// The mirrors that receive it, on other workers.
    pub taps: Vec<Tap>,
    /// In the first codec: whether anyone has ever subscribed to the track.
    pub was_subscribed: bool,
    /// The payload type of the last packet, with its parameters if its codec is that of the track.
    pub payload: Option<(Pt, Option<Incoming>)>,
    /// Whether it is speech.
    pub speech: SpeechDetector,
    /// What the publisher knows of its use.
    pub quality_use: QualityUse,
    /// Reads to which layers its packets belong.
    layer_reader: LayerReader,
    /// What is known of its layers from its packets.
    layering: Layering,
}

/// Where the packets of a track come from.
pub enum Feed {
    /// From a section of its publisher's connection.
    Connection {
        /// The connection.
        transport: TransportKey,
        /// The section.
        mid: Mid,
    },
    /// From the control side.
    Source {
        /// The number of the last packet.
        sequence: u64,
    },
    /// From the worker on which its publisher lives.
    Mirror(Mirror),
}

/// The feed of a track whose publisher lives on another worker.
#[derive(Default)]
pub struct Mirror {
    /// Where its packets come from, while somebody receives it here.
    pub ring: Option<Arc<MirrorRing>>,
    /// How many layers are in use here, as the worker of the publisher was told.
    pub used_layers: Option<usize>,
}

/// A backup codec of a track.
#[derive(Debug, Clone)]
pub struct BackupCodec {
    /// A codec that the publisher has named with the track.
    pub codec: Codec,
    /// The track in this codec; `None` while the publisher does not send it.
    pub streams: Option<TrackKey>,
    /// Whether the publisher is asked to send it.
    pub is_requested: bool,
    /// The other workers on which receivers wait for it.
    pub awaited_on: Vec<WorkerId>,
}

/// A receiver of a track that waits for a codec.
pub struct AwaitedCodec {
    /// The participant that has subscribed.
    pub peer: PeerKey,
    /// The backup codec that it can decode.
    pub codec: Codec,
    /// How the track was sent to it in another codec, if it was.
    pub subscription: Option<Subscription>,
    /// When the subscription is reported as one that cannot be served; `None` once that has happened.
    pub reported_at: Option<Instant>,
}

/// A recorder of a track.
pub struct Recorder {
    /// The egress that records the track.
    pub egress: EgressId,
    /// The layer that is wanted, as a subscriber asks for it.
    pub settings: TrackSettings,
    /// Where the packets go.
    pub sink: Arc<dyn PacketSink>,
    /// The layer that is recorded.
    pub choice: LayerChoice,
    /// The numbers of the packets that are recorded of a stream with layers.
    pub numbers: SequenceNumbers,
}

/// How much of the size at which a video is shown a layer must have, in tenths.
const SIZE_TOLERANCE_TENTHS: u32 = 9;

impl PublishedTrack {
    /// Creates a track whose section has been negotiated.
    pub fn new(info: NewTrack, codec: Codec, peer: PeerKey, feed: Feed, now: Instant) -> Self {
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

    /// Sound or pictures.
    pub fn medium(&self) -> TrackMedium {
        self.info.medium
    }

    /// Sets the layers to those with these ids, worst first; one without id if there are none. Known layers stay.
    pub fn set_layers(&mut self, rids: &[String], now: Instant) {
        let ordered = order_rids(rids);
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
                Some(layer) => layer.rid = rid,
                None => self.layers.push(PublishedLayer::new(rid, index, now)),
            }
        }
    }

    /// Returns the index of the layer with this id. A source without id is the only layer's.
    pub fn layer_of(&self, rid: Option<Rid>) -> Option<usize> {
        let index = self.layers.iter().position(|layer| layer.rid == rid);
        index.or_else(|| (rid.is_none() && !self.layers.is_empty()).then_some(0))
    }

    /// Returns whether the layers of the track are in one stream.
    pub fn is_layered(&self) -> bool {
        let is_alone = self.layers.first().is_some_and(|layer| layer.rid.is_none());
        self.codec.has_layers() && (is_alone || self.layering.stream.is_some())
    }

    /// Notes whether all layers are in one of the streams of simulcast, as libwebrtc sends VP9 for which no mode was chosen.
    pub fn note_stream(&mut self, layer: usize, media: &MediaPacket) {
        match media.vp9.and_then(|descriptor| descriptor.spatial_layers) {
            Some(2..) => self.layering.stream = Some(layer),
            Some(_) if self.layering.stream.is_some_and(|stream| stream != layer) => {
                self.layering.stream = None;
            }
            _ => {}
        }
    }

    /// Returns whether who gets a layer gets all below it as well, in each picture.
    pub fn sends_lower_layers(&self) -> bool {
        self.is_layered() && !self.layering.is_independent
    }

    /// Reads to which layer a packet of a stream with layers belongs, and returns its index. Layers become known with their first packet;
    /// those above the best one that is forwarded count as that.
    pub fn read_layer(
        &mut self,
        media: &mut MediaPacket,
        descriptor: Option<&DependencyDescriptor>,
        now: Instant,
    ) -> usize {
        self.layer_reader.read(media, descriptor);
        self.layering.is_independent = self.layer_reader.has_independent_layers();
        let spatial = media.layer.map_or(0, |layer| usize::from(layer.spatial));
        let layer = spatial.min(Quality::ALL.len() - 1);
        self.learn_layer(layer, now);
        layer
    }

    /// Adds the layers up to one, of which a packet has come.
    fn learn_layer(&mut self, layer: usize, now: Instant) {
        while self.layers.len() <= layer {
            self.layers
                .push(PublishedLayer::new(None, self.layers.len(), now));
        }
    }

    /// Returns what is known of its layers from its packets.
    pub const fn layering(&self) -> Layering {
        self.layering
    }

    /// Takes over what the worker of the publisher knows of the layers, with a packet of one.
    pub fn follow_layering(&mut self, layering: Layering, layer: usize, now: Instant) {
        self.layering = layering;
        self.learn_layer(layer, now);
    }

    /// Returns whether its publisher lives on another worker.
    pub const fn is_mirror(&self) -> bool {
        matches!(self.feed, Feed::Mirror(_))
    }

    /// Returns the index of the layer whose key frames are those of a layer: in one stream, all have them together.
    pub fn key_frame_layer(&self, layer: usize) -> usize {
        if self.is_layered() {
            self.layering.stream.unwrap_or(0)
        } else {
            layer
        }
    }

    /// Returns the receiver's entry.
    pub fn subscription_of(&mut self, peer: PeerKey) -> Option<&mut Subscription> {
        self.subscriptions
            .iter_mut()
            .find(|subscription| subscription.peer == peer)
    }

    /// Returns the layers that receivers and recorders get.
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

    /// Returns the lowest live layer if a receiver that shows nothing yet should start with it: the key frames that may be requested
    /// of the layer that it waits for are exhausted, since many participants have joined one after another.
    pub fn starting_layer(&self, now: Instant) -> Option<usize> {
        if self.is_layered() {
            return None;
        }
        let lowest = self.layers.iter().position(|layer| layer.is_live(now))?;
        let waits_long = |target: usize| {
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

    /// Returns whether a layer has sent recently. Before any has, all count as live.
    pub fn is_live(&self, layer: usize, now: Instant) -> bool {
        let has_started = self.layers.iter().any(|layer| layer.last_packet.is_some());
        !has_started
            || self
                .layers
                .get(layer)
                .is_some_and(|layer| layer.is_live(now))
    }

    /// Returns the best live layer up to the wanted one, or else the lowest live one above it; the wanted one if none is.
    pub fn best_live_layer(&self, wanted: usize, now: Instant) -> Option<usize> {
        let is_live = |layer: &usize| self.is_live(*layer, now);
        let below = (0..=wanted).rev().find(is_live);
        below.or_else(|| (wanted..self.layers.len()).find(is_live))
    }

    /// Returns what the publisher announced of a layer.
    pub fn layer_info(&self, layer: usize) -> Option<&LayerInfo> {
        self.info
            .layers
            .iter()
            .find(|info| info.quality.index() == layer)
    }

    /// Returns the qualities of the layers.
    pub fn qualities(&self) -> Vec<Quality> {
        Quality::ALL.into_iter().take(self.layers.len()).collect()
    }

    /// Returns the best layer that a subscriber has a use for: by the size at which it shows the video, or else by quality.
    pub fn wanted_layer(&self, settings: TrackSettings) -> Option<usize> {
        let best = self.layers.len().checked_sub(1)?;
        if settings.is_disabled {
            return None;
        }
        let has_size = settings.width > 0 && settings.height > 0;
        // Encoders do not say how large their layers are: the best one fits.
        let by_size = has_size.then(|| self.layer_for_size(settings).unwrap_or(best));
        Some(by_size.unwrap_or(settings.quality.index()).min(best))
    }

    /// Returns the smallest layer that is hardly smaller than the video is shown. The shorter side counts, so that portraits
    /// are treated alike. `None` if the sizes are not known.
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
        fitting.or(self.layers.len().checked_sub(1))
    }

    /// Makes all receivers start anew at the next packet with which they can.
    pub fn restart_receivers(&mut self) {
        self.choices().for_each(|choice| choice.current = None);
    }

    /// Makes the receivers of a stream start anew at its next key frame; it is given by the layer whose key frames are those of it.
    pub fn restart_receivers_of(&mut self, stream: usize) {
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

    /// A video of one layer.
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
