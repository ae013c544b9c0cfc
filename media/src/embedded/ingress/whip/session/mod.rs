//! The state machine of one WHIP session. It is called with the machine and the time, and does no I/O.

use std::sync::LazyLock;
use std::time::Duration;

use conclave_model::event::Departure;
use conclave_model::participant::{TrackKind, TrackSource};
use conclave_model::secret::{BASE62, random_text};
use conclave_model::{ParticipantSid, Timestamp, TrackSid};
use conclave_sfu::{
    Codec, Command, ConnectionMode, FailureReason, NewPeer, OfferedSection, PeerCommand, PeerEvent,
    TrackMedium,
};
use livekit_protocol as proto;
use proto::{AddTrackRequest, AudioTrackFeature, SimulcastCodec};

use super::fragment::{self, IceCredentials};
use crate::embedded::announcement::{self, MediaSection};
use crate::embedded::effect::{ClientNotice, DisconnectCause};
use crate::embedded::ingress::admission::EncoderRefusal;
use crate::embedded::machine::Machine;
use crate::embedded::machine::encoders::EncoderJoin;
use crate::protocol::{source_to_proto, track_kind_to_proto};

/// How long the request that ends a session may come behind the end of its connection: an encoder closes both.
const CLOSE_GRACE: Duration = Duration::from_secs(5);
/// Characters of an entity tag.
const TAG_LENGTH: usize = 16;

/// What an encoder asks of its session by a PATCH request.
#[derive(Debug, Clone)]
pub struct WhipPatch {
    /// The value of `If-Match`.
    pub condition: Option<String>,
    /// The body, an SDP fragment.
    pub fragment: String,
}

/// What became of a PATCH request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patched {
    /// There is nothing to do: the server learns addresses from the packets that come from them.
    Accepted,
    /// ICE restarts. The answer comes from the media worker.
    Restarting,
}

/// Why a change of a session's ICE parameters is refused (RFC 9725, section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WhipPatchError {
    /// There is no such session, or it is over: 404.
    #[error("no such session")]
    NoSession,
    /// The request names no entity tag: 428.
    #[error(
        "the request must name the entity tag of the ICE session in If-Match, or * to restart ICE"
    )]
    NoCondition,
    /// The request is about earlier ICE credentials: 412.
    #[error("ICE was restarted: the entity tag is not that of the session now")]
    Stale,
    /// The body is no fragment with ICE credentials: 400.
    #[error("{0}")]
    BadFragment(&'static str),
    /// The media worker did not answer: 503.
    #[error("the media worker did not answer")]
    Unavailable,
}

/// The WHIP session of one encoder.
#[derive(Debug)]
pub(super) struct WhipSession {
    join: EncoderJoin,
    connection: Connection,
    /// The offer with the ICE credentials of now.
    offer: String,
    offer_id: u32,
    credentials: IceCredentials,
    etag: String,
    /// The answer to the last offer, until it is taken.
    answer: Option<String>,
    /// When the encoder counts as lost, after its connection was closed.
    closed_until: Option<Duration>,
    /// Why the session is over, for the request that opens it.
    refusal: EncoderRefusal,
    is_over: bool,
}

/// Owner of the encoder's connection.
#[derive(Debug)]
enum Connection {
    /// The visible participant.
    Participant,
    /// A private peer, because the video is transcoded.
    Intake {
        peer: ParticipantSid,
        /// Commands for its media worker that were not taken yet.
        commands: Vec<Command>,
    },
}

/// The refusal of an offer that the media worker cannot use.
const UNUSABLE: EncoderRefusal =
    EncoderRefusal::BadStream("the session description of the encoder cannot be used");

/// Refusal of tracks that the participant may not publish.
const UNPUBLISHABLE: EncoderRefusal =
    EncoderRefusal::BadStream("the offer has tracks that cannot be published");
/// Random characters of a sid.
const SID_LENGTH: usize = 12;

/// Reads the tracks that an offer announces: at most one of each medium.
pub fn announced_tracks(offer: &str) -> Result<Vec<AddTrackRequest>, EncoderRefusal> {
    conclave_sfu::check_description(offer).map_err(|_| UNUSABLE)?;
    let sections: Vec<_> = conclave_sfu::read_sections(offer)
        .into_iter()
        .filter(|section| section.sends)
        .collect();
    let number = |medium| {
        sections
            .iter()
            .filter(|section| section.medium == medium)
            .count()
    };
    if sections.is_empty() {
        return Err(EncoderRefusal::BadStream(
            "the offer must have an audio or a video section that sends",
        ));
    } else if number(TrackMedium::Audio) > 1 || number(TrackMedium::Video) > 1 {
        return Err(EncoderRefusal::BadStream(
            "the offer must not have more than one section of audio and of video",
        ));
    }
    sections.iter().map(announced_track).collect()
}

/// Why an offer without a codec that is forwarded is refused.
static NO_CODEC: LazyLock<String> = LazyLock::new(|| {
    let videos = Codec::ALL
        .into_iter()
        .filter(|codec| codec.medium() == TrackMedium::Video);
    let names: Vec<_> = videos.map(Codec::name).collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    format!(
        "the offer must have Opus for audio, and {} or {last} for video",
        others.join(", ")
    )
});

fn announced_track(section: &OfferedSection) -> Result<AddTrackRequest, EncoderRefusal> {
    let Some(codec) = section.codecs.first() else {
        return Err(EncoderRefusal::BadStream(&NO_CODEC));
    };
    let (kind, source) = match section.medium {
        TrackMedium::Audio => (TrackKind::Audio, TrackSource::Microphone),
        TrackMedium::Video => (TrackKind::Video, TrackSource::Camera),
    };
    Ok(AddTrackRequest {
        cid: section
            .track_id
            .clone()
            .unwrap_or_else(|| section.mid.clone()),
        r#type: track_kind_to_proto(kind).into(),
        source: source_to_proto(source).into(),
        // The first codec of a section is the one that the encoder prefers.
        simulcast_codecs: vec![SimulcastCodec {
            codec: codec.mime_type().into(),
            ..SimulcastCodec::default()
        }],
        // An encoder sends a programme rather than speech.
        audio_features: vec![
            AudioTrackFeature::TfStereo.into(),
            AudioTrackFeature::TfNoDtx.into(),
        ],
        ..AddTrackRequest::default()
    })
}

impl WhipSession {
    /// Creates the session of an admitted encoder, and sends its offer to the media worker. If the video is transcoded, the
    /// connection belongs to a private peer, and the commands for it are returned by [`WhipSession::take_commands`].
    pub fn start(
        machine: &mut Machine,
        join: EncoderJoin,
        offer: String,
        tracks: &[AddTrackRequest],
    ) -> Result<Self, EncoderRefusal> {
        let credentials = fragment::read_credentials(&offer).map_err(EncoderRefusal::BadStream)?;
        let permissions = machine
            .peer_permissions(&join.sid)
            .ok_or(EncoderRefusal::UnknownKey)?;
        let peer = NewPeer {
            sid: join.sid.clone(),
            identity: join.identity.clone(),
            mode: ConnectionMode::Single,
            is_subscriber_primary: false,
            needs_full_ice: false,
            allows_pause: false,
            permissions,
        };
        let has_video = tracks
            .iter()
            .any(|track| track.r#type() == proto::TrackType::Video);
        let connection = if join.is_transcoded && has_video {
            Connection::intake(peer, tracks)?
        } else {
            machine.add_peer(peer);
            for track in tracks {
                let announced = machine.announce_track(&join.sid, track);
                announced.map_err(|_| UNPUBLISHABLE)?;
            }
            Connection::Participant
        };
        let mut session = Self {
            join,
            connection,
            offer,
            offer_id: 0,
            credentials,
            etag: String::new(),
            answer: None,
            closed_until: None,
            // Its endpoint was deleted, unless something else is known.
            refusal: EncoderRefusal::UnknownKey,
            is_over: false,
        };
        session.send_offer(machine);
        Ok(session)
    }

    /// Returns the private peer that owns the connection; `None` if the video is not transcoded.
    pub const fn intake(&self) -> Option<&ParticipantSid> {
        match &self.connection {
            Connection::Intake { peer, .. } => Some(peer),
            Connection::Participant => None,
        }
    }

    /// Returns the commands for the private peer since the last call.
    pub fn take_commands(&mut self) -> Vec<Command> {
        match &mut self.connection {
            Connection::Intake { commands, .. } => std::mem::take(commands),
            Connection::Participant => Vec::new(),
        }
    }

    /// Returns the entity tag of the ICE credentials of now.
    pub fn etag(&self) -> &str {
        &self.etag
    }

    /// Returns the answer to the last offer, once.
    pub fn take_answer(&mut self) -> Option<String> {
        self.answer.take()
    }

    /// Returns why the session is over, for the request that opened it.
    pub fn refusal(&self) -> EncoderRefusal {
        self.refusal
    }

    /// Returns whether the session is over.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the monotonic reading at which [`WhipSession::tick`] has to be called, if ever.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.closed_until
    }

    /// Handles the deadline, if it has passed.
    pub fn tick(&mut self, machine: &mut Machine, now: Timestamp) {
        if self
            .closed_until
            .is_some_and(|until| until <= machine.reading())
        {
            self.end(machine, Departure::Lost, now);
        }
    }

    /// Ends the encoder's stay: it has left if it asked for that. The notice of its end ends the session.
    pub fn end(&mut self, machine: &mut Machine, departure: Departure, now: Timestamp) {
        // It has been disconnected already if this fails; the notice is on its way.
        let _ = machine.leave(&self.join.sid, departure, now);
        self.closed_until = None;
    }

    /// Handles a notice of the machine. An encoder is not notified of anything but its end, which it sees by its connection.
    pub fn handle_notice(&mut self, notice: &ClientNotice) {
        let ClientNotice::Disconnected(cause) = notice else {
            return;
        };
        self.is_over = true;
        if *cause == DisconnectCause::RoomEnded {
            self.refusal = EncoderRefusal::RoomEnded;
        }
    }

    /// Handles an event of the encoder's connection. Returns whether the join was reported by it, so that the answer to the
    /// report has to be awaited.
    pub fn handle_media(
        &mut self,
        machine: &mut Machine,
        event: PeerEvent,
        now: Timestamp,
    ) -> bool {
        let is_intake = self.intake().is_some();
        match event {
            // The visible participant joins and publishes separately.
            PeerEvent::Connected | PeerEvent::TrackPublished { .. } | PeerEvent::TrackEnded(_)
                if is_intake => {}
            PeerEvent::Connected => return machine.connected(&self.join.sid, now),
            PeerEvent::Answered { offer_id, sdp, .. } if offer_id == self.offer_id => {
                self.answer = Some(sdp);
            }
            PeerEvent::TrackPublished {
                track,
                mid,
                codec,
                layers,
            } => {
                let section = MediaSection { mid, codec, layers };
                machine.track_negotiated(&self.join.sid, &track, section, now);
            }
            PeerEvent::TrackEnded(track) => machine.track_ended(&self.join.sid, &track, now),
            PeerEvent::Failed(FailureReason::Closed) => {
                self.closed_until = Some(machine.reading() + CLOSE_GRACE);
            }
            PeerEvent::Failed(FailureReason::Negotiation) => {
                self.refusal = UNUSABLE;
                machine.fail_encoder(&self.join.sid, UNUSABLE.to_string(), now);
            }
            PeerEvent::Failed(_) => self.end(machine, Departure::Lost, now),
            // The rest is about what a participant receives.
            _ => {}
        }
        false
    }

    /// Handles a PATCH request (RFC 9725, section 4.3).
    pub fn patch(
        &mut self,
        machine: &mut Machine,
        patch: &WhipPatch,
    ) -> Result<Patched, WhipPatchError> {
        let condition = patch
            .condition
            .as_deref()
            .ok_or(WhipPatchError::NoCondition)?;
        let mut tags = condition.split(',').map(str::trim);
        if condition.trim() != "*" && !tags.any(|tag| tag == self.etag) {
            return Err(WhipPatchError::Stale);
        }
        let credentials =
            fragment::read_credentials(&patch.fragment).map_err(WhipPatchError::BadFragment)?;
        if credentials == self.credentials {
            return Ok(Patched::Accepted);
        }
        self.offer = fragment::with_credentials(&self.offer, &credentials);
        self.credentials = credentials;
        self.send_offer(machine);
        Ok(Patched::Restarting)
    }

    fn send_offer(&mut self, machine: &mut Machine) {
        self.offer_id += 1;
        self.etag = format!("\"{}\"", random_text(TAG_LENGTH, BASE62));
        let offer = PeerCommand::Offer {
            offer_id: self.offer_id,
            sdp: self.offer.clone(),
        };
        match &mut self.connection {
            Connection::Participant => machine.command(&self.join.sid, offer),
            Connection::Intake { peer, commands } => commands.push(offer.for_peer(peer.clone())),
        }
    }
}

impl Connection {
    /// Returns a private peer with these tracks, with the identity and permissions of another peer.
    fn intake(like: NewPeer, tracks: &[AddTrackRequest]) -> Result<Self, EncoderRefusal> {
        let peer: ParticipantSid = format!("PA_{}", random_text(SID_LENGTH, BASE62))
            .parse()
            .map_err(|_| UNPUBLISHABLE)?;
        let mut commands = vec![Command::AddPeer(NewPeer {
            sid: peer.clone(),
            ..like
        })];
        for track in tracks {
            let kind_and_source = announcement::kind_and_source(track.r#type, track.source);
            let (kind, source) = kind_and_source.ok_or(UNPUBLISHABLE)?;
            let prefix = announcement::sid_prefix(kind, source);
            let sid: TrackSid = format!("{prefix}{}", random_text(SID_LENGTH, BASE62))
                .parse()
                .map_err(|_| UNPUBLISHABLE)?;
            let (_, media) = announcement::accept(track, &sid, (kind, source), &Codec::ALL);
            commands.push(PeerCommand::PublishTrack(media).for_peer(peer.clone()));
        }
        Ok(Self::Intake { peer, commands })
    }
}

#[cfg(test)]
mod tests;
