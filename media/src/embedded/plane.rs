//! The driver of the embedded media plane: a lock, a clock, and the way reports go.
//!
//! A call is made and its reports are handed to the sink under one lock, so that the order of the facts and the order in
//! which the control plane hears of them are the same. Answers are awaited, where they are, after the lock is free: the
//! control plane may call this port while it handles a report. Calls of the port itself never wait for answers, because
//! whoever makes them is the one who would have to give them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use conclave_model::egress::EgressState;
use conclave_model::ingress::IngressState;
use conclave_model::participant::Participant;
use conclave_model::{
    Clock, EgressId, Identity, IngressId, NamespacedRoom, ParticipantSid, ProjectId, RoleName, Timestamp, TrackSid,
};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::endpoint::PublishUrls;
use super::machine::Machine;
use super::publish::MachineError;
use crate::port::{
    EgressRequest, IngressCredentials, IngressRequest, KnownIngress, MediaError, MediaPlane, MuteOutcome, Report,
    ReportAnswer, ReportError, ReportSink, RoleGrant, ServerData, Survey,
};
use crate::token::TokenSigner;

/// The media plane in this process. Cheap to clone; all clones are the same plane.
#[derive(Clone)]
pub struct EmbeddedPlane(Arc<Inner>);

impl fmt::Debug for EmbeddedPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EmbeddedPlane")
    }
}

/// What all clones share.
pub(super) struct Inner {
    /// Where the machine's time comes from.
    pub clock: Clock,
    /// Checks the tokens of those who join.
    pub signer: Arc<TokenSigner>,
    urls: PublishUrls,
    state: Mutex<State>,
    sink: OnceLock<Arc<dyn ReportSink>>,
}

#[derive(Default)]
struct State {
    machine: Machine,
    /// The task that waits for the machine's next deadline, while there is one.
    timekeeper: Option<JoinHandle<()>>,
    /// Calls of the control plane's are not answered before.
    outage_until: Option<Timestamp>,
    /// How many of the next reports get lost on their way.
    reports_to_drop: u32,
}

/// The answer to a report that got lost: its sender does not know.
fn as_if_taken() -> ReportAnswer {
    let (answer, taken) = oneshot::channel();
    let _ = answer.send(Ok(()));
    taken
}

impl EmbeddedPlane {
    /// A plane with nobody in it. Until it is connected its reports count as not taken, so nobody can join. Encoders are
    /// told to publish to the host of `public_url`, which is where clients reach the plane.
    #[must_use]
    pub fn new(clock: Clock, signer: Arc<TokenSigner>, public_url: &str) -> Self {
        let urls = PublishUrls::at(public_url);
        Self(Arc::new(Inner { clock, signer, urls, state: Mutex::default(), sink: OnceLock::new() }))
    }

    /// Says where reports go. Only the first call counts; says whether this was it.
    pub fn set_report_sink(&self, sink: Arc<dyn ReportSink>) -> bool {
        self.0.sink.set(sink).is_ok()
    }

    /// What all clones share.
    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl Inner {
    /// Makes a call on the machine and hands in what it reports, in one turn of the lock.
    pub fn act<T>(&self, call: impl FnOnce(&mut Machine, Timestamp) -> T) -> (T, Vec<ReportAnswer>) {
        self.turn(&mut self.lock(), call)
    }

    /// The same for a call of the control plane's, which finds nobody during an outage.
    fn asked<T>(&self, call: impl FnOnce(&mut Machine, Timestamp) -> T) -> Result<T, MediaError> {
        let mut state = self.lock();
        match state.outage_until {
            Some(until) if self.clock.now() < until => {
                Err(MediaError::Unavailable("an outage of the sandbox's".into()))
            }
            _ => Ok(self.turn(&mut state, call).0),
        }
    }

    fn turn<T>(&self, state: &mut State, call: impl FnOnce(&mut Machine, Timestamp) -> T) -> (T, Vec<ReportAnswer>) {
        let done = call(&mut state.machine, self.clock.now());
        let reports = state.machine.take_reports();
        let lost = reports.len().min(state.reports_to_drop as usize);
        // No more than there were to lose, so it fits.
        state.reports_to_drop -= u32::try_from(lost).unwrap_or(state.reports_to_drop);
        let answers = reports.into_iter().enumerate().map(
            |(at, report)| {
                if at < lost { as_if_taken() } else { self.hand_in(report) }
            },
        );
        (done, answers.collect())
    }

    /// From now on answers no call of the control plane's for `span`; people go on, and reports too.
    pub fn simulate_outage(&self, span: Duration) {
        self.lock().outage_until = Some(self.clock.now().after(span));
    }

    /// Loses the next reports on their way.
    pub fn drop_reports(&self, count: u32) {
        self.lock().reports_to_drop = count;
    }

    /// Sees to it that somebody waits for the machine's next deadline, when there is one.
    pub fn keep_time(self: &Arc<Self>) {
        let mut state = self.lock();
        // A task can also end with the runtime it was spawned on; the next one takes over then.
        let kept = state.timekeeper.as_ref().is_some_and(|task| !task.is_finished());
        if !kept && state.machine.next_deadline().is_some() {
            state.timekeeper = Some(tokio::spawn(timekeeper(Arc::downgrade(self), self.clock.clone())));
        }
    }

    /// The next deadline, or the end of the task that asks.
    fn deadline_or_rest(&self) -> Option<Timestamp> {
        let mut state = self.lock();
        let next = state.machine.next_deadline();
        if next.is_none() {
            state.timekeeper = None;
        }
        next
    }

    fn hand_in(&self, report: Report) -> ReportAnswer {
        match self.sink.get() {
            Some(sink) => sink.report(report),
            // Nobody answers: the sender is gone before it could.
            None => oneshot::channel().1,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for one deadline after another until there is none.
async fn timekeeper(plane: Weak<Inner>, clock: Clock) {
    while let Some(next) = plane.upgrade().and_then(|plane| plane.deadline_or_rest()) {
        clock.sleep_until(next).await;
        if let Some(plane) = plane.upgrade() {
            plane.act(Machine::tick);
        }
    }
}

/// Waits for every answer; the first refusal is the result. A sink that lets go of a report has not taken it.
pub(super) async fn settled(answers: Vec<ReportAnswer>) -> Result<(), ReportError> {
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
        self.0.asked(|_, _| ())
    }

    async fn participants(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, MediaError> {
        self.0.asked(|machine, _| machine.participants(room))
    }

    async fn participant(&self, room: &NamespacedRoom, identity: &Identity) -> Result<Option<Participant>, MediaError> {
        self.0.asked(|machine, _| machine.participant(room, identity))
    }

    async fn remove_participant(&self, room: &NamespacedRoom, sid: &ParticipantSid) -> Result<bool, MediaError> {
        self.0.asked(|machine, now| machine.remove(room, sid, now))
    }

    async fn mute_track(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        track: &TrackSid,
        muted: bool,
    ) -> Result<MuteOutcome, MediaError> {
        let done = self.0.asked(|machine, now| machine.mute_by_server(room, identity, track, muted, now))?;
        Ok(match done {
            Ok(track) => MuteOutcome::Done(track),
            Err(MachineError::NoSuchTrack) => MuteOutcome::NoSuchTrack,
            Err(_) => MuteOutcome::NoSuchParticipant,
        })
    }

    async fn send_data(&self, room: &NamespacedRoom, message: ServerData) -> Result<(), MediaError> {
        self.0.asked(|machine, now| machine.send_server_data(room, message, now))
    }

    async fn set_role(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        let done = self.0.asked(|machine, now| machine.set_role(room, identity, role, now))?;
        // A ceiling that is new may have been passed already.
        self.0.keep_time();
        Ok(done.ok())
    }

    async fn close_room(&self, room: &NamespacedRoom) -> Result<(), MediaError> {
        self.0.asked(|machine, now| machine.close_room(room, now))
    }

    async fn start_egress(&self, request: EgressRequest) -> Result<EgressState, MediaError> {
        let started = self.0.asked(|machine, now| machine.start_egress(request.room, now))?;
        self.0.keep_time();
        Ok(started)
    }

    async fn egress(&self, room: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, MediaError> {
        self.0.asked(|machine, _| machine.egress(room, id))
    }

    async fn stop_egress(&self, room: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, MediaError> {
        let stopped = self.0.asked(|machine, now| machine.stop_egress(room, id, now))?;
        self.0.keep_time();
        Ok(stopped)
    }

    async fn create_ingress(&self, request: IngressRequest) -> Result<IngressCredentials, MediaError> {
        let url = self.0.urls.of(request.input_type);
        let (ingress_id, stream_key) = self.0.asked(|machine, _| machine.create_ingress(request))?;
        Ok(IngressCredentials { ingress_id, url, stream_key })
    }

    async fn ingress(&self, known: &KnownIngress) -> Result<Option<IngressState>, MediaError> {
        self.0.asked(|machine, _| Some(machine.ingress(known)))
    }

    async fn delete_ingress(&self, id: &IngressId) -> Result<(), MediaError> {
        self.0.asked(|machine, now| machine.delete_ingress(id, now))
    }

    async fn survey(&self, project: &ProjectId) -> Result<Survey, MediaError> {
        let survey = |machine: &mut Machine, _| Survey {
            rooms: machine.live_rooms(project),
            // A room is there for as long as somebody is in it.
            empty_rooms: Vec::new(),
            egresses: machine.running_egresses(project),
            ingresses: machine.ingresses(project),
        };
        self.0.asked(survey)
    }

    async fn set_subscription_rules(
        &self,
        room: &NamespacedRoom,
        rules: BTreeMap<RoleName, Option<Vec<RoleName>>>,
    ) -> Result<(), MediaError> {
        self.0.asked(|machine, _| machine.set_subscription_rules(room, rules))
    }
}
