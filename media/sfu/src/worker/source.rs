//! Participants without a connection, whose packets the control side sends: encoders that do not speak WebRTC.

use conclave_model::TrackSid;
use str0m::format::PayloadParams;
use str0m::media::Mid;
use str0m::rtp::ExtensionValues;

use super::Worker;
use super::packet::{Incoming, Packet};
use super::send::MAX_PAYLOAD_BYTES;
use super::tracks::PublishedTrack;
use crate::adapt::MediaPacket;
use crate::command::SourcePacket;
use crate::dropped::DropReason;
use crate::event::PeerEvent;
use crate::track::{Codec, NewTrack, TrackMedium};
use crate::transport::{LayerKey, PeerKey, TrackKey, TransportKey};

impl Worker {
    /// Makes a participant without a connection active: there is nothing to wait for.
    pub(super) fn activate_source(&mut self, key: PeerKey) {
        if let Some(peer) = self.peers.get_mut(key) {
            peer.is_active = true;
        }
        self.emit(key, PeerEvent::Connected);
    }

    /// Publishes a track of a participant without a connection.
    pub(super) fn publish_source_track(&mut self, key: PeerKey, info: NewTrack) {
        let fallback = if info.medium == TrackMedium::Audio {
            Codec::Opus
        } else {
            Codec::H264
        };
        let (sid, codec) = (info.sid.clone(), info.codec.unwrap_or(fallback));
        let mut track = PublishedTrack::new(
            info,
            codec,
            key,
            TransportKey::default(),
            Mid::from(""),
            self.now,
        );
        track.set_layers(&[], self.now);
        let params = self
            .settings
            .codecs()
            .into_iter()
            .find(|params| is_codec(params, codec));
        track.payload = params.map(|params| {
            (
                params.pt(),
                Some(Incoming {
                    params,
                    is_red: false,
                }),
            )
        });
        self.insert_track(key, track, String::new());
        self.offer_to_waiting(key, &sid);
    }

    /// Forwards packets of a participant without a connection.
    pub(super) fn forward_source(
        &mut self,
        key: PeerKey,
        sid: &TrackSid,
        packets: Vec<SourcePacket>,
    ) {
        if !self
            .peers
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
        track.source_sequence += 1;
        let sequence = track.source_sequence;
        let media = MediaPacket::from_payload(
            track.codec,
            payload,
            sequence,
            timestamp,
            captured.min(self.now),
        );
        let extensions = &ExtensionValues::default();
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

/// Returns whether these parameters are those that packets of a codec have: the first ones of each codec.
fn is_codec(params: &PayloadParams, codec: Codec) -> bool {
    Codec::from_rtc(params.spec().codec) == Some(codec)
}
