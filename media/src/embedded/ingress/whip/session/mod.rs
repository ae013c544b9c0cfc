//! State machine of one WHIP session, without I/O. The driver calls it with the room state and the time.

use std::time::Duration;

use conclave_model::event::Departure;
use conclave_model::secret::{BASE62, random_text};
use conclave_model::{ParticipantSid, Timestamp, TrackSid};
use conclave_sfu::{
    Codec, Command, ConnectionMode, FailureReason, NewPeer, PeerCommand, PeerEvent,
};
use livekit_protocol as proto;
use proto::AddTrackRequest;

use super::ice::{IceSession, PatchOutcome, WhipPatch, WhipPatchError};
use super::offer::UNUSABLE;
use crate::embedded::announcement::{self, MediaSection};
use crate::embedded::effect::{ClientNotice, DisconnectCause};
use crate::embedded::ingress::refusal::EncoderRefusal;
use crate::embedded::room_state::RoomState;
use crate::embedded::room_state::membership::EncoderJoin;

/// Time for the request that ends a session to arrive after its connection was closed: encoders close both at once.
const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// One encoder's WHIP session.
#[derive(Debug)]
pub(super) struct WhipSession {
    join: EncoderJoin,
    connection: Connection,
    ice: IceSession,
    /// Answer to the last offer, until it is taken.
    answer: Option<String>,
    /// Time at which the encoder counts as lost, after its connection was closed.
    closed_until: Option<Duration>,
    /// Reason why the session has ended, for the request that opened it.
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
        /// Pending commands for its media worker.
        commands: Vec<Command>,
    },
}

/// Refusal of tracks that the participant may not publish.
const UNPUBLISHABLE: EncoderRefusal =
    EncoderRefusal::BadStream("the offer has tracks that cannot be published");
/// Number of random characters in a sid.
const SID_LENGTH: usize = 12;

impl WhipSession {
    /// Creates an admitted encoder's session, and sends its offer to the media worker. If the video is transcoded, the
    /// connection belongs to a private peer, and [`WhipSession::take_commands`] returns the commands for it.
    pub fn start(
        room_state: &mut RoomState,
        join: EncoderJoin,
        offer: String,
        tracks: &[AddTrackRequest],
    ) -> Result<Self, EncoderRefusal> {
        let ice = IceSession::new(offer).map_err(EncoderRefusal::BadStream)?;
        let permissions = room_state
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
            // Encoders do not state their program.
            client: None,
        };
        let has_video = tracks
            .iter()
            .any(|track| track.r#type() == proto::TrackType::Video);
        // Audio alone needs no transcoding: WHIP encoders send Opus.
        let connection = if join.is_transcoded && has_video {
            Connection::intake(peer, tracks)?
        } else {
            room_state.add_peer(peer);
            for track in tracks {
                let announced = room_state.announce_track(&join.sid, track);
                announced.map_err(|_| UNPUBLISHABLE)?;
            }
            Connection::Participant
        };
        let mut session = Self {
            join,
            connection,
            ice,
            answer: None,
            closed_until: None,
            // The likely reason for an end before the answer: the endpoint was deleted.
            refusal: EncoderRefusal::UnknownKey,
            is_over: false,
        };
        session.send_offer(room_state);
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

    /// Returns the current ICE credentials' entity tag.
    pub fn etag(&self) -> &str {
        self.ice.etag()
    }

    /// Returns the answer to the last offer, once.
    pub fn take_answer(&mut self) -> Option<String> {
        self.answer.take()
    }

    /// Returns why the session is over, for the request that opened it.
    pub fn refusal(&self) -> EncoderRefusal {
        self.refusal
    }

    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the monotonic reading for the next [`WhipSession::tick`], if any.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.closed_until
    }

    /// Handles the deadline, if it has passed.
    pub fn tick(&mut self, room_state: &mut RoomState, now: Timestamp) {
        if self
            .closed_until
            .is_some_and(|until| until <= room_state.reading())
        {
            self.end(room_state, Departure::Lost, now);
        }
    }

    /// Ends the encoder's join. The resulting notice ends the session.
    pub fn end(&mut self, room_state: &mut RoomState, departure: Departure, now: Timestamp) {
        // Fails if it has been disconnected already. The notice is on its way then.
        let _ = room_state.leave(&self.join.sid, departure, now);
        self.closed_until = None;
    }

    /// Handles a notice. An encoder receives none except for its end, which it notices by its connection.
    pub fn handle_notice(&mut self, notice: &ClientNotice) {
        let ClientNotice::Disconnected(cause) = notice else {
            return;
        };
        self.is_over = true;
        if *cause == DisconnectCause::RoomEnded {
            self.refusal = EncoderRefusal::RoomEnded;
        }
    }

    /// Handles an event of the encoder's connection. Returns whether it caused a report of the join, whose answer the
    /// caller must await.
    pub fn handle_media(
        &mut self,
        room_state: &mut RoomState,
        event: PeerEvent,
        now: Timestamp,
    ) -> bool {
        let is_intake = self.intake().is_some();
        match event {
            // The visible participant joins and publishes separately.
            PeerEvent::Connected | PeerEvent::TrackPublished { .. } | PeerEvent::TrackEnded(_)
                if is_intake => {}
            PeerEvent::Connected => return room_state.connected(&self.join.sid, now),
            // An answer to an offer before an ICE restart is outdated.
            PeerEvent::Answered { offer_id, sdp, .. } if self.ice.is_current(offer_id) => {
                self.answer = Some(sdp);
            }
            PeerEvent::TrackPublished {
                track,
                mid,
                codec,
                layers,
            } => {
                let section = MediaSection { mid, codec, layers };
                room_state.track_negotiated(&self.join.sid, &track, section, now);
            }
            PeerEvent::TrackEnded(track) => room_state.track_ended(&self.join.sid, &track, now),
            PeerEvent::Failed(FailureReason::Closed) => {
                // Not ended at once: a DELETE request that follows makes this a leave instead of a lost connection.
                self.closed_until = Some(room_state.reading() + CLOSE_GRACE);
            }
            PeerEvent::Failed(FailureReason::Negotiation) => {
                self.refusal = UNUSABLE;
                room_state.fail_encoder(&self.join.sid, UNUSABLE.to_string(), now);
            }
            PeerEvent::Failed(_) => self.end(room_state, Departure::Lost, now),
            // The others concern media that a participant receives.
            _ => {}
        }
        false
    }

    /// Handles a PATCH request (RFC 9725, section 4.3).
    pub fn patch(
        &mut self,
        room_state: &mut RoomState,
        patch: &WhipPatch,
    ) -> Result<PatchOutcome, WhipPatchError> {
        let patched = self.ice.patch(patch)?;
        if patched == PatchOutcome::Restarting {
            self.send_offer(room_state);
        }
        Ok(patched)
    }

    fn send_offer(&mut self, room_state: &mut RoomState) {
        let (offer_id, sdp) = self.ice.next_offer();
        let offer = PeerCommand::Offer { offer_id, sdp };
        match &mut self.connection {
            Connection::Participant => room_state.command(&self.join.sid, offer),
            Connection::Intake { peer, commands } => commands.push(offer.for_peer(peer.clone())),
        }
    }
}

impl Connection {
    /// Creates a private peer with these tracks, and with another peer's identity and permissions.
    fn intake(template: NewPeer, tracks: &[AddTrackRequest]) -> Result<Self, EncoderRefusal> {
        let peer: ParticipantSid = format!("PA_{}", random_text(SID_LENGTH, BASE62))
            .parse()
            .map_err(|_| UNPUBLISHABLE)?;
        let mut commands = vec![Command::AddPeer(NewPeer {
            sid: peer.clone(),
            ..template
        })];
        for track in tracks {
            let kind_and_source = announcement::kind_and_source(track.r#type, track.source);
            let (kind, source) = kind_and_source.ok_or(UNPUBLISHABLE)?;
            let prefix = announcement::sid_prefix(kind, source);
            let sid: TrackSid = format!("{prefix}{}", random_text(SID_LENGTH, BASE62))
                .parse()
                .map_err(|_| UNPUBLISHABLE)?;
            // Every codec, whatever the role permits: receivers get H.264.
            let (_, media) = announcement::accept(track, &sid, (kind, source), &Codec::ALL);
            commands.push(PeerCommand::PublishTrack(media).for_peer(peer.clone()));
        }
        Ok(Self::Intake { peer, commands })
    }
}

#[cfg(test)]
mod tests;
