//! State machine of one client's signalling, without I/O.
//!
//! The driver calls it with the room state and the time. It queues messages for the client, and reports when its WebSocket must be
//! closed and when the session is over.
//!
//! - [`link`]: the WebSocket, whether the client is reachable, and the queued messages.
//! - [`requests`]: the client's requests. Each one is a call on the room state, which has effects for this and other clients.
//! - [`events`]: messages to the client about its media, the room, and, after a resume, whatever it has missed.
//!
//! # Course of a signalling session
//!
//! 1. [`Session::start`] sends the join response. The media worker connects the client, and then the join is reported.
//! 2. The client sends requests and pings, and receives notices from the room state and the media worker. Its token is refreshed.
//! 3. If the WebSocket is lost, the participant stays while its media lives. A client that returns resumes: once the media worker has
//!    prepared the transports, it receives a full snapshot.
//! 4. If its media is lost, the client may resume for [`events::RESUME_TIMEOUT`]. If its state contradicts the server's, it has to join
//!    again.
//! 5. The session is over with the room state's notice that the participant has left, for whatever reason.

mod events;
mod link;
mod requests;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use conclave_model::event::Departure;
use conclave_model::{Identity, ParticipantSid, Timestamp};
use conclave_sfu::{ConnectionMode, NewPeer, PeerCommand};
use livekit_protocol as proto;
use proto::DisconnectReason;
use proto::leave_request::Action;
use proto::signal_response::Message;

use self::events::MediaLoss;
use self::link::Link;
use self::requests::AwaitedTracks;
use super::connect_request::JoinParameters;
use super::device::Device;
use super::messages;
use crate::embedded::local_participant::LocalParticipant;
use crate::embedded::room_state::RoomState;
use crate::embedded::turn::TurnServers;
use crate::embedded::wire::participant_info;
use crate::token::TokenSigner;

/// Client's ping interval, and its timeout for receiving a message, in seconds.
const PING_INTERVAL: i32 = 5;
const PING_TIMEOUT: i32 = 15;
/// Interval between token refreshes: half of a refreshed token's lifetime.
const REFRESH_INTERVAL: Duration = Duration::from_secs(300);
/// First protocol version whose clients expect a response to an accepted request.
const ACCEPTANCE_PROTOCOL: i32 = 15;
/// Pause after the join response for a client that sets the offer from its join late, such as LiveKit's SDK for Go.
/// Such a client discards an answer that arrives earlier.
const OFFER_PAUSE: Duration = Duration::from_millis(50);

/// Context of one call on a session.
pub(super) struct Context<'a> {
    /// The room state, which also has the monotonic reading of the clock for the session's deadlines.
    pub room_state: &'a mut RoomState,
    /// Signs refreshed tokens.
    pub signer: &'a TokenSigner,
    /// Time of the call.
    pub now: Timestamp,
}

/// The signalling of one join.
#[derive(Debug)]
pub(super) struct Session {
    sid: ParticipantSid,
    identity: Identity,
    mode: ConnectionMode,
    link: Link,
    /// Time of the next token refresh.
    refresh_at: Duration,
    media_loss: MediaLoss,
    awaited: AwaitedTracks,
    /// TURN servers for the client.
    turn: Arc<[TurnServers]>,
    is_over: bool,
    /// Whether the client may simulate server failures.
    permits_simulations: bool,
    /// Whether the client sends video with the codec in its request, whatever the server's response.
    insists_on_codec: bool,
    /// The client's device and SDK.
    device: Device,
    /// Whether the client handles responses to accepted requests.
    expects_acceptance: bool,
    /// Weight of each change by the client.
    change_weight: u32,
}

impl Session {
    /// Creates an admitted participant's session. Its first call must be [`Session::start`].
    pub fn new(
        sid: ParticipantSid,
        identity: Identity,
        mode: ConnectionMode,
        reading: Duration,
    ) -> Self {
        Self {
            sid,
            identity,
            mode,
            link: Link::new(reading),
            refresh_at: reading + REFRESH_INTERVAL,
            media_loss: MediaLoss::default(),
            awaited: AwaitedTracks::default(),
            turn: Arc::default(),
            is_over: false,
            permits_simulations: false,
            insists_on_codec: false,
            device: Device::default(),
            expects_acceptance: false,
            change_weight: 1,
        }
    }

    pub fn with_turn(self, turn: Arc<[TurnServers]>) -> Self {
        Self { turn, ..self }
    }

    /// Sends the join response: the room, the client's token, and its transports. Tracks and an offer in the join are
    /// then handled like requests.
    pub fn start(&mut self, context: &mut Context<'_>, join: &JoinParameters) {
        self.insists_on_codec = join.insists_on_codec;
        self.device = join.device.clone();
        self.expects_acceptance = join.protocol >= ACCEPTANCE_PROTOCOL;
        self.change_weight = context
            .room_state
            .present(&self.sid)
            .map_or(1, LocalParticipant::change_weight);
        self.add_peer(context, join);
        if let Some(response) = self.join_response(context) {
            self.send(Message::Join(response));
        }
        // Only the response goes out before the pause.
        if join.sets_offer_late && join.offer.is_some() {
            self.link.delay(context.room_state.reading() + OFFER_PAUSE);
        }
        context.room_state.refresh_receiver(&self.sid);
        self.refresh_token(context);
        // Tracks before the offer, whose media sections belong to them.
        for request in &join.tracks {
            self.announce(context, request);
        }
        if let Some(offer) = &join.offer {
            self.offer(context, offer.id, offer.sdp.clone());
        }
    }

    /// Permits the client to simulate server failures.
    pub fn permit_simulations(&mut self) {
        self.permits_simulations = true;
    }

    /// Returns the messages for the client since the last call, in order, without delayed ones.
    pub fn take_messages(&mut self) -> Vec<Message> {
        self.link.take_messages()
    }

    /// Returns whether the WebSocket must be closed after the messages. Returns true once per WebSocket.
    pub fn take_close(&mut self) -> bool {
        self.link.take_close()
    }

    /// Returns the weight of each change by the client.
    pub fn change_weight(&self) -> u32 {
        self.change_weight
    }

    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the monotonic reading for the next [`Session::tick`].
    pub fn next_deadline(&self) -> Duration {
        [
            self.link.next_deadline(),
            self.media_loss.deadline(),
            self.awaited.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .fold(self.refresh_at, Duration::min)
    }

    /// Handles passed deadlines.
    pub fn tick(&mut self, context: &mut Context<'_>) {
        let reading = context.room_state.reading();
        if self.link.tick(reading) {
            self.detach(context);
        }
        if self.refresh_at <= reading {
            self.refresh_token(context);
        }
        self.give_up_tracks(context);
        if self
            .media_loss
            .deadline()
            .is_some_and(|until| until <= reading)
        {
            self.end(context, Departure::Lost);
        }
    }

    /// Handles a lost WebSocket. The participant stays while its media lives, or as long as it may resume.
    pub fn detach(&mut self, context: &mut Context<'_>) {
        self.link.detach();
        context.room_state.signal_lost(&self.sid);
        // A client that has closed its transports and its WebSocket has left, even without a `leave`.
        if self.media_loss.is_closed() {
            self.end(context, Departure::Lost);
        }
    }

    /// Requests a new connection from the client, because the server is stopping.
    pub fn shut_down(&mut self) {
        self.send(messages::leave(
            DisconnectReason::ServerShutdown,
            Action::Reconnect,
        ));
        self.link.close();
    }

    /// Disconnects a client that exceeds its limits. The client must not reconnect by itself.
    pub fn exclude(&mut self, context: &mut Context<'_>) {
        self.send(messages::leave(
            DisconnectReason::ParticipantRemoved,
            Action::Disconnect,
        ));
        self.link.close();
        // After the message: the notice of the end sends none, as if the client had left by itself.
        self.end(context, Departure::Lost);
    }

    /// Ends the participant's join. The resulting notice ends the session.
    pub fn end(&mut self, context: &mut Context<'_>, departure: Departure) {
        // Fails if it has been disconnected already. The notice is on its way then.
        let _ = context.room_state.leave(&self.sid, departure, context.now);
        self.media_loss.end();
    }

    fn send(&mut self, message: Message) {
        self.link.send(message);
    }

    fn command(&self, context: &mut Context<'_>, command: PeerCommand) {
        context.room_state.command(&self.sid, command);
    }

    fn refresh_token(&mut self, context: &mut Context<'_>) {
        self.refresh_at = context.room_state.reading() + REFRESH_INTERVAL;
        let Ok(local) = context.room_state.present(&self.sid) else {
            return;
        };
        // Signing cannot fail for a token that was verified.
        if let Ok(refreshed) = local.refreshed_token(context.signer, context.now) {
            self.send(Message::RefreshToken(refreshed.token.reveal().to_owned()));
        }
    }

    fn add_peer(&self, context: &mut Context<'_>, join: &JoinParameters) {
        let Some(permissions) = context.room_state.peer_permissions(&self.sid) else {
            return;
        };
        let peer = NewPeer {
            sid: self.sid.clone(),
            identity: self.identity.clone(),
            mode: self.mode,
            is_subscriber_primary: self.is_subscriber_primary(context.room_state),
            needs_full_ice: join.settings.disable_ice_lite,
            allows_pause: join.settings.subscriber_allow_pause.unwrap_or_default(),
            permissions,
            client: join.device.program().map(Box::new),
        };
        context.room_state.add_peer(peer);
        // Media workers report messages while a participant without a client is in the room, so that the sandbox can
        // show them.
        context.room_state.refresh_message_reports();
    }

    /// Returns whether the client waits for its subscriber connection, rather than its publisher connection, before it
    /// counts as connected.
    fn is_subscriber_primary(&self, room_state: &RoomState) -> bool {
        // With two connections, a client without the right to subscribe has nothing to wait for on the second.
        let can_subscribe = room_state
            .present(&self.sid)
            .is_ok_and(|local| local.grants.can_subscribe);
        self.mode == ConnectionMode::Dual && can_subscribe
    }

    /// Returns the TURN servers with new credentials. The server's own addresses are in its session descriptions.
    fn ice_servers(&self, now: Timestamp) -> Vec<proto::IceServer> {
        self.turn
            .iter()
            .map(|turn| turn.for_participant(&self.sid, now).into())
            .collect()
    }

    fn join_response(&self, context: &Context<'_>) -> Option<proto::JoinResponse> {
        let own = context.room_state.present(&self.sid).ok()?;
        let others = context
            .room_state
            .visible_to(&self.sid)
            .into_iter()
            .map(participant_info);
        let server_info = messages::server_info();
        Some(proto::JoinResponse {
            room: Some(messages::room_info(context.room_state)),
            participant: Some(participant_info(own)),
            other_participants: others.collect(),
            server_version: server_info.version.clone(),
            server_info: Some(server_info),
            subscriber_primary: self.is_subscriber_primary(context.room_state),
            ping_interval: PING_INTERVAL,
            ping_timeout: PING_TIMEOUT,
            enabled_publish_codecs: self
                .device
                .without_unusable(messages::publish_codecs(&own.grants)),
            // The client negotiates its publisher connection right after the join, rather than with its first track.
            fast_publish: own.grants.can_publish,
            ice_servers: self.ice_servers(context.now),
            ..proto::JoinResponse::default()
        })
    }
}
