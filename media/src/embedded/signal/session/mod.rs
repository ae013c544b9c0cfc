//! The state machine of one client's signalling.
//!
//! It is called with the machine and the time, queues messages for the client, and says when its websocket is to be closed
//! and when it is over.
//!
//! - [`link`]: the websocket, whether the client can be reached by it, and the messages for it.
//! - [`requests`]: what the client asks for. Each request calls the machine, which has effects for this and other clients.
//! - [`events`]: what the client learns: of its media, of what happens in the room, and of what it has missed when it resumes.
//!
//! # The life of a session
//!
//! 1. [`Session::start`] answers a join that was admitted. The media worker connects the client; once it has, the join is reported.
//! 2. The client asks, and the machine and the media worker notify it. It sends pings, and its token is refreshed.
//! 3. If its websocket is gone, the participant stays while its media lives. A client that comes back resumes: it gets everything
//!    again, after the media worker has prepared its transports.
//! 4. If its media is dead, it may resume for some seconds. If what it knows does not fit to what the server knows, it has to join
//!    anew.
//! 5. The session is over when the machine notifies it that its participant is gone, whatever the cause.

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

/// How often clients have to send a ping, and within which time they have to receive something, in seconds.
const PING_INTERVAL: i32 = 5;
const PING_TIMEOUT: i32 = 15;
/// How often a client's token is refreshed.
const REFRESH_INTERVAL: Duration = Duration::from_secs(300);
/// The version of the protocol since which a request that was carried out has a response.
const ACCEPTANCE_PROTOCOL: i32 = 15;
/// How long a client that sets the offer of its join late gets nothing but the response to its join.
const OFFER_PAUSE: Duration = Duration::from_millis(50);

/// What a session works on during one call.
pub(super) struct Context<'a> {
    /// The room and its participants, and the monotonic reading of the clock, which the session's own deadlines are by.
    pub machine: &'a mut RoomState,
    /// Signs refreshed tokens.
    pub signer: &'a TokenSigner,
    /// The time of the call.
    pub now: Timestamp,
}

/// The signalling of one join.
#[derive(Debug)]
pub(super) struct Session {
    sid: ParticipantSid,
    identity: Identity,
    mode: ConnectionMode,
    link: Link,
    /// When its token is refreshed next.
    refresh_at: Duration,
    media_loss: MediaLoss,
    awaited: AwaitedTracks,
    /// The TURN servers that the client is given.
    turn: Arc<[TurnServers]>,
    is_over: bool,
    /// Whether the client may simulate failures of the server.
    permits_simulations: bool,
    /// Whether the client sends a video with the codec that it names, whatever the answer.
    insists_on_codec: bool,
    /// The client's machine and program.
    device: Device,
    /// Whether the client knows responses that a request was carried out.
    knows_acceptance: bool,
    /// As how many changes one of the client counts.
    change_weight: u32,
}

impl Session {
    /// Creates the session of a participant that has been admitted. Its first call has to be [`Session::start`].
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
            knows_acceptance: false,
            change_weight: 1,
        }
    }

    /// Gives the client TURN servers.
    pub fn with_turn(self, turn: Arc<[TurnServers]>) -> Self {
        Self { turn, ..self }
    }

    /// Answers the join: the room, the client's token, and its transports. Tracks and an offer that came with the join are
    /// handled like requests.
    pub fn start(&mut self, context: &mut Context<'_>, join: &JoinParameters) {
        self.insists_on_codec = join.insists_on_codec;
        self.device = join.device.clone();
        self.knows_acceptance = join.protocol >= ACCEPTANCE_PROTOCOL;
        self.change_weight = context
            .machine
            .present(&self.sid)
            .map_or(1, LocalParticipant::change_weight);
        self.add_peer(context, join);
        if let Some(response) = self.join_response(context) {
            self.send(Message::Join(response));
        }
        if join.sets_offer_late && join.offer.is_some() {
            self.link.hold_back(context.machine.reading() + OFFER_PAUSE);
        }
        context.machine.refresh_receiver(&self.sid);
        self.refresh_token(context);
        for request in &join.tracks {
            self.announce(context, request);
        }
        if let Some(offer) = &join.offer {
            self.offer(context, offer.id, offer.sdp.clone());
        }
    }

    /// Lets the client simulate failures of the server.
    pub fn permit_simulations(&mut self) {
        self.permits_simulations = true;
    }

    /// Returns the messages for the client since the last call, in order, but for those that are held back while it
    /// stays connected.
    pub fn take_messages(&mut self) -> Vec<Message> {
        self.link.take_messages()
    }

    /// Returns whether the websocket has to be closed once the messages are sent, once for each websocket.
    pub fn take_close(&mut self) -> bool {
        self.link.take_close()
    }

    /// Returns as how many changes one of the client counts.
    pub fn change_weight(&self) -> u32 {
        self.change_weight
    }

    /// Returns whether the session is over.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the monotonic reading at which [`Session::tick`] has to be called next.
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

    /// Handles the deadlines that have passed.
    pub fn tick(&mut self, context: &mut Context<'_>) {
        let reading = context.machine.reading();
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

    /// The websocket is gone. The participant stays while its media lives, or as long as it may resume.
    pub fn detach(&mut self, context: &mut Context<'_>) {
        self.link.detach();
        context.machine.signal_lost(&self.sid);
        if self.media_loss.is_closed() {
            self.end(context, Departure::Lost);
        }
    }

    /// Asks the client to connect anew: the server stops.
    pub fn shut_down(&mut self) {
        self.send(messages::leave(
            DisconnectReason::ServerShutdown,
            Action::Reconnect,
        ));
        self.link.close();
    }

    /// Disconnects a client that sends more than it may. It is not to come back by itself.
    pub fn exclude(&mut self, context: &mut Context<'_>) {
        self.send(messages::leave(
            DisconnectReason::ParticipantRemoved,
            Action::Disconnect,
        ));
        self.link.close();
        self.end(context, Departure::Lost);
    }

    /// Ends the participant's stay. The notice of its end ends the session.
    pub fn end(&mut self, context: &mut Context<'_>, departure: Departure) {
        // It has been disconnected already if this fails; the notice is on its way.
        let _ = context.machine.leave(&self.sid, departure, context.now);
        self.media_loss.end();
    }

    fn send(&mut self, message: Message) {
        self.link.send(message);
    }

    fn command(&self, context: &mut Context<'_>, command: PeerCommand) {
        context.machine.command(&self.sid, command);
    }

    fn refresh_token(&mut self, context: &mut Context<'_>) {
        self.refresh_at = context.machine.reading() + REFRESH_INTERVAL;
        let Ok(local) = context.machine.present(&self.sid) else {
            return;
        };
        // Signing fails for no token that is known.
        if let Ok(refreshed) = local.refreshed_token(context.signer, context.now) {
            self.send(Message::RefreshToken(refreshed.token.reveal().to_owned()));
        }
    }

    fn add_peer(&self, context: &mut Context<'_>, join: &JoinParameters) {
        let Some(permissions) = context.machine.peer_permissions(&self.sid) else {
            return;
        };
        let peer = NewPeer {
            sid: self.sid.clone(),
            identity: self.identity.clone(),
            mode: self.mode,
            is_subscriber_primary: self.is_subscriber_primary(context.machine),
            needs_full_ice: join.settings.disable_ice_lite,
            allows_pause: join.settings.subscriber_allow_pause.unwrap_or_default(),
            permissions,
        };
        context.machine.add_peer(peer);
        context.machine.refresh_message_reports();
    }

    /// Returns whether the client waits for its subscriber connection rather than for that by which it publishes.
    fn is_subscriber_primary(&self, machine: &RoomState) -> bool {
        let can_subscribe = machine
            .present(&self.sid)
            .is_ok_and(|local| local.grants.can_subscribe);
        self.mode == ConnectionMode::Dual && can_subscribe
    }

    /// Returns the TURN servers with fresh credentials. The server's own addresses are in its descriptions.
    fn ice_servers(&self, now: Timestamp) -> Vec<proto::IceServer> {
        self.turn
            .iter()
            .map(|turn| turn.for_participant(&self.sid, now).into())
            .collect()
    }

    fn join_response(&self, context: &Context<'_>) -> Option<proto::JoinResponse> {
        let own = context.machine.present(&self.sid).ok()?;
        let others = context
            .machine
            .visible_to(&self.sid)
            .into_iter()
            .map(participant_info);
        let server_info = messages::server_info();
        Some(proto::JoinResponse {
            room: Some(messages::room_info(context.machine)),
            participant: Some(participant_info(own)),
            other_participants: others.collect(),
            server_version: server_info.version.clone(),
            server_info: Some(server_info),
            subscriber_primary: self.is_subscriber_primary(context.machine),
            ping_interval: PING_INTERVAL,
            ping_timeout: PING_TIMEOUT,
            enabled_publish_codecs: self
                .device
                .without_unusable(messages::publish_codecs(&own.grants)),
            fast_publish: own.grants.can_publish,
            ice_servers: self.ice_servers(context.now),
            ..proto::JoinResponse::default()
        })
    }
}
