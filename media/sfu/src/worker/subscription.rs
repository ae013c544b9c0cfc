//! A track on its way to one subscriber, and the layer that a receiver gets.

use std::time::Instant;

use str0m::media::{Mid, Pt};

use crate::adapt::{LayerFilter, LayerLimit, LayeredPacket, MediaPacket, Rewriter, Rewritten};
use crate::dropped::DropReason;
use crate::measure::RateMeter;
use crate::packet::Packet;
use crate::transport::{PeerKey, TransportKey};

/// Which layer of a track a receiver gets.
#[derive(Debug, Clone, Copy, Default)]
pub struct LayerChoice {
    /// The layer that is sent now.
    pub current: Option<usize>,
    /// The layer that should be sent.
    pub target: Option<usize>,
    /// The best temporal layer that should be sent; `None` for all.
    pub temporal: Option<u8>,
    /// Chooses the packets of a stream with layers.
    filter: LayerFilter,
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

/// What a receiver gets of a packet.
pub enum Passed {
    /// The packet with these numbers, and whether it is the last one of its picture.
    Packet(Rewritten, bool),
    /// An empty one with these numbers. For this reason it does not get the packet itself, which came too late to leave no gap; some
    /// clients show nothing behind a gap.
    Empty(Rewritten, DropReason),
}

/// How a receiver gets packets of one payload type of the publisher.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing {
    /// The receiver's payload type.
    pub payload_type: Pt,
    /// Whether the redundancy is taken out.
    pub strips_red: bool,
}

impl Subscription {
    /// Continues the stream with the track in another codec, at the next packet with which the receiver can start.
    pub fn in_another_codec(self) -> Self {
        Self {
            payload: None,
            choice: LayerChoice::default(),
            ..self
        }
    }

    /// Returns what this receiver gets of a packet, or why nothing.
    pub fn accept(&mut self, layer: usize, packet: &Packet<'_>) -> Result<Passed, DropReason> {
        if packet.is_layered && (packet.media.layer.is_some() || self.choice.current.is_some()) {
            return self.accept_layered(layer, packet);
        }
        self.accept_whole(layer, packet)
    }

    /// Accepts a packet of a stream with layers. One that names no layer is sent with whatever else is.
    fn accept_layered(&mut self, layer: usize, packet: &Packet<'_>) -> Result<Passed, DropReason> {
        let (media, before) = (&packet.media, self.choice.current);
        let ends_picture = match media.layered() {
            Some(layered) => self.choice.admit_layered(&layered),
            None => Some(false),
        };
        let Some(ends_picture) = ends_picture else {
            return self.skip(media, self.choice.refusal(layer));
        };
        if before.is_none() {
            self.rewriter.switch(media);
        }
        self.pass(media, packet.is_last || ends_picture)
    }

    /// Accepts a packet of a stream of its own. Until the receiver shows anything, a lower layer will do.
    fn accept_whole(&mut self, layer: usize, packet: &Packet<'_>) -> Result<Passed, DropReason> {
        let (media, before) = (&packet.media, self.choice.current);
        if before.is_none()
            && media.is_entry_point
            && self.choice.target.is_some_and(|target| layer < target)
        {
            self.choice.current = Some(layer);
        }
        if !self.choice.admit(layer, media.is_entry_point) {
            return Err(self.choice.refusal(layer));
        }
        if before != self.choice.current {
            self.rewriter.switch(media);
            self.choice.filter.stop();
        }
        if !self.choice.admit_temporal(media) {
            return self.skip(media, DropReason::OtherLayer);
        }
        self.pass(media, packet.is_last)
    }

    /// Passes on a packet of the source that is sent, or leaves it out if it is padding.
    fn pass(&mut self, packet: &MediaPacket, is_last: bool) -> Result<Passed, DropReason> {
        if packet.is_padding() {
            return self.skip(packet, DropReason::Padding);
        }
        self.rate.add(packet.payload.len());
        let numbers = self.rewriter.rewrite(packet).ok_or(DropReason::Late)?;
        Ok(Passed::Packet(numbers, is_last))
    }

    /// Leaves out a packet of the source that is sent, for a reason.
    fn skip(&mut self, packet: &MediaPacket, reason: DropReason) -> Result<Passed, DropReason> {
        self.rewriter
            .skip(packet)
            .map(|numbers| Passed::Empty(numbers, reason))
            .ok_or(reason)
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

    /// Returns whether a packet of a stream with layers is sent, and is the last one of its picture then.
    pub fn admit_layered(&mut self, packet: &LayeredPacket) -> Option<bool> {
        if self.current.is_none() {
            self.filter.stop();
        }
        let target = self.target.and_then(|target| u8::try_from(target).ok())?;
        let sent = self.filter.admit(
            packet,
            LayerLimit {
                spatial: target,
                temporal: self.temporal.unwrap_or(u8::MAX),
            },
        );
        self.current = self.filter.current().map(|current| current.spatial.into());
        sent
    }

    /// Returns whether the temporal layer of a packet of a stream of its own is sent. An encoder can begin to name layers between two
    /// key frames: until the next one, all are sent.
    fn admit_temporal(&mut self, packet: &MediaPacket) -> bool {
        let Some(layered) = packet.layered() else {
            return true;
        };
        if !layered.is_key && self.filter.current().is_none() {
            return true;
        }
        let limit = LayerLimit {
            spatial: u8::MAX,
            temporal: self.temporal.unwrap_or(u8::MAX),
        };
        self.filter.admit(&layered, limit).is_some()
    }

    /// Returns why a packet of a layer is not sent.
    fn refusal(&self, layer: usize) -> DropReason {
        match self.target {
            None => DropReason::NotWanted,
            Some(target) if layer == target || (self.current.is_none() && layer < target) => {
                DropReason::AwaitsKeyFrame
            }
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

    /// Returns the layer of which the receiver needs a key frame. To get less of a stream with layers, it mostly needs none.
    pub fn waits_for(&self, is_layered: bool) -> Option<usize> {
        let lacks =
            |target: &usize| u8::try_from(*target).is_ok_and(|target| self.filter.lacks(target));
        let waits = |target: &usize| {
            if is_layered {
                self.current < Some(*target) || lacks(target)
            } else {
                self.current != self.target
            }
        };
        self.target.filter(waits)
    }
}
