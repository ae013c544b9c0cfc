//! The driver of the embedded media plane: a lock, a clock, and the delivery of reports.
//!
//! A call on the machine and the sending of its reports happen under one lock, so that reports are sent in the order of the
//! events. Sandbox calls await the answers after the lock is released, since the control plane may call the port while it
//! handles a report. Calls of the port never await answers: their caller is the actor that has to give them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use conclave_model::destination::RecordingConfig;
use conclave_model::egress::{EgressPlan, EgressState, StartedEgress};
use conclave_model::ingress::IngressState;
use conclave_model::participant::Participant;
use conclave_model::role::RoleSubscribe;
use conclave_model::{
    Clock, EgressId, Identity, IngressId, NamespacedRoom, ParticipantSid, RoleName, Timestamp, TrackSid,
};
use conclave_rtc::Command;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::effect::{CommandSink, Effect};
use super::error::MachineError;
use super::ingress_endpoint::{PublishUrls, RtmpAddress};
use super::jobs::Jobs;
use super::machine::Machine;
use super::rtc_metrics::RtcMetrics;
use super::signal::budget::Budgets;
use super::signal::registry::{Input, Sessions};
use super::stream_key_rates::StreamKeyRates;
use super::turn::TurnServers;
use super::whip::WhipSessions;
use crate::port::{
    IngressCredentials, IngressRequest, KnownIngress, MediaError, MediaPlane, MuteOutcome, Report, ReportAnswer,
    ReportError, ReportSink, RoleGrant, ServerData, Survey,
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
    /// The time that the machine's calls get.
    pub clock: Clock,
    /// Verifies and refreshes the tokens of participants.
    pub signer: Arc<TokenSigner>,
    /// The channels to the sessions of clients.
    pub sessions: Arc<Sessions>,
    /// The sessions of encoders that speak WHIP.
    pub whip: WhipSessions,
    /// How often encoders may try stream keys.
    pub stream_key_rates: StreamKeyRates,
    urls: PublishUrls,
    /// Where RTMP encoders connect, if they can.
    pub rtmp: OnceLock<RtmpAddress>,
    state: Mutex<State>,
    pub sink: OnceLock<Arc<dyn ReportSink>>,
    commands: OnceLock<Arc<dyn CommandSink>>,
    metrics: OnceLock<RtcMetrics>,
    /// The egresses that run with ffmpeg; without them, all egresses are simulated.
    pub jobs: OnceLock<Jobs>,
    /// The TURN servers that clients are given.
    pub turn: OnceLock<Arc<TurnServers>>,
    /// Set if clients may simulate failures of the server.
    pub simulations: OnceLock<()>,
    /// What clients may send.
    pub budgets: OnceLock<Budgets>,
}

#[derive(Default)]
struct State {
    machine: Machine,
    /// The task that waits for the machine's deadlines; `None` while there is no deadline.
    deadline_task: Option<JoinHandle<()>>,
    /// The monotonic reading until which calls of the port fail, in a simulated outage.
    outage_until: Option<Duration>,
    /// Number of the next reports that are dropped.
    reports_to_drop: u32,
}

/// Returns the answer to a dropped report, which its sender cannot tell from an accepted one.
fn accepted() -> ReportAnswer {
    let (sender, answer) = oneshot::channel();
    let _ = sender.send(Ok(()));
    answer
}

impl EmbeddedPlane {
    /// Creates a plane without rooms. Until it has a report sink its reports count as refused, so no participant can join. The
    /// publish urls of encoders have the host of `public_url`, the websocket url of clients.
    #[must_use]
    pub fn new(clock: Clock, signer: Arc<TokenSigner>, public_url: &str) -> Self {
        let urls = PublishUrls::from_public_url(public_url);
        Self(Arc::new(Inner {
            stream_key_rates: StreamKeyRates::new(&clock),
            clock,
            signer,
            sessions: Arc::default(),
            whip: WhipSessions::default(),
            urls,
            rtmp: OnceLock::new(),
            state: Mutex::default(),
            sink: OnceLock::new(),
            commands: OnceLock::new(),
            metrics: OnceLock::new(),
            jobs: OnceLock::new(),
            turn: OnceLock::new(),
            simulations: OnceLock::new(),
            budgets: OnceLock::new(),
        }))
    }

    /// The state that clones share.
    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl Inner {
    /// Makes a call on the machine and sends its reports, under one lock.
    pub fn call<T>(&self, call: impl FnOnce(&mut Machine, Timestamp) -> T) -> (T, Vec<ReportAnswer>) {
        self.call_locked(&mut self.lock(), call)
    }

    /// Makes a call of the port on the machine. It fails during a simulated outage.
    pub fn call_by_port<T>(&self, call: impl FnOnce(&mut Machine, Timestamp) -> T) -> Result<T, MediaError> {
        let mut state = self.lock();
        match state.outage_until {
            Some(until) if self.clock.monotonic() < until => {
                Err(MediaError::Unavailable("an outage that the sandbox simulates".into()))
            }
            _ => Ok(self.call_locked(&mut state, call).0),
        }
    }

    fn call_locked<T>(
        &self,
        state: &mut State,
        call: impl FnOnce(&mut Machine, Timestamp) -> T,
    ) -> (T, Vec<ReportAnswer>) {
        state.machine.set_reading(self.clock.monotonic());
        let result = call(&mut state.machine, self.clock.now());
        let reports = state.machine.take_reports();
        self.carry_out(state.machine.take_effects());
        let dropped = reports.len().min(state.reports_to_drop as usize);
        // At most `reports_to_drop`, so the conversion does not fail.
        state.reports_to_drop -= u32::try_from(dropped).unwrap_or(state.reports_to_drop);
        let answers = reports.into_iter().enumerate().map(
            |(at, report)| {
                if at < dropped { accepted() } else { self.send(report) }
            },
        );
        (result, answers.collect())
    }

    /// Lets all calls of the port fail for a duration. Participants stay connected, and reports are sent.
    pub fn simulate_outage(&self, duration: Duration) {
        self.lock().outage_until = Some(self.clock.monotonic() + duration);
    }

    /// Drops the next `count` reports.
    pub fn drop_reports(&self, count: u32) {
        self.lock().reports_to_drop = count;
    }

    /// Spawns a task that waits for the machine's deadlines, if there is a deadline and no such task.
    pub fn watch_deadlines(self: &Arc<Self>) {
        let mut state = self.lock();
        // The task also ends with the runtime that it was spawned on, and is then replaced.
        let is_watching = state.deadline_task.as_ref().is_some_and(|task| !task.is_finished());
        if !is_watching && state.machine.next_deadline().is_some() {
            state.deadline_task = Some(tokio::spawn(wait_for_deadlines(Arc::downgrade(self), self.clock.clone())));
        }
    }

    /// Returns the next deadline. If there is none, the calling task has to end.
    fn next_deadline(&self) -> Option<Duration> {
        let mut state = self.lock();
        let next = state.machine.next_deadline();
        if next.is_none() {
            state.deadline_task = None;
        }
        next
    }

    /// Sets where commands to the media workers go; returns whether this was the first call.
    pub fn set_command_sink(&self, sink: Arc<dyn CommandSink>) -> bool {
        self.commands.set(sink).is_ok()
    }

    /// Returns whether commands to the media workers go anywhere.
    pub fn has_command_sink(&self) -> bool {
        self.commands.get().is_some()
    }

    /// Notifies clients and commands media workers. A client is notified before packets that depend on it can arrive.
    fn carry_out(&self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Notify { to, notice } => {
                    self.sessions.send(&to, Input::Notice(notice));
                }
                Effect::Command { room, command } => self.send_command(&room, command),
                Effect::Job { egress, effect } => self.carry_out_for_job(&egress, effect),
            }
        }
    }

    /// Sends a command to the media worker of a room, if there are workers.
    pub fn send_command(&self, room: &NamespacedRoom, command: Command) {
        if let Some(commands) = self.commands.get() {
            commands.send(room, command);
        }
    }

    /// Sets what joins and media workers are counted in. Only the first call has an effect.
    pub fn set_metrics(&self, metrics: RtcMetrics) {
        // The workers are started once.
        let _ = self.metrics.set(metrics);
    }

    /// Counts something, if there are metrics.
    pub fn record(&self, record: impl FnOnce(&RtcMetrics)) {
        if let Some(metrics) = self.metrics.get() {
            record(metrics);
        }
    }

    fn send(&self, report: Report) -> ReportAnswer {
        match self.sink.get() {
            Some(sink) => sink.report(report),
            // The sender is dropped, which counts as `ReportError::Unavailable`.
            None => oneshot::channel().1,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for one deadline after another until there is none.
async fn wait_for_deadlines(plane: Weak<Inner>, clock: Clock) {
    while let Some(next) = plane.upgrade().and_then(|plane| plane.next_deadline()) {
        clock.sleep_until_reading(next).await;
        if let Some(plane) = plane.upgrade() {
            plane.call(Machine::tick);
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
        self.0.call_by_port(|_, _| ())
    }

    async fn participants(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, MediaError> {
        self.0.call_by_port(|machine, _| machine.participants(room))
    }

    async fn participant(&self, room: &NamespacedRoom, identity: &Identity) -> Result<Option<Participant>, MediaError> {
        self.0.call_by_port(|machine, _| machine.participant(room, identity))
    }

    async fn remove_participant(&self, room: &NamespacedRoom, sid: &ParticipantSid) -> Result<bool, MediaError> {
        self.0.call_by_port(|machine, now| machine.remove_participant(room, sid, now))
    }

    async fn mute_track(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        track: &TrackSid,
        muted: bool,
    ) -> Result<MuteOutcome, MediaError> {
        let result = self.0.call_by_port(|machine, now| machine.mute_by_server(room, identity, track, muted, now))?;
        Ok(match result {
            Ok(track) => MuteOutcome::Done(track),
            Err(MachineError::NoSuchTrack) => MuteOutcome::NoSuchTrack,
            Err(_) => MuteOutcome::NoSuchParticipant,
        })
    }

    async fn send_data(&self, room: &NamespacedRoom, message: ServerData) -> Result<(), MediaError> {
        self.0.call_by_port(|machine, now| machine.send_server_data(room, message, now))
    }

    async fn set_role(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        let result = self.0.call_by_port(|machine, now| machine.set_role(room, identity, role, now))?;
        // The bitrate may be above a new limit already.
        self.0.watch_deadlines();
        Ok(result.ok())
    }

    async fn set_role_of_join(
        &self,
        _: &NamespacedRoom,
        participant: &Participant,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        self.0.call_by_port(|machine, now| machine.set_role_of_join(&participant.sid, role, now))
    }

    async fn close_room(&self, room: &NamespacedRoom) -> Result<(), MediaError> {
        self.0.call_by_port(|machine, now| machine.close_room(room, now))
    }

    async fn start_egress(
        &self,
        plan: Arc<EgressPlan>,
        _: Option<RecordingConfig>,
    ) -> Result<StartedEgress, MediaError> {
        self.0.start_egress(plan).await
    }

    async fn egress(&self, room: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, MediaError> {
        self.0.call_by_port(|machine, _| machine.egress(room, id))
    }

    async fn stop_egress(&self, room: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, MediaError> {
        let stopped = self.0.call_by_port(|machine, now| machine.stop_egress(room, id, now))?;
        self.0.watch_deadlines();
        Ok(stopped)
    }

    async fn create_ingress(&self, request: IngressRequest) -> Result<IngressCredentials, MediaError> {
        let url = self.0.urls.get(request.input_type, self.0.rtmp.get().copied());
        let (ingress_id, stream_key) = self.0.call_by_port(|machine, _| machine.create_ingress(request))?;
        Ok(IngressCredentials { ingress_id, url, stream_key })
    }

    async fn ingress(&self, known: &KnownIngress) -> Result<Option<IngressState>, MediaError> {
        self.0.call_by_port(|machine, _| Some(machine.ingress(known)))
    }

    async fn delete_ingress(&self, id: &IngressId) -> Result<(), MediaError> {
        self.0.call_by_port(|machine, now| machine.delete_ingress(id, now))
    }

    async fn survey(&self) -> Result<Survey, MediaError> {
        let survey = |machine: &mut Machine, _| Survey {
            rooms: machine.occupied_rooms(),
            // A room without participants is not live on this plane.
            empty_rooms: Vec::new(),
            egresses: machine.running_egresses(),
            ingresses: machine.ingresses(),
        };
        self.0.call_by_port(survey)
    }

    async fn inspect_egress(&self, id: &EgressId) -> Option<Value> {
        self.0.jobs.get()?.inspect(id)
    }

    async fn inspect_room(&self, room: &NamespacedRoom) -> Option<Value> {
        self.0.inspect_room(room).await
    }

    async fn set_subscription_rules(
        &self,
        room: &NamespacedRoom,
        rules: BTreeMap<RoleName, RoleSubscribe>,
    ) -> Result<(), MediaError> {
        self.0.call_by_port(|machine, _| machine.set_subscription_rules(room, rules))
    }
}
