//! Joining and leaving.

use conclave_model::event::TrackSummary;
use conclave_model::{Identity, NamespacedRoom, ParticipantSid, Timestamp};

use super::{Machine, unused_id};
use crate::embedded::error::MachineError;
use crate::embedded::inbox::Notice;
use crate::embedded::local_participant::LocalParticipant;
use crate::port::MediaEvent;
use crate::token::Claims;

impl Machine {
    /// Begins a join and reports it. The participant is counted, but hidden from all others until
    /// [`Machine::complete_join`]. A member with the same identity is disconnected first.
    pub fn begin_join(&mut self, claims: Claims, now: Timestamp) -> Result<ParticipantSid, MachineError> {
        let room = self.rooms.entry(claims.room.clone()).or_default();
        let replaced = room.check_capacity(&claims.identity, claims.max_participants())?;
        let sid: ParticipantSid = unused_id("PA_", |sid| self.participants.contains_key(sid));
        room.insert_member(claims.identity.clone(), sid.clone());
        if let Some(old) = replaced {
            self.remove(&old, true, None, now);
        }
        let participant = LocalParticipant::new(sid.clone(), claims, now);
        self.report(&participant.room, now, MediaEvent::ParticipantJoined(Box::new(participant.as_active())));
        self.participants.insert(sid.clone(), participant);
        Ok(sid)
    }

    /// Makes a join visible. Has no effect if the participant has been disconnected in the meantime.
    pub fn complete_join(&mut self, sid: &ParticipantSid) {
        if let Some(participant) = self.participants.get_mut(sid) {
            participant.activate();
        }
    }

    /// Undoes a join that the control plane refused, without a report.
    pub fn abort_join(&mut self, sid: &ParticipantSid) {
        self.recently_left.forget(sid);
        self.ingresses.detach(sid);
        if let Some(participant) = self.participants.remove(sid) {
            self.release_seat(&participant.room, participant.identity());
        }
    }

    /// A participant leaves, or loses its connection if the leave is not `clean`.
    pub fn leave(&mut self, sid: &ParticipantSid, clean: bool, now: Timestamp) -> Result<(), MachineError> {
        let participant = self.active(sid)?;
        let (room, identity) = (participant.room.clone(), participant.identity().clone());
        self.remove(sid, clean, None, now);
        self.release_seat(&room, &identity);
        Ok(())
    }

    /// The server removes a participant; returns whether it was connected.
    pub fn remove_participant(&mut self, room: &NamespacedRoom, sid: &ParticipantSid, now: Timestamp) -> bool {
        let Some(participant) = self.participants.get(sid).filter(|participant| participant.room == *room) else {
            return false;
        };
        let identity = participant.identity().clone();
        self.remove(sid, true, Some(Notice::Removed), now);
        self.release_seat(room, &identity);
        true
    }

    /// The server closes a room: its egresses end, its participants are disconnected, and its rules are dropped.
    pub fn close_room(&mut self, room: &NamespacedRoom, now: Timestamp) {
        self.end_egresses_of(room, now);
        let Some(closed) = self.rooms.remove(room) else { return };
        for sid in closed.into_members() {
            self.remove(&sid, true, Some(Notice::RoomEnded), now);
        }
    }

    /// Disconnects a participant cleanly, also one that is joining.
    pub(super) fn disconnect(&mut self, sid: &ParticipantSid, now: Timestamp) {
        let Some(participant) = self.participants.get(sid) else { return };
        let (room, identity) = (participant.room.clone(), participant.identity().clone());
        self.remove(sid, true, None, now);
        self.release_seat(&room, &identity);
    }

    /// Moves a participant to those who left recently, and reports it. The caller has to release its seat in the room.
    fn remove(&mut self, sid: &ParticipantSid, clean: bool, last_notice: Option<Notice>, now: Timestamp) {
        let Some(mut left) = self.participants.remove(sid) else { return };
        self.cancel_bitrate_deadline(&left);
        if let Some(notice) = last_notice {
            left.inbox.push(now, notice);
        }
        for track in left.disconnect() {
            let track = TrackSummary::from(&track);
            self.report(&left.room, now, MediaEvent::TrackUnpublished { participant: left.to_ref(), track });
        }
        self.report(&left.room, now, MediaEvent::ParticipantLeft { participant: left.to_ref(), clean });
        if let Some(state) = self.ingresses.detach(sid) {
            self.report(&left.room, now, MediaEvent::Ingress(state));
        }
        self.recently_left.push(left);
    }

    /// Removes a member from its room, and drops the room if it is unused.
    fn release_seat(&mut self, name: &NamespacedRoom, identity: &Identity) {
        if let Some(room) = self.rooms.get_mut(name) {
            room.remove_member(identity);
            if room.is_unused() {
                self.rooms.remove(name);
            }
        }
    }
}
