//! A client that comes back with a new websocket, while its transports may still be alive.

use conclave_model::event::Departure;
use conclave_sfu::PeerCommand;
use livekit_protocol as proto;
use proto::DisconnectReason;
use proto::leave_request::Action;
use proto::signal_response::Message;

use super::simulate::ClosedResume;
use super::{Context, Session, Signal};
use crate::embedded::signal::join::JoinParameters;
use crate::embedded::signal::messages;
use crate::embedded::wire::participant_info;

impl Session {
    /// A new websocket is attached. Nothing is sent on it before the media worker has prepared the resume.
    pub fn resume(&mut self, context: &mut Context<'_>, join: JoinParameters) {
        self.heard_at = context.machine.reading();
        self.signal = Signal::Resuming;
        self.awaits_sync = true;
        self.outbox.clear();
        self.closes_socket = false;
        if self.closes_resume(ClosedResume::BeforeMessages) {
            return;
        }
        self.command(context, PeerCommand::Resume);
        if let Some(state) = join.sync_state {
            self.sync(context, state);
        }
        if let Some(offer) = join.offer {
            self.offer(context, offer.id, offer.sdp);
        }
    }

    /// The media worker is ready: the client gets what it may have missed. `reconnect` comes first, since clients drop what
    /// comes before it.
    pub(super) fn resumed(&mut self, context: &mut Context<'_>, last_message_seq: u32) {
        if self.signal != Signal::Resuming {
            return;
        }
        self.signal = Signal::Attached;
        self.resume_until = None;
        let server_info = Some(messages::server_info());
        let reconnect = proto::ReconnectResponse {
            ice_servers: self.ice_servers(context.now),
            server_info,
            last_message_seq,
            ..proto::ReconnectResponse::default()
        };
        self.send(Message::Reconnect(reconnect));
        let left: Vec<_> = self.missed_leaves.drain().map(|(_, info)| info).collect();
        if !left.is_empty() {
            self.send(messages::update(left));
        }
        let own = context.machine.present(&self.sid).into_iter();
        let present: Vec<_> = own
            .chain(context.machine.visible_to(&self.sid))
            .map(participant_info)
            .collect();
        self.send(messages::update(present));
        self.send(Message::RoomUpdate(proto::RoomUpdate {
            room: Some(messages::room_info(context.machine)),
        }));
        if context.machine.uses_data_handles(&self.sid) {
            self.send_data_handles(context);
        }
        self.refresh_token(context);
        self.closes_resume(ClosedResume::AfterMessages);
    }

    /// The client has to join anew: its state and the server's do not fit together. The participant is gone.
    pub(super) fn reconnect(&mut self, context: &mut Context<'_>) {
        if self.signal == Signal::Resuming {
            self.signal = Signal::Attached;
        }
        self.send(messages::leave(
            DisconnectReason::StateMismatch,
            Action::Reconnect,
        ));
        self.closes_socket = true;
        self.end(context, Departure::Lost);
    }
}
