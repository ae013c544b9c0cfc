//! The calls of the sandbox API, by which an HTTP client acts as a participant's client, and simulates failures between the plane and
//! the control plane.
//!
//! A call that changes something returns once the control plane has answered the reports that it caused.

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

use super::common::Owned;
use super::error::MachineError;
use super::inbox::InboxEntry;
use super::join::phases;
use super::local_participant::{ShownParticipant, token_expiry};
use super::machine::Machine;
use super::machine::membership::EncoderConnection;
use super::plane::core::{Inner, await_answers};
use super::publish::NewTrack;
use super::room::Room;
use crate::port::{ReportAnswer, ReportError};
use crate::redact::redact_urls;
use crate::token::TokenError;

/// Why a sandbox call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// The token is invalid.
    #[error("{0}")]
    BadToken(TokenError),
    /// No participant has that sid.
    #[error("no such participant")]
    NoSuchParticipant,
    /// The participant publishes no track with that sid.
    #[error("no such track")]
    NoSuchTrack,
    /// No recording or broadcast has that id.
    #[error("no such egress")]
    NoSuchEgress,
    /// The participant's grants forbid it. Holds the reason.
    #[error("{0}")]
    Forbidden(String),
    /// No ingress endpoint has that stream key, or it has been deleted.
    #[error("no such ingress endpoint")]
    NoSuchIngress,
    /// The room has its maximum of participants.
    #[error("the room is full")]
    RoomFull,
    /// The role has its maximum of participants in this room.
    #[error("the role is full for this room")]
    RoleFull,
    /// The token comes from a room code, and another participant with its identity is connected.
    #[error("another participant with this identity is connected")]
    IdentityTaken,
    /// The room has ended.
    #[error("the room has ended")]
    RoomEnded,
    /// The control plane did not accept the report. Except for a join, the change on the media plane is kept, and
    /// reconciliation adapts the records to it.
    #[error("the report was not accepted")]
    Unavailable,
}

impl From<MachineError> for SandboxError {
    fn from(error: MachineError) -> Self {
        match error {
            MachineError::NoSuchParticipant => Self::NoSuchParticipant,
            MachineError::NoSuchTrack => Self::NoSuchTrack,
            MachineError::Forbidden(reason) => Self::Forbidden(reason.to_owned()),
            MachineError::TooManyTracks => Self::Forbidden(error.to_string()),
            MachineError::RoomFull => Self::RoomFull,
            MachineError::IdentityTaken => Self::IdentityTaken,
            MachineError::Stopping => Self::Unavailable,
            // Connecting a second encoder has no effect here, so it is not refused.
            MachineError::NoSuchIngress | MachineError::EncoderConnected => Self::NoSuchIngress,
        }
    }
}

impl From<ReportError> for SandboxError {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::RoomEnded | ReportError::UnknownRoom => Self::RoomEnded,
            ReportError::RoleFull => Self::RoleFull,
            // This plane admits no other identities, and a join of the sandbox is not asked for beforehand.
            ReportError::InvalidIdentity | ReportError::RoleRemoved | ReportError::Unavailable => {
                Self::Unavailable
            }
        }
    }
}

/// A join that the control plane has accepted.
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

/// The state of a participant's client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientView {
    /// The participant; its state is `disconnected` after it has left.
    pub participant: Participant,
    /// Its token, which is refreshed while it is connected.
    pub token: Secret,
    /// What it has received, oldest first.
    pub inbox: Vec<InboxEntry>,
    /// The tracks it may receive.
    pub subscriptions: Vec<TrackSid>,
}

/// The sandbox API: what an HTTP client does as a participant's client, and the failures that it simulates. Cheap to clone.
#[derive(Clone)]
pub struct Sandbox(Arc<Inner>);

impl Sandbox {
    /// Creates the sandbox API of a plane.
    pub(super) const fn new(inner: Arc<Inner>) -> Self {
        Self(inner)
    }

    /// Joins a room.
    ///
    /// # Errors
    /// `BadToken`, `RoomFull`, `RoleFull`, `IdentityTaken`, `RoomEnded`, `Unavailable`. The participant has not joined then.
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
        let (entered, sid, answers) = self
            .0
            .enter(&name, |machine, now| machine.begin_join(claims, now));
        let sid = sid?;
        // In a spawned task, so that the join is completed or aborted even if the caller disconnects.
        let concluded = tokio::spawn(phases::conclude_uncounted(
            Arc::clone(&self.0),
            entered,
            sid.clone(),
            answers,
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
    /// `NoSuchParticipant`, `Forbidden`, or what the control plane answered.
    pub async fn publish(
        &self,
        sid: &ParticipantSid,
        track: NewTrack,
    ) -> Result<Track, SandboxError> {
        self.call(sid, |machine, now| machine.publish(sid, track, now))
            .await
    }

    /// Ends a track.
    ///
    /// # Errors
    /// `NoSuchParticipant`, `NoSuchTrack`, or what the control plane answered.
    pub async fn unpublish(
        &self,
        sid: &ParticipantSid,
        track: &TrackSid,
    ) -> Result<(), SandboxError> {
        self.call(sid, |machine, now| machine.unpublish(sid, track, now))
            .await
    }

    /// Mutes or unmutes a track as its publisher.
    ///
    /// # Errors
    /// `NoSuchParticipant`, `NoSuchTrack`, or what the control plane answered.
    pub async fn mute(
        &self,
        sid: &ParticipantSid,
        track: &TrackSid,
        muted: bool,
    ) -> Result<Track, SandboxError> {
        self.call(sid, |machine, now| machine.mute(sid, track, muted, now))
            .await
    }

    /// Sends data to all other participants of the room that may subscribe.
    ///
    /// # Errors
    /// `NoSuchParticipant`, `Forbidden`.
    pub async fn send_data(
        &self,
        sid: &ParticipantSid,
        data: Vec<u8>,
        topic: Option<&str>,
    ) -> Result<(), SandboxError> {
        self.call(sid, |machine, now| machine.send_data(sid, data, topic, now))
            .await
    }

    /// Sets the measured bitrate of a participant, in kilobits per second.
    ///
    /// # Errors
    /// `NoSuchParticipant`, or what the control plane answered.
    pub async fn set_bitrate(&self, sid: &ParticipantSid, kbps: u32) -> Result<(), SandboxError> {
        self.call(sid, |machine, now| machine.set_bitrate(sid, kbps, now))
            .await
    }

    /// Leaves, or loses the connection.
    ///
    /// # Errors
    /// `NoSuchParticipant`, or what the control plane answered; the participant has left in any case.
    pub async fn leave(
        &self,
        sid: &ParticipantSid,
        departure: Departure,
    ) -> Result<(), SandboxError> {
        self.call(sid, |machine, now| machine.leave(sid, departure, now))
            .await
    }

    /// Sets the status of a recording or a broadcast, and returns its state afterwards. A status that it cannot change to is
    /// only reported. Urls in the error are redacted, like those in the errors of LiveKit's egress workers.
    ///
    /// # Errors
    /// `NoSuchEgress`, or what the control plane answered.
    pub async fn set_egress_status(
        &self,
        id: &EgressId,
        status: EgressStatus,
        error: Option<String>,
    ) -> Result<EgressState, SandboxError> {
        let error = error.map(|error| redact_urls(&error));
        let room = self
            .0
            .common
            .room_of(&Owned::Egress(id.clone()))
            .ok_or(SandboxError::NoSuchEgress)?;
        let (state, answers) = self.0.call(&room, |machine, now| {
            machine.set_egress_status(id, status, error, now)
        });
        let state = state.ok_or(SandboxError::NoSuchEgress)?;
        await_answers(answers).await?;
        Ok(state)
    }

    /// An encoder connects with a stream key: a participant joins and publishes. Has no effect if the endpoint has an encoder.
    ///
    /// # Errors
    /// `NoSuchIngress`, or the errors of a join.
    pub async fn connect_encoder(&self, stream_key: &str) -> Result<IngressState, SandboxError> {
        let key = StreamKeyHash::from_key(stream_key);
        let name = self.0.common.room_of_key(&key)?;
        let (room, connection, answers) = self
            .0
            .enter(&name, |machine, now| machine.begin_connect(&key, now));
        match connection? {
            EncoderConnection::AlreadyConnected(state) => Ok(state),
            EncoderConnection::Joining(sid) => {
                // In a spawned task, as every join.
                let connected =
                    tokio::spawn(conclude_encoder(Arc::clone(&self.0), room, sid, answers));
                connected.await.map_err(|_| SandboxError::Unavailable)?
            }
        }
    }

    /// An encoder disconnects. Has no effect if none is connected.
    ///
    /// # Errors
    /// `NoSuchIngress`, or what the control plane answered; the encoder has disconnected in any case.
    pub async fn disconnect_encoder(&self, stream_key: &str) -> Result<IngressState, SandboxError> {
        let key = StreamKeyHash::from_key(stream_key);
        let room = self.0.common.room_of_key(&key)?;
        self.call_room(&room, |machine, now| machine.disconnect_encoder(&key, now))
            .await
    }

    /// Lets all calls of the control plane fail for a duration from now on; zero ends an outage. Participants stay connected,
    /// and what they do is reported.
    pub fn simulate_outage(&self, duration: Duration) {
        self.0.faults.simulate_outage(&self.0.clock, duration);
    }

    /// Drops the next reports, so that the control plane does not receive them. A dropped report of a join counts as accepted.
    pub fn drop_reports(&self, count: u32) {
        self.0.faults.drop_reports(count);
    }

    /// Returns the state of a participant's client, also for a while after it has left.
    ///
    /// # Errors
    /// `NoSuchParticipant`.
    pub async fn view(&self, sid: &ParticipantSid) -> Result<ClientView, SandboxError> {
        let read = |machine: &mut Machine, now| {
            (machine.active_or_left(sid), machine.subscriptions(sid), now)
        };
        let ((shown, subscriptions, now), _) = self.0.call(&self.room_of(sid)?, read);
        let ShownParticipant {
            participant,
            claims,
            inbox,
        } = shown?;
        let is_connected = participant.state == ParticipantState::Active;
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
            .room_of(&Owned::Participant(sid.clone()))
            .ok_or(SandboxError::NoSuchParticipant)
    }

    /// Makes a call on the room of a participant and awaits the answers to the reports that it caused.
    async fn call<T>(
        &self,
        sid: &ParticipantSid,
        call: impl FnOnce(&mut Machine, Timestamp) -> Result<T, MachineError>,
    ) -> Result<T, SandboxError> {
        self.call_room(&self.room_of(sid)?, call).await
    }

    async fn call_room<T>(
        &self,
        room: &NamespacedRoom,
        call: impl FnOnce(&mut Machine, Timestamp) -> Result<T, MachineError>,
    ) -> Result<T, SandboxError> {
        let (result, answers) = self.0.call(room, call);
        let value = result?;
        await_answers(answers).await?;
        Ok(value)
    }
}

/// Completes or aborts the join of an encoder, which publishes once it has joined.
async fn conclude_encoder(
    inner: Arc<Inner>,
    room: Arc<Room>,
    sid: ParticipantSid,
    answers: Vec<ReportAnswer>,
) -> Result<IngressState, SandboxError> {
    let connect = |machine: &mut Machine, now| machine.complete_connect(&sid, now);
    let (connected, answers) = phases::conclude_with(&inner, &room, &sid, answers, connect).await?;
    let state = connected?;
    await_answers(answers).await?;
    Ok(state)
}

#[cfg(test)]
mod tests;
