//! Data messages from the server, and between participants with and without clients. Clients receive them from the
//! media worker; participants without a client have an inbox.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conclave_model::participant::DataKind;
use conclave_model::{ParticipantSid, Timestamp};
use conclave_sfu::{Command, SentMessage, ServerMessage};

use super::outbox::Outbox;
use super::roster::Roster;
use crate::embedded::error::RoomStateError;
use crate::embedded::inbox::Notice;
use crate::embedded::local_participant::LocalParticipant;
use crate::embedded::publish::check_data;
use crate::port::ServerData;

/// Delivery of data messages in a room.
pub(super) struct Messages<'a> {
    roster: &'a mut Roster,
    outbox: &'a mut Outbox,
}

impl<'a> Messages<'a> {
    pub const fn new(roster: &'a mut Roster, outbox: &'a mut Outbox) -> Self {
        Self { roster, outbox }
    }

    /// Sends a sandbox participant's data message to all others in the room that may subscribe.
    pub fn send(
        &mut self,
        sid: &ParticipantSid,
        data: Vec<u8>,
        topic: Option<&str>,
        now: Timestamp,
    ) -> Result<(), RoomStateError> {
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
        // The media worker knows nothing of sandbox participants, so the receivers with clients are listed for it.
        let with_clients = self
            .roster
            .active_members()
            .filter(|p| p.client.is_some() && p.grants.can_subscribe);
        let to: Vec<_> = with_clients
            .map(|receiver| receiver.identity().clone())
            .collect();
        // An empty list would address everyone.
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

    /// Delivers a client's data message to participants without a client. The media worker has delivered it to the
    /// others.
    pub fn sent_by_client(&mut self, sid: &ParticipantSid, message: &SentMessage, now: Timestamp) {
        // The message may arrive after its sender's leave, since the media worker has a queue of its own.
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

    /// Sends a data message from the server to all participants, or to those in `to`. Their grants do not matter.
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
        // A room without clients is on no media worker.
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

    /// Enables the media worker's message reports while a sandbox participant is there to receive them.
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
