//! Sessions as tasks: admission before a websocket is opened, or a [`Refusal`], and the channels between a websocket, a session, the machine
//! and the media workers.
//!
//! The lock of a room is held during a call on its machine, and never across an await. Channels are bounded: a session that does
//! not keep up loses its participant, and a client that does not read loses its websocket. A client that sends more than its
//! [`budget`](super::budget) is disconnected.

use std::sync::Arc;

use conclave_model::event::Departure;
use conclave_model::{ParticipantSid, Timestamp};
use conclave_sfu::PeerEvent;
use livekit_protocol as proto;
use proto::leave_request::Action;
use tokio::sync::mpsc;

use super::budget::{Budgets, ClientBudget, Excess};
use super::channels::{Input, SignalConnection, SignalFrame, Socket, connection};
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

/// Returns a connection on which the client is asked to join anew.
fn not_resumable() -> SignalConnection {
    let (connection, socket) = connection();
    let leave = messages::leave(proto::DisconnectReason::StateMismatch, Action::Reconnect);
    if let Some(replies) = &socket.replies {
        // The channel is empty.
        let _ = replies.send(encode(leave, false), true);
    }
    connection
}

/// Connects a client: a new join is admitted by the control plane, and one that is resumed goes on. Once this returns,
/// the first message is ready; the websocket may be opened.
///
/// # Errors
/// The status with which the client is turned away. A join that cannot be resumed is not refused, but told so.
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
    if is_new && connected.is_err() {
        plane.record(|metrics| metrics.record_join(JoinOutcome::Refused));
    }
    connected
}

/// Verifies the token, and only then reads what the client asks for.
fn read_request(
    plane: &PlaneCore,
    request: &ConnectRequest,
) -> Result<(Claims, JoinParameters), Refusal> {
    let claims = plane
        .signer
        .verify(request.token().reveal(), plane.clock.now())?;
    let join = request.parameters()?;
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
        return Ok(attach(plane, &sid, &claims, join).unwrap_or_else(not_resumable));
    }
    // In a spawned task, so that the join is admitted or cancelled even if the client disconnects.
    let admitted = tokio::spawn(admit(Arc::clone(plane), claims, join));
    admitted.await.map_err(|_| Refusal::Unavailable)?
}

/// Repeats the verdict that [`connect`] would give now, without joining.
///
/// # Errors
/// As [`connect`].
pub(in crate::embedded) async fn validate(
    plane: &Arc<PlaneCore>,
    request: &ConnectRequest,
) -> Result<(), Refusal> {
    let (claims, join) = read_request(plane, request)?;
    if join.resume.is_some() {
        return Ok(());
    }
    let room = claims.room.clone();
    let (probed, answers) = plane.call(&room, |machine, now| machine.probe_join(claims, now));
    probed?;
    Ok(await_replies(answers).await?)
}

/// Asks all clients to connect anew, because the server stops.
pub(in crate::embedded) fn shut_down_sessions(plane: &PlaneCore) {
    plane
        .rooms
        .all()
        .iter()
        .for_each(|room| room.sessions.broadcast(|| Input::Stop));
}

/// Admits a client and starts its session, or turns it away.
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
    // Before anyone is asked: a client that is disconnected for what it sends may put it into its next request.
    take_requests(&inner.budgets, &mut budget, &join)
        .inspect_err(|excess| inner.record(|metrics| metrics.record_excess(*excess)))?;
    let ask = |machine: &mut RoomState, now| machine.request_join(claims, client, now);
    let (room, sid) = phases::request::<_, Refusal>(&inner, &name, ask, |sid| sid).await?;
    // Before the participant is admitted, so that its session misses no notice.
    let inputs = room.sessions.add(&sid);
    let session = Session::new(sid.clone(), identity, join.mode, inner.clock.monotonic());
    let mut session = session.with_turn(Arc::clone(&inner.turn));
    if inner.common.has_sandbox() {
        session.permit_simulations();
    }
    let (admitted, _) = inner.call_in(&room, |machine, now| {
        let admitted = machine.admit(&sid, now);
        if admitted.is_ok() {
            session.start(&mut context(&inner, machine, now), &join);
        }
        admitted
    });
    if let Err(error) = admitted {
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

/// Counts the requests that come with a request to join or to resume.
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

/// Returns what a session works on during a call on the machine.
fn context<'a>(plane: &'a PlaneCore, machine: &'a mut RoomState, now: Timestamp) -> Context<'a> {
    Context {
        machine,
        signer: &plane.signer,
        now,
    }
}

/// Attaches a new websocket to the session of a participant. `None` if it cannot be resumed with these claims.
fn attach(
    plane: &PlaneCore,
    sid: &ParticipantSid,
    claims: &Claims,
    join: JoinParameters,
) -> Option<SignalConnection> {
    let room = plane.rooms.get(&claims.room)?;
    // A token from a room code resumes what was joined by it, not whoever has the identity.
    let is_own = |exchange: Option<&str>| claims.exchange().is_none_or(|own| exchange == Some(own));
    let state = room.lock();
    let local = state
        .room_state
        .present(sid)
        .ok()
        .filter(|local| *local.identity() == claims.identity)?;
    if !is_own(local.participant().exchange()) {
        return None;
    }
    drop(state);
    let (connection, socket) = connection();
    room.sessions
        .send(sid, Input::Attach(Box::new((join, socket))))
        .then_some(connection)
}

/// A session, its websocket if it has one, its room, and the plane.
struct SessionTask {
    inner: Arc<PlaneCore>,
    room: Arc<Room>,
    sid: ParticipantSid,
    session: Session,
    socket: Option<Socket>,
    /// Whether the client of this websocket has sent text, and so gets text.
    writes_text: bool,
    /// Whether its media was connected, so that its join was reported.
    was_connected: bool,
    /// What the client may send.
    budget: ClientBudget,
    /// Whether it has sent more, so that nothing more of it is handled.
    has_exceeded: bool,
}

/// What woke a session.
enum Wake {
    Input(Option<Input>),
    Frame(Option<SignalFrame>),
    Deadline,
}

impl SessionTask {
    /// Runs the session until its participant is gone.
    async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        self.flush();
        while !self.session.is_over() {
            let deadline = self.session.next_deadline();
            // In this order: a client may leave right after its media is connected, and what it has sent counts before it is taken
            // for silent.
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

    fn handle_input(&mut self, input: Input) {
        match input {
            Input::Notice(notice) => {
                self.call(|session, context| session.handle_notice(context, notice));
            }
            Input::Media(event) => self.handle_media(event),
            Input::Speakers(speakers) => {
                self.call(|session, context| session.handle_speakers(context, &speakers));
            }
            Input::Qualities(qualities) => {
                self.call(|session, context| session.handle_qualities(context, &qualities));
            }
            Input::PublishRate(kbps) => {
                // A rate that comes before the join is accepted, or after its end, is dropped.
                let _ = self.inner.call_in(&self.room, |machine, now| {
                    machine.set_bitrate(&self.sid, kbps, now)
                });
            }
            Input::Attach(attached) => {
                let (join, socket) = *attached;
                self.replace_socket(socket);
                self.budget.move_to(join.address);
                match take_requests(&self.inner.budgets, &mut self.budget, &join) {
                    Ok(()) => self.call(|session, context| session.resume(context, join)),
                    Err(excess) => self.exceed(excess),
                }
            }
            Input::Stop => self.session.shut_down(),
        }
    }

    fn handle_media(&mut self, event: PeerEvent) {
        if let PeerEvent::FirstFrame { after } = event {
            self.inner
                .record(|metrics| metrics.record_first_frame(after));
        }
        let (inner, session) = (&self.inner, &mut self.session);
        let (is_joining, answers) = inner.call_in(&self.room, |machine, now| {
            session.handle_media(&mut context(inner, machine, now), event)
        });
        if is_joining {
            self.was_connected = true;
            tokio::spawn(phases::conclude(
                Arc::clone(inner),
                Arc::clone(&self.room),
                self.sid.clone(),
                answers,
            ));
        }
    }

    /// Handles what has arrived on the websocket before, and goes on with another one.
    fn replace_socket(&mut self, socket: Socket) {
        if let Some(mut before) = self.socket.take() {
            while let Some(frame) = before.frames.try_recv() {
                self.handle_frame(&frame);
            }
        }
        self.socket = Some(socket);
        self.writes_text = false;
    }

    /// Handles a frame of the client. One that is no request is ignored.
    fn handle_frame(&mut self, frame: &SignalFrame) {
        if self.has_exceeded {
            return;
        }
        self.writes_text |= matches!(frame, SignalFrame::Text(_));
        match read(frame, &mut self.budget, &self.inner.budgets) {
            Ok(request) => {
                self.call(|session, context| session.handle_request(context, request));
                self.budget.weigh_changes(self.session.change_weight());
            }
            Err(FrameError::Malformed) => {}
            Err(FrameError::Exceeds(excess)) => self.exceed(excess),
        }
    }

    /// Disconnects a client that sends more than it may.
    fn exceed(&mut self, excess: Excess) {
        self.has_exceeded = true;
        self.note_excess(excess);
        self.call(Session::exclude);
    }

    fn note_excess(&self, excess: Excess) {
        self.inner.record(|metrics| metrics.record_excess(excess));
        if let Some(replies) = self
            .socket
            .as_ref()
            .and_then(|socket| socket.replies.as_ref())
        {
            replies.note_excess(excess);
        }
        log::debug!("participant {}: {excess}", self.sid);
    }

    fn call(&mut self, call: impl FnOnce(&mut Session, &mut Context<'_>)) {
        let (inner, session) = (&self.inner, &mut self.session);
        inner.call_in(&self.room, |machine, now| {
            call(session, &mut context(inner, machine, now));
        });
    }

    /// Sends the session's messages. A client that does not read them loses its websocket.
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
            if asks_for_offer(&message) {
                self.budget.ask_for_offer();
            }
            if replies
                .send(encode(message, self.writes_text), is_snapshot)
                .is_err()
            {
                self.note_excess(Excess::Unread);
                self.close_socket();
                self.call(Session::detach);
                return;
            }
        }
        if self.session.take_close() && self.close_socket() && !self.session.is_over() {
            self.call(Session::detach);
        }
    }

    /// Lets the websocket be closed; what the client has sent until then is read on. Returns whether it was open.
    fn close_socket(&mut self) -> bool {
        self.socket
            .as_mut()
            .is_some_and(|socket| socket.replies.take().is_some())
    }
}

/// Returns the next frame of the client; `None` once when its websocket is closed, and never without a websocket.
async fn next_frame(socket: &mut Option<Socket>) -> Option<SignalFrame> {
    match socket {
        Some(socket) => socket.frames.recv().await,
        None => std::future::pending().await,
    }
}

/// Why a client may not connect. The text is for the client; it contains nothing of its token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request cannot be read: 400.
    #[error("{0}")]
    BadRequest(JoinError),
    /// The token is missing or invalid, or does not permit what the request asks for: 401.
    #[error("{0}")]
    Unauthorized(String),
    /// The room does not exist, or has ended: 404. Clients look for this very text, and for others fall back to an
    /// older path.
    #[error("requested room does not exist")]
    NoRoom,
    /// The room or the role is full, the role was removed, or the identity is another participant's: 403.
    #[error("{0}")]
    Forbidden(&'static str),
    /// The participant has sent as much as it may: 429.
    #[error("{0}")]
    TooMuch(Excess),
    /// The join could not be written: 503. The client may try again.
    #[error("the server cannot take joins now")]
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
            // It was removed, or its room ended, while the control plane was asked.
            _ => Self::NoRoom,
        }
    }
}

impl From<ReportError> for Refusal {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::RoomEnded | ReportError::UnknownRoom => Self::NoRoom,
            ReportError::RoleFull => Self::Forbidden("the role is full for this room"),
            ReportError::RoleRemoved => Self::Forbidden("the room has no such role any more"),
            ReportError::InvalidIdentity => Self::Forbidden("the identity is not allowed"),
            ReportError::Unavailable => Self::Unavailable,
        }
    }
}
