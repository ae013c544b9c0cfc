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
use crate::embedded::effect::RoomEffect;
use crate::embedded::egress::jobs::Jobs;
use crate::embedded::ingress::endpoints::PublishUrls;
use crate::embedded::ingress::stream_keys::StreamKeyRates;
use crate::embedded::ingress::whip::WhipSessions;
use crate::embedded::room::{LockedRoom, Room, RoomDirectory};
use crate::embedded::room_state::RoomState;
use crate::embedded::rtc_metrics::RtcMetrics;
use crate::embedded::sandbox::faults::SimulatedFaults;
use crate::embedded::signal::budget::Budgets;
use crate::embedded::signal::channels::SessionInput;
use crate::embedded::turn::{OwnTurn, TurnServers};
use crate::port::{MediaError, Report, ReportError, ReportReply, ReportSink};
use crate::token::TokenSigner;

/// State that a plane's clones share.
pub(in crate::embedded) struct PlaneCore {
    /// Time for calls on room states.
    pub clock: Clock,
    /// Verifies and refreshes participants' tokens.
    pub signer: Arc<TokenSigner>,
    pub rooms: Arc<RoomDirectory>,
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
    pub faults: SimulatedFaults,
}

impl PlaneCore {
    /// Calls a room, which is created if needed, and sends its reports under the room's lock. Returns the room, too.
    pub fn enter<T>(
        self: &Arc<Self>,
        name: &NamespacedRoom,
        call: impl FnOnce(&mut RoomState, Timestamp) -> T,
    ) -> (Arc<Room>, T, Vec<ReportReply>) {
        self.rooms.with_open(name, &self.common, |room, state| {
            let (result, replies) = self.run(room, state, call);
            (Arc::clone(room), result, replies)
        })
    }

    /// Like [`PlaneCore::enter`], without the room.
    pub fn call<T>(
        self: &Arc<Self>,
        name: &NamespacedRoom,
        call: impl FnOnce(&mut RoomState, Timestamp) -> T,
    ) -> (T, Vec<ReportReply>) {
        let (_, result, replies) = self.enter(name, call);
        (result, replies)
    }

    /// Calls a room that a participant has entered. The call must add nothing to the room, which may be closed.
    pub fn call_in<T>(
        self: &Arc<Self>,
        room: &Arc<Room>,
        call: impl FnOnce(&mut RoomState, Timestamp) -> T,
    ) -> (T, Vec<ReportReply>) {
        self.run(room, &mut room.lock(), call)
    }

    /// Calls a room for the port. Fails during a simulated outage.
    pub fn call_by_port<T>(
        self: &Arc<Self>,
        name: &NamespacedRoom,
        call: impl FnOnce(&mut RoomState, Timestamp) -> T,
    ) -> Result<T, MediaError> {
        self.faults.check_outage(&self.clock)?;
        Ok(self.call(name, call).0)
    }

    fn run<T>(
        self: &Arc<Self>,
        room: &Arc<Room>,
        state: &mut LockedRoom,
        call: impl FnOnce(&mut RoomState, Timestamp) -> T,
    ) -> (T, Vec<ReportReply>) {
        state.room_state.set_reading(self.clock.monotonic());
        let result = call(&mut state.room_state, self.clock.now());
        let reports = state.room_state.take_reports();
        state
            .room_state
            .take_effects()
            .into_iter()
            .for_each(|effect| self.carry_out(room, effect));
        let replies = self.send(reports);
        // The call may have set an earlier deadline, or emptied the room. Both are checked under the same lock.
        self.watch_deadlines(room, state);
        self.rooms.close_if_unused(room, state);
        (result, replies)
    }

    /// Delivers an effect. Clients are notified before packets that depend on the notice can arrive.
    fn carry_out(&self, room: &Room, effect: RoomEffect) {
        match effect {
            RoomEffect::Notify { to, notice } => {
                room.sessions.send(&to, SessionInput::Notice(notice));
            }
            RoomEffect::Job { egress, effect } => {
                // Without an engine, all egresses are simulated and have no jobs.
                if let Some(jobs) = &self.jobs {
                    jobs.carry_out(room, &egress, effect);
                }
            }
            RoomEffect::OpenMedia => room.open_media(self.workers.as_ref()),
            RoomEffect::Command(command) => room.send_command(command),
            RoomEffect::CloseMedia => room.close_media(),
        }
    }

    /// Sends the reports of a call. A dropped one looks accepted to its sender.
    fn send(&self, mut reports: Vec<Report>) -> Vec<ReportReply> {
        let all = reports.len();
        // Simulates reports that were lost on their way, for tests of reconciliation.
        reports.retain(|_| !self.faults.take_drop());
        let dropped = (reports.len()..all).map(|_| {
            let (sender, reply) = oneshot::channel();
            // Cannot fail: the receiver is returned below.
            let _ = sender.send(Ok(()));
            reply
        });
        let mut replies = self.sink.report_all(reports);
        // Reports are dropped from the first one on, and a join's reply is the last one.
        replies.splice(0..0, dropped);
        replies
    }

    /// Spawns a task that waits for the room's deadlines, if there is a deadline and no such task.
    fn watch_deadlines(self: &Arc<Self>, room: &Arc<Room>, state: &mut LockedRoom) {
        // The task also ends with the runtime that spawned it, and is then replaced.
        let is_watching = state
            .deadline_task
            .as_ref()
            .is_some_and(|task| !task.is_finished());
        let Some(next) = state.room_state.next_deadline() else {
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
    let next = state.room_state.next_deadline();
    state.awaited_deadline = next;
    // Cleared under the lock: a call that sets a deadline right after this one spawns a new task.
    if next.is_none() {
        state.deadline_task = None;
    }
    next
}

/// Waits for a room's deadlines, one after another, until there is none. `wake` announces an earlier one.
async fn wait_for_deadlines(
    plane: Weak<PlaneCore>,
    room: Weak<Room>,
    wake: Arc<Notify>,
    clock: Clock,
) {
    while let Some(next) = next_deadline(&room) {
        tokio::select! {
            () = clock.sleep_until_reading(next) => {}
            () = wake.notified() => continue,
        }
        // Weak references: the task must keep neither a closed room nor a stopped plane.
        if let Some((plane, room)) = plane.upgrade().zip(room.upgrade()) {
            plane.call_in(&room, RoomState::tick);
        }
    }
}

/// Awaits all replies and returns the first error. A report whose reply the sink drops counts as refused.
pub(in crate::embedded) async fn await_replies(
    replies: Vec<ReportReply>,
) -> Result<(), ReportError> {
    let mut result = Ok(());
    for reply in replies {
        result = result.and(reply.await.unwrap_or(Err(ReportError::Unavailable)));
    }
    result
}
