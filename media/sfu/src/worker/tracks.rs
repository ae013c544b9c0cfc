//! The published tracks of a worker, each in one codec, and those who receive them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::participant::TrackSource;
use conclave_model::{EgressId, TrackSid};
use slotmap::SlotMap;
use str0m::media::{Mid, Pt, Rid};

use super::sections::Section;
use super::subscription::Incoming;
use super::subscription::{LayerChoice, Subscription};
use crate::adapt::{DependencyDescriptor, LayerReader, MediaPacket, SequenceNumbers};
use crate::allocate::{KeyFrameRequests, QualityUse};
use crate::codec::{Codec, TrackMedium};
use crate::command::TrackSettings;
use crate::measure::RateMeter;
use crate::measure::SpeechDetector;
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
    /// The publisher's connection.
    pub transport: TransportKey,
    /// The section on which it arrives.
    pub mid: Mid,
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
    /// In the first codec: whether anyone has ever subscribed to the track.
    pub was_subscribed: bool,
    /// The payload type of the last packet, with its parameters if its codec is that of the track.
    pub payload: Option<(Pt, Option<Incoming>)>,
    /// The number of the last packet that the control side sent; 0 for a track with a connection.
    pub source_sequence: u64,
    /// Whether it is speech.
    pub speech: SpeechDetector,
    /// What the publisher knows of its use.
    pub quality_use: QualityUse,
    /// Reads to which layers its packets belong.
    pub layer_reader: LayerReader,
    /// Of simulcast: the one of the streams in which all layers are, if there is one.
    layered_stream: Option<usize>,
}

/// A layer of a published track.
pub struct PublishedLayer {
    /// The id of the layer in its section; `None` without simulcast.
    pub rid: Option<Rid>,
    /// Measures the bitrate of what arrives.
    pub rate: RateMeter,
    /// Measures that of each temporal layer, from the lowest; empty if the packets name none.
    pub temporal_rates: Vec<RateMeter>,
    /// When a packet arrived last.
    pub last_packet: Option<Instant>,
    /// When a key frame began last.
    pub last_key_frame: Option<Instant>,
    /// The requests for key frames.
    pub key_frames: KeyFrameRequests,
}

/// A backup codec of a track.
#[derive(Debug, Clone, Copy)]
pub struct BackupCodec {
    /// A codec that the publisher has named with the track.
    pub codec: Codec,
    /// The track in this codec; `None` while the publisher does not send it.
    pub streams: Option<TrackKey>,
    /// Whether the publisher is asked to send it.
    pub is_requested: bool,
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

/// The most temporal layers that are measured by themselves; those above them count as the best one.
const TEMPORAL_LAYERS: usize = 4;

/// How long a layer counts as live after its last packet.
const LIVE: Duration = Duration::from_secs(1);

impl PublishedTrack {
    /// Creates a track whose section has been negotiated.
    pub fn new(
        info: NewTrack,
        codec: Codec,
        peer: PeerKey,
        transport: TransportKey,
        mid: Mid,
        now: Instant,
    ) -> Self {
        let others = info.backup_codecs.iter().filter(|backup| **backup != codec);
        let backups = others
            .map(|codec| BackupCodec {
                codec: *codec,
                streams: None,
                is_requested: false,
            })
            .collect();
        Self {
            sid: info.sid.clone(),
            peer,
            transport,
            mid,
            source: info.source,
            codec,
            is_muted: info.is_muted,
            info,
            layers: Vec::new(),
            subscriptions: Vec::new(),
            backups,
            awaiting: Vec::new(),
            recorders: Vec::new(),
            was_subscribed: false,
            payload: None,
            source_sequence: 0,
            speech: SpeechDetector::default(),
            quality_use: QualityUse::new(now),
            layer_reader: LayerReader::default(),
            layered_stream: None,
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
        self.codec.has_layers() && (is_alone || self.layered_stream.is_some())
    }

    /// Notes whether all layers are in one of the streams of simulcast, as libwebrtc sends VP9 for which no mode was chosen.
    pub fn note_stream(&mut self, layer: usize, media: &MediaPacket) {
        match media.vp9.and_then(|descriptor| descriptor.spatial_layers) {
            Some(2..) => self.layered_stream = Some(layer),
            Some(_) if self.layered_stream.is_some_and(|stream| stream != layer) => {
                self.layered_stream = None;
            }
            _ => {}
        }
    }

    /// Returns whether who gets a layer gets all below it as well, in each picture.
    pub fn sends_lower_layers(&self) -> bool {
        self.is_layered() && !self.layer_reader.has_independent_layers()
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
        let spatial = media.layer.map_or(0, |layer| usize::from(layer.spatial));
        let layer = spatial.min(Quality::ALL.len() - 1);
        while self.layers.len() <= layer {
            self.layers
                .push(PublishedLayer::new(None, self.layers.len(), now));
        }
        layer
    }

    /// Returns the index of the layer whose key frames are those of a layer: in one stream, all have them together.
    pub fn key_frame_layer(&self, layer: usize) -> usize {
        if self.is_layered() {
            self.layered_stream.unwrap_or(0)
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
}

/// Names of layers, worst first: those of LiveKit's clients, those that examples of the browsers' interface use, and OBS'.
const KNOWN_RIDS: [[&str; 3]; 3] = [["q", "h", "f"], ["l", "m", "h"], ["2", "1", "0"]];

/// Returns the ids of simulcast layers, worst first. Ids that are not known count in the order of the offer.
fn order_rids(rids: &[String]) -> Vec<Rid> {
    let mut ordered: Vec<_> = rids.iter().take(Quality::ALL.len()).collect();
    let is_of = |names: &&[&str; 3]| ordered.iter().all(|rid| names.contains(&rid.as_str()));
    if let Some(names) = KNOWN_RIDS.iter().find(is_of) {
        ordered.sort_by_key(|rid| names.iter().position(|name| name == rid));
    }
    ordered
        .into_iter()
        .map(|rid| Rid::from(rid.as_str()))
        .collect()
}

impl PublishedLayer {
    fn new(rid: Option<Rid>, index: usize, now: Instant) -> Self {
        let interval = if index == 0 {
            Duration::from_millis(500)
        } else {
            Duration::from_secs(1)
        };
        Self {
            rid,
            rate: RateMeter::new(now),
            temporal_rates: Vec::new(),
            last_packet: None,
            last_key_frame: None,
            key_frames: KeyFrameRequests::new(interval),
        }
    }

    /// Returns whether the layer has sent recently.
    pub fn is_live(&self, now: Instant) -> bool {
        self.last_packet
            .is_some_and(|last| now.saturating_duration_since(last) < LIVE)
    }

    /// Counts a packet. Returns whether the layer was not live before.
    pub fn note(&mut self, packet: &MediaPacket, now: Instant) -> bool {
        let was_live = self.is_live(now);
        let bytes = packet.payload.len();
        self.rate.add(bytes);
        if let Some(layer) = packet.layer {
            let temporal = usize::from(layer.temporal).min(TEMPORAL_LAYERS - 1);
            while self.temporal_rates.len() <= temporal {
                self.temporal_rates.push(RateMeter::new(now));
            }
            self.temporal_rates[temporal].add(bytes);
        }
        self.last_packet = Some(now);
        !was_live
    }

    /// Returns the number of temporal layers, if all of them were measured; 0 otherwise.
    pub fn measured_temporal_layers(&self) -> usize {
        let are_measured = self
            .temporal_rates
            .iter()
            .all(|rate| rate.mean_bits_per_second > 0);
        if are_measured {
            self.temporal_rates.len()
        } else {
            0
        }
    }

    /// Returns the measurements of the temporal layers up to one.
    pub fn up_to(&self, temporal: u8) -> &[RateMeter] {
        let end = (usize::from(temporal) + 1).min(self.temporal_rates.len());
        &self.temporal_rates[..end]
    }

    /// Ends a period of the measurement.
    pub fn roll(&mut self, now: Instant) {
        self.rate.roll(now);
        self.temporal_rates
            .iter_mut()
            .for_each(|rate| rate.roll(now));
    }

    /// Notes that a key frame begins.
    pub fn note_key_frame(&mut self, now: Instant) {
        self.last_key_frame = Some(now);
        self.key_frames.satisfy();
    }
}

#[cfg(test)]
mod tests {
    use slotmap::Key;
    use str0m::media::MediaKind;

    use super::*;
    use crate::worker::tests::commands::new_track;

    /// A video of one layer.
    fn video(sid: &str, is_backup: bool, now: Instant) -> PublishedTrack {
        let info = NewTrack {
            is_backup,
            ..new_track(sid, "cid", MediaKind::Video)
        };
        let (peer, transport) = (PeerKey::null(), TransportKey::null());
        let mut track = PublishedTrack::new(info, Codec::H264, peer, transport, "0".into(), now);
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

    #[test]
    fn layers_are_ordered_by_the_names_that_clients_and_encoders_use() {
        for (offered, expected) in [
            (["f", "q", "h"], ["q", "h", "f"]),
            (["h", "m", "l"], ["l", "m", "h"]),
            (["0", "1", "2"], ["2", "1", "0"]),
            (["b", "a", "c"], ["b", "a", "c"]),
        ] {
            let ordered: Vec<_> = order_rids(&offered.map(str::to_owned))
                .iter()
                .map(ToString::to_string)
                .collect();
            assert_eq!(ordered, expected);
        }
    }
}
