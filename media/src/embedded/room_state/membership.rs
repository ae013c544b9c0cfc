//! Calls by which participants and encoders come and go.
//!
//! A join has two phases, described in [`join`](crate::embedded::join). An encoder joins like any participant: the
//! control plane may refuse its join and may remove it. Its endpoint's status follows: buffering while the encoder's
//! media connects, publishing once its tracks are published, inactive or failed after it has left.

use conclave_model::event::{Departure, TrackSummary};
use conclave_model::ingress::{IngressState, IngressStatus, InputType, StreamKeyHash};
use conclave_model::participant::{TrackKind, TrackSource};
use conclave_model::{Identity, IngressId, NamespacedRoom, ParticipantSid, Secret, Timestamp};

use super::RoomState;
use super::deadlines::Deadline;
use super::updates::Urgency;
use crate::embedded::client::Client;
use crate::embedded::effect::DisconnectCause;
use crate::embedded::error::RoomStateError;
use crate::embedded::inbox::Notice;
use crate::embedded::ingress::endpoints::IngressEndpoint;
use crate::embedded::ingress::stream_keys::EncoderActivity;
use crate::embedded::local_participant::LocalParticipant;
use crate::embedded::publish::NewTrack;
use crate::port::{IngressRequest, KnownIngress, MediaEvent};
use crate::token::Claims;

/// An encoder's requested join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::embedded) struct EncoderJoin {
    /// The sid that the encoder's participant gets.
    pub sid: ParticipantSid,
    /// The endpoint's participant identity.
    pub identity: Identity,
    /// Time of the encoder's last packet.
    pub activity: EncoderActivity,
    /// Whether video is transcoded even if receivers could play it.
    pub is_transcoded: bool,
}

/// Result of a simulated encoder's attempt to connect.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::embedded) enum EncoderConnection {
    /// The endpoint already has an encoder. Holds the endpoint's state.
    AlreadyConnected(IngressState),
    /// The encoder joins as this participant if the control plane accepts it.
    Joining(ParticipantSid),
}

/// Joins.
impl RoomState {
    /// Requests the control plane's decision on a client's join. Reserves a seat until [`RoomState::admit`] or
    /// [`RoomState::cancel_request`].
    pub fn request_join(
        &mut self,
        claims: Claims,
        client: Client,
        now: Timestamp,
    ) -> Result<ParticipantSid, RoomStateError> {
        self.joins().request(claims, client, now)
    }

    /// Requests the control plane's decision on a join without joining.
    pub fn probe_join(&mut self, claims: Claims, now: Timestamp) -> Result<(), RoomStateError> {
        self.joins().probe(claims, now)
    }

    /// Drops a join that the control plane refused or could not decide on.
    pub fn cancel_request(&mut self, sid: &ParticipantSid) {
        self.endpoints.detach(sid);
        self.joins().cancel(sid);
    }

    /// Admits a client that the control plane accepted. The client replaces the member with its identity, and must
    /// connect its media in time.
    ///
    /// # Errors
    /// If the client has been disconnected in the meantime, or if another one has got the identity that a room code
    /// assigned. The join leaves no trace then.
    pub fn admit(&mut self, sid: &ParticipantSid, now: Timestamp) -> Result<(), RoomStateError> {
        let admitted = self.joins().admit(sid, now);
        if admitted == Err(RoomStateError::IdentityTaken) {
            self.disconnect(sid, Departure::Lost, DisconnectCause::JoinRefused, now);
        }
        // The replaced member leaves after the new one was inserted, so the room never becomes empty in between and
        // keeps its rules.
        if let Some(old) = admitted? {
            self.remove(&old, Departure::Left, DisconnectCause::Replaced, now);
        }
        self.joins().await_media(sid);
        Ok(())
    }

    /// Shortens a connecting client's deadline, since its signalling is lost.
    pub fn signal_lost(&mut self, sid: &ParticipantSid) {
        self.joins().shorten_deadline(sid);
    }

    /// Aborts a join whose media did not connect in time.
    pub(super) fn abort_late_join(&mut self, sid: &ParticipantSid, now: Timestamp) {
        self.disconnect(sid, Departure::Lost, DisconnectCause::JoinTimeout, now);
    }

    /// Reports the join of a client whose media has connected. Returns false if it was reported before. The control
    /// plane's reply decides between [`RoomState::complete_join`] and [`RoomState::abort_join`].
    pub fn connected(&mut self, sid: &ParticipantSid, now: Timestamp) -> bool {
        self.joins().connect(sid, now)
    }

    /// Starts and reports a sandbox participant's join. The participant is counted, but hidden from all others until
    /// [`RoomState::complete_join`]. A member with the same identity is disconnected first.
    pub fn start_join(
        &mut self,
        claims: Claims,
        now: Timestamp,
    ) -> Result<ParticipantSid, RoomStateError> {
        let (joining, replaced) = self.joins().start(claims, now)?;
        // Webhook receivers get the old participant's leave before the new one's join.
        if let Some(old) = replaced {
            self.remove(&old, Departure::Left, DisconnectCause::Replaced, now);
        }
        let sid = joining.sid().clone();
        self.joins().report_started(joining, now);
        Ok(sid)
    }

    /// Makes a joined participant visible, with its published tracks. Has no effect if the participant has been
    /// disconnected in the meantime.
    pub fn complete_join(&mut self, sid: &ParticipantSid, now: Timestamp) {
        let Some(completed) = self.joins().complete(sid, now) else {
            return;
        };
        self.report_publishing(sid, now);
        // Clients drop media from participants that they do not know, so the update precedes the subscriptions.
        self.notify_changed_without_tracks(sid);
        self.forwarding().refresh_publisher(sid);
        if !completed.has_client {
            // The first sandbox participant switches the media worker's message reports on.
            self.messages().refresh_reports();
        }
    }

    /// Undoes a join that the control plane refused. The participant is not reported.
    pub fn abort_join(&mut self, sid: &ParticipantSid, now: Timestamp) {
        self.detach_encoder(sid, now);
        self.joins().abort(sid);
    }
}

/// Leaves.
impl RoomState {
    /// Disconnects a participant that leaves or loses its connection.
    pub fn leave(
        &mut self,
        sid: &ParticipantSid,
        departure: Departure,
        now: Timestamp,
    ) -> Result<(), RoomStateError> {
        self.present(sid)?;
        self.disconnect(sid, departure, DisconnectCause::Left, now);
        Ok(())
    }

    /// Removes a participant on the server's request. Returns whether it was connected.
    pub fn remove_participant(&mut self, sid: &ParticipantSid, now: Timestamp) -> bool {
        let is_connected = self.roster.get(sid).is_some();
        if is_connected {
            self.disconnect(sid, Departure::Left, DisconnectCause::Removed, now);
        }
        is_connected
    }

    /// Closes the room on the server's request: its egresses end, its participants are disconnected, and its rules are
    /// dropped.
    pub fn close(&mut self, now: Timestamp) {
        // Reports are handled in this order: an egress ends before the participants that it recorded leave.
        self.egresses
            .end_all(now, &mut self.deadlines, &mut self.outbox);
        for sid in self.roster.release_seats() {
            self.remove(&sid, Departure::Left, DisconnectCause::RoomEnded, now);
        }
    }

    /// Disconnects every participant because the server stops; clients are asked to reconnect. Requested joins are
    /// dropped.
    pub fn stop(&mut self, now: Timestamp) {
        for sid in self.roster.release_seats() {
            // A requested join has neither a session nor a report that would have to be ended.
            let is_requested = |p: &LocalParticipant| !p.is_present() && !p.is_reported();
            if self.roster.get(&sid).is_some_and(is_requested) {
                self.cancel_request(&sid);
            } else {
                self.remove(&sid, Departure::Lost, DisconnectCause::ServerStopped, now);
            }
        }
    }

    /// Removes a participant, which may be joining, and releases its seat.
    fn disconnect(
        &mut self,
        sid: &ParticipantSid,
        departure: Departure,
        cause: DisconnectCause,
        now: Timestamp,
    ) {
        if let Some(left) = self.take_out(sid, departure, cause, now) {
            self.roster.release_seat(&left);
            self.common.keep_left(left);
        }
    }

    /// Removes a participant whose seat has been released or taken over.
    fn remove(
        &mut self,
        sid: &ParticipantSid,
        departure: Departure,
        cause: DisconnectCause,
        now: Timestamp,
    ) {
        if let Some(left) = self.take_out(sid, departure, cause, now) {
            self.common.keep_left(left);
        }
    }

    /// Removes a participant from the room, and reports its leave or its aborted join. The caller must release its
    /// seat, and keep it for the sandbox.
    fn take_out(
        &mut self,
        sid: &ParticipantSid,
        departure: Departure,
        cause: DisconnectCause,
        now: Timestamp,
    ) -> Option<LocalParticipant> {
        // Inboxes are only reachable through the roster, so the last notice goes in before the participant goes out.
        if let Some(notice) = Notice::last(cause) {
            self.roster.put_into_inbox(sid, now, notice);
        }
        let mut left = self.roster.take(sid)?;
        self.deadlines.remove(&Deadline::Bitrate(sid.clone()));
        self.deadlines.remove(&Deadline::Join(sid.clone()));
        self.outbox.disconnect(&left, cause);
        let was_active = left.is_active();
        let tracks = left.disconnect();
        // A participant that was never active has no reported tracks.
        for track in tracks.iter().filter(|_| was_active) {
            let track = TrackSummary::from(track);
            let participant = left.to_ref();
            self.outbox
                .report(now, MediaEvent::TrackUnpublished { participant, track });
        }
        // The order of the reports is the order of the webhooks: tracks end before their participant leaves.
        self.report_end(&left, departure, now);
        self.detach_encoder(sid, now);
        if was_active {
            // Clients ignore an update with a lower version than their current one.
            left.bump_version();
            self.notify_left(&left, !tracks.is_empty());
            self.forwarding().refresh_publisher(sid);
        }
        // Without sandbox participants, nobody needs the media worker's message reports.
        if left.client.is_none() {
            self.messages().refresh_reports();
        }
        Some(left)
    }

    /// Reports a leave if the join was reported, otherwise that the join was aborted.
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

    /// Notifies all other clients that a participant has left, if they could see it.
    fn notify_left(&mut self, left: &LocalParticipant, was_publisher: bool) {
        if left.grants.hidden {
            // Other clients never saw the participant, but egresses count hidden participants: the room may be empty
            // now.
            self.egresses.record_change();
        } else {
            self.notify_gone(left, Urgency::without_tracks(was_publisher));
        }
    }
}

/// Ingress endpoints.
impl RoomState {
    /// Creates an endpoint and its stream key.
    pub fn create_ingress(&mut self, request: IngressRequest) -> (IngressId, Secret) {
        self.endpoints.create(request)
    }

    /// Returns an endpoint's state. Restores an endpoint that a restart has lost.
    pub fn ingress(&mut self, known: &KnownIngress) -> IngressState {
        self.endpoints.get_or_insert(known)
    }

    /// Returns the endpoints, with the room's name.
    pub fn ingresses(&self) -> impl Iterator<Item = (NamespacedRoom, IngressState)> {
        self.endpoints.states()
    }

    pub fn delete_ingress(&mut self, id: &IngressId, now: Timestamp) {
        let encoder = self.endpoints.get(id).and_then(IngressEndpoint::encoder);
        if let Some(sid) = encoder.cloned() {
            self.disconnect(&sid, Departure::Left, DisconnectCause::Left, now);
        }
        self.endpoints.remove(id);
    }

    /// Returns the endpoint with this stream key if an encoder using this protocol may connect to it.
    pub fn vacant_endpoint(
        &self,
        key: &StreamKeyHash,
        input: InputType,
    ) -> Result<&IngressEndpoint, RoomStateError> {
        self.endpoints.get_vacant(key, input)
    }

    /// Returns whether the endpoint with this stream key transcodes all video.
    pub fn transcodes(&self, key: &StreamKeyHash) -> bool {
        self.endpoints
            .get_by_key(key)
            .is_ok_and(IngressEndpoint::is_transcoded)
    }

    /// Returns the endpoint's encoder.
    pub fn encoder_of(&self, key: &StreamKeyHash) -> Option<ParticipantSid> {
        self.endpoints.get_by_key(key).ok()?.encoder().cloned()
    }

    /// Returns the endpoint's encoder and the time of its last packet, if it uses this protocol. `None` for a simulated
    /// encoder.
    pub fn connected_encoder(
        &self,
        key: &StreamKeyHash,
        input: InputType,
    ) -> Option<(ParticipantSid, EncoderActivity)> {
        self.endpoints.connected_encoder(key, input)
    }
}

/// Encoders that send packets. They join in two phases, as clients do.
impl RoomState {
    /// Requests the control plane's decision on an encoder's join. [`RoomState::admit_encoder`] or
    /// [`RoomState::cancel_request`] follows.
    pub fn request_encoder(
        &mut self,
        key: &StreamKeyHash,
        input: InputType,
        now: Timestamp,
    ) -> Result<EncoderJoin, RoomStateError> {
        let endpoint = self.vacant_endpoint(key, input)?;
        let (id, is_transcoded) = (endpoint.id().clone(), endpoint.is_transcoded());
        let claims = endpoint.claims(now);
        let identity = claims.identity.clone();
        // With a client, since it has transports and sends packets. It subscribes to nothing.
        let sid = self.request_join(claims, Client::default(), now)?;
        let activity = EncoderActivity::new();
        // The endpoint is occupied from now on, so that a second encoder is refused while the control plane decides.
        self.endpoints
            .attach(&id, sid.clone(), Some(activity.clone()));
        Ok(EncoderJoin {
            sid,
            identity,
            activity,
            is_transcoded,
        })
    }

    /// Disconnects an encoder after a long silence, in favour of a new encoder with the same stream key. Has no effect on
    /// other participants.
    pub fn replace_silent_encoder(&mut self, sid: &ParticipantSid, now: Timestamp) {
        if self.endpoints.is_encoder(sid) {
            self.disconnect(sid, Departure::Lost, DisconnectCause::Replaced, now);
        }
    }

    /// Admits an encoder that the control plane accepted. Its endpoint's status becomes `buffering`.
    pub fn admit_encoder(
        &mut self,
        sid: &ParticipantSid,
        now: Timestamp,
    ) -> Result<(), RoomStateError> {
        self.admit(sid, now)?;
        self.report_encoder(sid, IngressStatus::Buffering, now);
        Ok(())
    }

    /// Disconnects an encoder whose stream cannot be published. Its endpoint gets the status `error` with this text.
    pub fn fail_encoder(&mut self, sid: &ParticipantSid, error: impl Into<String>, now: Timestamp) {
        // The error is set first: detaching, a part of the disconnection, reports the endpoint's final state.
        self.endpoints.set_error(sid, error.into());
        self.disconnect(sid, Departure::Lost, DisconnectCause::Left, now);
    }

    /// Reports an encoder's new endpoint status. `None` if the participant is no encoder.
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

    /// Reports that an encoder publishes, once it is active and has a track.
    pub(super) fn report_publishing(&mut self, sid: &ParticipantSid, now: Timestamp) {
        // A track may be negotiated before or after the join is accepted; whichever comes second reports.
        let publishes = |encoder: &LocalParticipant| encoder.participant().is_publisher;
        if self.endpoints.is_buffering(sid) && self.roster.active(sid).is_ok_and(publishes) {
            self.report_encoder(sid, IngressStatus::Publishing, now);
        }
    }

    /// Reports that an encoder has left its endpoint. Has no effect on other participants.
    fn detach_encoder(&mut self, sid: &ParticipantSid, now: Timestamp) {
        if let Some(state) = self.endpoints.detach(sid) {
            self.outbox.report(now, MediaEvent::Ingress(state));
        }
    }
}

/// Simulated encoders, which join like sandbox participants.
impl RoomState {
    /// Starts a simulated encoder's join, unless the endpoint already has an encoder.
    pub fn start_encoder_join(
        &mut self,
        key: &StreamKeyHash,
        now: Timestamp,
    ) -> Result<EncoderConnection, RoomStateError> {
        let endpoint = self.endpoints.get_by_key(key)?;
        if endpoint.encoder().is_some() {
            return Ok(EncoderConnection::AlreadyConnected(endpoint.state()));
        }
        let (id, claims) = (endpoint.id().clone(), endpoint.claims(now));
        let sid = self.start_join(claims, now)?;
        self.endpoints.attach(&id, sid.clone(), None);
        Ok(EncoderConnection::Joining(sid))
    }

    /// Completes a simulated encoder's join, and publishes a video and an audio track.
    pub fn complete_connect(
        &mut self,
        sid: &ParticipantSid,
        now: Timestamp,
    ) -> Result<IngressState, RoomStateError> {
        self.complete_join(sid, now);
        // Like a usual encoder: one video and one audio track.
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
            // The endpoint may have been deleted while the control plane decided.
            .ok_or(RoomStateError::NoSuchIngress)
    }

    /// Disconnects an endpoint's encoder, if there is one.
    pub fn disconnect_encoder(
        &mut self,
        key: &StreamKeyHash,
        now: Timestamp,
    ) -> Result<IngressState, RoomStateError> {
        let encoder = self.endpoints.get_by_key(key)?.encoder();
        if let Some(sid) = encoder.cloned() {
            self.disconnect(&sid, Departure::Left, DisconnectCause::Left, now);
        }
        Ok(self.endpoints.get_by_key(key)?.state())
    }
}
