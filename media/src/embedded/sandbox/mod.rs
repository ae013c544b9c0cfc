//! The sandbox API's calls, by which an HTTP client acts as a participant's client and simulates failures between the
//! plane and the control plane.
//!
//! A call that changes something returns once the control plane has replied to the resulting reports.

pub(super) mod faults;

use std::sync::Arc;
use std::time::Duration;

use conclave_model::egress::{EgressState, EgressStatus};
use conclave_model::event::Departure;
use conclave_model::ingress::{IngressState, StreamKeyHash};
use conclave_model::participant::{Participant, ParticipantState, Track};
use conclave_model::{
    EgressId, Identity, NamespacedRoom, ParticipantSid, RoleName, RoomName, Secret, Timestamp,
    TrackSid,
};

use super::common::RoomObject;
use super::error::RoomStateError;
use super::inbox::InboxEntry;
use super::join::phases;
use super::local_participant::{ParticipantSnapshot, token_expiry};
use super::plane::core::{PlaneCore, await_replies};
use super::publish::NewTrack;
use super::room::Room;
use super::room_state::RoomState;
use super::room_state::membership::EncoderConnection;
use crate::port::{ReportError, ReportReply};
use crate::redact::redact_urls;
use crate::token::TokenError;

/// Reason why a sandbox call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// The token does not permit the join.
    #[error("{0}")]
    BadToken(TokenError),
    /// No participant has this sid.
    #[error("no such participant")]
    NoSuchParticipant,
    /// The participant publishes no track with this sid.
    #[error("no such track")]
    NoSuchTrack,
    /// No recording or broadcast has this id.
    #[error("no such egress")]
    NoSuchEgress,
    /// Not granted. Holds the reason.
    #[error("{0}")]
    Forbidden(String),
    /// No ingress endpoint has this stream key, or it was deleted.
    #[error("no such ingress endpoint")]
    NoSuchIngress,
    /// The room has its maximum number of participants.
    #[error("the room is full")]
    RoomFull,
    /// The role has its maximum number of participants in this room.
    #[error("the role is full for this room")]
    RoleFull,
    /// The token comes from a room code, and another participant with its identity is connected.
    #[error("another participant with this identity is connected")]
    IdentityTaken,
    /// The identity is banned, or the token was revoked.
    #[error("{0}")]
    Refused(ReportError),
    /// The room has ended; its name is not used again.
    #[error("the room has ended")]
    RoomEnded,
    /// The control plane did not accept the report. Except for a join, the change on the media plane remains, and
    /// reconciliation adjusts the records.
    #[error("the report was not accepted")]
    Unavailable,
}

impl From<RoomStateError> for SandboxError {
    fn from(error: RoomStateError) -> Self {
        match error {
            RoomStateError::NoSuchParticipant => Self::NoSuchParticipant,
            RoomStateError::NoSuchTrack => Self::NoSuchTrack,
            RoomStateError::Forbidden(reason) => Self::Forbidden(reason.to_owned()),
            // The sandbox API has no code of its own for this.
            RoomStateError::TooManyTracks => Self::Forbidden(error.to_string()),
            RoomStateError::RoomFull => Self::RoomFull,
            RoomStateError::IdentityTaken => Self::IdentityTaken,
            // Temporary, like an unavailable control plane: the client should retry.
            RoomStateError::Stopping => Self::Unavailable,
            // A second encoder's connection has no effect here, so it is not refused.
            RoomStateError::NoSuchIngress | RoomStateError::EncoderConnected => Self::NoSuchIngress,
        }
    }
}

impl From<ReportError> for SandboxError {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::RoomEnded | ReportError::UnknownRoom => Self::RoomEnded,
            ReportError::RoleFull => Self::RoleFull,
            ReportError::Banned | ReportError::TokenRevoked => Self::Refused(error),
            // `InvalidIdentity` and `RoleRemoved` cannot occur: tokens contain only valid identities, and only a join
            // request, which the sandbox does not send, is refused for a removed role.
            ReportError::InvalidIdentity | ReportError::RoleRemoved | ReportError::Unavailable => {
                Self::Unavailable
            }
        }
    }
}

/// A join that the control plane accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinAccepted {
    /// The participant's sid.
    pub sid: ParticipantSid,
    /// The participant's identity.
    pub identity: Identity,
    /// The room's name, without the project's prefix.
    pub room: RoomName,
    /// The participant's role.
    pub role: Option<RoleName>,
}

/// State of a participant's client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientView {
    /// The participant; its state is `disconnected` after it has left.
    pub participant: Participant,
    /// Token, refreshed while the participant is connected.
    pub token: Secret,
    /// Received notices, oldest first.
    pub inbox: Vec<InboxEntry>,
    /// Tracks that it may receive.
    pub subscriptions: Vec<TrackSid>,
}

/// The sandbox API: actions of a participant's client, and simulated failures. Cheap to clone.
#[derive(Clone)]
pub struct Sandbox(Arc<PlaneCore>);

impl Sandbox {
    /// Creates a plane's sandbox API.
    pub(super) const fn new(inner: Arc<PlaneCore>) -> Self {
        Self(inner)
    }

    /// Joins a room.
    ///
    /// # Errors
    /// `BadToken`, `RoomFull`, `RoleFull`, `IdentityTaken`, `RoomEnded`, `Unavailable`. The participant has not joined
    /// then.
    pub async fn join(&self, token: &str) -> Result<JoinAccepted, SandboxError> {
        let claims = self
            .0
            .signer
            .verify(token, self.0.clock.now())
            .map_err(SandboxError::BadToken)?;
        let (identity, room, role) = (
            claims.identity.clone(),
            claims.room.split().1,
            claims.role(),
        );
        let name = claims.room.clone();
        let (entered, sid, replies) = self
            .0
            .enter(&name, |room_state, now| room_state.start_join(claims, now));
        let sid = sid?;
        // Spawned, so that the join is completed or aborted even if the caller disconnects.
        let concluded = tokio::spawn(phases::conclude_uncounted(
            Arc::clone(&self.0),
            entered,
            sid.clone(),
            replies,
        ));
        concluded.await.map_err(|_| SandboxError::Unavailable)??;
        Ok(JoinAccepted {
            sid,
            identity,
            room,
            role,
        })
    }

    /// Publishes a track.
    ///
    /// # Errors
    /// `NoSuchParticipant`, `Forbidden`, or the control plane's refusal.
    pub async fn publish(
        &self,
        sid: &ParticipantSid,
        track: NewTrack,
    ) -> Result<Track, SandboxError> {
        self.call(sid, |room_state, now| room_state.publish(sid, track, now))
            .await
    }

    /// Ends a track.
    ///
    /// # Errors
    /// `NoSuchParticipant`, `NoSuchTrack`, or the control plane's refusal.
    pub async fn unpublish(
        &self,
        sid: &ParticipantSid,
        track: &TrackSid,
    ) -> Result<(), SandboxError> {
        self.call(sid, |room_state, now| room_state.unpublish(sid, track, now))
            .await
    }

    /// Mutes or unmutes a track as its publisher.
    ///
    /// # Errors
    /// `NoSuchParticipant`, `NoSuchTrack`, or the control plane's refusal.
    pub async fn mute(
        &self,
        sid: &ParticipantSid,
        track: &TrackSid,
        muted: bool,
    ) -> Result<Track, SandboxError> {
        self.call(sid, |room_state, now| {
            room_state.mute(sid, track, muted, now)
        })
        .await
    }

    /// Sends data to all other participants in the room that may subscribe.
    ///
    /// # Errors
    /// `NoSuchParticipant`, `Forbidden`.
    pub async fn send_data(
        &self,
        sid: &ParticipantSid,
        data: Vec<u8>,
        topic: Option<&str>,
    ) -> Result<(), SandboxError> {
        self.call(sid, |room_state, now| {
            room_state.send_data(sid, data, topic, now)
        })
        .await
    }

    /// Sets a participant's measured bitrate, in kbit/s.
    ///
    /// # Errors
    /// `NoSuchParticipant`, or the control plane's refusal.
    pub async fn set_bitrate(&self, sid: &ParticipantSid, kbps: u32) -> Result<(), SandboxError> {
        self.call(sid, |room_state, now| {
            room_state.set_bitrate(sid, kbps, now)
        })
        .await
    }

    /// Leaves, or loses the connection.
    ///
    /// # Errors
    /// `NoSuchParticipant`, or the control plane's refusal. The participant has left in any case.
    pub async fn leave(
        &self,
        sid: &ParticipantSid,
        departure: Departure,
    ) -> Result<(), SandboxError> {
        self.call(sid, |room_state, now| room_state.leave(sid, departure, now))
            .await
    }

    /// Sets the status of a recording or broadcast, and returns its new state. An impossible transition is only
    /// reported. URLs in the error are redacted, as in errors from LiveKit's egress workers.
    ///
    /// # Errors
    /// `NoSuchEgress`, or the control plane's refusal.
    pub async fn set_egress_status(
        &self,
        id: &EgressId,
        status: EgressStatus,
        error: Option<String>,
    ) -> Result<EgressState, SandboxError> {
        // Simulated errors must look like real ones, and those never contain stream keys.
        let error = error.map(|error| redact_urls(&error));
        let room = self
            .0
            .common
            .room_of(&RoomObject::Egress(id.clone()))
            .ok_or(SandboxError::NoSuchEgress)?;
        // Not a port call: a simulated outage affects the control plane's calls only.
        let (state, replies) = self.0.call(&room, |room_state, now| {
            room_state.set_egress_status(id, status, error, now)
        });
        let state = state.ok_or(SandboxError::NoSuchEgress)?;
        await_replies(replies).await?;
        Ok(state)
    }

    /// Connects a simulated encoder with a stream key: a participant joins and publishes. Has no effect if the endpoint
    /// already has an encoder.
    ///
    /// # Errors
    /// `NoSuchIngress`, or the errors of a join.
    pub async fn connect_encoder(&self, stream_key: &str) -> Result<IngressState, SandboxError> {
        let key = StreamKeyHash::from_key(stream_key);
        // An unknown key must not create a room.
        let name = self.0.common.room_of_key(&key)?;
        let (room, connection, replies) = self.0.enter(&name, |room_state, now| {
            room_state.start_encoder_join(&key, now)
        });
        match connection? {
            EncoderConnection::AlreadyConnected(state) => Ok(state),
            EncoderConnection::Joining(sid) => {
                // Spawned, like every join.
                let connected =
                    tokio::spawn(conclude_encoder(Arc::clone(&self.0), room, sid, replies));
                connected.await.map_err(|_| SandboxError::Unavailable)?
            }
        }
    }

    /// Disconnects an encoder. Has no effect if none is connected.
    ///
    /// # Errors
    /// `NoSuchIngress`, or the control plane's refusal. The encoder has disconnected in any case.
    pub async fn disconnect_encoder(&self, stream_key: &str) -> Result<IngressState, SandboxError> {
        let key = StreamKeyHash::from_key(stream_key);
        let room = self.0.common.room_of_key(&key)?;
        self.call_room(&room, |room_state, now| {
            room_state.disconnect_encoder(&key, now)
        })
        .await
    }

    /// Makes all of the control plane's calls fail for a duration; zero ends an outage. Participants stay connected,
    /// and events are reported.
    pub fn simulate_outage(&self, duration: Duration) {
        self.0.faults.simulate_outage(&self.0.clock, duration);
    }

    /// Drops the next reports, so that the control plane does not receive them. A dropped report of a join counts as
    /// accepted.
    pub fn drop_reports(&self, count: u32) {
        self.0.faults.drop_reports(count);
    }

    /// Returns a participant's client state, also for a while after its leave.
    ///
    /// # Errors
    /// `NoSuchParticipant`.
    pub async fn view(&self, sid: &ParticipantSid) -> Result<ClientView, SandboxError> {
        // One call, so that participant and subscriptions come from the same moment.
        let read = |room_state: &mut RoomState, now| {
            (
                room_state.active_or_left(sid),
                room_state.subscriptions(sid),
                now,
            )
        };
        let ((shown, subscriptions, now), _) = self.0.call(&self.room_of(sid)?, read);
        let ParticipantSnapshot {
            participant,
            claims,
            inbox,
        } = shown?;
        // After the leave, the token keeps its expiry: the server no longer refreshes it.
        let is_connected = participant.state == ParticipantState::Active;
        // Signed anew for each view, like the tokens that a connected client receives.
        let refreshed =
            self.0
                .signer
                .refresh(&claims, token_expiry(&claims, is_connected, now), now);
        let token = refreshed.map_err(SandboxError::BadToken)?.token;
        Ok(ClientView {
            participant,
            token,
            inbox,
            subscriptions,
        })
    }

    fn room_of(&self, sid: &ParticipantSid) -> Result<NamespacedRoom, SandboxError> {
        self.0
            .common
            .room_of(&RoomObject::Participant(sid.clone()))
            .ok_or(SandboxError::NoSuchParticipant)
    }

    /// Calls a participant's room and awaits the replies to the resulting reports.
    async fn call<T>(
        &self,
        sid: &ParticipantSid,
        call: impl FnOnce(&mut RoomState, Timestamp) -> Result<T, RoomStateError>,
    ) -> Result<T, SandboxError> {
        self.call_room(&self.room_of(sid)?, call).await
    }

    async fn call_room<T>(
        &self,
        room: &NamespacedRoom,
        call: impl FnOnce(&mut RoomState, Timestamp) -> Result<T, RoomStateError>,
    ) -> Result<T, SandboxError> {
        let (result, replies) = self.0.call(room, call);
        let value = result?;
        // The call has already taken effect. An error only means that the control plane's records lack it.
        await_replies(replies).await?;
        Ok(value)
    }
}

/// Completes or aborts a simulated encoder's join, and publishes its tracks.
async fn conclude_encoder(
    inner: Arc<PlaneCore>,
    room: Arc<Room>,
    sid: ParticipantSid,
    replies: Vec<ReportReply>,
) -> Result<IngressState, SandboxError> {
    let connect = |room_state: &mut RoomState, now| room_state.complete_connect(&sid, now);
    let (connected, replies) = phases::conclude_with(&inner, &room, &sid, replies, connect).await?;
    let state = connected?;
    await_replies(replies).await?;
    Ok(state)
}

#[cfg(test)]
mod tests;
