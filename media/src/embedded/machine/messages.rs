//! Data messages between participants with and without clients. Those with clients receive all of them from the media worker.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conclave_model::participant::DataKind;
use conclave_model::{NamespacedRoom, ParticipantSid, Timestamp};
use conclave_rtc::{Command, SentMessage, ServerMessage};

use super::Machine;
use crate::embedded::error::MachineError;
use crate::embedded::inbox::Notice;
use crate::embedded::publish::check_data;

impl Machine {
    /// A participant of the sandbox sends a data message to all others in its room that may subscribe.
    pub fn send_data(
        &mut self,
        sid: &ParticipantSid,
        data: &str,
        topic: Option<&str>,
        now: Timestamp,
    ) -> Result<(), MachineError> {
        let sender = self.active(sid)?;
        check_data(&sender.grants)?;
        let notice = Notice::Data {
            data: data.into(),
            topic: topic.map(Into::into),
            kind: DataKind::Reliable,
            from_identity: (!sender.grants.hidden).then(|| sender.identity().clone()),
        };
        let name = sender.room.clone();
        let Some(room) = self.rooms.get(&name) else { return Ok(()) };
        let mut with_clients = Vec::new();
        for other in room.members().filter(|other| *other != sid) {
            let receiver = self.participants.get_mut(other).filter(|p| p.is_active() && p.grants.can_subscribe);
            let Some(receiver) = receiver else { continue };
            if receiver.client.is_some() {
                with_clients.push(receiver.identity().clone());
            } else {
                receiver.inbox.push(now, notice.clone());
            }
        }
        if !with_clients.is_empty() {
            let payload = STANDARD.decode(data).unwrap_or_default();
            let topic = topic.map(str::to_owned);
            let message = ServerMessage { to: with_clients, kind: DataKind::Reliable, topic, payload };
            self.command(&name, Command::SendData(message));
        }
        Ok(())
    }

    /// A participant with a client sent a data message: those without one receive it.
    pub fn message_sent(&mut self, sid: &ParticipantSid, message: &SentMessage, now: Timestamp) {
        let Ok(sender) = self.present(sid) else { return };
        let notice = Notice::Data {
            data: STANDARD.encode(&message.payload).into(),
            topic: message.topic.as_deref().map(Into::into),
            kind: message.kind,
            from_identity: (!sender.grants.hidden).then(|| sender.identity().clone()),
        };
        let Some(room) = self.rooms.get(&sender.room) else { return };
        for other in room.members() {
            let receiver = self.participants.get_mut(other).filter(|p| p.is_active() && p.client.is_none());
            let receiver = receiver.filter(|p| p.grants.can_subscribe);
            if let Some(receiver) = receiver.filter(|p| message.to.include(p.identity().as_str(), p.sid().as_str())) {
                receiver.inbox.push(now, notice.clone());
            }
        }
    }

    /// Lets the media worker of a room report messages if a participant without a client is there to receive them.
    pub fn refresh_message_reports(&mut self, room: &NamespacedRoom) {
        // A room without clients is on no worker.
        if !self.clients_of(room).is_empty() {
            let enabled = self.active_in(room).any(|participant| participant.client.is_none());
            self.command(room, Command::ReportMessages { enabled });
        }
    }
}
