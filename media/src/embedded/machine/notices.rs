//! Notices to clients and commands to media workers about changes.

use std::sync::Arc;

use conclave_model::ParticipantSid;
use conclave_model::participant::ParticipantKind;
use conclave_rtc::{Command, NewPeer, PeerCommand, PeerPermissions};
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

    /// Commands the media worker about a participant.
    pub(in crate::embedded) fn command(&mut self, sid: &ParticipantSid, command: PeerCommand) {
        self.effects.push(Effect::Command(command.for_peer(sid.clone())));
    }

    /// Commands the media worker about a participant, if that has a client.
    pub(super) fn command_if_client(&mut self, sid: &ParticipantSid, command: PeerCommand) {
        if self.participants.get(sid).is_some_and(|participant| participant.client.is_some()) {
            self.command(sid, command);
        }
    }

    /// Gives the transports of a participant to the media worker, which gets the room with the first ones.
    pub fn add_peer(&mut self, peer: NewPeer) {
        let client = self.participants.get_mut(&peer.sid).and_then(|participant| participant.client.as_mut());
        let Some(client) = client.filter(|client| !client.is_peer) else { return };
        client.is_peer = true;
        self.peers += 1;
        if self.peers == 1 {
            self.effects.push(Effect::OpenMedia);
        }
        self.effects.push(Effect::Command(Command::AddPeer(peer)));
    }

    /// Notifies a participant's own client, and those of the others if they see it, of its state now.
    pub(super) fn notify_changed(&mut self, sid: &ParticipantSid) {
        let Some(changed) = self.participants.get_mut(sid) else { return };
        changed.bump_version();
        let info = Arc::new(participant_info(changed));
        let is_visible = changed.is_active() && !changed.grants.hidden;
        self.note_change();
        self.notify(sid, ClientNotice::ParticipantChanged(Arc::clone(&info)));
        if is_visible {
            self.notify_others(sid, &ClientNotice::ParticipantChanged(info));
        }
    }

    /// Notifies the clients of all others that a participant, which they may have seen, has left.
    pub(super) fn notify_left(&mut self, left: &LocalParticipant) {
        if left.grants.hidden {
            // The room may be empty now.
            self.note_change();
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
        self.note_change();
        let mut info = participant_info(gone);
        info.state = State::Disconnected.into();
        info.tracks.clear();
        self.notify_others(gone.sid(), &ClientNotice::ParticipantChanged(Arc::new(info)));
    }

    fn notify_others(&mut self, except: &ParticipantSid, notice: &ClientNotice) {
        for other in self.members.iter().filter(|other| *other != except) {
            let receiver = self.participants.get(other).filter(|p| p.is_present() && p.client.is_some());
            if receiver.is_some() {
                self.effects.push(Effect::Notify { to: other.clone(), notice: notice.clone() });
            }
        }
    }

    /// Notifies the client of a participant that has left of the cause, and closes its transports. With the last ones, the media
    /// worker loses the room.
    pub(super) fn disconnect_client(&mut self, gone: &LocalParticipant, cause: DisconnectCause) {
        let Some(client) = &gone.client else { return };
        self.effects.push(Effect::Notify { to: gone.sid().clone(), notice: ClientNotice::Disconnected(cause) });
        self.command(gone.sid(), PeerCommand::Remove);
        self.peers -= usize::from(client.is_peer);
        if client.is_peer && self.peers == 0 {
            self.effects.push(Effect::CloseMedia);
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
            subscribe_max_kbps: self.members.rules().max_kbps(local.role()),
        })
    }
}
