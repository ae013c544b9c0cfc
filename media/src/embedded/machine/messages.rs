//! Data messages of the server, and between participants with and without clients. Those with clients receive all of them from
//! the media worker.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conclave_model::participant::DataKind;
use conclave_model::{ParticipantSid, Timestamp};
use conclave_sfu::{Command, SentMessage, ServerMessage};

use super::Machine;
use crate::embedded::effect::Effect;
use crate::embedded::error::MachineError;
use crate::embedded::inbox::Notice;
use crate::embedded::local_participant::LocalParticipant;
use crate::embedded::publish::check_data;
use crate::port::ServerData;

impl Machine {
    /// A participant of the sandbox sends a data message to all others in its room that may subscribe.
    pub fn send_data(
        &mut self,
        sid: &ParticipantSid,
        data: Vec<u8>,
        topic: Option<&str>,
        now: Timestamp,
    ) -> Result<(), MachineError> {
        let sender = self.active(sid)?;
        check_data(&sender.grants)?;
        let notice = Notice::Data {
            data: STANDARD.encode(&data).into(),
            topic: topic.map(Into::into),
            kind: DataKind::Reliable,
            from_identity: (!sender.grants.hidden).then(|| sender.identity().clone()),
        };
        self.deliver(&notice, now, |p| {
            p.client.is_none() && p.grants.can_subscribe && p.sid() != sid
        });
        let with_clients = self
            .active_members()
            .filter(|p| p.client.is_some() && p.grants.can_subscribe);
        let to: Vec<_> = with_clients
            .map(|receiver| receiver.identity().clone())
            .collect();
        if !to.is_empty() {
            let topic = topic.map(str::to_owned);
            self.send_message(ServerMessage {
                to,
                kind: DataKind::Reliable,
                topic,
                payload: data,
            });
        }
        Ok(())
    }

    /// A participant with a client sent a data message: those without one receive it.
    pub fn message_sent(&mut self, sid: &ParticipantSid, message: &SentMessage, now: Timestamp) {
        let Ok(sender) = self.present(sid) else {
            return;
        };
        let notice = Notice::Data {
            data: STANDARD.encode(&message.payload).into(),
            topic: message.topic.as_deref().map(Into::into),
            kind: message.kind,
            from_identity: (!sender.grants.hidden).then(|| sender.identity().clone()),
        };
        self.deliver(&notice, now, |p| {
            let is_named = message.to.include(p.identity().as_str(), p.sid().as_str());
            p.client.is_none() && p.grants.can_subscribe && is_named
        });
    }

    /// The server sends a data message to all participants, or to those it names. Grants do not restrict who receives
    /// it.
    pub fn send_server_data(&mut self, message: ServerData, now: Timestamp) {
        let notice = Notice::Data {
            data: STANDARD.encode(&message.data).into(),
            topic: message.topic.as_deref().map(Arc::from),
            kind: message.kind,
            from_identity: None,
        };
        let ServerData {
            data: payload,
            topic,
            kind,
            to,
        } = message;
        let is_for = |p: &LocalParticipant| to.is_empty() || to.contains(p.identity());
        self.deliver(&notice, now, is_for);
        if self
            .active_members()
            .any(|p| p.client.is_some() && is_for(p))
        {
            self.send_message(ServerMessage {
                to,
                kind,
                topic,
                payload,
            });
        }
    }

    fn send_message(&mut self, message: ServerMessage) {
        self.effects
            .push(Effect::Command(Command::SendData(message)));
    }

    /// Puts a notice into the inboxes of the active participants that it is for, if the sandbox shows inboxes.
    fn deliver(
        &mut self,
        notice: &Notice,
        now: Timestamp,
        is_for: impl Fn(&LocalParticipant) -> bool,
    ) {
        if !self.common.has_sandbox() {
            return;
        }
        for sid in self.members.iter() {
            if let Some(receiver) = self
                .participants
                .get_mut(sid)
                .filter(|p| p.is_active() && is_for(p))
            {
                receiver.inbox.push(now, notice.clone());
            }
        }
    }

    /// Lets the media worker report messages if a participant of the sandbox is there to receive them.
    pub fn refresh_message_reports(&mut self) {
        // A room without clients is on no worker.
        if !self.clients().is_empty() {
            let has_inbox = |participant: &LocalParticipant| participant.client.is_none();
            let enabled = self.common.has_sandbox() && self.active_members().any(has_inbox);
            self.effects
                .push(Effect::Command(Command::ReportMessages { enabled }));
        }
    }
}
