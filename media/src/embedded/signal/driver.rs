//! Sessions as tasks: admission before a websocket is opened, and the channels between a websocket, a session, the machine
//! and the media workers.
//!
//! The lock of the machine is held during a call on it, and never across an await. Channels are bounded: a session that does
//! not keep up loses its participant, and a client that does not read loses its websocket.

use std::sync::Arc;

use conclave_model::ParticipantSid;
use conclave_rtc::PeerEvent;
use livekit_protocol as proto;
use prost::Message as _;
use proto::leave_request::Action;
use proto::signal_response::Message;
use tokio::sync::mpsc;

use super::connection::{SignalConnection, SignalFrame, Socket, connection};
use super::join::JoinParameters;
use super::refusal::Refusal;
use super::registry::Input;
use super::session::{Session, Turn};
use super::{messages, registry};
use crate::embedded::client::{Client, Subscriptions};
use crate::embedded::effect::CommandSink;
use crate::embedded::machine::Machine;
use crate::embedded::plane::{EmbeddedPlane, Inner, await_answers};
use crate::embedded::rtc_metrics::JoinOutcome;
use crate::embedded::sandbox::conclude_join;
use crate::port::ReportAnswer;
use crate::token::Claims;

/// Returns a connection on which the client is asked to join anew.
fn not_resumable() -> SignalConnection {
    let (connection, socket) = connection();
    let leave = messages::leave(proto::DisconnectReason::StateMismatch, Action::Reconnect);
    // The channel is empty.
    let _ = socket.replies.try_send(encode(leave, false));
    connection
}

fn encode(message: Message, as_text: bool) -> SignalFrame {
    let response = proto::SignalResponse { message: Some(message) };
    // A response can always be written as JSON.
    let text = as_text.then(|| serde_json::to_string(&response).ok()).flatten();
    text.map_or_else(|| SignalFrame::Binary(response.encode_to_vec()), SignalFrame::Text)
}

/// Reads a frame of a client; `None` if it is no request.
fn decode(frame: &SignalFrame) -> Option<proto::SignalRequest> {
    match frame {
        SignalFrame::Binary(bytes) => proto::SignalRequest::decode(bytes.as_slice()).ok(),
        SignalFrame::Text(text) => serde_json::from_str(text).ok(),
    }
}

impl EmbeddedPlane {
    /// Sets where commands to the media workers go. Only the first call has an effect; returns whether this was the first.
    pub fn set_command_sink(&self, sink: Arc<dyn CommandSink>) -> bool {
        self.inner().set_command_sink(sink)
    }

    /// Returns whether clients can connect: there are media workers.
    #[must_use]
    pub fn has_media(&self) -> bool {
        self.inner().has_command_sink()
    }

    /// Connects a client: a new join is admitted by the control plane, and one that is resumed goes on. Once this returns,
    /// the first message is ready; the websocket may be opened.
    ///
    /// # Errors
    /// The status with which the client is turned away. A join that cannot be resumed is not refused, but told so.
    pub async fn connect(&self, join: JoinParameters) -> Result<SignalConnection, Refusal> {
        let is_new = join.resume.is_none();
        let connected = self.join_or_resume(join).await;
        if is_new && connected.is_err() {
            self.inner().record(|metrics| metrics.record_join(JoinOutcome::Refused));
        }
        connected
    }

    async fn join_or_resume(&self, join: JoinParameters) -> Result<SignalConnection, Refusal> {
        let claims = self.inner().signer.verify(join.token.reveal(), self.inner().clock.now())?;
        if let Some(sid) = join.resume.clone() {
            return Ok(self.inner().attach(&sid, &claims, join).unwrap_or_else(not_resumable));
        }
        // In a spawned task, so that the join is admitted or cancelled even if the client disconnects.
        let admitted = tokio::spawn(admit(Arc::clone(self.inner()), claims, join));
        admitted.await.map_err(|_| Refusal::Unavailable)?
    }

    /// Repeats the verdict that [`EmbeddedPlane::connect`] would give now, without joining.
    ///
    /// # Errors
    /// As [`EmbeddedPlane::connect`].
    pub async fn validate(&self, join: &JoinParameters) -> Result<(), Refusal> {
        let claims = self.inner().signer.verify(join.token.reveal(), self.inner().clock.now())?;
        if join.resume.is_some() {
            return Ok(());
        }
        let (probed, answers) = self.inner().call(|machine, now| machine.probe_join(claims, now));
        probed?;
        Ok(await_answers(answers).await?)
    }

    /// Asks all clients to connect anew, because the server stops.
    pub fn shut_down_sessions(&self) {
        self.inner().sessions.broadcast(|| Input::Stop);
    }
}

/// Admits a client and starts its session, or turns it away.
async fn admit(inner: Arc<Inner>, claims: Claims, join: JoinParameters) -> Result<SignalConnection, Refusal> {
    let client = Client {
        client_protocol: join.client_protocol,
        capabilities: join.capabilities.clone(),
        subscriptions: Subscriptions::new(join.settings.auto_subscribe),
        ..Client::default()
    };
    let (identity, room) = (claims.identity.clone(), claims.room.clone());
    let (sid, answers) = inner.call(|machine, now| machine.request_join(claims, client, now));
    let sid = sid?;
    if let Err(refused) = await_answers(answers).await {
        inner.call(|machine, _| machine.cancel_request(&sid));
        return Err(refused.into());
    }
    // Before the participant is admitted, so that its session misses no notice.
    let inputs = inner.sessions.add(&sid, &room);
    let session = Session::new(sid.clone(), (identity, room), join.mode, inner.clock.now());
    let mut session = session.with_turn(inner.turn.get().cloned());
    if inner.permits_simulations() {
        session.permit_simulations();
    }
    let (admitted, _) = inner.call(|machine, now| {
        let admitted = machine.admit(&sid, now);
        if admitted.is_ok() {
            session.start(&mut Turn { machine, signer: &inner.signer, now }, &join);
        }
        admitted
    });
    if let Err(error) = admitted {
        inner.sessions.remove(&sid);
        return Err(error.into());
    }
    inner.watch_deadlines();
    let (connection, socket) = connection();
    let task = SessionTask { inner, sid, session, socket: Some(socket), writes_text: false, was_connected: false };
    tokio::spawn(task.run(inputs));
    Ok(connection)
}

impl Inner {
    /// Attaches a new websocket to the session of a participant. `None` if it cannot be resumed with these claims.
    fn attach(&self, sid: &ParticipantSid, claims: &Claims, join: JoinParameters) -> Option<SignalConnection> {
        let is_same = |machine: &Machine| {
            let local = machine.present(sid).ok();
            local.is_some_and(|local| *local.identity() == claims.identity && local.room == claims.room)
        };
        let (is_resumable, _) = self.call(|machine, _| is_same(machine));
        let (connection, socket) = connection();
        let attached = is_resumable && self.sessions.send(sid, Input::Attach(Box::new((join, socket))));
        attached.then_some(connection)
    }
}

/// A session, its websocket if it has one, and the plane.
struct SessionTask {
    inner: Arc<Inner>,
    sid: ParticipantSid,
    session: Session,
    socket: Option<Socket>,
    /// Whether the client of this websocket has sent text, and so gets text.
    writes_text: bool,
    /// Whether its media was connected, so that its join was reported.
    was_connected: bool,
}

/// What woke a session.
enum Wake {
    Input(Option<registry::Input>),
    Frame(Option<SignalFrame>),
    Deadline,
}

impl SessionTask {
    /// Runs the session until its participant is gone.
    async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        self.flush();
        while !self.session.is_over() {
            let deadline = self.session.next_deadline();
            let wake = tokio::select! {
                input = inputs.recv() => Wake::Input(input),
                frame = next_frame(&mut self.socket) => Wake::Frame(frame),
                () = self.inner.clock.sleep_until(deadline) => Wake::Deadline,
            };
            match wake {
                Wake::Input(Some(input)) => self.handle_input(input),
                // It did not keep up, or its participant was removed before.
                Wake::Input(None) => {
                    self.call(|session, turn| session.end(turn, false));
                    break;
                }
                Wake::Frame(Some(frame)) => self.handle_frame(&frame),
                Wake::Frame(None) => self.detach(),
                Wake::Deadline => self.call(Session::tick),
            }
            self.flush();
        }
        self.inner.sessions.remove(&self.sid);
        if !self.was_connected {
            self.inner.record(|metrics| metrics.record_join(JoinOutcome::NotConnected));
        }
    }

    fn handle_input(&mut self, input: Input) {
        match input {
            Input::Notice(notice) => self.call(|session, turn| session.handle_notice(turn, notice)),
            Input::Media(event) => self.handle_media(event),
            Input::Speakers(speakers) => self.call(|session, turn| session.handle_speakers(turn, &speakers)),
            Input::Qualities(qualities) => self.call(|session, turn| session.handle_qualities(turn, &qualities)),
            Input::PublishRate(kbps) => {
                // A rate that comes before the join is accepted, or after its end, is dropped.
                let _ = self.inner.call(|machine, now| machine.set_bitrate(&self.sid, kbps, now));
                self.inner.watch_deadlines();
            }
            Input::Attach(attached) => {
                let (join, socket) = *attached;
                self.socket = Some(socket);
                self.writes_text = false;
                self.call(|session, turn| session.resume(turn, join));
            }
            Input::Stop => self.session.shut_down(),
        }
    }

    fn handle_media(&mut self, event: PeerEvent) {
        if let PeerEvent::FirstFrame { after } = event {
            self.inner.record(|metrics| metrics.record_first_frame(after));
        }
        let (inner, session) = (&self.inner, &mut self.session);
        let (is_joining, answers) =
            inner.call(|machine, now| session.handle_media(&mut Turn { machine, signer: &inner.signer, now }, event));
        if is_joining {
            self.was_connected = true;
            tokio::spawn(conclude(Arc::clone(inner), self.sid.clone(), answers));
        }
    }

    /// Handles a frame of the client. One that is no request is ignored.
    fn handle_frame(&mut self, frame: &SignalFrame) {
        self.writes_text |= matches!(frame, SignalFrame::Text(_));
        if let Some(request) = decode(frame) {
            self.call(|session, turn| session.handle_request(turn, request));
        }
    }

    fn detach(&mut self) {
        self.socket = None;
        self.call(Session::detach);
        // The time to connect may be shorter now.
        self.inner.watch_deadlines();
    }

    fn call(&mut self, call: impl FnOnce(&mut Session, &mut Turn<'_>)) {
        let (inner, session) = (&self.inner, &mut self.session);
        inner.call(|machine, now| call(session, &mut Turn { machine, signer: &inner.signer, now }));
    }

    /// Sends the session's messages. A client that does not read them loses its websocket.
    fn flush(&mut self) {
        for message in self.session.take_messages() {
            let writes_text = self.writes_text;
            let sent = self.socket.as_ref().map(|socket| socket.replies.try_send(encode(message, writes_text)));
            if sent.is_some_and(|sent| sent.is_err()) {
                self.detach();
                return;
            }
        }
        if self.session.take_close() && self.socket.is_some() {
            self.socket = None;
            if !self.session.is_over() {
                self.call(Session::detach);
            }
        }
    }
}

/// Completes or aborts a join as the control plane decides, and counts it.
pub(in crate::embedded) async fn conclude(inner: Arc<Inner>, sid: ParticipantSid, answers: Vec<ReportAnswer>) {
    let outcome = match conclude_join(Arc::clone(&inner), sid, answers).await {
        Ok(()) => JoinOutcome::Joined,
        Err(_) => JoinOutcome::Rejected,
    };
    inner.record(|metrics| metrics.record_join(outcome));
}

/// Returns the next frame of the client; `None` once when its websocket is closed, and never without a websocket.
async fn next_frame(socket: &mut Option<Socket>) -> Option<SignalFrame> {
    match socket {
        Some(socket) => socket.frames.recv().await,
        None => std::future::pending().await,
    }
}
