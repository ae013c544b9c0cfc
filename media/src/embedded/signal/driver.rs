//! Signalling sessions as tasks: admission before a WebSocket is opened, or a [`Refusal`], then a loop over the inputs
//! from the WebSocket, the room state and the media workers.
//!
//! A room's lock is held during a call on its state, and never across an await. All channels are bounded: a session that
//! does not keep up loses its participant, and a client that does not read loses its WebSocket. A client that exceeds its
//! [`budget`](super::budget) is disconnected.

use std::sync::Arc;

use conclave_model::event::Departure;
use conclave_model::{ParticipantSid, Timestamp};
use conclave_sfu::PeerEvent;
use livekit_protocol as proto;
use proto::leave_request::Action;
use tokio::sync::mpsc;

use super::budget::{Budgets, ClientBudget, Excess};
use super::channels::{SessionInput, SignalConnection, SignalFrame, Socket, connection};
use super::connect_request::{ConnectRequest, JoinError, JoinParameters};
use super::frames::{FrameError, asks_for_offer, encode, is_snapshot, read};
use super::messages;
use super::session::{Context, Session};
use crate::embedded::client::{Client, Subscriptions};
use crate::embedded::error::RoomStateError;
use crate::embedded::join::phases;
use crate::embedded::own_metadata::{self, OwnMetadataError};
use crate::embedded::plane::core::{PlaneCore, await_replies};
use crate::embedded::room::Room;
use crate::embedded::room_state::RoomState;
use crate::embedded::rtc_metrics::JoinOutcome;
use crate::port::ReportError;
use crate::token::{Claims, TokenError};

/// Returns a connection whose only message requests a new join.
fn not_resumable() -> SignalConnection {
    let (connection, socket) = connection();
    let leave = messages::leave(proto::DisconnectReason::StateMismatch, Action::Reconnect);
    if let Some(replies) = &socket.replies {
        // The channel is new, so there is room for one message.
        let _ = replies.send(encode(leave, false), true);
    }
    connection
}

/// Connects a client: a new join is admitted by the control plane, a resumed one continues. When this returns, the
/// first message is ready and the WebSocket may be opened.
///
/// # Errors
/// The HTTP status for a refused client. A join that cannot be resumed is no error: a message requests a new join.
pub(in crate::embedded) async fn connect(
    plane: &Arc<PlaneCore>,
    request: &ConnectRequest,
) -> Result<SignalConnection, Refusal> {
    let (is_new, connected) = match read_request(plane, request) {
        Ok((claims, join)) => (
            join.resume.is_none(),
            join_or_resume(plane, claims, join).await,
        ),
        Err(refusal) => (true, Err(refusal)),
    };
    // A failed resume is not a failed join: its join has been counted.
    if is_new && connected.is_err() {
        plane.record(|metrics| metrics.record_join(JoinOutcome::Refused));
    }
    connected
}

/// Verifies the token, and only then parses the rest of the request.
fn read_request(
    plane: &PlaneCore,
    request: &ConnectRequest,
) -> Result<(Claims, JoinParameters), Refusal> {
    let claims = plane
        .signer
        .verify(request.token().reveal(), plane.clock.now())?;
    let join = request.parameters()?;
    // A resume keeps the metadata of its participant, whatever the request contains.
    if join.resume.is_none() {
        own_metadata::check_join(&claims, &join.own_metadata).map_err(JoinError::from)?;
    }
    Ok((claims, join))
}

async fn join_or_resume(
    plane: &Arc<PlaneCore>,
    claims: Claims,
    join: JoinParameters,
) -> Result<SignalConnection, Refusal> {
    if let Some(sid) = join.resume.clone() {
        // A message, rather than an HTTP status, makes the client join again.
        return Ok(attach(plane, &sid, &claims, join).unwrap_or_else(not_resumable));
    }
    // In a spawned task, so that the join is admitted or cancelled even if the client disconnects.
    let admitted = tokio::spawn(admit(Arc::clone(plane), claims, join));
    admitted.await.map_err(|_| Refusal::Unavailable)?
}

/// Repeats the verdict that [`connect`] would return now, without joining. SDKs call this after a failed connection, to
/// show the reason.
///
/// # Errors
/// Fails as [`connect`] does.
pub(in crate::embedded) async fn validate(
    plane: &Arc<PlaneCore>,
    request: &ConnectRequest,
) -> Result<(), Refusal> {
    let (claims, join) = read_request(plane, request)?;
    // Only the token counts for a resume: `connect` never refuses one.
    if join.resume.is_some() {
        return Ok(());
    }
    let room = claims.room.clone();
    let (probed, answers) = plane.call(&room, |room_state, now| room_state.probe_join(claims, now));
    probed?;
    Ok(await_replies(answers).await?)
}

/// Requests a new connection from all clients, because the server is stopping.
pub(in crate::embedded) fn shut_down_sessions(plane: &PlaneCore) {
    plane
        .rooms
        .all()
        .iter()
        .for_each(|room| room.sessions.broadcast(|| SessionInput::Stop));
}

/// Admits a client and starts its session, or refuses it.
async fn admit(
    inner: Arc<PlaneCore>,
    claims: Claims,
    join: JoinParameters,
) -> Result<SignalConnection, Refusal> {
    let client = Client {
        client_protocol: join.client_protocol,
        capabilities: join.capabilities.clone(),
        own_metadata: join.own_metadata.clone(),
        subscriptions: Subscriptions::new(join.settings.auto_subscribe)
            .with_data(join.settings.auto_subscribe_data_track.unwrap_or_default()),
        ..Client::default()
    };
    let (identity, name) = (claims.identity.clone(), claims.room.clone());
    let mut budget = inner
        .budgets
        .client(Arc::new((name.clone(), identity.clone())), join.address);
    // Before the control plane is involved: a client disconnected for excessive requests may put more of them into its
    // next join.
    take_requests(&inner.budgets, &mut budget, &join)
        .inspect_err(|excess| inner.record(|metrics| metrics.record_excess(*excess)))?;
    let ask = |room_state: &mut RoomState, now| room_state.request_join(claims, client, now);
    let (room, sid) = phases::request::<_, Refusal>(&inner, &name, ask, |sid| sid).await?;
    // Before the admission, so that the session misses no notice.
    let inputs = room.sessions.add(&sid);
    let session = Session::new(sid.clone(), identity, join.mode, inner.clock.monotonic());
    let mut session = session.with_turn(Arc::clone(&inner.turn));
    if inner.common.has_sandbox() {
        session.permit_simulations();
    }
    // One call, so that no notice can get ahead of the response to the join.
    let (admitted, _) = inner.call_in(&room, |room_state, now| {
        let admitted = room_state.admit(&sid, now);
        if admitted.is_ok() {
            session.start(&mut context(&inner, room_state, now), &join);
        }
        admitted
    });
    if let Err(error) = admitted {
        // Nothing else to undo: the room state has dropped the join already.
        room.sessions.remove(&sid);
        return Err(error.into());
    }
    let (connection, socket) = connection();
    budget.weigh_changes(session.change_weight());
    let task = SessionTask {
        budget,
        inner,
        room,
        sid,
        session,
        socket: Some(socket),
        writes_text: false,
        was_connected: false,
        has_exceeded: false,
    };
    tokio::spawn(task.run(inputs));
    Ok(connection)
}

/// Counts the requests that are part of a join or resume.
fn take_requests(
    budgets: &Budgets,
    budget: &mut ClientBudget,
    join: &JoinParameters,
) -> Result<(), Excess> {
    if let Some(offer) = &join.offer {
        budget.take_offer(budgets, &offer.sdp)?;
    }
    let others = join.tracks.len() + usize::from(join.sync_state.is_some());
    (0..others).try_for_each(|_| budget.take_change(budgets))
}

/// Returns the context of a session's call.
fn context<'a>(plane: &'a PlaneCore, room_state: &'a mut RoomState, now: Timestamp) -> Context<'a> {
    Context {
        room_state,
        signer: &plane.signer,
        now,
    }
}

/// Attaches a new WebSocket to a participant's session. `None` if these claims cannot resume it.
fn attach(
    plane: &PlaneCore,
    sid: &ParticipantSid,
    claims: &Claims,
    join: JoinParameters,
) -> Option<SignalConnection> {
    let room = plane.rooms.get(&claims.room)?;
    // A token from a room code resumes the join made with it, not another client's with the same identity.
    let is_own = |exchange: Option<&str>| claims.exchange().is_none_or(|own| exchange == Some(own));
    let state = room.lock();
    let local = state
        .room_state
        .present(sid)
        .ok()
        .filter(|local| *local.identity() == claims.identity)?;
    // Nor does a token that was revoked resume a later join, whose token names the revocation. A resume asks no room actor.
    let is_known = claims.revocation() == local.participant().known_revocation();
    if !is_known || !is_own(local.participant().exchange()) {
        return None;
    }
    // Released before the send, which locks the sessions' channels.
    drop(state);
    let (connection, socket) = connection();
    room.sessions
        .send(sid, SessionInput::Attach(Box::new((join, socket))))
        .then_some(connection)
}

/// A session with its WebSocket, if attached, its room and the plane.
struct SessionTask {
    inner: Arc<PlaneCore>,
    room: Arc<Room>,
    sid: ParticipantSid,
    session: Session,
    socket: Option<Socket>,
    /// Whether the client has sent text on this WebSocket, and so receives text.
    writes_text: bool,
    /// Whether its media was connected, so that its join was reported.
    was_connected: bool,
    /// Limits for the client's requests.
    budget: ClientBudget,
    /// Whether these were exceeded, so that further requests are ignored.
    has_exceeded: bool,
}

/// Reason for a session's wake-up.
enum Wake {
    Input(Option<SessionInput>),
    Frame(Option<SignalFrame>),
    Deadline,
}

impl SessionTask {
    /// Runs the session until its participant has left.
    async fn run(mut self, mut inputs: mpsc::Receiver<SessionInput>) {
        self.flush();
        while !self.session.is_over() {
            let deadline = self.session.next_deadline();
            // Inputs first: a client may leave right after its media has connected, and the join must be reported
            // before the leave. Frames before the deadline: a buffered frame proves that the client is not silent.
            let wake = tokio::select! {
                biased;
                input = inputs.recv() => Wake::Input(input),
                frame = next_frame(&mut self.socket) => Wake::Frame(frame),
                () = self.inner.clock.sleep_until_reading(deadline) => Wake::Deadline,
            };
            match wake {
                Wake::Input(Some(input)) => self.handle_input(input),
                // It did not keep up, or its participant was removed before.
                Wake::Input(None) => {
                    self.call(|session, context| session.end(context, Departure::Lost));
                    break;
                }
                Wake::Frame(Some(frame)) => self.handle_frame(&frame),
                Wake::Frame(None) => {
                    self.socket = None;
                    self.call(Session::detach);
                }
                Wake::Deadline => self.call(Session::tick),
            }
            self.flush();
        }
        self.room.sessions.remove(&self.sid);
        if !self.was_connected {
            self.inner
                .record(|metrics| metrics.record_join(JoinOutcome::NotConnected));
        }
    }

    fn handle_input(&mut self, input: SessionInput) {
        match input {
            SessionInput::Notice(notice) => {
                self.call(|session, context| session.handle_notice(context, notice));
            }
            SessionInput::Media(event) => self.handle_media(event),
            SessionInput::Speakers(speakers) => {
                self.call(|session, context| session.handle_speakers(context, &speakers));
            }
            SessionInput::Qualities(qualities) => {
                self.call(|session, context| session.handle_qualities(context, &qualities));
            }
            SessionInput::PublishRate(kbps) => {
                // A rate before the join is accepted, or after the leave, is dropped.
                let _ = self.inner.call_in(&self.room, |room_state, now| {
                    room_state.set_bitrate(&self.sid, kbps, now)
                });
            }
            SessionInput::Attach(attached) => {
                let (join, socket) = *attached;
                // In this order: frames on the old WebSocket count for the old address.
                self.replace_socket(socket);
                self.budget.move_to(join.address);
                match take_requests(&self.inner.budgets, &mut self.budget, &join) {
                    Ok(()) => self.call(|session, context| session.resume(context, join)),
                    Err(excess) => self.exceed(excess),
                }
            }
            SessionInput::Stop => self.session.shut_down(),
        }
    }

    fn handle_media(&mut self, event: PeerEvent) {
        if let PeerEvent::FirstFrame { after } = event {
            self.inner
                .record(|metrics| metrics.record_first_frame(after));
        }
        let (inner, session) = (&self.inner, &mut self.session);
        let (is_joining, answers) = inner.call_in(&self.room, |room_state, now| {
            session.handle_media(&mut context(inner, room_state, now), event)
        });
        if is_joining {
            self.was_connected = true;
            // Not awaited here: until the control plane decides, the client's requests are handled.
            tokio::spawn(phases::conclude(
                Arc::clone(inner),
                Arc::clone(&self.room),
                self.sid.clone(),
                answers,
            ));
        }
    }

    /// Handles frames that have arrived on the old WebSocket, then switches to the new one.
    fn replace_socket(&mut self, socket: Socket) {
        if let Some(mut before) = self.socket.take() {
            while let Some(frame) = before.frames.try_recv() {
                self.handle_frame(&frame);
            }
        }
        self.socket = Some(socket);
        self.writes_text = false;
    }

    /// Handles a client's frame. A frame that is not a request is ignored.
    fn handle_frame(&mut self, frame: &SignalFrame) {
        if self.has_exceeded {
            return;
        }
        self.writes_text |= matches!(frame, SignalFrame::Text(_));
        match read(frame, &mut self.budget, &self.inner.budgets) {
            Ok(request) => {
                self.call(|session, context| session.handle_request(context, request));
                // A request may have changed the participant's metadata, by which later changes are weighed.
                self.budget.weigh_changes(self.session.change_weight());
            }
            Err(FrameError::Malformed) => {}
            Err(FrameError::Exceeds(excess)) => self.exceed(excess),
        }
    }

    /// Disconnects a client that exceeds its limits.
    fn exceed(&mut self, excess: Excess) {
        self.has_exceeded = true;
        self.record_excess(excess);
        self.call(Session::exclude);
    }

    fn record_excess(&self, excess: Excess) {
        self.inner.record(|metrics| metrics.record_excess(excess));
        if let Some(replies) = self
            .socket
            .as_ref()
            .and_then(|socket| socket.replies.as_ref())
        {
            replies.record_excess_reason(excess);
            // The HTTP server puts the reason into its close frame.
        }
        log::debug!("participant {}: {excess}", self.sid);
    }

    fn call(&mut self, call: impl FnOnce(&mut Session, &mut Context<'_>)) {
        let (inner, session) = (&self.inner, &mut self.session);
        inner.call_in(&self.room, |room_state, now| {
            call(session, &mut context(inner, room_state, now));
        });
    }

    /// Sends the session's messages. A client that does not read them loses its WebSocket.
    fn flush(&mut self) {
        for message in self.session.take_messages() {
            let Some(replies) = self
                .socket
                .as_ref()
                .and_then(|socket| socket.replies.as_ref())
            else {
                break;
            };
            let is_snapshot = is_snapshot(&message, &self.sid);
            // Counted before the message is sent: the offer may arrive at once.
            if asks_for_offer(&message) {
                self.budget.ask_for_offer();
            }
            if replies
                .send(encode(message, self.writes_text), is_snapshot)
                .is_err()
            {
                self.record_excess(Excess::Unread);
                self.close_socket();
                self.call(Session::detach);
                return;
            }
        }
        // After the last message. A session that is over needs no detaching: its participant is gone.
        if self.session.take_close() && self.close_socket() && !self.session.is_over() {
            self.call(Session::detach);
        }
    }

    /// Closes the sending side, so that the HTTP server closes the WebSocket. Frames are read until then. Returns
    /// whether it was open.
    fn close_socket(&mut self) -> bool {
        self.socket
            .as_mut()
            .is_some_and(|socket| socket.replies.take().is_some())
    }
}

/// Returns the client's next frame; `None` once its WebSocket is closed. Pending forever without a WebSocket.
async fn next_frame(socket: &mut Option<Socket>) -> Option<SignalFrame> {
    match socket {
        Some(socket) => socket.frames.recv().await,
        None => std::future::pending().await,
    }
}

/// Reason for refusing a client. The text is sent to the client; it contains nothing from its token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Malformed request: 400.
    #[error("{0}")]
    BadRequest(JoinError),
    /// Missing or invalid token, or a request that it does not permit: 401.
    #[error("{0}")]
    Unauthorized(String),
    /// Nonexistent or ended room: 404. SDKs compare this very text: after any other 404 they retry on the older path
    /// `/rtc`.
    #[error("requested room does not exist")]
    NoRoom,
    /// Full room or role, removed role, or another participant's identity: 403.
    #[error("{0}")]
    Forbidden(&'static str),
    /// Exceeded request limits: 429.
    #[error("{0}")]
    TooMuch(Excess),
    /// Control plane unavailable: 503. The client may retry.
    #[error("the server cannot accept joins now")]
    Unavailable,
}

impl From<JoinError> for Refusal {
    fn from(error: JoinError) -> Self {
        match error {
            error @ JoinError::OwnMetadata(OwnMetadataError::TooLong) => Self::BadRequest(error),
            JoinError::NoToken | JoinError::OwnMetadata(_) => Self::Unauthorized(error.to_string()),
            error => Self::BadRequest(error),
        }
    }
}

impl From<TokenError> for Refusal {
    fn from(error: TokenError) -> Self {
        Self::Unauthorized(error.to_string())
    }
}

impl From<Excess> for Refusal {
    fn from(excess: Excess) -> Self {
        Self::TooMuch(excess)
    }
}

impl From<RoomStateError> for Refusal {
    fn from(error: RoomStateError) -> Self {
        match error {
            RoomStateError::RoomFull => Self::Forbidden("the room is full"),
            RoomStateError::IdentityTaken => {
                Self::Forbidden("another participant with this identity is connected")
            }
            RoomStateError::Stopping => Self::Unavailable,
            // It was removed, or its room ended, during the request to the control plane.
            _ => Self::NoRoom,
        }
    }
}

impl From<ReportError> for Refusal {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::RoomEnded | ReportError::UnknownRoom => Self::NoRoom,
            ReportError::RoleFull => Self::Forbidden("the role is full for this room"),
            ReportError::RoleRemoved => Self::Forbidden("the room no longer has this role"),
            // The call page finds the reason in these texts (`errors.js`).
            ReportError::Banned => Self::Forbidden("the identity is banned from this room"),
            ReportError::TokenRevoked => Self::Forbidden("the token was revoked"),
            ReportError::InvalidIdentity => Self::Forbidden("the identity is not allowed"),
            ReportError::Unavailable => Self::Unavailable,
        }
    }
}
