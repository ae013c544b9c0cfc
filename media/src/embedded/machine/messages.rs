//! Data messages of the server, and between participants with and without clients. Those with clients receive all of them from
//! the media worker, and those without have an inbox.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conclave_model::participant::DataKind;
use conclave_model::{ParticipantSid, Timestamp};
use conclave_sfu::{Command, SentMessage, ServerMessage};

use super::outbox::Outbox;
use super::roster::Roster;
use crate::embedded::error::MachineError;
use crate::embedded::inbox::Notice;
use crate::embedded::local_participant::LocalParticipant;
use crate::embedded::publish::check_data;
use crate::port::ServerData;

/// Who receives the data messages of a room.
pub(super) struct Messages<'a> {
    roster: &'a mut Roster,
    outbox: &'a mut Outbox,
}

impl<'a> Messages<'a> {
    /// Borrows what it works on.
    pub const fn new(roster: &'a mut Roster, outbox: &'a mut Outbox) -> Self {
        Self { roster, outbox }
    }

    /// A participant of the sandbox sends a data message to all others in its room that may subscribe.
    pub fn send(
        &mut self,
        sid: &ParticipantSid,
        data: Vec<u8>,
        topic: Option<&str>,
        now: Timestamp,
    ) -> Result<(), MachineError> {
        let sender = self.roster.active(sid)?;
        check_data(&sender.grants)?;
        let notice = Notice::Data {
            data: STANDARD.encode(&data).into(),
            topic: topic.map(Into::into),
            kind: DataKind::Reliable,
            from_identity: (!sender.grants.hidden).then(|| sender.identity().clone()),
        };
        self.roster.deliver(&notice, now, |p| {
            p.client.is_none() && p.grants.can_subscribe && p.sid() != sid
        });
        let with_clients = self
            .roster
            .active_members()
            .filter(|p| p.client.is_some() && p.grants.can_subscribe);
        let to: Vec<_> = with_clients
            .map(|receiver| receiver.identity().clone())
            .collect();
        if !to.is_empty() {
            let topic = topic.map(str::to_owned);
            self.outbox.send(Command::SendData(ServerMessage {
                to,
                kind: DataKind::Reliable,
                topic,
                payload: data,
            }));
        }
        Ok(())
    }

    /// A participant with a client sent a data message: those without one receive it.
    pub fn sent_by_client(&mut self, sid: &ParticipantSid, message: &SentMessage, now: Timestamp) {
        let Ok(sender) = self.roster.present(sid) else {
            return;
        };
        let notice = Notice::Data {
            data: STANDARD.encode(&message.payload).into(),
            topic: message.topic.as_deref().map(Into::into),
            kind: message.kind,
            from_identity: (!sender.grants.hidden).then(|| sender.identity().clone()),
        };
        self.roster.deliver(&notice, now, |p| {
            let is_named = message.to.include(p.identity().as_str(), p.sid().as_str());
            p.client.is_none() && p.grants.can_subscribe && is_named
        });
    }

    /// The server sends a data message to all participants, or to those it names. Grants do not restrict who receives
    /// it.
    pub fn send_by_server(&mut self, message: ServerData, now: Timestamp) {
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
        self.roster.deliver(&notice, now, is_for);
        if self
            .roster
            .active_members()
            .any(|p| p.client.is_some() && is_for(p))
        {
            self.outbox.send(Command::SendData(ServerMessage {
                to,
                kind,
                topic,
                payload,
            }));
        }
    }

    /// Lets the media worker report messages if a participant of the sandbox is there to receive them.
    pub fn refresh_reports(&mut self) {
        // A room without clients is on no worker.
        if self.roster.clients().next().is_some() {
            let has_inbox = |participant: &LocalParticipant| participant.client.is_none();
            let enabled =
                self.roster.keeps_inboxes() && self.roster.active_members().any(has_inbox);
            self.outbox.send(Command::ReportMessages { enabled });
        }
    }
}
