//! Joining and leaving.

use conclave_model::event::TrackSummary;
use conclave_model::{Identity, NamespacedRoom, ParticipantSid, Timestamp};
use conclave_rtc::Command;

use super::{Machine, unused_id};
use crate::embedded::effect::DisconnectCause;
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
        room.opened_at.get_or_insert(now);
        if let Some(old) = replaced {
            self.remove(&old, true, DisconnectCause::Replaced, now);
        }
        let mut participant = LocalParticipant::new(sid.clone(), claims, now);
        participant.is_reported = true;
        self.report(&participant.room, now, MediaEvent::ParticipantJoined(Box::new(participant.as_active())));
        self.participants.insert(sid.clone(), participant);
        Ok(sid)
    }

    /// Makes a join visible, with the tracks that are published already. Has no effect if the participant has been
    /// disconnected in the meantime.
    pub fn complete_join(&mut self, sid: &ParticipantSid, now: Timestamp) {
        let Some(participant) = self.participants.get_mut(sid).filter(|p| !p.is_active()) else { return };
        participant.activate();
        let (room, reference) = (participant.room.clone(), participant.to_ref());
        let has_client = participant.client.is_some();
        let tracks: Vec<_> = participant.participant().tracks.iter().map(TrackSummary::from).collect();
        for track in tracks {
            self.report(&room, now, MediaEvent::TrackPublished { participant: reference.clone(), track });
        }
        self.note_publishing(sid, now);
        self.notify_changed(sid);
        self.refresh_publisher(sid);
        if !has_client {
            self.refresh_message_reports(&room);
        }
    }

    /// Undoes a join that the control plane refused, without a report of the participant.
    pub fn abort_join(&mut self, sid: &ParticipantSid, now: Timestamp) {
        if let Some(left) = &mut self.recently_left {
            left.forget(sid);
        }
        self.detach_encoder(sid, now);
        if let Some(participant) = self.participants.remove(sid) {
            self.disconnect_client(&participant, DisconnectCause::JoinRefused);
            self.cancel_join_deadline(&participant);
            self.release_seat(&participant.room, participant.identity(), sid);
        }
    }

    /// A participant leaves, or loses its connection if the leave is not `clean`.
    pub fn leave(&mut self, sid: &ParticipantSid, clean: bool, now: Timestamp) -> Result<(), MachineError> {
        self.present(sid)?;
        self.disconnect(sid, clean, DisconnectCause::Left, now);
        Ok(())
    }

    /// The server removes a participant; returns whether it was connected.
    pub fn remove_participant(&mut self, room: &NamespacedRoom, sid: &ParticipantSid, now: Timestamp) -> bool {
        let is_connected = self.participants.get(sid).is_some_and(|participant| participant.room == *room);
        if is_connected {
            self.disconnect(sid, true, DisconnectCause::Removed, now);
        }
        is_connected
    }

    /// The server closes a room: its egresses end, its participants are disconnected, and its rules are dropped.
    pub fn close_room(&mut self, room: &NamespacedRoom, now: Timestamp) {
        self.end_egresses_of(room, now);
        let Some(closed) = self.rooms.remove(room) else { return };
        for sid in closed.into_sids() {
            self.remove(&sid, true, DisconnectCause::RoomEnded, now);
        }
        self.command(room, Command::CloseRoom);
    }

    /// Removes a participant, also one that is joining, and releases its seat.
    pub(super) fn disconnect(&mut self, sid: &ParticipantSid, clean: bool, cause: DisconnectCause, now: Timestamp) {
        let Some(participant) = self.participants.get(sid) else { return };
        let (room, identity) = (participant.room.clone(), participant.identity().clone());
        self.remove(sid, clean, cause, now);
        self.release_seat(&room, &identity, sid);
    }

    /// Removes a participant, which the sandbox shows a while longer, and reports that it left, or that its join was aborted. The caller has
    /// to release its seat in the room.
    pub(super) fn remove(&mut self, sid: &ParticipantSid, clean: bool, cause: DisconnectCause, now: Timestamp) {
        if let Some(notice) = Notice::last(cause) {
            self.put_into_inbox(sid, now, notice);
        }
        let Some(mut left) = self.participants.remove(sid) else { return };
        self.cancel_bitrate_deadline(&left);
        self.cancel_join_deadline(&left);
        self.disconnect_client(&left, cause);
        let was_active = left.is_active();
        let tracks = left.disconnect();
        for track in tracks.iter().filter(|_| was_active) {
            let track = TrackSummary::from(track);
            self.report(&left.room, now, MediaEvent::TrackUnpublished { participant: left.to_ref(), track });
        }
        self.report_end(&left, clean, now);
        self.detach_encoder(sid, now);
        if was_active {
            left.bump_version();
            self.notify_left(&left);
            self.refresh_receivers_of(&left.room, sid);
        }
        if left.client.is_none() {
            self.refresh_message_reports(&left.room);
        }
        if let Some(recently_left) = &mut self.recently_left {
            recently_left.push(left);
        }
    }

    /// Reports the end of a join: a leave if the join was reported, and otherwise that it was aborted.
    fn report_end(&mut self, left: &LocalParticipant, clean: bool, now: Timestamp) {
        let participant = left.to_ref();
        if left.is_reported {
            self.report(&left.room, now, MediaEvent::ParticipantLeft { participant, clean });
        } else {
            self.report(&left.room, now, MediaEvent::JoinAborted { participant });
        }
    }

    /// Removes a member from its room, and drops the room if it is unused.
    pub(super) fn release_seat(&mut self, name: &NamespacedRoom, identity: &Identity, sid: &ParticipantSid) {
        if let Some(room) = self.rooms.get_mut(name) {
            room.end_request(sid);
            room.remove_member(identity, sid);
            if room.is_unused() {
                self.rooms.remove(name);
            }
        }
    }
}
