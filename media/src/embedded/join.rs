//! Joins of clients, which the control plane is asked about before their media connects.

use std::time::Duration;

use conclave_model::event::Departure;
use conclave_model::{Identity, ParticipantSid, Timestamp};

use super::{Deadline, Machine, unused_id};
use crate::embedded::client::Client;
use crate::embedded::effect::DisconnectCause;
use crate::embedded::error::MachineError;
use crate::embedded::local_participant::LocalParticipant;
use crate::port::MediaEvent;
use crate::token::Claims;

/// How long a client may take to connect its media.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it may take once its signalling is gone.
const UNATTENDED_TIMEOUT: Duration = Duration::from_secs(30);

impl Machine {
    /// Asks the control plane whether a client may join. Its place in the room is held until [`Machine::admit`] or
    /// [`Machine::cancel_request`].
    pub fn request_join(
        &mut self,
        claims: Claims,
        mut client: Client,
        now: Timestamp,
    ) -> Result<ParticipantSid, MachineError> {
        self.check_join(&claims)?;
        self.members
            .check_capacity(&claims.identity, claims.max_participants())?;
        let sid: ParticipantSid = unused_id("PA_", |sid| self.participants.contains_key(sid));
        self.members.request(sid.clone(), claims.identity.clone());
        let own_metadata = std::mem::take(&mut client.own_metadata);
        let mut joining = LocalParticipant::new(sid.clone(), claims, now).with_client(client);
        // It has been checked against these claims.
        let _ = joining.set_own_metadata(own_metadata);
        let participant = Box::new(joining.as_active());
        self.report(
            now,
            MediaEvent::JoinRequested {
                participant,
                reserves_seat: true,
            },
        );
        self.insert(joining);
        Ok(sid)
    }

    /// Asks the control plane whether a client could join now, without joining.
    pub fn probe_join(&mut self, claims: Claims, now: Timestamp) -> Result<(), MachineError> {
        self.check_join(&claims)?;
        if self.members.is_full_for(&claims.identity) {
            return Err(MachineError::RoomFull);
        }
        let sid = unused_id("PA_", |sid| self.participants.contains_key(sid));
        let participant = Box::new(LocalParticipant::new(sid, claims, now).as_active());
        self.report(
            now,
            MediaEvent::JoinRequested {
                participant,
                reserves_seat: false,
            },
        );
        Ok(())
    }

    /// Admits a client that the control plane has let in. It replaces the member with its identity, and has to connect its
    /// media in time. Fails if it has been disconnected in the meantime, or if another one has got the identity that a room code gave it;
    /// nothing is left of the join then.
    pub fn admit(&mut self, sid: &ParticipantSid, now: Timestamp) -> Result<(), MachineError> {
        self.common.check_running()?;
        let joining = self
            .participants
            .get(sid)
            .ok_or(MachineError::NoSuchParticipant)?;
        let identity = joining.identity().clone();
        if let Err(taken) = self.check_identity(&identity, joining.participant().exchange()) {
            self.disconnect(sid, Departure::Lost, DisconnectCause::JoinRefused, now);
            return Err(taken);
        }
        if let Some(joining) = self.participants.get_mut(sid) {
            joining.admit();
        }
        self.members.end_request(sid);
        self.members.opened_at.get_or_insert(now);
        let replaced = self.members.get(&identity).cloned();
        self.members.insert(identity, sid.clone());
        if let Some(old) = replaced {
            self.remove(&old, Departure::Left, DisconnectCause::Replaced, now);
        }
        self.set_join_deadline(sid, self.reading + CONNECT_TIMEOUT);
        Ok(())
    }

    /// Checks that the token of a join takes its identity from nobody, and that the server does not stop.
    pub(super) fn check_join(&self, claims: &Claims) -> Result<(), MachineError> {
        self.check_identity(&claims.identity, claims.exchange())?;
        self.common.check_running()
    }

    /// Checks that a token from a room code that is not locked to an identity takes it from no other participant. One that joins again
    /// with its own token replaces itself.
    fn check_identity(
        &self,
        identity: &Identity,
        exchange: Option<&str>,
    ) -> Result<(), MachineError> {
        let Some(exchange) = exchange else {
            return Ok(());
        };
        let connected = self
            .members
            .get(identity)
            .and_then(|sid| self.participants.get(sid));
        let is_other =
            connected.is_some_and(|member| member.participant().exchange() != Some(exchange));
        if is_other {
            Err(MachineError::IdentityTaken)
        } else {
            Ok(())
        }
    }

    /// Drops a join that the control plane has refused, or could not be asked about.
    pub fn cancel_request(&mut self, sid: &ParticipantSid) {
        self.endpoints.detach(sid);
        self.common.forget(sid);
        if let Some(joining) = self.participants.remove(sid) {
            self.release_seat(joining.identity(), sid);
        }
    }

    /// A client's media is connected: its join is reported. Returns whether this is news; the answer to the report decides
    /// between [`Machine::complete_join`] and [`Machine::abort_join`].
    pub fn connected(&mut self, sid: &ParticipantSid, now: Timestamp) -> bool {
        let Some(joined) = self
            .participants
            .get_mut(sid)
            .filter(|p| p.is_present() && !p.is_reported)
        else {
            return false;
        };
        joined.is_reported = true;
        let participant = Box::new(joined.as_active());
        self.clear_join_deadline(sid);
        self.report(now, MediaEvent::ParticipantJoined(participant));
        true
    }

    /// The signalling of a client that is still connecting is gone: it has less time.
    pub fn signal_lost(&mut self, sid: &ParticipantSid) {
        let earlier = self.reading + UNATTENDED_TIMEOUT;
        let deadline = self
            .participants
            .get(sid)
            .and_then(|p| p.client.as_ref())
            .and_then(|c| c.join_deadline);
        if deadline.is_some_and(|deadline| deadline > earlier) {
            self.set_join_deadline(sid, earlier);
        }
    }

    /// Aborts a join whose media was not connected in time.
    pub(super) fn abort_late_join(&mut self, sid: &ParticipantSid, now: Timestamp) {
        self.clear_join_deadline(sid);
        self.disconnect(sid, Departure::Lost, DisconnectCause::JoinTimeout, now);
    }

    pub(super) fn cancel_join_deadline(&mut self, participant: &LocalParticipant) {
        if let Some(at) = participant
            .client
            .as_ref()
            .and_then(|client| client.join_deadline)
        {
            self.deadlines
                .remove(&(at, Deadline::Join(participant.sid().clone())));
        }
    }

    fn clear_join_deadline(&mut self, sid: &ParticipantSid) {
        let client = self
            .participants
            .get_mut(sid)
            .and_then(|p| p.client.as_mut());
        if let Some(at) = client.and_then(|client| client.join_deadline.take()) {
            self.deadlines.remove(&(at, Deadline::Join(sid.clone())));
        }
    }

    fn set_join_deadline(&mut self, sid: &ParticipantSid, at: Duration) {
        self.clear_join_deadline(sid);
        if let Some(client) = self
            .participants
            .get_mut(sid)
            .and_then(|p| p.client.as_mut())
        {
            client.join_deadline = Some(at);
            self.deadlines.insert((at, Deadline::Join(sid.clone())));
        }
    }
}
