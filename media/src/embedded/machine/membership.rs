//! The calls by which participants and encoders come and go.
//!
//! A join has two phases, in [`join`](crate::embedded::join). An encoder joins as an ordinary participant: the control plane may refuse
//! its join, and may remove it. Its endpoint follows: buffering while the encoder's media connects, publishing once its tracks are
//! published, and inactive or failed after it has left.

use conclave_model::event::{Departure, TrackSummary};
use conclave_model::ingress::{IngressState, IngressStatus, InputType, StreamKeyHash};
use conclave_model::participant::{TrackKind, TrackSource};
use conclave_model::{Identity, IngressId, NamespacedRoom, ParticipantSid, Secret, Timestamp};

use super::Machine;
use super::deadlines::Deadline;
use super::updates::Urgency;
use crate::embedded::client::Client;
use crate::embedded::effect::DisconnectCause;
use crate::embedded::error::MachineError;
use crate::embedded::inbox::Notice;
use crate::embedded::ingress::endpoints::IngressEndpoint;
use crate::embedded::ingress::stream_keys::EncoderActivity;
use crate::embedded::local_participant::LocalParticipant;
use crate::embedded::publish::NewTrack;
use crate::port::{IngressRequest, KnownIngress, MediaEvent};
use crate::token::Claims;

/// An encoder that asks to join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::embedded) struct EncoderJoin {
    /// The participant that it will be.
    pub sid: ParticipantSid,
    /// The identity of its endpoint.
    pub identity: Identity,
    /// When the encoder was last heard of.
    pub activity: EncoderActivity,
    /// Whether its video is transcoded, also if receivers could play it.
    pub is_transcoded: bool,
}

/// The result of an attempt of the sandbox's encoder to connect.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::embedded) enum EncoderConnection {
    /// The endpoint has an encoder already. Holds the endpoint's state.
    AlreadyConnected(IngressState),
    /// The encoder joins as this participant, if the control plane accepts it.
    Joining(ParticipantSid),
}

/// Joins.
impl Machine {
    /// Asks the control plane whether a client may join. Its place in the room is held until [`Machine::admit`] or
    /// [`Machine::cancel_request`].
    pub fn request_join(
        &mut self,
        claims: Claims,
        client: Client,
        now: Timestamp,
    ) -> Result<ParticipantSid, MachineError> {
        self.joins().request(claims, client, now)
    }

    /// Asks the control plane whether a client could join now, without joining.
    pub fn probe_join(&mut self, claims: Claims, now: Timestamp) -> Result<(), MachineError> {
        self.joins().probe(claims, now)
    }

    /// Drops a join that the control plane has refused, or could not be asked about.
    pub fn cancel_request(&mut self, sid: &ParticipantSid) {
        self.endpoints.detach(sid);
        self.joins().cancel(sid);
    }

    /// Admits a client that the control plane has let in. It replaces the member with its identity, and has to connect its
    /// media in time. Fails if it has been disconnected in the meantime, or if another one has got the identity that a room code gave it;
    /// nothing is left of the join then.
    pub fn admit(&mut self, sid: &ParticipantSid, now: Timestamp) -> Result<(), MachineError> {
        let admitted = self.joins().admit(sid, now);
        if admitted == Err(MachineError::IdentityTaken) {
            self.disconnect(sid, Departure::Lost, DisconnectCause::JoinRefused, now);
        }
        if let Some(old) = admitted? {
            self.remove(&old, Departure::Left, DisconnectCause::Replaced, now);
        }
        self.joins().await_media(sid);
        Ok(())
    }

    /// The signalling of a client that is still connecting is gone: it has less time.
    pub fn signal_lost(&mut self, sid: &ParticipantSid) {
        self.joins().shorten_deadline(sid);
    }

    /// Aborts a join whose media was not connected in time.
    pub(super) fn abort_late_join(&mut self, sid: &ParticipantSid, now: Timestamp) {
        self.disconnect(sid, Departure::Lost, DisconnectCause::JoinTimeout, now);
    }

    /// A client's media is connected: its join is reported. Returns whether this is news; the answer to the report decides
    /// between [`Machine::complete_join`] and [`Machine::abort_join`].
    pub fn connected(&mut self, sid: &ParticipantSid, now: Timestamp) -> bool {
        self.joins().connect(sid, now)
    }

    /// Begins the join of a participant of the sandbox and reports it. The participant is counted, but hidden from all others until
    /// [`Machine::complete_join`]. A member with the same identity is disconnected first.
    pub fn begin_join(
        &mut self,
        claims: Claims,
        now: Timestamp,
    ) -> Result<ParticipantSid, MachineError> {
        let (joining, replaced) = self.joins().start(claims, now)?;
        if let Some(old) = replaced {
            self.remove(&old, Departure::Left, DisconnectCause::Replaced, now);
        }
        let sid = joining.sid().clone();
        self.joins().report_started(joining, now);
        Ok(sid)
    }

    /// Makes a join visible, with the tracks that are published already. Has no effect if the participant has been
    /// disconnected in the meantime.
    pub fn complete_join(&mut self, sid: &ParticipantSid, now: Timestamp) {
        let Some(completed) = self.joins().complete(sid, now) else {
            return;
        };
        self.note_publishing(sid, now);
        self.notify_changed_beside_tracks(sid);
        self.forwarding().refresh_publisher(sid);
        if !completed.has_client {
            self.messages().refresh_reports();
        }
    }

    /// Undoes a join that the control plane refused, without a report of the participant.
    pub fn abort_join(&mut self, sid: &ParticipantSid, now: Timestamp) {
        self.detach_encoder(sid, now);
        self.joins().abort(sid);
    }
}

/// Leaves.
impl Machine {
    /// A participant leaves, or loses its connection.
    pub fn leave(
        &mut self,
        sid: &ParticipantSid,
        departure: Departure,
        now: Timestamp,
    ) -> Result<(), MachineError> {
        self.present(sid)?;
        self.disconnect(sid, departure, DisconnectCause::Left, now);
        Ok(())
    }

    /// The server removes a participant; returns whether it was connected.
    pub fn remove_participant(&mut self, sid: &ParticipantSid, now: Timestamp) -> bool {
        let is_connected = self.roster.get(sid).is_some();
        if is_connected {
            self.disconnect(sid, Departure::Left, DisconnectCause::Removed, now);
        }
        is_connected
    }

    /// The server closes the room: its egresses end, its participants are disconnected, and its rules are dropped.
    pub fn close(&mut self, now: Timestamp) {
        self.egresses
            .end_all(now, &mut self.deadlines, &mut self.outbox);
        for sid in self.roster.release_seats() {
            self.remove(&sid, Departure::Left, DisconnectCause::RoomEnded, now);
        }
    }

    /// The server stops: every participant is disconnected, and its client asked to connect anew. Requested joins are dropped.
    pub fn stop(&mut self, now: Timestamp) {
        for sid in self.roster.release_seats() {
            let is_requested = |p: &LocalParticipant| !p.is_present() && !p.is_reported();
            if self.roster.get(&sid).is_some_and(is_requested) {
                self.cancel_request(&sid);
            } else {
                self.remove(&sid, Departure::Lost, DisconnectCause::ServerStopped, now);
            }
        }
    }

    /// Removes a participant, also one that is joining, and releases its seat.
    fn disconnect(
        &mut self,
        sid: &ParticipantSid,
        departure: Departure,
        cause: DisconnectCause,
        now: Timestamp,
    ) {
        if let Some(left) = self.take_out(sid, departure, cause, now) {
            self.roster.release_seat(&left);
            self.common.note_left(left);
        }
    }

    /// Removes a participant whose seat has been released, or is another one's.
    fn remove(
        &mut self,
        sid: &ParticipantSid,
        departure: Departure,
        cause: DisconnectCause,
        now: Timestamp,
    ) {
        if let Some(left) = self.take_out(sid, departure, cause, now) {
            self.common.note_left(left);
        }
    }

    /// Takes a participant out of the room, and reports that it left, or that its join was aborted. The caller has to release its seat, and
    /// to let the sandbox show it a while longer.
    fn take_out(
        &mut self,
        sid: &ParticipantSid,
        departure: Departure,
        cause: DisconnectCause,
        now: Timestamp,
    ) -> Option<LocalParticipant> {
        if let Some(notice) = Notice::last(cause) {
            self.roster.put_into_inbox(sid, now, notice);
        }
        let mut left = self.roster.take(sid)?;
        self.deadlines.remove(&Deadline::Bitrate(sid.clone()));
        self.deadlines.remove(&Deadline::Join(sid.clone()));
        self.outbox.disconnect(&left, cause);
        let was_active = left.is_active();
        let tracks = left.disconnect();
        for track in tracks.iter().filter(|_| was_active) {
            let track = TrackSummary::from(track);
            let participant = left.to_ref();
            self.outbox
                .report(now, MediaEvent::TrackUnpublished { participant, track });
        }
        self.report_end(&left, departure, now);
        self.detach_encoder(sid, now);
        if was_active {
            left.bump_version();
            self.notify_left(&left, !tracks.is_empty());
            self.forwarding().refresh_publisher(sid);
        }
        if left.client.is_none() {
            self.messages().refresh_reports();
        }
        Some(left)
    }

    /// Reports the end of a join: a leave if the join was reported, and otherwise that it was aborted.
    fn report_end(&mut self, left: &LocalParticipant, departure: Departure, now: Timestamp) {
        let participant = left.to_ref();
        let event = if left.is_reported() {
            MediaEvent::ParticipantLeft {
                participant,
                departure,
            }
        } else {
            MediaEvent::JoinAborted { participant }
        };
        self.outbox.report(now, event);
    }

    /// Notifies the clients of all others that a participant, which they may have seen, has left.
    fn notify_left(&mut self, left: &LocalParticipant, was_publisher: bool) {
        if left.grants.hidden {
            // The room may be empty now.
            self.egresses.note_change();
        } else {
            self.notify_gone(left, Urgency::beside_tracks(was_publisher));
        }
    }
}

/// Ingress endpoints.
impl Machine {
    /// Creates an endpoint and its stream key.
    pub fn create_ingress(&mut self, request: IngressRequest) -> (IngressId, Secret) {
        self.endpoints.create(request)
    }

    /// Returns the state of an endpoint. Restores one that a restart of the process has lost.
    pub fn ingress(&mut self, known: &KnownIngress) -> IngressState {
        self.endpoints.get_or_insert(known)
    }

    /// Returns the endpoints, with the name of the room.
    pub fn ingresses(&self) -> impl Iterator<Item = (NamespacedRoom, IngressState)> {
        self.endpoints.states()
    }

    /// Deletes an endpoint and disconnects its encoder.
    pub fn delete_ingress(&mut self, id: &IngressId, now: Timestamp) {
        let encoder = self.endpoints.get(id).and_then(IngressEndpoint::encoder);
        if let Some(sid) = encoder.cloned() {
            self.disconnect(&sid, Departure::Left, DisconnectCause::Left, now);
        }
        self.endpoints.remove(id);
    }

    /// Returns the endpoint with this stream key, if an encoder that speaks this protocol may connect to it.
    pub fn vacant_endpoint(
        &self,
        key: &StreamKeyHash,
        input: InputType,
    ) -> Result<&IngressEndpoint, MachineError> {
        self.endpoints.get_vacant(key, input)
    }

    /// Returns whether the endpoint with this stream key transcodes all video.
    pub fn transcodes(&self, key: &StreamKeyHash) -> bool {
        self.endpoints
            .get_by_key(key)
            .is_ok_and(IngressEndpoint::is_transcoded)
    }

    /// Returns the encoder of an endpoint.
    pub fn encoder_of(&self, key: &StreamKeyHash) -> Option<ParticipantSid> {
        self.endpoints.get_by_key(key).ok()?.encoder().cloned()
    }

    /// Returns the encoder of an endpoint that speaks this protocol, and when it was last heard of. `None` without one that sends packets.
    pub fn connected_encoder(
        &self,
        key: &StreamKeyHash,
        input: InputType,
    ) -> Option<(ParticipantSid, EncoderActivity)> {
        self.endpoints.connected_encoder(key, input)
    }
}

/// Encoders that send packets. They join in the two phases of clients.
impl Machine {
    /// Asks the control plane whether an encoder may join. [`Machine::admit_encoder`] or [`Machine::cancel_request`] follows.
    pub fn request_encoder(
        &mut self,
        key: &StreamKeyHash,
        input: InputType,
        now: Timestamp,
    ) -> Result<EncoderJoin, MachineError> {
        let endpoint = self.vacant_endpoint(key, input)?;
        let (id, is_transcoded) = (endpoint.id().clone(), endpoint.is_transcoded());
        let claims = endpoint.claims(now);
        let identity = claims.identity.clone();
        let sid = self.request_join(claims, Client::default(), now)?;
        let activity = EncoderActivity::new();
        self.endpoints
            .attach(&id, sid.clone(), Some(activity.clone()));
        Ok(EncoderJoin {
            sid,
            identity,
            activity,
            is_transcoded,
        })
    }

    /// Disconnects an encoder that has been silent for too long, since another one has come with its stream key. Has no effect for other
    /// participants.
    pub fn give_way(&mut self, sid: &ParticipantSid, now: Timestamp) {
        if self.endpoints.is_encoder(sid) {
            self.disconnect(sid, Departure::Lost, DisconnectCause::Replaced, now);
        }
    }

    /// Admits an encoder that the control plane has let in. Its endpoint is buffering from now on.
    pub fn admit_encoder(
        &mut self,
        sid: &ParticipantSid,
        now: Timestamp,
    ) -> Result<(), MachineError> {
        self.admit(sid, now)?;
        self.report_encoder(sid, IngressStatus::Buffering, now);
        Ok(())
    }

    /// Disconnects an encoder whose stream cannot be published. Its endpoint has the status `error` with this text.
    pub fn fail_encoder(&mut self, sid: &ParticipantSid, error: impl Into<String>, now: Timestamp) {
        self.endpoints.set_error(sid, error.into());
        self.disconnect(sid, Departure::Lost, DisconnectCause::Left, now);
    }

    /// Reports a new status of an encoder's endpoint. `None` if the participant is no encoder.
    fn report_encoder(
        &mut self,
        sid: &ParticipantSid,
        status: IngressStatus,
        now: Timestamp,
    ) -> Option<IngressState> {
        let state = self.endpoints.set_status(sid, status)?;
        self.outbox.report(now, MediaEvent::Ingress(state.clone()));
        Some(state)
    }

    /// Reports that an encoder publishes, once it is active with a track.
    pub(super) fn note_publishing(&mut self, sid: &ParticipantSid, now: Timestamp) {
        let publishes = |encoder: &LocalParticipant| encoder.participant().is_publisher;
        if self.endpoints.is_buffering(sid) && self.roster.active(sid).is_ok_and(publishes) {
            self.report_encoder(sid, IngressStatus::Publishing, now);
        }
    }

    /// Reports that an encoder has left its endpoint. Has no effect for other participants.
    fn detach_encoder(&mut self, sid: &ParticipantSid, now: Timestamp) {
        if let Some(state) = self.endpoints.detach(sid) {
            self.outbox.report(now, MediaEvent::Ingress(state));
        }
    }
}

/// Encoders of the sandbox, which join as its participants do.
impl Machine {
    /// An encoder connects: it begins to join, unless the endpoint has an encoder already.
    pub fn begin_connect(
        &mut self,
        key: &StreamKeyHash,
        now: Timestamp,
    ) -> Result<EncoderConnection, MachineError> {
        let endpoint = self.endpoints.get_by_key(key)?;
        if endpoint.encoder().is_some() {
            return Ok(EncoderConnection::AlreadyConnected(endpoint.state()));
        }
        let (id, claims) = (endpoint.id().clone(), endpoint.claims(now));
        let sid = self.begin_join(claims, now)?;
        self.endpoints.attach(&id, sid.clone(), None);
        Ok(EncoderConnection::Joining(sid))
    }

    /// The control plane has accepted an encoder: it publishes a video and an audio track.
    pub fn complete_connect(
        &mut self,
        sid: &ParticipantSid,
        now: Timestamp,
    ) -> Result<IngressState, MachineError> {
        self.complete_join(sid, now);
        for (kind, source) in [
            (TrackKind::Video, TrackSource::Camera),
            (TrackKind::Audio, TrackSource::Microphone),
        ] {
            let track = NewTrack {
                kind,
                source,
                name: None,
                muted: false,
            };
            self.publish(sid, track, now)?;
        }
        self.report_encoder(sid, IngressStatus::Publishing, now)
            .ok_or(MachineError::NoSuchIngress)
    }

    /// An encoder disconnects. Has no effect if none is connected.
    pub fn disconnect_encoder(
        &mut self,
        key: &StreamKeyHash,
        now: Timestamp,
    ) -> Result<IngressState, MachineError> {
        let encoder = self.endpoints.get_by_key(key)?.encoder();
        if let Some(sid) = encoder.cloned() {
            self.disconnect(&sid, Departure::Left, DisconnectCause::Left, now);
        }
        Ok(self.endpoints.get_by_key(key)?.state())
    }
}
