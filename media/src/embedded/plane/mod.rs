//! The driver of the embedded media plane: a clock, a directory of rooms, and the delivery of reports.
//!
//! A call on a room's machine and the sending of its reports happen under the room's lock, so that reports are sent in the order
//! of the events. Sandbox calls await the answers after the lock is released, since the control plane may call the port while it
//! handles a report. Calls of the port never await answers: their caller is the actor that has to give them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use conclave_model::destination::RecordingConfig;
use conclave_model::egress::{EgressPlan, EgressState, StartedEgress};
use conclave_model::ingress::IngressState;
use conclave_model::participant::Participant;
use conclave_model::role::RoleSubscribe;
use conclave_model::{
    Clock, EgressId, Identity, IngressId, NamespacedRoom, ParticipantSid, RoleName, Timestamp,
    TrackSid,
};
use conclave_sfu::Workers;
use conclave_turn::TurnServer;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use super::common::{Common, Owned};
use super::effect::Effect;
use super::egress::jobs::Jobs;
use super::error::MachineError;
use super::faults::Faults;
use super::ingress::admission::StreamKeyRates;
use super::ingress::endpoints::PublishUrls;
use super::ingress::whip::WhipSessions;
use super::machine::Machine;
use super::room::{Directory, Room, RoomState};
use super::rtc_metrics::RtcMetrics;
use super::signal::budget::Budgets;
use super::signal::channels::Input;
use super::turn::{OwnTurn, TurnServers};
use crate::port::{
    IngressCredentials, IngressRequest, KnownIngress, MediaError, MediaPlane, MuteOutcome, Report,
    ReportAnswer, ReportError, ReportSink, RoleGrant, ServerData, Survey,
};
use crate::token::TokenSigner;

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
    pub urls: PublishUrls,
    pub sink: Arc<dyn ReportSink>,
    /// The media workers; without them, no client's media connects.
    pub workers: Option<Workers>,
    pub metrics: Option<RtcMetrics>,
    /// The egresses that run with ffmpeg; without them, all egresses are simulated.
    pub jobs: Option<Jobs>,
    /// The TURN servers that clients are given.
    pub turn: Arc<[TurnServers]>,
    /// The TURN server in this process, if there is one.
    pub own_turn: Option<OwnTurn>,
    /// What clients may send.
    pub budgets: Budgets,
    pub faults: Faults,
}

impl EmbeddedPlane {
    pub(super) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
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
            Effect::Job { egress, effect } => self.carry_out_for_job(room, &egress, effect),
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

#[async_trait]
impl MediaPlane for EmbeddedPlane {
    fn kind(&self) -> &'static str {
        "embedded"
    }

    async fn health(&self) -> Result<(), MediaError> {
        self.0.faults.check_outage(&self.0.clock)
    }

    async fn participants(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, MediaError> {
        self.await_joins(room, None).await;
        self.0
            .call_by_port(room, |machine, _| machine.participants())
    }

    async fn participant(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
    ) -> Result<Option<Participant>, MediaError> {
        self.await_joins(room, Some(identity)).await;
        self.0
            .call_by_port(room, |machine, _| machine.participant(identity))
    }

    async fn remove_participant(
        &self,
        room: &NamespacedRoom,
        sid: &ParticipantSid,
    ) -> Result<bool, MediaError> {
        self.0
            .call_by_port(room, |machine, now| machine.remove_participant(sid, now))
    }

    async fn mute_track(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        track: &TrackSid,
        muted: bool,
    ) -> Result<MuteOutcome, MediaError> {
        self.await_joins(room, Some(identity)).await;
        let result = self.0.call_by_port(room, |machine, now| {
            machine.mute_by_server(identity, track, muted, now)
        })?;
        Ok(match result {
            Ok(track) => MuteOutcome::Done(track),
            Err(MachineError::NoSuchTrack) => MuteOutcome::NoSuchTrack,
            Err(_) => MuteOutcome::NoSuchParticipant,
        })
    }

    async fn send_data(
        &self,
        room: &NamespacedRoom,
        message: ServerData,
    ) -> Result<(), MediaError> {
        self.0
            .call_by_port(room, |machine, now| machine.send_server_data(message, now))
    }

    async fn set_role(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        Ok(self
            .0
            .call_by_port(room, |machine, now| machine.set_role(identity, role, now))?
            .ok())
    }

    async fn set_role_of_join(
        &self,
        room: &NamespacedRoom,
        participant: &Participant,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        self.0.call_by_port(room, |machine, now| {
            machine.set_role_of_join(&participant.sid, role, now)
        })
    }

    async fn close_room(&self, room: &NamespacedRoom) -> Result<(), MediaError> {
        self.0.call_by_port(room, Machine::close)
    }

    async fn start_egress(
        &self,
        plan: Arc<EgressPlan>,
        _: Option<RecordingConfig>,
    ) -> Result<StartedEgress, MediaError> {
        self.0.start_egress(plan).await
    }

    async fn egress(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
    ) -> Result<Option<EgressState>, MediaError> {
        self.0.call_by_port(room, |machine, _| machine.egress(id))
    }

    async fn stop_egress(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
    ) -> Result<Option<EgressState>, MediaError> {
        self.0
            .call_by_port(room, |machine, now| machine.stop_egress(id, now))
    }

    async fn create_ingress(
        &self,
        request: IngressRequest,
    ) -> Result<IngressCredentials, MediaError> {
        let url = match &request.public_url {
            Some(public_url) => self.0.urls.on(public_url).get(request.input_type),
            None => self.0.urls.get(request.input_type),
        };
        let room = request.room.clone();
        let (ingress_id, stream_key) = self
            .0
            .call_by_port(&room, |machine, _| machine.create_ingress(request))?;
        Ok(IngressCredentials {
            ingress_id,
            url,
            stream_key,
        })
    }

    async fn ingress(&self, known: &KnownIngress) -> Result<Option<IngressState>, MediaError> {
        self.0
            .call_by_port(&known.room, |machine, _| Some(machine.ingress(known)))
    }

    async fn delete_ingress(&self, id: &IngressId) -> Result<(), MediaError> {
        self.0.faults.check_outage(&self.0.clock)?;
        if let Some(room) = self.0.common.room_of(&Owned::Endpoint(id.clone())) {
            self.0
                .call(&room, |machine, now| machine.delete_ingress(id, now));
        }
        Ok(())
    }

    async fn survey(&self) -> Result<Survey, MediaError> {
        self.0.faults.check_outage(&self.0.clock)?;
        // A room without participants is not live on this plane, so it is not among the empty ones.
        let mut survey = Survey::default();
        for room in self.0.rooms.all() {
            let state = room.lock();
            survey.rooms.extend(
                state
                    .machine
                    .members()
                    .iter()
                    .next()
                    .map(|_| room.name().clone()),
            );
            survey.egresses.extend(state.machine.running_egresses());
            survey.ingresses.extend(state.machine.ingresses());
        }
        Ok(survey)
    }

    async fn inspect_egress(&self, id: &EgressId) -> Option<Value> {
        self.0.jobs.as_ref()?.inspect(id)
    }

    async fn inspect_room(&self, room: &NamespacedRoom) -> Option<Value> {
        self.0.inspect_room(room).await
    }

    async fn set_subscription_rules(
        &self,
        room: &NamespacedRoom,
        rules: BTreeMap<RoleName, RoleSubscribe>,
    ) -> Result<(), MediaError> {
        self.0
            .call_by_port(room, |machine, _| machine.set_subscription_rules(rules))
    }
}

#[cfg(test)]
mod tests;
