//! Joining and leaving.

use conclave_model::event::{Departure, TrackSummary};
use conclave_model::{Identity, ParticipantSid, Timestamp};

use super::members::Members;
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
    pub fn begin_join(
        &mut self,
        claims: Claims,
        now: Timestamp,
    ) -> Result<ParticipantSid, MachineError> {
        self.check_join(&claims)?;
        let replaced = self
            .members
            .check_capacity(&claims.identity, claims.max_participants())?;
        let sid: ParticipantSid = unused_id("PA_", |sid| self.participants.contains_key(sid));
        self.members.insert(claims.identity.clone(), sid.clone());
        self.members.opened_at.get_or_insert(now);
        if let Some(old) = replaced {
            self.remove(&old, Departure::Left, DisconnectCause::Replaced, now);
        }
        let mut participant = LocalParticipant::new(sid.clone(), claims, now);
        participant.is_reported = true;
        self.report(
            now,
            MediaEvent::ParticipantJoined(Box::new(participant.as_active())),
        );
        self.insert(participant);
        Ok(sid)
    }

    /// Makes a join visible, with the tracks that are published already. Has no effect if the participant has been
    /// disconnected in the meantime.
    pub fn complete_join(&mut self, sid: &ParticipantSid, now: Timestamp) {
        let Some(participant) = self.participants.get_mut(sid).filter(|p| !p.is_active()) else {
            return;
        };
        participant.activate();
        let (reference, has_client) = (participant.to_ref(), participant.client.is_some());
        let tracks: Vec<_> = participant
            .participant()
            .tracks
            .iter()
            .map(TrackSummary::from)
            .collect();
        for track in tracks {
            self.report(
                now,
                MediaEvent::TrackPublished {
                    participant: reference.clone(),
                    track,
                },
            );
        }
        self.note_publishing(sid, now);
        self.notify_changed_beside_tracks(sid);
        self.refresh_publisher(sid);
        if !has_client {
            self.refresh_message_reports();
        }
    }

    /// Undoes a join that the control plane refused, without a report of the participant.
    pub fn abort_join(&mut self, sid: &ParticipantSid, now: Timestamp) {
        self.common.forget(sid);
        self.detach_encoder(sid, now);
        if let Some(participant) = self.participants.remove(sid) {
            self.disconnect_client(&participant, DisconnectCause::JoinRefused);
            self.cancel_join_deadline(&participant);
            self.release_seat(participant.identity(), sid);
        }
    }

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
        let is_connected = self.participants.contains_key(sid);
        if is_connected {
            self.disconnect(sid, Departure::Left, DisconnectCause::Removed, now);
        }
        is_connected
    }

    /// The server closes the room: its egresses end, its participants are disconnected, and its rules are dropped.
    pub fn close(&mut self, now: Timestamp) {
        self.end_egresses(now);
        for sid in std::mem::take(&mut self.members).into_sids() {
            self.remove(&sid, Departure::Left, DisconnectCause::RoomEnded, now);
        }
    }

    /// The server stops: every participant is disconnected, and its client asked to connect anew. Requested joins are dropped.
    pub fn stop(&mut self, now: Timestamp) {
        for sid in std::mem::take(&mut self.members).into_sids() {
            let is_requested = |p: &LocalParticipant| !p.is_present() && !p.is_reported;
            if self.participants.get(&sid).is_some_and(is_requested) {
                self.cancel_request(&sid);
            } else {
                self.remove(&sid, Departure::Lost, DisconnectCause::ServerStopped, now);
            }
        }
    }

    /// Removes a participant, also one that is joining, and releases its seat.
    pub(super) fn disconnect(
        &mut self,
        sid: &ParticipantSid,
        departure: Departure,
        cause: DisconnectCause,
        now: Timestamp,
    ) {
        if let Some(left) = self.take_out(sid, departure, cause, now) {
            self.release_seat(left.identity(), sid);
            self.common.note_left(left);
        }
    }

    /// Removes a participant. The caller has to release its seat in the room.
    pub(super) fn remove(
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
            self.put_into_inbox(sid, now, notice);
        }
        let mut left = self.participants.remove(sid)?;
        self.cancel_bitrate_deadline(&left);
        self.cancel_join_deadline(&left);
        self.disconnect_client(&left, cause);
        let was_active = left.is_active();
        let tracks = left.disconnect();
        for track in tracks.iter().filter(|_| was_active) {
            let track = TrackSummary::from(track);
            self.report(
                now,
                MediaEvent::TrackUnpublished {
                    participant: left.to_ref(),
                    track,
                },
            );
        }
        self.report_end(&left, departure, now);
        self.detach_encoder(sid, now);
        if was_active {
            left.bump_version();
            self.notify_left(&left, !tracks.is_empty());
            self.refresh_publisher(sid);
        }
        if left.client.is_none() {
            self.refresh_message_reports();
        }
        Some(left)
    }

    /// Reports the end of a join: a leave if the join was reported, and otherwise that it was aborted.
    fn report_end(&mut self, left: &LocalParticipant, departure: Departure, now: Timestamp) {
        let participant = left.to_ref();
        if left.is_reported {
            self.report(
                now,
                MediaEvent::ParticipantLeft {
                    participant,
                    departure,
                },
            );
        } else {
            self.report(now, MediaEvent::JoinAborted { participant });
        }
    }

    /// Removes a member. The next one after the last opens the room again.
    pub(super) fn release_seat(&mut self, identity: &Identity, sid: &ParticipantSid) {
        self.members.end_request(sid);
        self.members.remove(identity, sid);
        if self.members.is_unused() {
            self.members = Members::default();
        }
    }
}
