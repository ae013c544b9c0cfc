//! The driver of the embedded media plane: a clock, a directory of rooms, and the delivery of reports.
//!
//! - [`EmbeddedPlane`]: what the server does with the plane. Each of its methods is in the module that it belongs to: signalling,
//!   ingress, egress; those of the sandbox are in [`Sandbox`].
//! - [`Inner`]: the parts of the plane, and calls on rooms.
//! - [`port`]: the calls of the media port. [`builder`]: what a plane is built of.
//!
//! A call on a room's machine and the sending of its reports happen under the room's lock, so that reports are sent in the order
//! of the events. Sandbox calls await the answers after the lock is released, since the control plane may call the port while it
//! handles a report. Calls of the port never await answers: their caller is the actor that has to give them.

mod builder;
mod port;

use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{fmt, io};

use conclave_egress::{Ffmpeg, FfmpegError};
use conclave_model::ingress::{InputType, StreamKeyHash};
use conclave_model::{ClientAddress, Clock, Identity, NamespacedRoom, Timestamp};
use conclave_sfu::Workers;
use conclave_turn::TurnServer;
use prometheus::Registry;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::common::Common;
use super::effect::Effect;
use super::egress::jobs::Jobs;
use super::egress::{metrics, start};
use super::ingress::admission::{self, EncoderRefusal, StreamKeyRates};
use super::ingress::endpoints::PublishUrls;
use super::ingress::rtmp::{RtmpListener, RtmpTls};
use super::ingress::whip::{
    self, WhipAnswer, WhipPatch, WhipPatchError, WhipRestart, WhipSessionName, WhipSessions,
};
use super::machine::Machine;
use super::room::{Directory, Room, RoomState};
use super::rtc_metrics::RtcMetrics;
use super::sandbox::{Faults, Sandbox};
use super::signal::budget::Budgets;
use super::signal::channels::Input;
use super::signal::{ConnectRequest, Refusal, SignalConnection};
use super::turn::{OwnTurn, TurnServers};
use super::{ingress, signal};
use crate::port::{MediaError, Report, ReportAnswer, ReportError, ReportSink};
use crate::token::TokenSigner;
pub use builder::EmbeddedPlaneBuilder;

/// The media plane in this process. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct EmbeddedPlane(Arc<Inner>);

impl fmt::Debug for EmbeddedPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EmbeddedPlane")
    }
}

/// The state that clones share.
pub(super) struct Inner {
    /// The time that the machines' calls get.
    pub clock: Clock,
    /// Verifies and refreshes the tokens of participants.
    pub signer: Arc<TokenSigner>,
    pub rooms: Arc<Directory>,
    pub common: Arc<Common>,
    /// The sessions of encoders that speak WHIP.
    pub whip: WhipSessions,
    /// How often encoders may try stream keys.
    pub stream_key_rates: StreamKeyRates,
    urls: PublishUrls,
    sink: Arc<dyn ReportSink>,
    /// The media workers; without them, no client's media connects.
    pub workers: Option<Workers>,
    metrics: Option<RtcMetrics>,
    /// The egresses that run with ffmpeg; without them, all egresses are simulated.
    pub jobs: Option<Jobs>,
    /// The TURN servers that clients are given.
    pub turn: Arc<[TurnServers]>,
    /// The TURN server in this process, if there is one.
    own_turn: Option<OwnTurn>,
    /// What clients may send.
    pub budgets: Budgets,
    pub faults: Faults,
}

impl EmbeddedPlane {
    /// Begins a plane without rooms, which sends its reports to the sink. The publish urls of encoders have the host of
    /// `public_url`, the websocket url of clients.
    pub fn builder(
        clock: Clock,
        signer: Arc<TokenSigner>,
        public_url: &str,
        sink: Arc<dyn ReportSink>,
    ) -> EmbeddedPlaneBuilder {
        EmbeddedPlaneBuilder::new(clock, signer, public_url, sink)
    }

    /// Connects a client: a new join is admitted by the control plane, and one that is resumed goes on. Once this returns,
    /// the first message is ready; the websocket may be opened.
    ///
    /// # Errors
    /// The status with which the client is turned away. A join that cannot be resumed is not refused, but told so.
    pub async fn connect(&self, request: ConnectRequest) -> Result<SignalConnection, Refusal> {
        signal::driver::connect(&self.0, &request).await
    }

    /// Repeats the verdict that [`EmbeddedPlane::connect`] would give now, without joining.
    ///
    /// # Errors
    /// As [`EmbeddedPlane::connect`].
    pub async fn validate(&self, request: &ConnectRequest) -> Result<(), Refusal> {
        signal::driver::validate(&self.0, request).await
    }

    /// Asks all clients to connect anew, because the server stops.
    pub fn shut_down_sessions(&self) {
        signal::driver::shut_down_sessions(&self.0);
    }

    /// Accepts RTMP encoders on a socket that listens, with TLS if it is given. Must be called on a runtime, which
    /// the connections stay on.
    ///
    /// # Errors
    /// The socket cannot be used.
    pub fn serve_rtmp(
        &self,
        socket: std::net::TcpListener,
        tls: Option<RtmpTls>,
    ) -> io::Result<RtmpListener> {
        ingress::rtmp::serve(self.clone(), socket, tls)
    }

    /// Checks that an encoder at an address may connect with a stream key, before its request is read.
    ///
    /// # Errors
    /// `TooManyTries`, `UnknownKey`, `AlreadyConnected`.
    pub async fn check_stream_key(
        &self,
        key: &StreamKeyHash,
        input: InputType,
        address: Option<ClientAddress>,
    ) -> Result<(), EncoderRefusal> {
        admission::check_stream_key(&self.0, key, input, address).await
    }

    /// Connects a WHIP encoder with its SDP offer.
    ///
    /// # Errors
    /// Why the encoder is refused. It has not joined then.
    pub async fn connect_whip(
        &self,
        key: StreamKeyHash,
        offer: String,
    ) -> Result<WhipAnswer, EncoderRefusal> {
        whip::driver::connect(&self.0, key, offer).await
    }

    /// Handles a PATCH request of an encoder. Returns the server's ICE credentials if ICE restarts.
    ///
    /// # Errors
    /// Why the request is refused.
    pub async fn patch_whip(
        &self,
        session: WhipSessionName<'_>,
        patch: WhipPatch,
    ) -> Result<Option<WhipRestart>, WhipPatchError> {
        whip::driver::patch(&self.0, session, patch).await
    }

    /// Ends the session of an encoder. Returns whether there was one.
    pub async fn delete_whip(&self, session: WhipSessionName<'_>) -> bool {
        whip::driver::delete(&self.0, session).await
    }

    /// Returns whether there is such a session.
    pub fn has_whip_session(&self, name: WhipSessionName<'_>) -> bool {
        whip::driver::has_session(&self.0, name)
    }

    /// Returns the sandbox API of this plane.
    pub fn sandbox(&self) -> Sandbox {
        Sandbox::new(Arc::clone(&self.0))
    }

    /// Returns the ffmpeg that records and broadcasts, or why there is none; `None` if all of them are simulated.
    pub async fn ffmpeg(&self) -> Option<Result<Ffmpeg, FfmpegError>> {
        self.0.ffmpeg().await
    }

    /// Registers the metrics of recordings and broadcasts.
    ///
    /// # Errors
    /// They are registered already.
    pub fn register_egress_metrics(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        metrics::register(Arc::downgrade(&self.0), registry)
    }

    /// Ends all egresses with ffmpeg, and starts none any more. Returns once their files are final and their records are written.
    /// They have the time for that of the engine's settings.
    pub async fn end_egresses(&self) {
        start::end_all(&self.0).await;
    }

    /// Lets no participant join from now on, disconnects those that are connected, and asks their clients to connect anew. Returns
    /// whether the control plane has recorded the end of every session within `limit`.
    pub async fn end_sessions(&self, limit: Duration) -> bool {
        self.0.common.stop();
        // A join that is not among these rooms finds that the server stops: it locks its room later than this.
        let rooms = self.0.rooms.all();
        let answers = rooms
            .iter()
            .flat_map(|room| self.0.call_in(room, Machine::stop).1)
            .collect();
        matches!(timeout(limit, await_answers(answers)).await, Ok(Ok(())))
    }

    /// Waits for the joins that are being written.
    async fn await_joins(&self, room: &NamespacedRoom, identity: Option<&Identity>) {
        if let Some(room) = self.0.rooms.get(room) {
            room.await_joins(identity).await;
        }
    }

    /// Returns the TURN server in this process, if there is one, for clients that connect by TCP or TLS.
    pub fn turn_server(&self) -> Option<TurnServer> {
        self.0.own_turn.as_ref().map(|turn| turn.server.clone())
    }

    /// Returns the urls of the TURN server in this process; none without one.
    pub fn own_turn_urls(&self) -> Vec<String> {
        self.0
            .own_turn
            .iter()
            .flat_map(|turn| turn.urls.clone())
            .collect()
    }

    /// The state that clones share.
    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl Inner {
    /// Makes a call on a room, which is opened for it unless it is open, and sends its reports, under the room's lock. Returns
    /// the room, too.
    pub fn enter<T>(
        self: &Arc<Self>,
        name: &NamespacedRoom,
        call: impl FnOnce(&mut Machine, Timestamp) -> T,
    ) -> (Arc<Room>, T, Vec<ReportAnswer>) {
        self.rooms.with_open(name, &self.common, |room, state| {
            let (result, answers) = self.run(room, state, call);
            (Arc::clone(room), result, answers)
        })
    }

    /// As [`Inner::enter`], without the room.
    pub fn call<T>(
        self: &Arc<Self>,
        name: &NamespacedRoom,
        call: impl FnOnce(&mut Machine, Timestamp) -> T,
    ) -> (T, Vec<ReportAnswer>) {
        let (_, result, answers) = self.enter(name, call);
        (result, answers)
    }

    /// Makes a call on a room that a participant has entered. The call adds nothing to the room, which may be closed.
    pub fn call_in<T>(
        self: &Arc<Self>,
        room: &Arc<Room>,
        call: impl FnOnce(&mut Machine, Timestamp) -> T,
    ) -> (T, Vec<ReportAnswer>) {
        self.run(room, &mut room.lock(), call)
    }

    /// Makes a call of the port on a room. It fails during a simulated outage.
    pub fn call_by_port<T>(
        self: &Arc<Self>,
        name: &NamespacedRoom,
        call: impl FnOnce(&mut Machine, Timestamp) -> T,
    ) -> Result<T, MediaError> {
        self.faults.check_outage(&self.clock)?;
        Ok(self.call(name, call).0)
    }

    fn run<T>(
        self: &Arc<Self>,
        room: &Arc<Room>,
        state: &mut RoomState,
        call: impl FnOnce(&mut Machine, Timestamp) -> T,
    ) -> (T, Vec<ReportAnswer>) {
        state.machine.set_reading(self.clock.monotonic());
        let result = call(&mut state.machine, self.clock.now());
        let reports = state.machine.take_reports();
        state
            .machine
            .take_effects()
            .into_iter()
            .for_each(|effect| self.carry_out(room, effect));
        let answers = reports
            .into_iter()
            .map(|report| self.send(report))
            .collect();
        self.watch_deadlines(room, state);
        self.rooms.close_if_unused(room, state);
        (result, answers)
    }

    /// Notifies clients and commands media workers. A client is notified before packets that depend on it can arrive.
    fn carry_out(&self, room: &Room, effect: Effect) {
        match effect {
            Effect::Notify { to, notice } => {
                room.sessions.send(&to, Input::Notice(notice));
            }
            Effect::Job { egress, effect } => {
                if let Some(jobs) = &self.jobs {
                    jobs.carry_out(room, &egress, effect);
                }
            }
            Effect::OpenMedia => room.open_media(self.workers.as_ref()),
            Effect::Command(command) => room.send_command(command),
            Effect::CloseMedia => room.close_media(),
        }
    }

    /// Sends a report. The sender of one that is dropped cannot tell that from an accepted one.
    fn send(&self, report: Report) -> ReportAnswer {
        if !self.faults.take_drop() {
            return self.sink.report(report);
        }
        let (sender, answer) = oneshot::channel();
        let _ = sender.send(Ok(()));
        answer
    }

    /// Spawns a task that waits for the machine's deadlines, if there is a deadline and no such task.
    fn watch_deadlines(self: &Arc<Self>, room: &Arc<Room>, state: &mut RoomState) {
        // The task also ends with the runtime that it was spawned on, and is then replaced.
        let is_watching = state
            .deadline_task
            .as_ref()
            .is_some_and(|task| !task.is_finished());
        let Some(next) = state.machine.next_deadline() else {
            return;
        };
        if is_watching {
            if state.awaited_deadline.is_some_and(|awaited| next < awaited) {
                state.earlier_deadline.notify_one();
            }
        } else if let Ok(runtime) = Handle::try_current() {
            let wake = Arc::clone(&state.earlier_deadline);
            let waiting = wait_for_deadlines(
                Arc::downgrade(self),
                Arc::downgrade(room),
                wake,
                self.clock.clone(),
            );
            state.awaited_deadline = None;
            state.deadline_task = Some(runtime.spawn(waiting));
        }
    }

    /// Returns the ffmpeg that records and broadcasts, or why there is none; `None` if all of them are simulated.
    pub async fn ffmpeg(&self) -> Option<Result<Ffmpeg, FfmpegError>> {
        self.jobs.as_ref()?.ffmpeg().await
    }

    /// Counts something, if there are metrics.
    pub fn record(&self, record: impl FnOnce(&RtcMetrics)) {
        if let Some(metrics) = &self.metrics {
            record(metrics);
        }
    }
}

/// Returns the next deadline of a room. If there is none, the calling task has to end.
fn next_deadline(room: &Weak<Room>) -> Option<Duration> {
    let room = room.upgrade()?;
    let mut state = room.lock();
    let next = state.machine.next_deadline();
    state.awaited_deadline = next;
    if next.is_none() {
        state.deadline_task = None;
    }
    next
}

/// Waits for one deadline of a room after another until there is none. `wake` says that there is an earlier one.
async fn wait_for_deadlines(plane: Weak<Inner>, room: Weak<Room>, wake: Arc<Notify>, clock: Clock) {
    while let Some(next) = next_deadline(&room) {
        tokio::select! {
            () = clock.sleep_until_reading(next) => {}
            () = wake.notified() => continue,
        }
        if let Some((plane, room)) = plane.upgrade().zip(room.upgrade()) {
            plane.call_in(&room, Machine::tick);
        }
    }
}

/// Awaits all answers and returns the first error. A report whose answer the sink drops counts as refused.
pub(super) async fn await_answers(answers: Vec<ReportAnswer>) -> Result<(), ReportError> {
    let mut result = Ok(());
    for answer in answers {
        result = result.and(answer.await.unwrap_or(Err(ReportError::Unavailable)));
    }
    result
}

#[cfg(test)]
mod tests;
