//! A plane's parts, and calls on rooms.
//!
//! A call on a room state and the delivery of its reports happen under the room's lock, so that reports are sent in the
//! order of events. Sandbox calls await the replies after releasing the lock, since the control plane may call the port
//! while it handles a report. Port calls never await replies: their caller is the actor that would have to give them.

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
use crate::embedded::signal::channels::Input;
use crate::embedded::turn::{OwnTurn, TurnServers};
use crate::port::{MediaError, Report, ReportAnswer, ReportError, ReportSink};
use crate::token::TokenSigner;

/// State that a plane's clones share.
pub(in crate::embedded) struct Inner {
    /// Time for calls on room states.
    pub clock: Clock,
    /// Verifies and refreshes participants' tokens.
    pub signer: Arc<TokenSigner>,
    pub rooms: Arc<Directory>,
    pub common: Arc<Common>,
    /// Sessions of WHIP encoders.
    pub whip: WhipSessions,
    /// Limits on encoders' attempts with stream keys.
    pub stream_key_rates: StreamKeyRates,
    pub(super) urls: PublishUrls,
    pub(super) sink: Arc<dyn ReportSink>,
    /// The media workers. Without them, no client's media connects.
    pub workers: Option<Workers>,
    pub(super) metrics: Option<RtcMetrics>,
    /// Egresses that run with ffmpeg. Without it, all egresses are simulated.
    pub jobs: Option<Jobs>,
    /// TURN servers for clients.
    pub turn: Arc<[TurnServers]>,
    /// The embedded TURN server, if it is enabled.
    pub(super) own_turn: Option<OwnTurn>,
    /// Limits on clients' messages.
    pub budgets: Budgets,
    pub faults: Faults,
}

impl Inner {
    /// Calls a room, which is created if needed, and sends its reports under the room's lock. Returns the room, too.
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

    /// Like [`Inner::enter`], without the room.
    pub fn call<T>(
        self: &Arc<Self>,
        name: &NamespacedRoom,
        call: impl FnOnce(&mut Machine, Timestamp) -> T,
    ) -> (T, Vec<ReportAnswer>) {
        let (_, result, answers) = self.enter(name, call);
        (result, answers)
    }

    /// Calls a room that a participant has entered. The call must add nothing to the room, which may be closed.
    pub fn call_in<T>(
        self: &Arc<Self>,
        room: &Arc<Room>,
        call: impl FnOnce(&mut Machine, Timestamp) -> T,
    ) -> (T, Vec<ReportAnswer>) {
        self.run(room, &mut room.lock(), call)
    }

    /// Calls a room for the port. Fails during a simulated outage.
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
        // The call may have set an earlier deadline, or emptied the room. Both are checked under the same lock.
        self.watch_deadlines(room, state);
        self.rooms.close_if_unused(room, state);
        (result, answers)
    }

    /// Delivers an effect. Clients are notified before packets that depend on the notice can arrive.
    fn carry_out(&self, room: &Room, effect: Effect) {
        match effect {
            Effect::Notify { to, notice } => {
                room.sessions.send(&to, Input::Notice(notice));
            }
            Effect::Job { egress, effect } => {
                // Without an engine, all egresses are simulated and have no jobs.
                if let Some(jobs) = &self.jobs {
                    jobs.carry_out(room, &egress, effect);
                }
            }
            Effect::OpenMedia => room.open_media(self.workers.as_ref()),
            Effect::Command(command) => room.send_command(command),
            Effect::CloseMedia => room.close_media(),
        }
    }

    /// Sends a report. A dropped one looks accepted to its sender.
    fn send(&self, report: Report) -> ReportAnswer {
        // Simulates a report that was lost on its way, for tests of reconciliation.
        if !self.faults.take_drop() {
            return self.sink.report(report);
        }
        let (sender, answer) = oneshot::channel();
        let _ = sender.send(Ok(()));
        answer
    }

    /// Spawns a task that waits for the room's deadlines, if there is a deadline and no such task.
    fn watch_deadlines(self: &Arc<Self>, room: &Arc<Room>, state: &mut RoomState) {
        // The task also ends with the runtime that spawned it, and is then replaced.
        let is_watching = state
            .deadline_task
            .as_ref()
            .is_some_and(|task| !task.is_finished());
        let Some(next) = state.machine.next_deadline() else {
            return;
        };
        if is_watching {
            // A later deadline needs no wake-up: the task finds it when the awaited one has passed.
            if state.awaited_deadline.is_some_and(|awaited| next < awaited) {
                state.earlier_deadline.notify_one();
            }
        // Outside a runtime no timer can run. The next call within one spawns the task.
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

    /// Returns the ffmpeg that records and broadcasts, or the reason why it is unusable; `None` if all egresses are
    /// simulated.
    pub async fn ffmpeg(&self) -> Option<Result<Ffmpeg, FfmpegError>> {
        self.jobs.as_ref()?.ffmpeg().await
    }

    /// Records a value if there are metrics.
    pub fn record(&self, record: impl FnOnce(&RtcMetrics)) {
        if let Some(metrics) = &self.metrics {
            record(metrics);
        }
    }
}

/// Returns a room's next deadline. `None` ends the calling task.
fn next_deadline(room: &Weak<Room>) -> Option<Duration> {
    let room = room.upgrade()?;
    let mut state = room.lock();
    let next = state.machine.next_deadline();
    state.awaited_deadline = next;
    // Cleared under the lock: a call that sets a deadline right after this one spawns a new task.
    if next.is_none() {
        state.deadline_task = None;
    }
    next
}

/// Waits for a room's deadlines, one after another, until there is none. `wake` announces an earlier one.
async fn wait_for_deadlines(plane: Weak<Inner>, room: Weak<Room>, wake: Arc<Notify>, clock: Clock) {
    while let Some(next) = next_deadline(&room) {
        tokio::select! {
            () = clock.sleep_until_reading(next) => {}
            () = wake.notified() => continue,
        }
        // Weak references: the task must keep neither a closed room nor a stopped plane.
        if let Some((plane, room)) = plane.upgrade().zip(room.upgrade()) {
            plane.call_in(&room, Machine::tick);
        }
    }
}

/// Awaits all replies and returns the first error. A report whose reply the sink drops counts as refused.
pub(in crate::embedded) async fn await_answers(
    answers: Vec<ReportAnswer>,
) -> Result<(), ReportError> {
    let mut result = Ok(());
    for answer in answers {
        result = result.and(answer.await.unwrap_or(Err(ReportError::Unavailable)));
    }
    result
}
