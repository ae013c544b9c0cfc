//! The sandbox calls: what a person's client would do, done by an HTTP caller (surface, "Sandbox").
//!
//! Every call that changes something returns once the control plane has answered the reports it caused.

use std::sync::Arc;
use std::time::Duration;

use conclave_model::egress::{EgressState, EgressStatus};
use conclave_model::ingress::{IngressState, StreamKeyHash};
use conclave_model::participant::{Participant, Track};
use conclave_model::{EgressId, Identity, ParticipantSid, RoleName, RoomName, Secret, Timestamp, TrackSid};

use super::inbox::InboxEntry;
use super::machine::Machine;
use super::machine::ingress::Connecting;
use super::plane::{EmbeddedPlane, Inner, settled};
use super::publish::{MachineError, NewTrack};
use crate::port::{ReportAnswer, ReportError};
use crate::redact::redact_urls;
use crate::token::{Claims, TokenError};

/// The least life of a refreshed token.
const REFRESHED_LIFE: Duration = Duration::from_secs(600);

/// Why a sandbox call came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// The token does not open a room.
    #[error("{0}")]
    BadToken(TokenError),
    /// Nobody has that sid.
    #[error("no such participant")]
    NoSuchParticipant,
    /// The participant publishes no track with that sid.
    #[error("no such track")]
    NoSuchTrack,
    /// No recording or broadcast has that id.
    #[error("no such egress")]
    NoSuchEgress,
    /// The grants do not allow it; the text says which.
    #[error("{0}")]
    Forbidden(String),
    /// No ingress endpoint opens by that stream key, or not any more.
    #[error("no such ingress endpoint")]
    NoSuchIngress,
    /// The room holds as many people as it may.
    #[error("the room is full")]
    RoomFull,
    /// The role holds as many people as it may in this room.
    #[error("the role is full for this room")]
    RoleFull,
    /// The room has ended.
    #[error("the room has ended")]
    RoomEnded,
    /// The control plane did not take the report. What was done on the media plane stands, a join excepted, and is for
    /// reconciliation to bring together with the record.
    #[error("the report was not taken")]
    Unavailable,
}

impl From<MachineError> for SandboxError {
    fn from(denied: MachineError) -> Self {
        match denied {
            MachineError::NoSuchParticipant => Self::NoSuchParticipant,
            MachineError::NoSuchTrack => Self::NoSuchTrack,
            MachineError::Forbidden(why) => Self::Forbidden(why.to_owned()),
            MachineError::RoomFull => Self::RoomFull,
            MachineError::NoSuchIngress => Self::NoSuchIngress,
        }
    }
}

impl From<ReportError> for SandboxError {
    fn from(refusal: ReportError) -> Self {
        match refusal {
            ReportError::RoomEnded => Self::RoomEnded,
            ReportError::RoleFull => Self::RoleFull,
            ReportError::Unavailable => Self::Unavailable,
        }
    }
}

/// A join that was let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinAccepted {
    /// The join.
    pub sid: ParticipantSid,
    /// Who joined.
    pub identity: Identity,
    /// The room, without the project prefix.
    pub room: RoomName,
    /// The role held.
    pub role: Option<RoleName>,
}

/// What a participant's client would hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientView {
    /// The participant; `disconnected` once it has gone.
    pub participant: Participant,
    /// Its token, refreshed while it is connected.
    pub token: Secret,
    /// What it received, oldest first.
    pub inbox: Vec<InboxEntry>,
    /// The tracks it may receive.
    pub subscriptions: Vec<TrackSid>,
}

impl EmbeddedPlane {
    /// Joins a room.
    ///
    /// # Errors
    /// `BadToken`, `RoomFull`, `RoleFull`, `RoomEnded`, `Unavailable`. After each of them nobody has joined.
    pub async fn join(&self, token: &str) -> Result<JoinAccepted, SandboxError> {
        let claims = self.inner().signer.verify(token, self.inner().clock.now()).map_err(SandboxError::BadToken)?;
        let (identity, room, role) = (claims.identity.clone(), claims.room.split().1, claims.role());
        let (sid, answers) = self.inner().act(|machine, now| machine.begin_join(claims, now));
        let sid = sid?;
        // On a task of its own: a caller that goes away must not leave a join that is neither in nor out.
        let verdict = tokio::spawn(conclude(Arc::clone(self.inner()), sid.clone(), answers));
        verdict.await.map_err(|_| SandboxError::Unavailable)??;
        Ok(JoinAccepted { sid, identity, room, role })
    }

    /// Publishes a track.
    ///
    /// # Errors
    /// `NoSuchParticipant`, `Forbidden`, or what the control plane answered.
    pub async fn publish(&self, sid: &ParticipantSid, track: NewTrack) -> Result<Track, SandboxError> {
        self.reported(|machine, now| machine.publish(sid, track, now)).await
    }

    /// Takes a track back.
    ///
    /// # Errors
    /// `NoSuchParticipant`, `NoSuchTrack`, or what the control plane answered.
    pub async fn unpublish(&self, sid: &ParticipantSid, track: &TrackSid) -> Result<(), SandboxError> {
        self.reported(|machine, now| machine.unpublish(sid, track, now)).await
    }

    /// Mutes or unmutes a track, by its publisher.
    ///
    /// # Errors
    /// `NoSuchParticipant`, `NoSuchTrack`, or what the control plane answered.
    pub async fn mute(&self, sid: &ParticipantSid, track: &TrackSid, muted: bool) -> Result<Track, SandboxError> {
        self.reported(|machine, now| machine.mute(sid, track, muted, now)).await
    }

    /// Sends data, in base64, to everybody else in the room who may receive.
    ///
    /// # Errors
    /// `NoSuchParticipant`, `Forbidden`.
    pub async fn send_data(&self, sid: &ParticipantSid, data: &str, topic: Option<&str>) -> Result<(), SandboxError> {
        self.reported(|machine, now| machine.send_data(sid, data, topic, now)).await
    }

    /// Sets how much somebody publishes, in kilobits a second.
    ///
    /// # Errors
    /// `NoSuchParticipant`, or what the control plane answered.
    pub async fn set_bitrate(&self, sid: &ParticipantSid, kbps: u32) -> Result<(), SandboxError> {
        let (done, answers) = self.inner().act(|machine, now| machine.set_bitrate(sid, kbps, now));
        self.inner().keep_time();
        done?;
        Ok(settled(answers).await?)
    }

    /// Leaves, or drops without a goodbye.
    ///
    /// # Errors
    /// `NoSuchParticipant`, or what the control plane answered; whoever left is gone in any case.
    pub async fn leave(&self, sid: &ParticipantSid, clean: bool) -> Result<(), SandboxError> {
        self.reported(|machine, now| machine.leave(sid, clean, now)).await
    }

    /// Says how a recording or a broadcast stands from now on; gives how it then does. A job only moves forward, but what
    /// is said is reported in any case. Urls are left out of what went wrong, as of what any worker says.
    ///
    /// # Errors
    /// `NoSuchEgress`, or what the control plane answered.
    pub async fn drive_egress(
        &self,
        id: &EgressId,
        status: EgressStatus,
        error: Option<String>,
    ) -> Result<EgressState, SandboxError> {
        let error = error.map(|said| redact_urls(&said));
        let (driven, answers) = self.inner().act(|machine, now| machine.drive_egress(id, status, error, now));
        self.inner().keep_time();
        let driven = driven.ok_or(SandboxError::NoSuchEgress)?;
        settled(answers).await?;
        Ok(driven)
    }

    /// An encoder connects by a stream key: a participant joins, and publishes. One that is connected stays so.
    ///
    /// # Errors
    /// `NoSuchIngress`; or as for any join, and nobody has joined then.
    pub async fn connect_encoder(&self, stream_key: &str) -> Result<IngressState, SandboxError> {
        let key = StreamKeyHash::from_key(stream_key);
        let (begun, answers) = self.inner().act(|machine, now| machine.begin_connect(&key, now));
        match begun? {
            Connecting::Connected(state) => Ok(state),
            Connecting::Joining(sid) => {
                // On a task of its own, as every join.
                let connected = tokio::spawn(conclude_encoder(Arc::clone(self.inner()), sid, answers));
                connected.await.map_err(|_| SandboxError::Unavailable)?
            }
        }
    }

    /// An encoder goes away. One that is not connected has gone.
    ///
    /// # Errors
    /// `NoSuchIngress`, or what the control plane answered; the encoder is gone in any case.
    pub async fn disconnect_encoder(&self, stream_key: &str) -> Result<IngressState, SandboxError> {
        let key = StreamKeyHash::from_key(stream_key);
        self.reported(|machine, now| machine.disconnect_encoder(&key, now)).await
    }

    /// Answers no call of the control plane's for a span from now on; none at all ends an outage. People stay connected, and
    /// what they do is reported.
    pub fn simulate_outage(&self, span: Duration) {
        self.inner().simulate_outage(span);
    }

    /// Loses the next reports on their way: what they tell of has happened, and the control plane does not hear of it. The
    /// report of a join that gets lost counts as taken.
    pub fn drop_reports(&self, count: u32) {
        self.inner().drop_reports(count);
    }

    /// What a participant's client holds, also for a while after it has gone.
    ///
    /// # Errors
    /// `NoSuchParticipant`.
    pub async fn view(&self, sid: &ParticipantSid) -> Result<ClientView, SandboxError> {
        let (seen, _) = self.inner().act(|machine, now| {
            let person = machine.person(sid)?;
            let (claims, inbox) = (person.claims(), person.inbox.entries());
            let expires_at = token_end(&claims, person.is_active(), now);
            let participant = person.participant().clone();
            Ok::<_, MachineError>((participant, claims, expires_at, inbox, machine.subscriptions(sid), now))
        });
        let (participant, claims, expires_at, inbox, subscriptions, now) = seen?;
        let minted = self.inner().signer.refresh(&claims, expires_at, now).map_err(SandboxError::BadToken)?;
        Ok(ClientView { participant, token: minted.token, inbox, subscriptions })
    }

    /// Does something on the machine and waits until the control plane has answered everything it caused.
    async fn reported<T>(
        &self,
        call: impl FnOnce(&mut Machine, Timestamp) -> Result<T, MachineError>,
    ) -> Result<T, SandboxError> {
        let (done, answers) = self.inner().act(call);
        let done = done?;
        settled(answers).await?;
        Ok(done)
    }
}

/// Who is connected gets its token refreshed; who has gone keeps the end that its token had.
fn token_end(claims: &Claims, connected: bool, now: Timestamp) -> Timestamp {
    let refreshed = now.after(REFRESHED_LIFE);
    if connected { claims.expires_at.max(refreshed) } else { claims.expires_at }
}

/// What the control plane says of a join. Its answer to the join comes last: before it stand the answers to the leaving of
/// whoever was replaced, which do not decide.
async fn verdict(mut answers: Vec<ReportAnswer>) -> Result<(), ReportError> {
    let joined = answers.pop();
    // A failure to write that somebody was replaced is for reconciliation; it does not keep the newcomer out.
    let _ = settled(answers).await;
    settled(joined.into_iter().collect()).await
}

/// Ends a join as the control plane decides.
async fn conclude(inner: Arc<Inner>, sid: ParticipantSid, answers: Vec<ReportAnswer>) -> Result<(), ReportError> {
    let verdict = verdict(answers).await;
    inner.act(|machine, _| match verdict {
        Ok(()) => machine.complete_join(&sid),
        Err(_) => machine.abort_join(&sid),
    });
    verdict
}

/// The same for an encoder, which publishes as soon as it is in.
async fn conclude_encoder(
    inner: Arc<Inner>,
    sid: ParticipantSid,
    answers: Vec<ReportAnswer>,
) -> Result<IngressState, SandboxError> {
    if let Err(refusal) = verdict(answers).await {
        inner.act(|machine, _| machine.abort_join(&sid));
        return Err(refusal.into());
    }
    let (connected, answers) = inner.act(|machine, now| machine.complete_connect(&sid, now));
    let state = connected?;
    settled(answers).await?;
    Ok(state)
}

#[cfg(test)]
mod tests;
