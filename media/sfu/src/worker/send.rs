//! Second half of a packet's path: from a packet of a layer to its track's receivers.

use std::sync::Arc;
use std::time::Instant;

use str0m::format::PayloadParams;
use str0m::media::Pt;
use str0m::rtp::{ExtensionValues, RtpWrite};

use super::Worker;
use super::codecs::negotiated;
use super::mirrors::mirror_packet;
use super::recorders::record;
use super::subscription::{AcceptedPacket, OutgoingPayload, Subscription};
use crate::adapt::DependencyDescriptor;
use crate::codec::Codec;
use crate::dropped::DropReason;
use crate::event::PeerEvent;
use crate::packet::{Incoming, Packet};
use crate::transport::{LayerKey, PeerKey, Transport};

/// Empty packets per receiver of a muted track: several, since any may be lost.
const MOST_EMPTY: u8 = 5;

impl Worker {
    /// Counts a layer's packet, and sends it to the layer's receivers.
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
        // A mirror's packets are counted, and speech is detected, where the publisher is.
        if !track.is_mirror() {
            self.outputs.count_published();
            if let Some(level) = packet.extensions.audio_level {
                track
                    .speech
                    .observe(level, media.timestamp, media.clock_rate, self.now);
            }
        }
        // Some clients send silence or black frames while muted. The counters above still see them, so the layer stays
        // live.
        if track.is_muted {
            return Err(DropReason::Muted);
        }
        // Recorders and mirrors come before receivers: their copies share the payload, and their queues never block.
        record(track, key.layer, packet, self.outputs.drops());
        mirror_packet(track, key.layer, packet, &mut self.outputs);
        let mut first_frames = Vec::new();
        for subscription in &mut track.subscriptions {
            let Some(receiver) = self.connections.get_mut(subscription.transport) else {
                continue;
            };
            let sent = send_packet(subscription, receiver, key.layer, packet);
            // An empty packet in place of the real one is counted as dropped, although something is sent.
            if let Err(reason) | Ok(SentPacket::Empty(reason)) = sent {
                self.outputs.count_drop(reason);
                receiver.record_drop(reason);
            }
            // Only marked here: `flush` drives each receiver once for all packets of a batch.
            if sent.is_ok() {
                self.connections.touch(subscription.transport);
            }
            if let Ok(SentPacket::Packet) = sent {
                self.outputs.count_forwarded();
                first_frames.extend(
                    subscription
                        .waits_since
                        .take()
                        .map(|since| (subscription.peer, since)),
                );
            }
        }
        // Emitted after the loop, which borrows the track.
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

    /// Sends an empty packet for each muted track if a participant has received none of its packets yet. Clients based
    /// on Pion, such as LiveKit's Go SDK, report a track to the application only at its first packet. Browsers drop an
    /// empty packet (RFC 6263, section 4.1).
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

/// Returns the payload type for a receiver, given the publisher's.
fn outgoing_payload(
    subscription: &mut Subscription,
    receiver: &Transport,
    from: Pt,
    incoming: Incoming,
) -> Option<OutgoingPayload> {
    // The result is the same for nearly every packet, so the last one is cached.
    if let Some((_, outgoing)) = subscription.payload.filter(|(known, _)| *known == from) {
        return outgoing;
    }
    let rtc = receiver.rtc();
    // str0m matches parameters such as H.264 profiles. They must be negotiated on this section, too.
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

/// Returns the payload format for a receiver with these parameters. A RED packet contains the payload type of its
/// blocks, so it is forwarded only to receivers that use the same one.
fn outgoing(params: PayloadParams, incoming: Incoming) -> OutgoingPayload {
    let red = params
        .red()
        .filter(|_| incoming.is_red && params.pt() == incoming.params.pt());
    OutgoingPayload {
        payload_type: red.unwrap_or(params.pt()),
        strips_red: incoming.is_red && red.is_none(),
    }
}

/// Packet that was sent to a receiver.
enum SentPacket {
    /// The packet itself, renumbered.
    Packet,
    /// An empty one in its place, for this reason.
    Empty(DropReason),
}

/// Sends a packet to a receiver, if its layer choice admits the packet.
fn send_packet(
    subscription: &mut Subscription,
    receiver: &mut Transport,
    layer: usize,
    packet: &Packet<'_>,
) -> Result<SentPacket, DropReason> {
    if !receiver.can_send() {
        // After the interruption, the receiver needs a key frame: it has missed everything in between.
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
        AcceptedPacket::Packet(numbers, is_last) => (numbers, is_last),
        AcceptedPacket::Empty(numbers, reason) => {
            let is_sent = receiver.write_empty(
                subscription.mid,
                outgoing.payload_type,
                &numbers,
                media.arrived,
                true,
            );
            return if is_sent {
                Ok(SentPacket::Empty(reason))
            } else {
                Err(reason)
            };
        }
    };
    // From here on, the number is used: a failure leaves a gap, like a packet lost in the network.
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
    // A lost audio packet would come too late, so it is not kept for retransmission.
    .nackable(!media.is_audio);
    if let Some(patch) = numbers.vp8_patch {
        write = write.vp8_patch(patch);
    }
    if receiver.write_rtp(subscription.mid, write) {
        Ok(SentPacket::Packet)
    } else {
        Err(DropReason::NoSource)
    }
}

/// Returns the header extensions to send, with this frame number.
fn outgoing_extensions(packet: &Packet<'_>, frame_number: Option<u16>) -> ExtensionValues {
    let from = &*packet.extensions;
    // Others, such as the MID, belong to one connection. str0m writes them itself.
    let mut extensions = ExtensionValues {
        audio_level: from.audio_level,
        voice_activity: from.voice_activity,
        ..ExtensionValues::default()
    };
    let Some(number) = frame_number else {
        return extensions;
    };
    // The common case: the descriptor is sent unchanged, without parsing it.
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
