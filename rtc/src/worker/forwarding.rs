//! From a publisher to its subscribers. This is the path of every packet.

use str0m::format::PayloadParams;
use str0m::media::{KeyframeRequestKind, Mid, Pt};
use str0m::rtp::{ExtensionValues, RtpPacket, RtpWrite, Ssrc};

use super::recording::record;
use super::track::{DownTrack, Incoming, Outgoing, UpTrack};
use super::{Worker, touch};
use crate::event::PeerEvent;
use crate::forward::{MediaPacket, Rewritten};
use crate::recorder::SenderReport;
use crate::track::{Codec, TrackMedium};
use crate::transport::{Ingress, PeerKey, TrackKey, Transport, TransportKey};

/// The largest payload that is forwarded. Clients stay below, to fit into the packets of a network; a larger one would not
/// fit into what str0m sends, and fail the connections of its receivers.
pub const MAX_PAYLOAD_BYTES: usize = 1400;

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

impl Worker {
    /// Forwards a packet to all who receive its track. A packet that no published track claims is dropped.
    pub(super) fn forward(&mut self, from: TransportKey, packet: &RtpPacket) {
        if packet.payload.len() > MAX_PAYLOAD_BYTES {
            return;
        }
        let Some(ingress) = self.ingress(from, packet.header.ssrc) else { return };
        let Some(track) = self.tracks.get_mut(ingress.track) else { return };
        let Some(publisher) = self.transports.get_mut(from) else { return };
        let payload_type = packet.header.payload_type;
        let Some(incoming) = incoming_payload(track, publisher, payload_type) else { return };
        let media = MediaPacket::new(packet, track.codec, incoming.is_red);
        let extensions = &packet.header.ext_vals;
        let is_last = packet.header.marker;
        let report = packet.last_sender_info.as_ref().map(SenderReport::from);
        self.distribute(ingress, &Packet { media, incoming, payload_type, is_last, extensions, report });
    }

    /// Counts a packet of a layer, and sends it to all who receive that.
    pub(super) fn distribute(&mut self, ingress: Ingress, packet: &Packet<'_>) {
        let Some(track) = self.tracks.get_mut(ingress.track) else { return };
        let Some(layer) = track.layers.get_mut(ingress.layer) else { return };
        let media = &packet.media;
        if layer.note(media.payload.len(), self.now) {
            self.revived.push(ingress.track);
        }
        if media.is_entry_point && !media.is_audio {
            layer.note_key_frame(self.now);
        }
        self.counters.published_packets += 1;
        if let Some(level) = packet.extensions.audio_level {
            track.speech.observe(level);
        }
        if track.is_muted {
            return;
        }
        record(track, ingress.layer, media, (packet.incoming.is_red, packet.is_last), packet.report);
        let mut first_frames = Vec::new();
        for down in &mut track.downs {
            let Some(receiver) = self.transports.get_mut(down.transport).filter(|receiver| receiver.can_send()) else {
                down.choice.current = None;
                continue;
            };
            let outgoing = outgoing_payload(down, receiver, packet.payload_type, packet.incoming);
            let Some(outgoing) = outgoing else { continue };
            let Some(numbers) = down.accept(ingress.layer, media) else { continue };
            send(receiver, down.mid, outgoing, numbers, packet);
            self.counters.forwarded_packets += 1;
            touch(&mut self.transports, &mut self.touched, down.transport);
            first_frames.extend(down.waits_since.take().map(|since| (down.peer, since)));
        }
        for (peer, since) in first_frames {
            self.emit(peer, PeerEvent::FirstFrame { after: self.now.saturating_duration_since(since) });
        }
    }

    /// Returns the track and layer of a source, from the cache or from its section.
    fn ingress(&mut self, from: TransportKey, ssrc: Ssrc) -> Option<Ingress> {
        let transport = self.transports.get_mut(from)?;
        if let Some(known) = transport.ingress.get(&ssrc) {
            return *known;
        }
        let mut direct = transport.rtc().direct_api();
        let stream = direct.stream_rx(&ssrc)?;
        let (mid, rid) = (stream.mid(), stream.rid());
        let found = transport.published.get(&mid).and_then(|key| {
            let layer = self.tracks.get(*key)?.layer_of(rid)?;
            Some(Ingress { track: *key, layer })
        });
        transport.ingress.insert(ssrc, found);
        found
    }

    /// Handles a receiver's request for a key frame on one of its sections.
    pub(super) fn handle_key_frame_request(&mut self, key: TransportKey, mid: Mid) {
        let Some(transport) = self.transports.get(key) else { return };
        let Some(peer) = self.peers.get(transport.peer) else { return };
        let section = peer.sections.iter().find(|section| section.mid == Some(mid));
        let Some(track_key) = section.and_then(|section| section.track) else { return };
        let peer = transport.peer;
        let Some(track) = self.tracks.get_mut(track_key) else { return };
        let layer = track.down_of(peer).and_then(|down| down.choice.current.or(down.choice.target));
        if let Some(layer) = layer.and_then(|layer| track.layers.get_mut(layer)) {
            layer.key_frames.want();
        }
        self.send_key_frame_requests(track_key);
    }

    /// Requests the key frames that receivers of a track wait for.
    pub(super) fn request_key_frames(&mut self, key: TrackKey) {
        let Some(track) = self.tracks.get_mut(key) else { return };
        if track.medium() == TrackMedium::Audio || track.is_muted {
            return;
        }
        let start = track.starting_layer(self.now);
        let waited_for: Vec<_> = track.choices().filter_map(|choice| choice.waits_for()).chain(start).collect();
        for layer in waited_for {
            if let Some(layer) = track.layers.get_mut(layer) {
                layer.key_frames.want();
            }
        }
        self.send_key_frame_requests(key);
    }

    /// Requests the key frames that a participant waits for.
    pub(super) fn request_key_frames_of(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get(key) else { return };
        let tracks: Vec<_> = peer.sections.iter().filter_map(|section| section.track).collect();
        for track in tracks {
            self.request_key_frames(track);
        }
    }

    /// Sends the requests of a track that are wanted and not too early.
    fn send_key_frame_requests(&mut self, key: TrackKey) {
        let Some(track) = self.tracks.get_mut(key) else { return };
        let Some(publisher) = self.transports.get_mut(track.transport) else { return };
        let mut was_sent = false;
        for layer in track.layers.iter_mut().filter(|layer| layer.key_frames.is_due(self.now)) {
            let mut direct = publisher.rtc().direct_api();
            // A layer that has not sent yet begins with a key frame.
            let Some(stream) = direct.stream_rx_by_mid(track.mid, layer.rid) else { continue };
            stream.request_keyframe(KeyframeRequestKind::Pli);
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
fn incoming_payload(track: &mut UpTrack, publisher: &mut Transport, payload_type: Pt) -> Option<Incoming> {
    if let Some((_, incoming)) = track.payload.filter(|(known, _)| *known == payload_type) {
        return incoming;
    }
    let is_named = |params: &&PayloadParams| params.pt() == payload_type || params.red() == Some(payload_type);
    let found = publisher.rtc().codec_config().params().iter().find(is_named).copied();
    let params = found.filter(|params| Codec::from_rtc(params.spec().codec) == Some(track.codec));
    let incoming = params.map(|params| Incoming { params, is_red: params.pt() != payload_type });
    track.payload = Some((payload_type, incoming));
    incoming
}

/// Returns how a receiver gets packets of a payload type of the publisher.
fn outgoing_payload(down: &mut DownTrack, receiver: &mut Transport, from: Pt, incoming: Incoming) -> Option<Outgoing> {
    if let Some((_, outgoing)) = down.payload.filter(|(known, _)| *known == from) {
        return outgoing;
    }
    let rtc = receiver.rtc();
    let matched = rtc.codec_config().match_params(incoming.params).copied();
    let is_negotiated = |pt: &Pt| rtc.media(down.mid).is_some_and(|media| media.remote_pts().contains(pt));
    let outgoing = matched.filter(|params| is_negotiated(&params.pt())).map(|params| outgoing(params, incoming));
    down.payload = Some((from, outgoing));
    outgoing
}

/// Returns how packets go to a receiver with these parameters. Redundancy names the payload type of what is in it, so it is
/// passed on only to those who use the same.
fn outgoing(params: PayloadParams, incoming: Incoming) -> Outgoing {
    let red = params.red().filter(|_| incoming.is_red && params.pt() == incoming.params.pt());
    Outgoing { payload_type: red.unwrap_or(params.pt()), strips_red: incoming.is_red && red.is_none() }
}

fn send(receiver: &mut Transport, mid: Mid, outgoing: Outgoing, numbers: Rewritten, packet: &Packet<'_>) {
    let media = &packet.media;
    let payload = if outgoing.strips_red { media.primary.clone() } else { Some(media.payload.clone()) };
    let Some(payload) = payload else { return };
    let mut direct = receiver.rtc().direct_api();
    let Some(stream) = direct.stream_tx_by_mid(mid, None) else { return };
    let from = packet.extensions;
    let extensions = ExtensionValues {
        audio_level: from.audio_level,
        voice_activity: from.voice_activity,
        ..ExtensionValues::default()
    };
    let sequence = numbers.sequence.into();
    let mut write = RtpWrite::new(outgoing.payload_type, sequence, numbers.timestamp, media.arrived, payload)
        .marker(packet.is_last)
        .ext_vals(extensions)
        .nackable(!media.is_audio);
    if let Some(patch) = numbers.vp8_patch {
        write = write.vp8_patch(patch);
    }
    stream.write_rtp(write);
}
