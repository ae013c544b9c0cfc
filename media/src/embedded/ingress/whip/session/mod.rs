//! The state machine of one WHIP session. It is called with the machine and the time, and does no I/O.

use std::time::Duration;

use conclave_model::event::Departure;
use conclave_model::secret::{BASE62, random_text};
use conclave_model::{ParticipantSid, Timestamp, TrackSid};
use conclave_sfu::{
    Codec, Command, ConnectionMode, FailureReason, NewPeer, PeerCommand, PeerEvent,
};
use livekit_protocol as proto;
use proto::AddTrackRequest;

use super::ice::{IceSession, Patched, WhipPatch, WhipPatchError};
use super::offer::UNUSABLE;
use crate::embedded::announcement::{self, MediaSection};
use crate::embedded::effect::{ClientNotice, DisconnectCause};
use crate::embedded::ingress::refusal::EncoderRefusal;
use crate::embedded::room_state::RoomState;
use crate::embedded::room_state::membership::EncoderJoin;

/// How long the request that ends a session may come behind the end of its connection: an encoder closes both.
const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// The WHIP session of one encoder.
#[derive(Debug)]
pub(super) struct WhipSession {
    join: EncoderJoin,
    connection: Connection,
    ice: IceSession,
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

/// Refusal of tracks that the participant may not publish.
const UNPUBLISHABLE: EncoderRefusal =
    EncoderRefusal::BadStream("the offer has tracks that cannot be published");
/// Random characters of a sid.
const SID_LENGTH: usize = 12;

impl WhipSession {
    /// Creates the session of an admitted encoder, and sends its offer to the media worker. If the video is transcoded, the
    /// connection belongs to a private peer, and the commands for it are returned by [`WhipSession::take_commands`].
    pub fn start(
        machine: &mut RoomState,
        join: EncoderJoin,
        offer: String,
        tracks: &[AddTrackRequest],
    ) -> Result<Self, EncoderRefusal> {
        let ice = IceSession::new(offer).map_err(EncoderRefusal::BadStream)?;
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
            ice,
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

    /// Returns whether the session is over.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the monotonic reading at which [`WhipSession::tick`] has to be called, if ever.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.closed_until
    }

    /// Handles the deadline, if it has passed.
    pub fn tick(&mut self, machine: &mut RoomState, now: Timestamp) {
        if self
            .closed_until
            .is_some_and(|until| until <= machine.reading())
        {
            self.end(machine, Departure::Lost, now);
        }
    }

    /// Ends the encoder's stay: it has left if it asked for that. The notice of its end ends the session.
    pub fn end(&mut self, machine: &mut RoomState, departure: Departure, now: Timestamp) {
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
        machine: &mut RoomState,
        event: PeerEvent,
        now: Timestamp,
    ) -> bool {
        let is_intake = self.intake().is_some();
        match event {
            // The visible participant joins and publishes separately.
            PeerEvent::Connected | PeerEvent::TrackPublished { .. } | PeerEvent::TrackEnded(_)
                if is_intake => {}
            PeerEvent::Connected => return machine.connected(&self.join.sid, now),
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
        machine: &mut RoomState,
        patch: &WhipPatch,
    ) -> Result<Patched, WhipPatchError> {
        let patched = self.ice.patch(patch)?;
        if patched == Patched::Restarting {
            self.send_offer(machine);
        }
        Ok(patched)
    }

    fn send_offer(&mut self, machine: &mut RoomState) {
        let (offer_id, sdp) = self.ice.next_offer();
        let offer = PeerCommand::Offer { offer_id, sdp };
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
