//! From a packet of a layer to the receivers of its track: this is the second half of every packet's path.

use std::sync::Arc;
use std::time::Instant;

use str0m::format::PayloadParams;
use str0m::media::Pt;
use str0m::rtp::{ExtensionValues, RtpWrite};

use super::Worker;
use super::codecs::negotiated;
use super::mirrors::cross;
use super::recorders::record;
use super::subscription::{Outgoing, Passed, Subscription};
use crate::adapt::DependencyDescriptor;
use crate::codec::Codec;
use crate::dropped::DropReason;
use crate::event::PeerEvent;
use crate::packet::{Incoming, Packet};
use crate::transport::{LayerKey, PeerKey, Transport};

/// The most empty packets of a muted track to one receiver: more than one, since any can be lost.
const MOST_EMPTY: u8 = 5;

impl Worker {
    /// Counts a packet of a layer, and sends it to all who receive that.
    pub(super) fn distribute(
        &mut self,
        key: LayerKey,
        packet: &Packet<'_>,
    ) -> Result<(), DropReason> {
        let media = &packet.media;
        let track = self
            .tracks
            .receive(key, media, self.now)
            .ok_or(DropReason::Unclaimed)?;
        if !track.is_mirror() {
            self.outputs.count_published();
            if let Some(level) = packet.extensions.audio_level {
                track
                    .speech
                    .observe(level, media.timestamp, media.clock_rate, self.now);
            }
        }
        if track.is_muted {
            return Err(DropReason::Muted);
        }
        record(track, key.layer, packet, self.outputs.drops());
        cross(track, key.layer, packet, &mut self.outputs);
        let mut first_frames = Vec::new();
        for subscription in &mut track.subscriptions {
            let Some(receiver) = self.connections.get_mut(subscription.transport) else {
                continue;
            };
            let sent = pass_on(subscription, receiver, key.layer, packet);
            if let Err(reason) | Ok(Sent::Empty(reason)) = sent {
                self.outputs.count_drop(reason);
                receiver.record_drop(reason);
            }
            if sent.is_ok() {
                self.connections.touch(subscription.transport);
            }
            if let Ok(Sent::Packet) = sent {
                self.outputs.count_forwarded();
                first_frames.extend(
                    subscription
                        .waits_since
                        .take()
                        .map(|since| (subscription.peer, since)),
                );
            }
        }
        for (peer, since) in first_frames {
            self.emit(
                peer,
                PeerEvent::FirstFrame {
                    after: self.now.saturating_duration_since(since),
                },
            );
        }
        Ok(())
    }

    /// Sends an empty packet of each muted track that a participant receives, if nothing of it was sent to it yet. Clients that
    /// use Pion, as LiveKit's SDK for Go, tell their application of a track only at its first packet. Browsers drop an empty
    /// packet (RFC 6263, section 4.1).
    pub(super) fn introduce_muted(&mut self, key: PeerKey) {
        let Some(peer) = self.roster.get(key) else {
            return;
        };
        for track in peer.sections.sent() {
            let Some(track) = self.tracks.get_mut(track).filter(|track| track.is_muted) else {
                continue;
            };
            let codec = track.codec;
            let is_new = |subscription: &&mut Subscription| {
                subscription.rate.packets == 0 && subscription.empty_packets < MOST_EMPTY
            };
            let Some(subscription) = track.subscription_of(key).filter(is_new) else {
                continue;
            };
            let receiver = self
                .connections
                .get_mut(subscription.transport)
                .filter(|receiver| receiver.can_send());
            let Some(receiver) = receiver else { continue };
            send_empty(receiver, subscription, codec, self.now);
            self.connections.touch(subscription.transport);
        }
    }
}

/// Returns how a receiver gets packets of a payload type of the publisher.
fn outgoing_payload(
    subscription: &mut Subscription,
    receiver: &Transport,
    from: Pt,
    incoming: Incoming,
) -> Option<Outgoing> {
    if let Some((_, outgoing)) = subscription.payload.filter(|(known, _)| *known == from) {
        return outgoing;
    }
    let rtc = receiver.rtc();
    let matched = rtc.codec_config().match_params(incoming.params).copied();
    let is_negotiated = |pt: &Pt| {
        rtc.media(subscription.mid)
            .is_some_and(|media| media.remote_pts().contains(pt))
    };
    let outgoing = matched
        .filter(|params| is_negotiated(&params.pt()))
        .map(|params| outgoing(params, incoming));
    subscription.payload = Some((from, outgoing));
    outgoing
}

/// Returns how packets go to a receiver with these parameters. Redundancy names the payload type of what is in it, so it is
/// passed on only to those who use the same.
fn outgoing(params: PayloadParams, incoming: Incoming) -> Outgoing {
    let red = params
        .red()
        .filter(|_| incoming.is_red && params.pt() == incoming.params.pt());
    Outgoing {
        payload_type: red.unwrap_or(params.pt()),
        strips_red: incoming.is_red && red.is_none(),
    }
}

/// What was sent to a receiver.
enum Sent {
    /// The packet itself, with the receiver's numbers.
    Packet,
    /// An empty one in its place, for this reason.
    Empty(DropReason),
}

/// Sends a packet to a receiver of its track, if that gets it.
fn pass_on(
    subscription: &mut Subscription,
    receiver: &mut Transport,
    layer: usize,
    packet: &Packet<'_>,
) -> Result<Sent, DropReason> {
    if !receiver.can_send() {
        subscription.choice.current = None;
        return Err(DropReason::NotConnected);
    }
    let media = &packet.media;
    let outgoing = outgoing_payload(subscription, receiver, packet.payload_type, packet.incoming);
    let outgoing = outgoing.ok_or(DropReason::NotNegotiated)?;
    let payload = if outgoing.strips_red {
        media.primary.as_ref()
    } else {
        Some(&media.payload)
    };
    let payload = payload.ok_or(DropReason::MalformedRedundancy)?;
    let (numbers, is_last) = match subscription.accept(layer, packet)? {
        Passed::Packet(numbers, is_last) => (numbers, is_last),
        Passed::Empty(numbers, reason) => {
            let is_sent = receiver.write_empty(
                subscription.mid,
                outgoing.payload_type,
                &numbers,
                media.arrived,
                true,
            );
            return if is_sent {
                Ok(Sent::Empty(reason))
            } else {
                Err(reason)
            };
        }
    };
    let sequence = numbers.sequence.into();
    let payload_type = outgoing.payload_type;
    let mut write = RtpWrite::new(
        payload_type,
        sequence,
        numbers.timestamp,
        media.arrived,
        Arc::clone(payload),
    )
    .marker(is_last)
    .ext_vals(outgoing_extensions(packet, numbers.frame_number))
    .nackable(!media.is_audio);
    if let Some(patch) = numbers.vp8_patch {
        write = write.vp8_patch(patch);
    }
    if receiver.write_rtp(subscription.mid, write) {
        Ok(Sent::Packet)
    } else {
        Err(DropReason::NoSource)
    }
}

/// Returns the header extensions with which a packet is sent, its frame with this number.
fn outgoing_extensions(packet: &Packet<'_>, frame_number: Option<u16>) -> ExtensionValues {
    let from = &*packet.extensions;
    let mut extensions = ExtensionValues {
        audio_level: from.audio_level,
        voice_activity: from.voice_activity,
        ..ExtensionValues::default()
    };
    let Some(number) = frame_number else {
        return extensions;
    };
    if packet.media.frame_number == Some(number) {
        extensions.user_values = from.user_values.clone();
    } else if let Some(descriptor) = from.user_values.get::<DependencyDescriptor>() {
        extensions
            .user_values
            .set(descriptor.with_frame_number(number));
    }
    extensions
}

fn send_empty(
    receiver: &mut Transport,
    subscription: &mut Subscription,
    codec: Codec,
    now: Instant,
) {
    let Some(params) = negotiated(receiver, subscription.mid, codec) else {
        return;
    };
    let numbers = subscription.rewriter.insert(now, codec.clock_rate());
    subscription.empty_packets += 1;
    receiver.write_empty(subscription.mid, params.pt(), &numbers, now, false);
}
