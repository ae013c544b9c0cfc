//! One subscriber's share in a track: layer choice and renumbering.

use std::time::Instant;

use str0m::media::{Mid, Pt};

use crate::adapt::{LayerFilter, LayerLimit, LayeredPacket, MediaPacket, Rewriter, Rewritten};
use crate::dropped::DropReason;
use crate::measure::{FrameMeter, RateMeter};
use crate::packet::Packet;
use crate::transport::{PeerKey, TransportKey};

/// Layer choice for a receiver.
#[derive(Debug, Clone, Copy, Default)]
pub struct LayerChoice {
    /// Layer being sent.
    pub current: Option<usize>,
    /// Layer that should be sent.
    pub target: Option<usize>,
    /// Highest temporal layer that should be sent; `None` for all.
    pub temporal: Option<u8>,
    /// Packet filter for a stream with layers.
    filter: LayerFilter,
}

/// Track being sent to one subscriber.
pub struct Subscription {
    /// Subscriber.
    pub peer: PeerKey,
    /// The subscriber's connection.
    pub transport: TransportKey,
    /// Section on this connection.
    pub mid: Mid,
    /// Numbering of the outgoing packets.
    pub rewriter: Rewriter,
    pub choice: LayerChoice,
    /// Payload format for the publisher's last payload type; `None` inside if the receiver has not negotiated it.
    pub payload: Option<(Pt, Option<OutgoingPayload>)>,
    /// Outgoing packets and bitrate.
    pub rate: RateMeter,
    /// Outgoing video frames.
    pub frames: FrameMeter,
    /// Changes of the layer since the last sample of the receiver's quality.
    pub switches: u32,
    /// Whether the video is paused for lack of bandwidth.
    pub is_paused: bool,
    /// Number of empty packets sent while the track was muted.
    pub empty_packets: u8,
    /// Time since which the receiver has waited for the first frame; `None` once it is sent, or if it is not measured.
    pub waits_since: Option<Instant>,
}

/// Outcome of a packet for a receiver.
pub enum AcceptedPacket {
    /// The packet with these numbers, and whether it ends a video frame.
    Packet(Rewritten, bool),
    /// An empty packet with these numbers. The packet itself is left out for this reason, but it came too late to close
    /// the gap in the sequence numbers, and some clients stop at a gap.
    Empty(Rewritten, DropReason),
}

/// Payload format for a receiver.
#[derive(Debug, Clone, Copy)]
pub struct OutgoingPayload {
    /// The receiver's payload type.
    pub payload_type: Pt,
    /// Whether redundancy (RED) is removed.
    pub strips_red: bool,
}

impl Subscription {
    /// Continues the stream with the track in another codec, from the next packet with which the receiver can start.
    pub fn in_another_codec(self) -> Self {
        // The rewriter stays: SSRC and numbering continue, as the section does.
        Self {
            payload: None,
            choice: LayerChoice::default(),
            ..self
        }
    }

    /// Returns what this receiver gets for a packet, or the reason for nothing.
    pub fn accept(
        &mut self,
        layer: usize,
        packet: &Packet<'_>,
    ) -> Result<AcceptedPacket, DropReason> {
        // A layered stream may start with packets that name no layer. They are filtered as a whole.
        if packet.is_layered && (packet.media.layer.is_some() || self.choice.current.is_some()) {
            return self.accept_layered(layer, packet);
        }
        self.accept_whole(layer, packet)
    }

    /// Accepts a packet from a stream with layers. A packet that names no layer is sent along with the others.
    fn accept_layered(
        &mut self,
        layer: usize,
        packet: &Packet<'_>,
    ) -> Result<AcceptedPacket, DropReason> {
        let (media, before) = (&packet.media, self.choice.current);
        let ends_frame = match media.layered() {
            Some(layered) => self.choice.admit_layered(&layered),
            None => Some(false),
        };
        let Some(ends_frame) = ends_frame else {
            // Closes the gap in sequence numbers: a left-out layer must not look like a loss.
            return self.skip(media, self.choice.refusal(layer));
        };
        if before.is_none() {
            self.rewriter.switch(media);
        }
        self.record_layer(before);
        self.accept_current(media, packet.is_last || ends_frame)
    }

    /// Accepts a packet from a stream with a single spatial layer. Until the receiver shows anything, a lower layer is
    /// welcome.
    fn accept_whole(
        &mut self,
        layer: usize,
        packet: &Packet<'_>,
    ) -> Result<AcceptedPacket, DropReason> {
        let (media, before) = (&packet.media, self.choice.current);
        // The first frame appears sooner: the target's key frame may be a second away.
        if before.is_none()
            && media.is_entry_point
            && self.choice.target.is_some_and(|target| layer < target)
        {
            self.choice.current = Some(layer);
        }
        if !self.choice.admit(layer, media.is_entry_point) {
            // No gap to close: another layer's packets are numbered independently.
            return Err(self.choice.refusal(layer));
        }
        if before != self.choice.current {
            self.rewriter.switch(media);
            // The new layer names its temporal layers with its own key frame.
            self.choice.filter.stop();
        }
        self.record_layer(before);
        if !self.choice.admit_temporal(media) {
            return self.skip(media, DropReason::OtherLayer);
        }
        self.accept_current(media, packet.is_last)
    }

    /// Records whether an accepted packet changes the layer, or follows a pause: the video was muted, hidden or paused.
    fn record_layer(&mut self, before: Option<usize>) {
        match before {
            None => self.frames.pause(),
            Some(_) if before != self.choice.current => {
                self.switches = self.switches.saturating_add(1);
            }
            Some(_) => {}
        }
    }

    /// Sends a packet from the current source, or leaves it out if it is padding.
    fn accept_current(
        &mut self,
        packet: &MediaPacket,
        is_last: bool,
    ) -> Result<AcceptedPacket, DropReason> {
        if packet.is_padding() {
            return self.skip(packet, DropReason::Padding);
        }
        self.rate.add(packet.payload.len());
        let numbers = self.rewriter.rewrite(packet).ok_or(DropReason::Late)?;
        if !packet.is_audio {
            // By the rewritten timestamp, which is continuous across layers.
            self.frames.observe(numbers.timestamp, packet.arrived);
        }
        Ok(AcceptedPacket::Packet(numbers, is_last))
    }

    /// Leaves out a packet from the current source for this reason.
    fn skip(
        &mut self,
        packet: &MediaPacket,
        reason: DropReason,
    ) -> Result<AcceptedPacket, DropReason> {
        self.rewriter
            .skip(packet)
            .map(|numbers| AcceptedPacket::Empty(numbers, reason))
            .ok_or(reason)
    }
}

impl LayerChoice {
    /// Returns whether a layer's packet is sent. Switching to the target layer needs a packet with which a receiver can
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

    /// Returns whether a packet from a stream with layers is sent; if so, whether it ends the frame.
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

    /// Returns whether a packet's temporal layer is sent. An encoder may start to name layers between two key frames:
    /// until the next one, all are sent.
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

    /// Returns the reason why a layer's packet is not sent.
    fn refusal(&self, layer: usize) -> DropReason {
        match self.target {
            None => DropReason::NotWanted,
            // Before the first frame, a lower layer is as good, so it lacks only a key frame as well.
            Some(target) if layer == target || (self.current.is_none() && layer < target) => {
                DropReason::AwaitsKeyFrame
            }
            Some(_) => DropReason::OtherLayer,
        }
    }

    /// Sets the target layer. With `None`, sending stops immediately; otherwise the current layer continues until the
    /// target can start.
    pub fn set_target(&mut self, target: Option<usize>) {
        self.target = target;
        // The receiver starts again with a key frame, since it misses everything until then.
        if target.is_none() {
            self.current = None;
        }
    }

    /// Returns the layer that needs a key frame. A stream with layers mostly needs none to reduce them.
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
