//! The signalling WebSocket. No messages are exchanged: opening it joins a participant that is not active yet, closing it disconnects the
//! participant.

use std::io::{Read, Write};
use std::net::TcpStream;

use livekit_protocol as proto;
use proto::participant_info::State as Progress;
use test_http_server::{Request, Response};
use tungstenite::handshake::derive_accept_key;

use crate::Double;
use crate::faults::{self, Fault};

/// Method name for faults of the WebSocket.
const SIGNALLING: &str = "rtc";

impl Double {
    /// Admits a client and waits until it disconnects. Returns a response if the client is refused.
    pub(crate) fn signalling(
        &self,
        request: &Request,
        stream: &mut TcpStream,
    ) -> Result<(), Response> {
        let fault = self.fault(SIGNALLING);
        if let Some(answer) = fault.as_ref().and_then(Fault::answer) {
            return Err(answer);
        }
        let claims = self.claims(request.header("authorization"))?;
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let (room, identity) = (text(&claims["video"]["room"]), text(&claims["sub"]));
        if claims["video"]["roomJoin"] != true || room.is_empty() || identity.is_empty() {
            return Err(faults::text(
                401,
                "text/plain; charset=utf-8",
                "permissions denied",
            ));
        }
        let sid = self.admit_client(&room, &identity)?;
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n",
            derive_accept_key(request.header("sec-websocket-key").as_bytes())
        );
        let held = stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.read_to_end(&mut Vec::new()));
        drop(held);
        self.disconnect_client(&room, &identity, &sid);
        Ok(())
    }

    fn admit_client(&self, room: &str, identity: &str) -> Result<String, Response> {
        let mut state = self.lock();
        if !state.settings.auto_create && !state.rooms.contains_key(room) {
            return Err(faults::text(
                404,
                "text/plain; charset=utf-8",
                "requested room does not exist",
            ));
        }
        state.open(room, self);
        state.remove_participant(
            room,
            identity,
            proto::DisconnectReason::DuplicateIdentity,
            self,
        );
        let sid = state.id("PA_");
        let participant = proto::ParticipantInfo {
            sid: sid.clone(),
            identity: identity.to_owned(),
            state: Progress::Joined as i32,
            ..Default::default()
        };
        state.add_participant(room, participant);
        Ok(sid)
    }

    fn disconnect_client(&self, room: &str, identity: &str, sid: &str) {
        let mut state = self.lock();
        let inside = state
            .rooms
            .get(room)
            .and_then(|room| room.participants.get(identity));
        if inside.is_some_and(|participant| participant.sid == sid) {
            state.remove_participant(room, identity, proto::DisconnectReason::SignalClose, self);
        }
    }
}
