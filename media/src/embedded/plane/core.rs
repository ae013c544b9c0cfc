//! The parts of the plane, and calls on rooms.
//!
//! A call on a room's machine and the sending of its reports happen under the room's lock, so that reports are sent in the order
//! of the events. Sandbox calls await the answers after the lock is released, since the control plane may call the port while it
//! handles a report. Calls of the port never await answers: their caller is the actor that has to give them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use conclave_egress::{Ffmpeg, FfmpegError};
use conclave_model::{Clock, NamespacedRoom, Timestamp};
use conclave_sfu::Workers;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use crate::embedded::common::Common;
use crate::embedded::effect::Effect;
use crate::embedded::egress::jobs::Jobs;
use crate::embedded::ingress::endpoints::PublishUrls;
use crate::embedded::ingress::stream_keys::StreamKeyRates;
use crate::embedded::ingress::whip::WhipSessions;
use crate::embedded::machine::Machine;
use crate::embedded::room::{Directory, Room, RoomState};
use crate::embedded::rtc_metrics::RtcMetrics;
use crate::embedded::sandbox::faults::Faults;
use crate::embedded::signal::budget::Budgets;
use crate::embedded::signal::channels::SessionInput;
use crate::embedded::turn::{OwnTurn, TurnServers};
use crate::port::{MediaError, Report, ReportAnswer, ReportError, ReportSink};
use crate::token::TokenSigner;

/// The state that clones share.
pub(in crate::embedded) struct Inner {
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
    pub(super) urls: PublishUrls,
    pub(super) sink: Arc<dyn ReportSink>,
    /// The media workers; without them, no client's media connects.
    pub workers: Option<Workers>,
    pub(super) metrics: Option<RtcMetrics>,
    /// The egresses that run with ffmpeg; without them, all egresses are simulated.
    pub jobs: Option<Jobs>,
    /// The TURN servers that clients are given.
    pub turn: Arc<[TurnServers]>,
    /// The TURN server in this process, if there is one.
    pub(super) own_turn: Option<OwnTurn>,
    /// What clients may send.
    pub budgets: Budgets,
    pub faults: Faults,
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
                room.sessions.send(&to, SessionInput::Notice(notice));
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
pub(in crate::embedded) async fn await_answers(
    answers: Vec<ReportAnswer>,
) -> Result<(), ReportError> {
    let mut result = Ok(());
    for answer in answers {
        result = result.and(answer.await.unwrap_or(Err(ReportError::Unavailable)));
    }
    result
}
