//! Notices to clients and commands to media workers about changes.

use std::sync::Arc;

use conclave_model::participant::ParticipantKind;
use conclave_model::{NamespacedRoom, ParticipantSid};
use conclave_rtc::{Command, PeerCommand, PeerPermissions};
use livekit_protocol::participant_info::State;

use super::Machine;
use crate::embedded::effect::{ClientNotice, DisconnectCause, Effect};
use crate::embedded::local_participant::LocalParticipant;
use crate::embedded::wire::participant_info;

impl Machine {
    /// Notifies the client of a participant, if it has one.
    pub(super) fn notify(&mut self, to: &ParticipantSid, notice: ClientNotice) {
        if self.participants.get(to).is_some_and(|participant| participant.client.is_some()) {
            self.effects.push(Effect::Notify { to: to.clone(), notice });
        }
    }

    /// Commands the media worker of a room.
    pub(in crate::embedded) fn command(&mut self, room: &NamespacedRoom, command: Command) {
        self.effects.push(Effect::Command { room: room.clone(), command });
    }

    /// Commands the media worker of a room about a participant, if that has a client.
    pub(super) fn command_if_client(&mut self, sid: &ParticipantSid, room: &NamespacedRoom, command: Command) {
        if self.participants.get(sid).is_some_and(|participant| participant.client.is_some()) {
            self.command(room, command);
        }
    }

    /// Notifies a participant's own client, and those of the others if they see it, of its state now.
    pub(super) fn notify_changed(&mut self, sid: &ParticipantSid) {
        let Some(changed) = self.participants.get_mut(sid) else { return };
        changed.bump_version();
        let info = Arc::new(participant_info(changed));
        let is_visible = changed.is_active() && !changed.grants.hidden;
        let room = changed.room.clone();
        self.note_change(&room);
        self.notify(sid, ClientNotice::ParticipantChanged(Arc::clone(&info)));
        if is_visible {
            self.notify_others(&room, sid, &ClientNotice::ParticipantChanged(info));
        }
    }

    /// Notifies the clients of all others that a participant, which they may have seen, has left.
    pub(super) fn notify_left(&mut self, left: &LocalParticipant) {
        if left.grants.hidden {
            // The room may be empty now.
            self.note_change(&left.room);
        } else {
            self.notify_gone(left);
        }
    }

    /// Notifies the clients of all others that a participant has become hidden.
    pub(super) fn notify_hidden(&mut self, sid: &ParticipantSid) {
        if let Some(hidden) = self.participants.remove(sid) {
            self.notify_gone(&hidden);
            self.participants.insert(sid.clone(), hidden);
        }
    }

    fn notify_gone(&mut self, gone: &LocalParticipant) {
        self.note_change(&gone.room);
        let mut info = participant_info(gone);
        info.state = State::Disconnected.into();
        info.tracks.clear();
        self.notify_others(&gone.room, gone.sid(), &ClientNotice::ParticipantChanged(Arc::new(info)));
    }

    fn notify_others(&mut self, room: &NamespacedRoom, except: &ParticipantSid, notice: &ClientNotice) {
        let Some(room) = self.rooms.get(room) else { return };
        for other in room.members().filter(|other| *other != except) {
            let receiver = self.participants.get(other).filter(|p| p.is_present() && p.client.is_some());
            if receiver.is_some() {
                self.effects.push(Effect::Notify { to: other.clone(), notice: notice.clone() });
            }
        }
    }

    /// Notifies the client of a participant that has left of the cause, and closes its transports.
    pub(super) fn disconnect_client(&mut self, gone: &LocalParticipant, cause: DisconnectCause) {
        if gone.client.is_some() {
            let (to, peer) = (gone.sid().clone(), gone.sid().clone());
            self.effects.push(Effect::Notify { to, notice: ClientNotice::Disconnected(cause) });
            self.command(&gone.room, PeerCommand::Remove.for_peer(peer));
        }
    }

    /// Returns what the media worker lets a participant do.
    pub fn peer_permissions(&self, sid: &ParticipantSid) -> Option<PeerPermissions> {
        let local = self.participants.get(sid)?;
        Some(PeerPermissions {
            can_publish_data: local.grants.can_publish_data,
            can_subscribe: local.grants.can_subscribe,
            is_hidden: local.grants.hidden,
            is_agent: local.participant().kind == ParticipantKind::Agent,
            subscribe_max_kbps: self.rooms.get(&local.room)?.rules().max_kbps(local.role()),
        })
    }
}
