//! The driver of the embedded media plane: a lock, a clock, and the way reports go.
//!
//! A call is made and its reports are handed to the sink under one lock, so that the order of the facts and the order in
//! which the control plane hears of them are the same. Answers are awaited, where they are, after the lock is free: the
//! control plane may call this port while it handles a report. Calls of the port itself never wait for answers, because
//! whoever makes them is the one who would have to give them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

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
use super::publish::Denied;
use crate::port::{
    CreatedIngress, KnownIngress, MediaError, MediaPlane, MuteOutcome, NewEgress, NewIngress, Refusal, Report,
    ReportAnswer, ReportSink, RoleGrant, ServerData, Survey,
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
    pub fn connect(&self, sink: Arc<dyn ReportSink>) -> bool {
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
        let mut state = self.lock();
        let done = call(&mut state.machine, self.clock.now());
        let answers = state.machine.take_reports().into_iter().map(|report| self.hand_in(report)).collect();
        (done, answers)
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
pub(super) async fn settled(answers: Vec<ReportAnswer>) -> Result<(), Refusal> {
    let mut result = Ok(());
    for answer in answers {
        result = result.and(answer.await.unwrap_or(Err(Refusal::Unavailable)));
    }
    result
}

#[async_trait]
impl MediaPlane for EmbeddedPlane {
    fn kind(&self) -> &'static str {
        "embedded"
    }

    async fn health(&self) -> Result<(), MediaError> {
        Ok(())
    }

    async fn participants(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, MediaError> {
        Ok(self.0.act(|machine, _| machine.participants(room)).0)
    }

    async fn participant(&self, room: &NamespacedRoom, who: &Identity) -> Result<Option<Participant>, MediaError> {
        Ok(self.0.act(|machine, _| machine.participant(room, who)).0)
    }

    async fn remove_participant(&self, room: &NamespacedRoom, sid: &ParticipantSid) -> Result<bool, MediaError> {
        Ok(self.0.act(|machine, now| machine.remove(room, sid, now)).0)
    }

    async fn mute_track(
        &self,
        room: &NamespacedRoom,
        who: &Identity,
        track: &TrackSid,
        muted: bool,
    ) -> Result<MuteOutcome, MediaError> {
        let (done, _) = self.0.act(|machine, now| machine.mute_by_server(room, who, track, muted, now));
        Ok(match done {
            Ok(track) => MuteOutcome::Done(track),
            Err(Denied::NoSuchTrack) => MuteOutcome::NoSuchTrack,
            Err(_) => MuteOutcome::NoSuchParticipant,
        })
    }

    async fn send_data(&self, room: &NamespacedRoom, message: ServerData) -> Result<(), MediaError> {
        self.0.act(|machine, now| machine.send_server_data(room, message, now));
        Ok(())
    }

    async fn set_role(
        &self,
        room: &NamespacedRoom,
        who: &Identity,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        let (done, _) = self.0.act(|machine, now| machine.set_role(room, who, role, now));
        // A ceiling that is new may have been passed already.
        self.0.keep_time();
        Ok(done.ok())
    }

    async fn close_room(&self, room: &NamespacedRoom) -> Result<(), MediaError> {
        self.0.act(|machine, now| machine.close_room(room, now));
        Ok(())
    }

    async fn start_egress(&self, job: NewEgress) -> Result<EgressState, MediaError> {
        let (started, _) = self.0.act(|machine, now| machine.start_egress(job.room, now));
        self.0.keep_time();
        Ok(started)
    }

    async fn egress(&self, room: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, MediaError> {
        Ok(self.0.act(|machine, _| machine.egress(room, id)).0)
    }

    async fn stop_egress(&self, room: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, MediaError> {
        let (stopped, _) = self.0.act(|machine, now| machine.stop_egress(room, id, now));
        self.0.keep_time();
        Ok(stopped)
    }

    async fn create_ingress(&self, new: NewIngress) -> Result<CreatedIngress, MediaError> {
        let url = self.0.urls.of(new.input_type);
        let ((ingress_id, stream_key), _) = self.0.act(|machine, _| machine.create_ingress(new));
        Ok(CreatedIngress { ingress_id, url, stream_key })
    }

    async fn ingress(&self, known: &KnownIngress) -> Result<Option<IngressState>, MediaError> {
        Ok(Some(self.0.act(|machine, _| machine.ingress(known)).0))
    }

    async fn delete_ingress(&self, id: &IngressId) -> Result<(), MediaError> {
        self.0.act(|machine, now| machine.delete_ingress(id, now));
        Ok(())
    }

    async fn survey(&self, project: &ProjectId) -> Result<Survey, MediaError> {
        let survey = |machine: &mut Machine, _| Survey {
            rooms: machine.live_rooms(project),
            egresses: machine.running_egresses(project),
            ingresses: machine.ingresses(project),
        };
        Ok(self.0.act(survey).0)
    }

    async fn set_subscription_rules(
        &self,
        room: &NamespacedRoom,
        rules: BTreeMap<RoleName, Option<Vec<RoleName>>>,
    ) -> Result<(), MediaError> {
        self.0.act(|machine, _| machine.set_subscription_rules(room, rules));
        Ok(())
    }
}
