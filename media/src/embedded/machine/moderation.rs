//! What the server does to people inside: mutes, speaks, gives roles. Removing stands with the other ways of leaving.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conclave_model::event::TrackSummary;
use conclave_model::participant::{Participant, Track};
use conclave_model::{Identity, NamespacedRoom, ParticipantSid, Timestamp, TrackSid};

use super::Machine;
use crate::embedded::inbox::Notice;
use crate::embedded::publish::MachineError;
use crate::port::{MediaEvent, RoleGrant, ServerData};

impl Machine {
    /// The server mutes or unmutes a track; its publisher is told when that changes anything.
    pub fn mute_by_server(
        &mut self,
        room: &NamespacedRoom,
        who: &Identity,
        track: &TrackSid,
        muted: bool,
        now: Timestamp,
    ) -> Result<Track, MachineError> {
        let sid = self.present_as(room, who)?;
        let person = self.active_mut(&sid)?;
        let changes = person.track_mut(track)?.muted != muted;
        if changes {
            let track_sid = track.clone();
            person.inbox.put(now, if muted { Notice::Muted { track_sid } } else { Notice::Unmuted { track_sid } });
        }
        self.mute(&sid, track, muted, now)
    }

    /// The server sends a message to everybody in a room, or to those it names. It is no subscription, so it also reaches
    /// those who receive nobody.
    pub fn send_server_data(&mut self, room: &NamespacedRoom, message: ServerData, now: Timestamp) {
        let notice = Notice::Data {
            data: STANDARD.encode(&message.data).into(),
            topic: message.topic.map(Arc::from),
            kind: message.kind,
            from_identity: None,
        };
        let Some(room) = self.rooms.get(room) else { return };
        for sid in room.members() {
            let person = self.people.get_mut(sid).filter(|person| person.is_active());
            if let Some(person) = person.filter(|p| message.to.is_empty() || message.to.contains(p.identity())) {
                person.inbox.put(now, notice.clone());
            }
        }
    }

    /// The server gives somebody another role: what it may do, what it is called, how much it may publish. Tracks that the
    /// role does not allow stop.
    pub fn set_role(
        &mut self,
        room: &NamespacedRoom,
        who: &Identity,
        grant: RoleGrant,
        now: Timestamp,
    ) -> Result<Participant, MachineError> {
        let sid = self.present_as(room, who)?;
        // What lasted until now lasted under the old ceiling.
        self.settle(&sid, now);
        let person = self.active_mut(&sid)?;
        let role = grant.role.clone();
        person.set_role(grant);
        person.inbox.put(now, Notice::RoleChanged { role });
        let (stopped, who, kbps) = (person.take_forbidden_tracks(), person.who(), person.meter.kbps());
        let participant = person.participant().clone();
        for track in stopped {
            self.report(
                room,
                now,
                MediaEvent::TrackUnpublished { participant: who.clone(), track: TrackSummary::from(&track) },
            );
        }
        self.measure(&sid, kbps, now);
        Ok(participant)
    }

    /// The join by which somebody is in a room and was let in.
    fn present_as(&self, room: &NamespacedRoom, who: &Identity) -> Result<ParticipantSid, MachineError> {
        let sid = self.rooms.get(room).and_then(|room| room.member(who)).ok_or(MachineError::NoSuchParticipant)?;
        self.active(sid).map(|person| person.sid().clone())
    }
}

#[cfg(test)]
mod tests;
