//! Notices to clients and commands to media workers about changes.

use std::sync::Arc;

use conclave_model::participant::ParticipantKind;
use conclave_model::{Identity, ParticipantSid};
use conclave_sfu::{Command, NewPeer, PeerCommand, PeerPermissions};
use livekit_protocol::ParticipantInfo;
use livekit_protocol::participant_info::State;

use super::update_batch::{Infos, UpdateBatch, Urgency};
use super::{Deadline, Machine};
use crate::embedded::effect::{ClientNotice, DisconnectCause, Effect};
use crate::embedded::local_participant::LocalParticipant;
use crate::embedded::wire::participant_info;

impl Machine {
    /// Notifies the client of a participant, if it has one.
    pub(super) fn notify(&mut self, to: &ParticipantSid, notice: ClientNotice) {
        if self
            .participants
            .get(to)
            .is_some_and(|participant| participant.client.is_some())
        {
            self.effects.push(Effect::Notify {
                to: to.clone(),
                notice,
            });
        }
    }

    /// Commands the media worker about a participant.
    pub(in crate::embedded) fn command(&mut self, sid: &ParticipantSid, command: PeerCommand) {
        self.effects
            .push(Effect::Command(command.for_peer(sid.clone())));
    }

    /// Commands the media worker about a participant, if that has a client.
    pub(super) fn command_if_client(&mut self, sid: &ParticipantSid, command: PeerCommand) {
        if self
            .participants
            .get(sid)
            .is_some_and(|participant| participant.client.is_some())
        {
            self.command(sid, command);
        }
    }

    /// Gives the transports of a participant to the media worker, which gets the room with the first ones.
    pub fn add_peer(&mut self, peer: NewPeer) {
        let client = self
            .participants
            .get_mut(&peer.sid)
            .and_then(|participant| participant.client.as_mut());
        let Some(client) = client.filter(|client| !client.is_peer) else {
            return;
        };
        client.is_peer = true;
        self.peers += 1;
        if self.peers == 1 {
            self.effects.push(Effect::OpenMedia);
        }
        self.effects.push(Effect::Command(Command::AddPeer(peer)));
    }

    /// Notifies a participant's own client, and those of the others if they see it, of its state now.
    pub(super) fn notify_changed(&mut self, sid: &ParticipantSid) {
        self.tell_changed(sid, Urgency::AtOnce);
    }

    /// The same of a change that concerns no track. If the participant publishes none, it may wait in a large room.
    pub(super) fn notify_changed_beside_tracks(&mut self, sid: &ParticipantSid) {
        let publishes = self
            .participants
            .get(sid)
            .is_some_and(|changed| changed.participant().is_publisher);
        self.tell_changed(
            sid,
            if publishes {
                Urgency::AtOnce
            } else {
                Urgency::CanWait
            },
        );
    }

    fn tell_changed(&mut self, sid: &ParticipantSid, urgency: Urgency) {
        let Some(changed) = self.participants.get_mut(sid) else {
            return;
        };
        changed.bump_version();
        let info = Arc::new(participant_info(changed));
        let visible =
            (changed.is_active() && !changed.grants.hidden).then(|| changed.identity().clone());
        self.note_change();
        self.notify(
            sid,
            ClientNotice::ParticipantsChanged([Arc::clone(&info)].into()),
        );
        if let Some(identity) = visible {
            self.tell_others(&identity, info, urgency);
        }
    }

    /// Notifies the clients of all others that a participant, which they may have seen, has left.
    pub(super) fn notify_left(&mut self, left: &LocalParticipant, was_publisher: bool) {
        if left.grants.hidden {
            // The room may be empty now.
            self.note_change();
        } else {
            self.notify_gone(
                left,
                if was_publisher {
                    Urgency::AtOnce
                } else {
                    Urgency::CanWait
                },
            );
        }
    }

    /// Notifies the clients of all others that a participant has become hidden.
    pub(super) fn notify_hidden(&mut self, sid: &ParticipantSid) {
        if let Some(hidden) = self.participants.remove(sid) {
            self.notify_gone(&hidden, Urgency::AtOnce);
            self.participants.insert(sid.clone(), hidden);
        }
    }

    fn notify_gone(&mut self, gone: &LocalParticipant, urgency: Urgency) {
        self.note_change();
        let mut info = participant_info(gone);
        info.state = State::Disconnected.into();
        info.tracks.clear();
        self.tell_others(gone.identity(), Arc::new(info), urgency);
    }

    /// Notifies all other clients of a participant.
    fn tell_others(&mut self, identity: &Identity, info: Arc<ParticipantInfo>, urgency: Urgency) {
        let (clients, reading) = (self.present_clients().count(), self.reading);
        if clients == 0 {
            return;
        }
        self.change_batch(|batch| batch.push(identity, info, urgency, clients, reading));
    }

    /// Sends the updates of an interval together.
    pub(super) fn end_update_interval(&mut self) {
        let reading = self.reading;
        self.change_batch(|batch| batch.end_interval(reading));
    }

    /// Changes what waits, keeps its deadline, and sends what is due.
    fn change_batch(&mut self, change: impl FnOnce(&mut UpdateBatch) -> Vec<Infos>) {
        let before = self.batch.until;
        let due = change(&mut self.batch);
        if self.batch.until != before {
            before.map(|until| self.deadlines.remove(&(until, Deadline::Updates)));
            self.deadlines
                .extend(self.batch.until.map(|until| (until, Deadline::Updates)));
        }
        if due.is_empty() {
            return;
        }
        let receivers: Vec<_> = self.present_clients().cloned().collect();
        for infos in due {
            // Of more participants than one, a session leaves out its own.
            let alone = if infos.len() == 1 {
                infos.first().map(|info| info.sid.clone())
            } else {
                None
            };
            let told = receivers
                .iter()
                .filter(|to| alone.as_deref() != Some(to.as_str()));
            let notice = ClientNotice::ParticipantsChanged(Arc::clone(&infos));
            self.effects.extend(told.map(|to| Effect::Notify {
                to: to.clone(),
                notice: notice.clone(),
            }));
        }
    }

    /// Returns the participants whose clients are notified of what happens in the room.
    fn present_clients(&self) -> impl Iterator<Item = &ParticipantSid> {
        let is_notified = |local: &LocalParticipant| local.is_present() && local.client.is_some();
        self.members
            .iter()
            .filter(move |sid| self.participants.get(*sid).is_some_and(is_notified))
    }

    /// Notifies the client of a participant that has left of the cause, and closes its transports. With the last ones, the media
    /// worker loses the room.
    pub(super) fn disconnect_client(&mut self, gone: &LocalParticipant, cause: DisconnectCause) {
        let Some(client) = &gone.client else { return };
        self.effects.push(Effect::Notify {
            to: gone.sid().clone(),
            notice: ClientNotice::Disconnected(cause),
        });
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
            can_transcribe_others: local.participant().kind == ParticipantKind::Agent,
            can_publish_data: local.grants.can_publish_data,
            can_subscribe: local.grants.can_subscribe,
            is_hidden: local.grants.hidden,
            subscribe_max_kbps: self.members.rules().max_kbps(local.role()),
        })
    }
}
