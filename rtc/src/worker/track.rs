//! A published track of a worker, and those who receive it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::participant::TrackSource;
use conclave_model::{EgressId, TrackSid};
use str0m::format::PayloadParams;
use str0m::media::{Mid, Pt, Rid};
use str0m::rtp::ExtensionValues;

use crate::command::TrackSettings;
use crate::dropped::DropReason;
use crate::forward::{KeyFrameRequests, MediaPacket, QualityUse, RateMeter, Rewriter, Rewritten, SpeechDetector};
use crate::recorder::{PacketSink, SenderReport};
use crate::track::{Codec, LayerInfo, NewTrack, Quality, TrackMedium};
use crate::transport::{PeerKey, TransportKey};

/// A published track of a worker.
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
    /// Those who receive it.
    pub subscriptions: Vec<Subscription>,
    /// The recorders that receive it.
    pub recorders: Vec<Recorder>,
    /// Whether anyone has ever subscribed to it.
    pub was_subscribed: bool,
    /// The payload type of the last packet, with its parameters if its codec is that of the track.
    pub payload: Option<(Pt, Option<Incoming>)>,
    /// The number of the last packet that the control side sent; 0 for a track with a connection.
    pub source_sequence: u64,
    /// Whether it is speech.
    pub speech: SpeechDetector,
    /// What the publisher knows of its use.
    pub quality_use: QualityUse,
}

/// A layer of a published track.
pub struct PublishedLayer {
    /// The id of the layer in its section; `None` without simulcast.
    pub rid: Option<Rid>,
    /// Measures the bitrate of what arrives.
    pub rate: RateMeter,
    /// When a packet arrived last.
    pub last_packet: Option<Instant>,
    /// When a key frame began last.
    pub last_key_frame: Option<Instant>,
    /// The requests for key frames.
    pub key_frames: KeyFrameRequests,
}

/// Which layer of a track a receiver gets.
#[derive(Debug, Clone, Copy, Default)]
pub struct LayerChoice {
    /// The layer that is sent now.
    pub current: Option<usize>,
    /// The layer that should be sent.
    pub target: Option<usize>,
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
}

/// A track on its way to one subscriber.
pub struct Subscription {
    /// The participant that has subscribed.
    pub peer: PeerKey,
    /// The connection of the subscriber on which it is sent.
    pub transport: TransportKey,
    /// The section on which it is sent.
    pub mid: Mid,
    /// The numbers of the packets on that section.
    pub rewriter: Rewriter,
    /// The layer that is sent.
    pub choice: LayerChoice,
    /// How packets of the publisher's payload type are sent; `None` inside if the receiver cannot have them.
    pub payload: Option<(Pt, Option<Outgoing>)>,
    /// The bitrate and the packets sent.
    pub rate: RateMeter,
    /// Whether nothing is sent for want of bandwidth.
    pub is_paused: bool,
    /// How many packets without a payload were sent while the track was muted.
    pub empty_packets: u8,
    /// Since when the receiver waits for the first frame; `None` once it is sent, and if that is not measured.
    pub waits_since: Option<Instant>,
}

/// What a payload type of the publisher stands for.
#[derive(Debug, Clone, Copy)]
pub struct Incoming {
    /// The codec and its parameters.
    pub params: PayloadParams,
    /// Whether the packets hold earlier sound as well.
    pub is_red: bool,
}

/// A packet on its way to the receivers of a layer.
pub struct Packet<'a> {
    /// The payload, and what the forwarding has read from it.
    pub media: MediaPacket,
    /// What its payload type stands for.
    pub incoming: Incoming,
    /// The payload type of the publisher.
    pub payload_type: Pt,
    /// Whether it is the last one of a frame of video.
    pub is_last: bool,
    /// The header extensions.
    pub extensions: &'a ExtensionValues,
    /// The last sender report of the layer.
    pub report: Option<SenderReport>,
}

/// How a receiver gets packets of one payload type of the publisher.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing {
    /// The receiver's payload type.
    pub payload_type: Pt,
    /// Whether the redundancy is taken out.
    pub strips_red: bool,
}

/// How much of the size at which a video is shown a layer must have, in tenths.
const SIZE_TOLERANCE_TENTHS: u32 = 9;

/// How long a layer counts as live after its last packet.
const LIVE: Duration = Duration::from_secs(1);

impl PublishedTrack {
    /// Creates a track whose section has been negotiated.
    pub fn new(info: NewTrack, codec: Codec, peer: PeerKey, transport: TransportKey, mid: Mid, now: Instant) -> Self {
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
            recorders: Vec::new(),
            was_subscribed: false,
            payload: None,
            source_sequence: 0,
            speech: SpeechDetector::default(),
            quality_use: QualityUse::new(now),
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
        let ids = if ordered.is_empty() { vec![None] } else { ordered.into_iter().map(Some).collect() };
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

    /// Returns the receiver's entry.
    pub fn subscription_of(&mut self, peer: PeerKey) -> Option<&mut Subscription> {
        self.subscriptions.iter_mut().find(|subscription| subscription.peer == peer)
    }

    /// Returns the layers that receivers and recorders get.
    pub fn choices(&mut self) -> impl Iterator<Item = &mut LayerChoice> {
        let recorded = self.recorders.iter_mut().map(|recorder| &mut recorder.choice);
        self.subscriptions.iter_mut().map(|subscription| &mut subscription.choice).chain(recorded)
    }

    /// Returns the lowest live layer if a receiver that shows nothing yet should start with it: the key frames that may be requested
    /// of the layer that it waits for are exhausted, since many participants have joined one after another.
    pub fn starting_layer(&self, now: Instant) -> Option<usize> {
        let lowest = self.layers.iter().position(|layer| layer.is_live(now))?;
        let waits_long = |target: usize| {
            target > lowest && self.layers.get(target).is_some_and(|layer| layer.key_frames.is_exhausted(now))
        };
        let starts = |choice: &LayerChoice| choice.current.is_none() && choice.target.is_some_and(waits_long);
        self.subscriptions.iter().any(|subscription| starts(&subscription.choice)).then_some(lowest)
    }

    /// Returns whether a layer has sent recently. Before any has, all count as live.
    pub fn is_live(&self, layer: usize, now: Instant) -> bool {
        let has_started = self.layers.iter().any(|layer| layer.last_packet.is_some());
        !has_started || self.layers.get(layer).is_some_and(|layer| layer.is_live(now))
    }

    /// Returns what the publisher announced of a layer.
    pub fn layer_info(&self, layer: usize) -> Option<&LayerInfo> {
        self.info.layers.iter().find(|info| info.quality.index() == layer)
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
        let wanted = if is_portrait { settings.width } else { settings.height };
        let needed = wanted.saturating_mul(SIZE_TOLERANCE_TENTHS) / 10;
        let short_side =
            |layer: usize| self.layer_info(layer).map(|info| if is_portrait { info.width } else { info.height });
        let fitting = (0..self.layers.len()).find(|layer| short_side(*layer).is_some_and(|side| side >= needed));
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
    ordered.into_iter().map(|rid| Rid::from(rid.as_str())).collect()
}

impl PublishedLayer {
    fn new(rid: Option<Rid>, index: usize, now: Instant) -> Self {
        let interval = if index == 0 { Duration::from_millis(500) } else { Duration::from_secs(1) };
        Self {
            rid,
            rate: RateMeter::new(now),
            last_packet: None,
            last_key_frame: None,
            key_frames: KeyFrameRequests::new(interval),
        }
    }

    /// Returns whether the layer has sent recently.
    pub fn is_live(&self, now: Instant) -> bool {
        self.last_packet.is_some_and(|last| now.saturating_duration_since(last) < LIVE)
    }

    /// Counts a packet. Returns whether the layer was not live before.
    pub fn note(&mut self, bytes: usize, now: Instant) -> bool {
        let was_live = self.is_live(now);
        self.rate.add(bytes);
        self.last_packet = Some(now);
        !was_live
    }

    /// Notes that a key frame begins.
    pub fn note_key_frame(&mut self, now: Instant) {
        self.last_key_frame = Some(now);
        self.key_frames.satisfy();
    }
}

impl Subscription {
    /// Returns the numbers of a packet for this receiver, or why it does not get the packet. Until it shows anything, a lower layer
    /// will do.
    pub fn accept(&mut self, layer: usize, packet: &MediaPacket) -> Result<Rewritten, DropReason> {
        let before = self.choice.current;
        if before.is_none() && packet.is_entry_point && self.choice.target.is_some_and(|target| layer < target) {
            self.choice.current = Some(layer);
        }
        if !self.choice.admit(layer, packet.is_entry_point) {
            return Err(self.choice.refusal(layer));
        }
        if before != self.choice.current {
            self.rewriter.switch(packet);
        }
        self.rate.add(packet.payload.len());
        self.rewriter.rewrite(packet).ok_or(DropReason::Late)
    }
}

impl LayerChoice {
    /// Returns whether a packet of a layer is sent. A receiver changes to its target layer only at a packet with which it can
    /// start.
    pub fn admit(&mut self, layer: usize, is_entry_point: bool) -> bool {
        if self.current != Some(layer) {
            if self.target != Some(layer) || !is_entry_point {
                return false;
            }
            self.current = Some(layer);
        }
        true
    }

    /// Returns why a packet of a layer is not sent.
    fn refusal(&self, layer: usize) -> DropReason {
        match self.target {
            None => DropReason::NotWanted,
            Some(target) if layer == target || (self.current.is_none() && layer < target) => DropReason::AwaitsKeyFrame,
            Some(_) => DropReason::OtherLayer,
        }
    }

    /// Sets the layer that should be sent. Nothing is sent from now on without one; otherwise the current layer goes on
    /// until the target can begin.
    pub fn set_target(&mut self, target: Option<usize>) {
        self.target = target;
        if target.is_none() {
            self.current = None;
        }
    }

    /// Returns the layer of which the receiver needs a key frame.
    pub fn waits_for(&self) -> Option<usize> {
        self.target.filter(|_| self.current != self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_ordered_by_the_names_that_clients_and_encoders_use() {
        for (offered, expected) in [
            (["f", "q", "h"], ["q", "h", "f"]),
            (["h", "m", "l"], ["l", "m", "h"]),
            (["0", "1", "2"], ["2", "1", "0"]),
            (["b", "a", "c"], ["b", "a", "c"]),
        ] {
            let ordered: Vec<_> = order_rids(&offered.map(str::to_owned)).iter().map(ToString::to_string).collect();
            assert_eq!(ordered, expected);
        }
    }
}
