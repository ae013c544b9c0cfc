//! The participant of an encoder without a WebRTC connection of its own: its packets come from RTMP or from a
//! transcoder.

use std::sync::Arc;

use conclave_model::event::Departure;
use conclave_model::participant::{TrackKind, TrackSource};
use conclave_model::{ParticipantSid, Timestamp, TrackSid};
use conclave_sfu::{
    Codec, ConnectionMode, NewPeer, PeerCommand, PeerEvent, SourcePacket, TrackMedium,
};
use livekit_protocol as proto;
use proto::{AddTrackRequest, AudioTrackFeature, SimulcastCodec};

use crate::embedded::announcement::MediaSection;
use crate::embedded::effect::ClientNotice;
use crate::embedded::plane::core::PlaneCore;
use crate::embedded::room::Room;
use crate::embedded::room_state::RoomState;
use crate::embedded::room_state::membership::EncoderJoin;
use crate::protocol::{source_to_proto, track_kind_to_proto};

/// The participant of an encoder without a WebRTC connection of its own.
#[derive(Debug)]
pub struct EncoderPublisher {
    join: EncoderJoin,
    /// Whether it was added to a media worker.
    has_peer: bool,
    audio: Option<TrackSid>,
    video: Option<TrackSid>,
    is_over: bool,
}

impl EncoderPublisher {
    /// Creates an admitted encoder's participant.
    pub const fn new(join: EncoderJoin) -> Self {
        Self {
            join,
            has_peer: false,
            audio: None,
            video: None,
            is_over: false,
        }
    }

    pub const fn sid(&self) -> &ParticipantSid {
        &self.join.sid
    }

    /// Returns whether all video is transcoded, even if receivers could play it.
    pub const fn is_transcoded(&self) -> bool {
        self.join.is_transcoded
    }

    /// Records that the encoder has sent data.
    pub fn record_data(&self) {
        self.join.activity.record_data();
    }

    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    const fn track(&self, medium: TrackMedium) -> Option<&TrackSid> {
        match medium {
            TrackMedium::Audio => self.audio.as_ref(),
            TrackMedium::Video => self.video.as_ref(),
        }
    }

    /// Publishes a track. Joins first, if necessary.
    fn publish(&mut self, room_state: &mut RoomState, codec: Codec) {
        self.join(room_state);
        // Fails if the encoder was disconnected. The notice is on its way then.
        let Ok(info) = room_state.announce_track(&self.join.sid, &announcement(codec)) else {
            return;
        };
        let track = info.sid.parse().ok();
        match codec.medium() {
            TrackMedium::Audio => self.audio = track,
            TrackMedium::Video => self.video = track,
        }
    }

    /// Adds the participant to a media worker, which starts its join.
    pub fn join(&mut self, room_state: &mut RoomState) {
        if self.has_peer {
            return;
        }
        // Disconnected already. The notice is on its way.
        let Some(permissions) = room_state.peer_permissions(&self.join.sid) else {
            return;
        };
        let peer = NewPeer {
            sid: self.join.sid.clone(),
            identity: self.join.identity.clone(),
            mode: ConnectionMode::Source,
            is_subscriber_primary: false,
            needs_full_ice: false,
            allows_pause: false,
            permissions,
            // Encoders do not state their program.
            client: None,
        };
        room_state.add_peer(peer);
        self.has_peer = true;
    }

    /// Forwards packets to a room, and first publishes their track if it is new.
    pub fn forward_in(
        &mut self,
        inner: &Arc<PlaneCore>,
        room: &Arc<Room>,
        codec: Codec,
        packets: Vec<SourcePacket>,
    ) {
        if packets.is_empty() {
            return;
        }
        let medium = codec.medium();
        // By its first packet: an RTMP stream does not announce which media it contains.
        if self.track(medium).is_none() {
            inner.call_in(room, |room_state, _| self.publish(room_state, codec));
        }
        if let Some(track) = self.track(medium).cloned() {
            // Without the room's lock, since packets are frequent.
            let packets = PeerCommand::Packets { track, packets };
            room.send_command(packets.for_peer(self.join.sid.clone()));
        }
    }

    /// Handles a media worker's event. Returns whether it caused a report of the join, whose answer the caller must
    /// await.
    pub fn handle_media(
        &self,
        room_state: &mut RoomState,
        event: PeerEvent,
        now: Timestamp,
    ) -> bool {
        match event {
            PeerEvent::Connected => return room_state.connected(&self.join.sid, now),
            PeerEvent::TrackPublished {
                track,
                mid,
                codec,
                layers,
            } => {
                let section = MediaSection { mid, codec, layers };
                room_state.track_negotiated(&self.join.sid, &track, section, now);
            }
            PeerEvent::Failed(_) => self.end(room_state, Departure::Lost, now),
            // The others concern connections, or media that a participant receives.
            _ => {}
        }
        false
    }

    /// Handles a notice. An encoder receives none except for its end.
    pub fn handle_notice(&mut self, notice: &ClientNotice) {
        self.is_over |= matches!(notice, ClientNotice::Disconnected(_));
    }

    /// Ends the encoder's join, with [`Departure::Left`] if the encoder ended its stream.
    pub fn end(&self, room_state: &mut RoomState, departure: Departure, now: Timestamp) {
        // Fails if it has been disconnected already.
        let _ = room_state.leave(&self.join.sid, departure, now);
    }
}

/// Returns the announcement of a track, as a client would send it.
fn announcement(codec: Codec) -> AddTrackRequest {
    // Encoders usually send music or a programme, which discontinuous transmission would cut.
    let programme = vec![
        AudioTrackFeature::TfStereo.into(),
        AudioTrackFeature::TfNoDtx.into(),
    ];
    let (kind, source, cid, audio_features) = match codec.medium() {
        TrackMedium::Audio => (
            TrackKind::Audio,
            TrackSource::Microphone,
            "audio",
            programme,
        ),
        TrackMedium::Video => (TrackKind::Video, TrackSource::Camera, "video", Vec::new()),
    };
    AddTrackRequest {
        cid: cid.into(),
        r#type: track_kind_to_proto(kind).into(),
        source: source_to_proto(source).into(),
        simulcast_codecs: vec![SimulcastCodec {
            codec: codec.mime_type().into(),
            ..SimulcastCodec::default()
        }],
        audio_features,
        ..AddTrackRequest::default()
    }
}
