//! From a datagram to a packet of a layer: this is the first half of every packet's path.

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

/// After which time str0m is due again when it has sent a packet. Handling one takes longer, so that the clock of the worker does
/// not run ahead.
const MOMENT: Duration = Duration::from_micros(1);

/// How many moments pass for a connection before others have their turn.
const MOMENTS: usize = 64;

/// The largest payload that is forwarded. Clients stay below, to fit into the packets of a network; a larger one would not
/// fit into what str0m sends, and fail the connections of its receivers.
pub const MAX_PAYLOAD_BYTES: usize = 1400;

impl Worker {
    /// Handles a datagram.
    pub fn handle_datagram(&mut self, datagram: Datagram<'_>, now: Instant) {
        self.advance_clock(now);
        let Some(key) = self.connections.by_source(datagram.source).or_else(|| {
            let handshakes = self.limits.handshakes_per_address;
            self.connections.bind_source(&datagram, handshakes)
        }) else {
            return self.note_drop(None, DropReason::Stranger);
        };
        if !self.connections.hold(key, &datagram, self.now) {
            self.receive(key, datagram);
        }
    }

    /// Hands a datagram to the connection that it belongs to.
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
            return self.note_drop(Some(key), DropReason::Malformed);
        };
        let Some(transport) = self.connections.get_mut(key) else {
            return;
        };
        match transport.receive(packet, self.now) {
            Ok(()) => self.drain(key),
            Err(error) => self.fail_transport(key, &error),
        }
    }

    /// Returns whether packets of this source are expected: it has proved that it belongs to a participant.
    pub fn is_bound(&self, source: Source) -> bool {
        self.connections.by_source(source).is_some()
    }

    /// Forgets a source whose TCP connection has ended.
    pub fn forget_source(&mut self, source: Source) {
        self.connections.forget_source(source);
    }

    /// Handles a held packet of each sender whose receivers have caught up, if any may have since the last call. Returns whether there was
    /// one.
    pub(super) fn release_packets(&mut self) -> bool {
        if self.connections.has_backlog_shrunk() {
            self.release_neighbours();
        }
        let mut has_released = false;
        for key in self.connections.take_holding().into_iter().flatten() {
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
            self.connections.keep_holding(key);
            has_released = true;
        }
        has_released
    }

    /// Lets time pass for a touched connection and handles what it puts out.
    pub(super) fn drive(&mut self, key: TransportKey) {
        let Some(transport) = self.connections.get_mut(key) else {
            return;
        };
        match transport.drive(self.now) {
            Ok(()) => self.drain(key),
            Err(error) => self.fail_transport(key, &error),
        }
    }

    /// Handles all that a connection puts out. str0m sends one packet for each moment that passes, and is due again in the next:
    /// that comes here, while the state of the connection is in the caches of the processor.
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
                Ok(Output::Timeout(due)) => {
                    self.connections.set_due(key, due);
                    return self.connections.send_backlog(key, self.now);
                }
                Ok(Output::Transmit(packet)) => {
                    has_sent = true;
                    self.outputs.send(packet);
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
            RtcEvent::EgressBitrateEstimate(estimate) => self.handle_estimate(key, &estimate),
            RtcEvent::Closed => self.handle_closed(key),
            _ => {}
        }
    }

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
        let publisher = self.connections.get(from).ok_or(DropReason::Unclaimed)?;
        let payload_type = packet.header.payload_type;
        let incoming =
            incoming_payload(track, publisher, payload_type).ok_or(DropReason::OtherCodec)?;
        let mut media = MediaPacket::new(packet, track.codec, incoming.is_red);
        track.note_stream(key.layer, &media);
        let is_layered = track.is_layered();
        if is_layered {
            key.layer = track.read_layer(&mut media, descriptor, self.now);
        }
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

    /// Returns the track and layer of a source, from the cache or from its section.
    fn layer_of_source(&mut self, from: TransportKey, ssrc: Ssrc) -> Option<LayerKey> {
        let transport = self.connections.get_mut(from)?;
        if let Some(known) = transport.known_layer(ssrc) {
            return known;
        }
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
        transport.remember_layer(ssrc, found);
        if track.is_some_and(|(_, track)| track.medium() == TrackMedium::Video) {
            transport.expect_repairs(ssrc);
        }
        found
    }

    /// Counts a packet that is not forwarded, of a connection if it has one.
    pub(super) fn note_drop(&mut self, of: Option<TransportKey>, reason: DropReason) {
        self.outputs.count_drop(reason);
        if let Some(transport) = of.and_then(|key| self.connections.get_mut(key)) {
            transport.record_drop(reason);
        }
    }

    /// Forwards packets of a participant without a connection.
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
                self.note_drop(None, reason);
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
        *sequence += 1;
        let media = MediaPacket::from_payload(
            track.codec,
            payload,
            *sequence,
            timestamp,
            captured.min(self.now),
        );
        let extensions = Cow::Owned(ExtensionValues::default());
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
