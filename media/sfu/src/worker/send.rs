//! From a publisher to its subscribers. This is the path of every packet.

use std::sync::Arc;

use str0m::format::PayloadParams;
use str0m::media::{Mid, Pt};
use str0m::rtp::{ExtensionValues, RtpPacket, RtpWrite, Ssrc};

use super::packet::{Incoming, Packet};
use super::recorders::record;
use super::subscription::{Outgoing, Passed, Subscription};
use super::tracks::PublishedTrack;
use super::{Worker, touch};
use crate::adapt::{DependencyDescriptor, MediaPacket};
use crate::dropped::DropReason;
use crate::event::PeerEvent;
use crate::recorder::SenderReport;
use crate::track::{Codec, TrackMedium};
use crate::transport::{LayerKey, PeerKey, TrackKey, Transport, TransportKey};

/// The largest payload that is forwarded. Clients stay below, to fit into the packets of a network; a larger one would not
/// fit into what str0m sends, and fail the connections of its receivers.
pub const MAX_PAYLOAD_BYTES: usize = 1400;

impl Worker {
    /// Forwards a packet to all who receive its track.
    pub(super) fn forward(&mut self, from: TransportKey, packet: &RtpPacket) {
        if let Err(reason) = self.try_forward(from, packet) {
            self.note_drop(Some(from), reason);
        }
    }

    fn try_forward(&mut self, from: TransportKey, packet: &RtpPacket) -> Result<(), DropReason> {
        let descriptor = packet
            .header
            .ext_vals
            .user_values
            .get::<DependencyDescriptor>();
        if packet.payload.len() + descriptor.map_or(0, |descriptor| descriptor.0.len())
            > MAX_PAYLOAD_BYTES
        {
            return Err(DropReason::TooLarge);
        }
        let mut key = self
            .layer_of_source(from, packet.header.ssrc)
            .ok_or(DropReason::Unclaimed)?;
        let track = self
            .tracks
            .get_mut(key.track)
            .ok_or(DropReason::Unclaimed)?;
        let publisher = self.transports.get(from).ok_or(DropReason::Unclaimed)?;
        let payload_type = packet.header.payload_type;
        let incoming =
            incoming_payload(track, publisher, payload_type).ok_or(DropReason::OtherCodec)?;
        let mut media = MediaPacket::new(packet, track.codec, incoming.is_red);
        track.note_stream(key.layer, &media);
        let is_layered = track.is_layered();
        if is_layered {
            key.layer = track.read_layer(&mut media, descriptor, self.now);
        }
        if is_layered || !track.codec.numbers_pictures() {
            media.frame_number = descriptor.and_then(DependencyDescriptor::frame_number);
        }
        let extensions = &packet.header.ext_vals;
        let is_last = packet.header.marker;
        let report = packet.last_sender_info.as_ref().map(SenderReport::from);
        self.distribute(
            key,
            &Packet {
                media,
                incoming,
                payload_type,
                is_last,
                is_layered,
                extensions,
                report,
            },
        )
    }

    /// Counts a packet that is not forwarded, of a connection if it has one.
    pub(super) fn note_drop(&mut self, of: Option<TransportKey>, reason: DropReason) {
        self.counters.dropped.count(reason);
        if let Some(transport) = of.and_then(|key| self.transports.get_mut(key)) {
            transport.dropped.count(reason);
        }
    }

    /// Counts a packet of a layer, and sends it to all who receive that.
    pub(super) fn distribute(
        &mut self,
        key: LayerKey,
        packet: &Packet<'_>,
    ) -> Result<(), DropReason> {
        let track = self
            .tracks
            .get_mut(key.track)
            .ok_or(DropReason::Unclaimed)?;
        let layer = track
            .layers
            .get_mut(key.layer)
            .ok_or(DropReason::Unclaimed)?;
        let media = &packet.media;
        if layer.note(media, self.now) {
            self.revived.push(key.track);
        }
        if media.is_entry_point && !media.is_audio {
            let layer = track.key_frame_layer(key.layer);
            track
                .layers
                .get_mut(layer)
                .ok_or(DropReason::Unclaimed)?
                .note_key_frame(self.now);
        }
        self.counters.published_packets += 1;
        if let Some(level) = packet.extensions.audio_level {
            track
                .speech
                .observe(level, media.timestamp, media.clock_rate, self.now);
        }
        if track.is_muted {
            return Err(DropReason::Muted);
        }
        record(track, key.layer, packet, &mut self.counters.dropped);
        let mut first_frames = Vec::new();
        for subscription in &mut track.subscriptions {
            let Some(receiver) = self.transports.get_mut(subscription.transport) else {
                continue;
            };
            let sent = pass_on(subscription, receiver, key.layer, packet);
            if let Err(reason) | Ok(Sent::Empty(reason)) = sent {
                self.counters.dropped.count(reason);
                receiver.dropped.count(reason);
            }
            if sent.is_ok() {
                touch(
                    &mut self.transports,
                    &mut self.touched,
                    subscription.transport,
                );
            }
            if let Ok(Sent::Packet) = sent {
                self.counters.forwarded_packets += 1;
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

    /// Returns the track and layer of a source, from the cache or from its section.
    fn layer_of_source(&mut self, from: TransportKey, ssrc: Ssrc) -> Option<LayerKey> {
        let transport = self.transports.get_mut(from)?;
        if let Some(known) = transport.layers.get(&ssrc) {
            return *known;
        }
        let (mid, rid) = transport.section_of(ssrc)?;
        let track = transport
            .published
            .get(&mid)
            .and_then(|key| Some((*key, self.tracks.get(*key)?)));
        let found = track.and_then(|(key, track)| {
            Some(LayerKey {
                track: key,
                layer: track.layer_of(rid)?,
            })
        });
        transport.layers.insert(ssrc, found);
        if track.is_some_and(|(_, track)| track.medium() == TrackMedium::Video) {
            transport.expect_repairs(ssrc);
        }
        found
    }

    /// Handles a receiver's request for a key frame on one of its sections.
    pub(super) fn handle_key_frame_request(&mut self, key: TransportKey, mid: Mid) {
        let Some(transport) = self.transports.get(key) else {
            return;
        };
        let Some(peer) = self.peers.get(transport.peer) else {
            return;
        };
        let section = peer
            .sections
            .iter()
            .find(|section| section.mid == Some(mid));
        let Some(track_key) = section.and_then(|section| section.sent) else {
            return;
        };
        let peer = transport.peer;
        let Some(track) = self.tracks.get_mut(track_key) else {
            return;
        };
        let layer = track
            .subscription_of(peer)
            .and_then(|subscription| subscription.choice.current.or(subscription.choice.target));
        let layer = layer.map(|layer| track.key_frame_layer(layer));
        if let Some(layer) = layer.and_then(|layer| track.layers.get_mut(layer)) {
            layer.key_frames.want();
        }
        self.send_key_frame_requests(track_key);
    }

    /// Requests the key frames that receivers of a track wait for.
    pub(super) fn request_key_frames(&mut self, key: TrackKey) {
        let Some(track) = self.tracks.get_mut(key) else {
            return;
        };
        if track.medium() == TrackMedium::Audio || track.is_muted {
            return;
        }
        let (start, is_layered) = (track.starting_layer(self.now), track.is_layered());
        let waiting = track
            .choices()
            .filter_map(|choice| choice.waits_for(is_layered));
        let waited_for: Vec<_> = waiting.chain(start).collect();
        for layer in waited_for {
            let layer = track.key_frame_layer(layer);
            if let Some(layer) = track.layers.get_mut(layer) {
                layer.key_frames.want();
            }
        }
        self.send_key_frame_requests(key);
    }

    /// Requests the key frames that a participant waits for.
    pub(super) fn request_key_frames_of(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get(key) else {
            return;
        };
        let tracks: Vec<_> = peer
            .sections
            .iter()
            .filter_map(|section| section.sent)
            .collect();
        for track in tracks {
            self.request_key_frames(track);
        }
    }

    /// Sends the requests of a track that are wanted and not too early.
    fn send_key_frame_requests(&mut self, key: TrackKey) {
        let Some(track) = self.tracks.get_mut(key) else {
            return;
        };
        let Some(publisher) = self.transports.get_mut(track.transport) else {
            return;
        };
        let mut was_sent = false;
        for layer in track
            .layers
            .iter_mut()
            .filter(|layer| layer.key_frames.is_due(self.now))
        {
            // A layer that has not sent yet begins with a key frame.
            if !publisher.request_key_frame(track.mid, layer.rid) {
                continue;
            }
            layer.key_frames.note_sent(self.now);
            self.counters.key_frame_requests += 1;
            was_sent = true;
        }
        if was_sent {
            touch(&mut self.transports, &mut self.touched, track.transport);
        }
    }
}

/// Returns what a payload type of the publisher stands for; `None` if its codec is not that of the track.
fn incoming_payload(
    track: &mut PublishedTrack,
    publisher: &Transport,
    payload_type: Pt,
) -> Option<Incoming> {
    if let Some((_, incoming)) = track.payload.filter(|(known, _)| *known == payload_type) {
        return incoming;
    }
    let is_named =
        |params: &&PayloadParams| params.pt() == payload_type || params.red() == Some(payload_type);
    let found = publisher
        .rtc()
        .codec_config()
        .params()
        .iter()
        .find(is_named)
        .copied();
    let params = found.filter(|params| Codec::from_rtc(params.spec().codec) == Some(track.codec));
    let incoming = params.map(|params| Incoming {
        params,
        is_red: params.pt() != payload_type,
    });
    track.payload = Some((payload_type, incoming));
    incoming
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
    let from = packet.extensions;
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
