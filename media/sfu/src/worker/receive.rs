//! First half of a packet's path: from the datagram to a packet of a layer.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use conclave_model::TrackSid;
use str0m::format::PayloadParams;
use str0m::media::Pt;
use str0m::net::{Protocol, Receive};
use str0m::rtp::{ExtensionValues, RtpPacket, Ssrc};
use str0m::{Event as RtcEvent, Output};

use super::Worker;
use super::connections::Datagram;
use super::tracks::{Feed, PublishedTrack};
use crate::adapt::{DependencyDescriptor, MediaPacket};
use crate::codec::{Codec, TrackMedium};
use crate::command::SourcePacket;
use crate::dropped::DropReason;
use crate::packet::{Incoming, Packet};
use crate::recorder::SenderReport;
use crate::transport::{
    BufferedPacket, LayerKey, PeerKey, Source, TrackKey, Transport, TransportKey,
};

/// Delay after which str0m is due again when it has sent a packet. Sending one takes longer, so advancing the worker's
/// clock by this much does not let it run ahead of time.
const MOMENT: Duration = Duration::from_micros(1);

/// Limit for such advances per call, so that one connection cannot starve the others.
const MOMENTS: usize = 64;

/// Maximum payload size. Clients stay below it to fit into a network's packets. A larger one would exceed str0m's own
/// limit when sent, and fail its receivers' connections.
pub const MAX_PAYLOAD_BYTES: usize = 1400;

impl Worker {
    /// Handles a datagram from a socket.
    pub fn handle_datagram(&mut self, datagram: Datagram<'_>, now: Instant) {
        self.advance_clock(now);
        let Some(key) = self.connections.by_source(datagram.source).or_else(|| {
            let handshakes = self.limits.handshakes_per_address;
            self.connections.bind_source(&datagram, handshakes)
        }) else {
            return self.record_drop(None, DropReason::Stranger);
        };
        // Only packets with data messages are buffered: their sender waits for slow receivers.
        if !self.connections.buffer(key, &datagram, self.now) {
            self.receive(key, datagram);
        }
    }

    /// Passes a datagram to its connection.
    pub(super) fn receive(&mut self, key: TransportKey, datagram: Datagram<'_>) {
        let protocol = if datagram.source.is_tcp {
            Protocol::Tcp
        } else {
            Protocol::Udp
        };
        let Ok(packet) = Receive::new(
            protocol,
            datagram.source.address,
            datagram.destination,
            datagram.contents,
        ) else {
            return self.record_drop(Some(key), DropReason::Malformed);
        };
        // A buffered packet may outlive its connection.
        let Some(transport) = self.connections.get_mut(key) else {
            return;
        };
        match transport.receive(packet, self.now) {
            Ok(()) => self.drain(key),
            Err(error) => self.fail_transport(key, &error),
        }
    }

    /// Returns whether packets from this source are expected, as it has proved to belong to a participant.
    pub fn is_bound(&self, source: Source) -> bool {
        self.connections.by_source(source).is_some()
    }

    /// Unbinds a source whose TCP connection has closed.
    pub fn forget_source(&mut self, source: Source) {
        self.connections.forget_source(source);
    }

    /// Handles one buffered packet per sender whose receivers may have caught up since the last call. Returns whether
    /// there was one.
    pub(super) fn release_packets(&mut self) -> bool {
        if self.connections.has_backlog_shrunk() {
            self.release_neighbours();
        }
        let mut has_released = false;
        // One packet each: its message may fill a receiver's backlog again, and then the sender has to wait again.
        for key in self.connections.take_buffering().into_iter().flatten() {
            let Some(packet) = self.connections.release(key) else {
                continue;
            };
            let BufferedPacket {
                source,
                destination,
                contents,
            } = &packet;
            let datagram = Datagram {
                source: *source,
                destination: *destination,
                contents,
            };
            self.receive(key, datagram);
            self.connections.keep_buffering(key);
            has_released = true;
        }
        has_released
    }

    /// Advances a changed connection's time and handles its output.
    pub(super) fn drive(&mut self, key: TransportKey) {
        let Some(transport) = self.connections.get_mut(key) else {
            return;
        };
        match transport.drive(self.now) {
            Ok(()) => self.drain(key),
            Err(error) => self.fail_transport(key, &error),
        }
    }

    /// Handles a connection's whole output. str0m sends one packet per point in time, and is due again shortly after.
    /// The clock is advanced here, while the connection's state is in the CPU's caches.
    fn drain(&mut self, key: TransportKey) {
        let (mut has_sent, mut moments) = (false, MOMENTS);
        while let Some(transport) = self.connections.get_mut(key) {
            match transport.poll() {
                Ok(Output::Timeout(due)) if has_sent && moments > 0 && due <= self.now + MOMENT => {
                    (has_sent, moments) = (false, moments - 1);
                    self.now = self.now.max(due);
                    if let Err(error) = transport.advance(self.now) {
                        return self.fail_transport(key, &error);
                    }
                }
                // The next deadline is known only now, after everything is sent. SCTP may have freed space meanwhile.
                Ok(Output::Timeout(due)) => {
                    self.connections.set_due(key, due);
                    return self.connections.send_backlog(key, self.now);
                }
                Ok(Output::Transmit(packet)) => {
                    // Media is str0m's last output at a point in time: all else comes before it, and the next packet
                    // needs another time. So the poll that would only confirm this is left out.
                    let is_drained = moments > 0 && is_media(&packet.contents);
                    self.outputs.send(packet);
                    has_sent = !is_drained;
                    if is_drained {
                        moments -= 1;
                        self.now += MOMENT;
                        if let Err(error) = transport.advance(self.now) {
                            return self.fail_transport(key, &error);
                        }
                    }
                }
                Ok(Output::Event(event)) => self.handle_rtc_event(key, event),
                Err(error) => return self.fail_transport(key, &error),
            }
        }
    }

    fn handle_rtc_event(&mut self, key: TransportKey, event: RtcEvent) {
        match event {
            RtcEvent::RtpPacket(packet) => self.forward(key, &packet),
            RtcEvent::Connected => self.handle_connected(key),
            RtcEvent::KeyframeRequest(request) => self.handle_key_frame_request(key, request.mid),
            RtcEvent::ChannelOpen(id, label) => self.open_channel(key, id, label),
            RtcEvent::ChannelData(data) => self.handle_message(key, data.id, data.data),
            RtcEvent::ChannelClose(id) => {
                if let Some(transport) = self.connections.get_mut(key) {
                    transport.close_channel(id);
                }
            }
            RtcEvent::PeerStats(stats) => {
                if let Some(transport) = self.connections.get_mut(key) {
                    transport.record_stats(stats);
                }
            }
            RtcEvent::MediaIngressStats(stats) => {
                if let Some(transport) = self.connections.get_mut(key) {
                    transport.record_ingress(&stats);
                }
            }
            RtcEvent::MediaEgressStats(stats) => {
                if let Some(transport) = self.connections.get_mut(key) {
                    transport.record_egress(&stats);
                }
            }
            RtcEvent::EgressBitrateEstimate(estimate) => self.handle_estimate(key, &estimate),
            RtcEvent::Closed => self.handle_closed(key),
            // ICE states and the like: `check_silence` judges connections by their packets.
            _ => {}
        }
    }

    /// Forwards a packet to its track's receivers, or counts why it was dropped.
    pub(super) fn forward(&mut self, from: TransportKey, packet: &RtpPacket) {
        if let Err(reason) = self.try_forward(from, packet) {
            self.record_drop(Some(from), reason);
        }
    }

    fn try_forward(&mut self, from: TransportKey, packet: &RtpPacket) -> Result<(), DropReason> {
        let descriptor = packet
            .header
            .ext_vals
            .user_values
            .get::<DependencyDescriptor>();
        // The dependency descriptor is a header extension, which str0m's limit includes.
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
        let publisher = self.connections.get(from).ok_or(DropReason::Unclaimed)?;
        let payload_type = packet.header.payload_type;
        let incoming =
            incoming_payload(track, publisher, payload_type).ok_or(DropReason::OtherCodec)?;
        // All receivers share this: layer, key frame and frame number are parsed once.
        let mut media = MediaPacket::new(packet, track.codec, incoming.is_red);
        track.record_stream(key.layer, &media);
        let is_layered = track.is_layered();
        // With several layers in one stream, the SSRC does not identify the layer: the packet does.
        if is_layered {
            key.layer = track.read_layer(&mut media, descriptor, self.now);
        }
        // Receivers of the other codecs need this number: without it, they stop at each gap in the sequence
        // numbers, even if only padding was left out.
        if is_layered || !track.codec.numbers_frames() {
            media.frame_number = descriptor.and_then(DependencyDescriptor::frame_number);
        }
        let extensions = Cow::Borrowed(&packet.header.ext_vals);
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

    /// Returns an SSRC's track and layer, from the cache or by its section.
    fn layer_of_source(&mut self, from: TransportKey, ssrc: Ssrc) -> Option<LayerKey> {
        let transport = self.connections.get_mut(from)?;
        transport.count_received();
        if let Some(known) = transport.known_layer(ssrc) {
            return known;
        }
        // The first packets of a stream have a MID and perhaps a RID extension; str0m remembers them by SSRC.
        let (mid, rid) = transport.section_of(ssrc)?;
        let track = transport
            .track_on(mid)
            .and_then(|key| Some((key, self.tracks.get(key)?)));
        let found = track.and_then(|(key, track)| {
            Some(LayerKey {
                track: key,
                layer: track.layer_of(rid)?,
            })
        });
        // A failed look-up is cached as well, so that an unknown stream costs little. Changes of the sections clear the
        // cache.
        transport.remember_layer(ssrc, found);
        if track.is_some_and(|(_, track)| track.medium() == TrackMedium::Video) {
            transport.expect_repairs(ssrc);
        }
        found
    }

    /// Counts a dropped packet, also for its connection if there is one.
    pub(super) fn record_drop(&mut self, of: Option<TransportKey>, reason: DropReason) {
        self.outputs.count_drop(reason);
        if let Some(transport) = of.and_then(|key| self.connections.get_mut(key)) {
            transport.record_drop(reason);
        }
    }

    /// Forwards packets from a participant without a connection.
    pub(super) fn forward_source(
        &mut self,
        key: PeerKey,
        sid: &TrackSid,
        packets: Vec<SourcePacket>,
    ) {
        if !self
            .roster
            .get(key)
            .is_some_and(|peer| peer.is_source() && !peer.has_failed)
        {
            return;
        }
        let track = self.track_of(key, sid);
        for packet in packets {
            let forwarded = track
                .ok_or(DropReason::Unclaimed)
                .and_then(|track| self.forward_captured(track, packet));
            if let Err(reason) = forwarded {
                self.record_drop(None, reason);
            }
        }
    }

    fn forward_captured(&mut self, key: TrackKey, packet: SourcePacket) -> Result<(), DropReason> {
        let SourcePacket {
            timestamp,
            captured,
            payload,
            is_last,
        } = packet;
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(DropReason::TooLarge);
        }
        let track = self.tracks.get_mut(key).ok_or(DropReason::Unclaimed)?;
        let Some((payload_type, Some(incoming))) = track.payload else {
            return Err(DropReason::OtherCodec);
        };
        let Feed::Source { sequence } = &mut track.feed else {
            return Err(DropReason::Unclaimed);
        };
        // The sender does not number its packets: each one follows the last.
        *sequence += 1;
        let media = MediaPacket::from_payload(
            track.codec,
            payload,
            *sequence,
            timestamp,
            captured.min(self.now),
        );
        let extensions = Cow::Owned(ExtensionValues::default());
        // Such a publisher sends neither header extensions nor layers.
        let packet = Packet {
            media,
            incoming,
            payload_type,
            is_last,
            is_layered: false,
            extensions,
            report: None,
        };
        self.distribute(
            LayerKey {
                track: key,
                layer: 0,
            },
            &packet,
        )
    }
}

/// Returns whether a packet to a client is RTP rather than STUN, DTLS or RTCP (RFC 7983 and RFC 5761).
pub(super) fn is_media(contents: &[u8]) -> bool {
    matches!(contents, [128..=191, second, ..] if !(192..=223).contains(second))
}

/// Returns the codec of the publisher's payload type; `None` if it differs from the track's codec.
fn incoming_payload(
    track: &mut PublishedTrack,
    publisher: &Transport,
    payload_type: Pt,
) -> Option<Incoming> {
    // A publisher rarely changes its payload type, so the last one is remembered.
    if let Some((_, incoming)) = track.payload.filter(|(known, _)| *known == payload_type) {
        return incoming;
    }
    let is_named =
        // RED has a payload type of its own, which belongs to the codec inside.
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
