//! The system actor: the root of the supervision tree.
//!
//! It starts projects when they have something live, passes the media plane's reports and committed events down to them, and
//! deletes expired records.
//!
//! Limits: expired records are deleted every 10 minutes.
//!
//! Supervision: no supervisor restarts the root, so its handlers do not fail: a store that does not answer is asked again. It
//! rebuilds projects that fail, and stops all actors when the server stops.

mod message;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use conclave_model::ProjectId;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use serde_json::json;

use crate::child::{Child, STOP_TIMEOUT, Supervised};
use crate::context::ActorContext;
use crate::info::{ActorInfo, ActorKind};
use crate::inspection::Inspection;
use crate::mailbox::Mailbox;
use crate::project::{ProjectActor, ProjectMsg};
use crate::project_mailboxes::ProjectMailboxes;
use crate::registry::ActorStatus;
use crate::report_path::ReportPath;
use crate::timer::Timer;
use crate::webhook_endpoint::WebhookEndpointMsg;

pub use message::SystemMsg;

/// Interval at which expired records are deleted.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Delay after which the projects are read again if the store did not answer.
const POPULATE_RETRY: Duration = Duration::from_secs(1);

/// The parts of the system actor that do not change.
pub struct SystemActor {
    /// What all actors share.
    pub context: Arc<ActorContext>,
    /// Identity and counters.
    pub info: Arc<ActorInfo>,
    /// The mailboxes of running projects, for callers outside.
    pub projects: ProjectMailboxes,
}

/// The projects, and the housekeeping timer.
#[derive(Default)]
pub struct SystemState {
    projects: HashMap<ProjectId, Child<ProjectMsg>>,
    by_actor: HashMap<ActorId, ProjectId>,
    housekeeping: Option<Timer>,
}

impl SystemActor {
    /// Starts the projects that have something live. A store that does not answer is asked again.
    async fn populate(&self, me: &Mailbox<SystemMsg>, state: &mut SystemState) {
        match self.context.store.live_projects().await {
            Ok(projects) => {
                for project in projects {
                    self.spawn(me, state, project).await;
                }
                self.run_housekeeping(me, state);
            }
            Err(error) => {
                log::error!("the projects could not be read and will be tried again: {error}");
                let at = self.context.clock.now().after(POPULATE_RETRY);
                state.housekeeping = Some(Timer::arm(&self.context.clock, "populate", at, me, SystemMsg::Populate));
            }
        }
    }

    /// Spawns a project's actor, for the first time or again.
    async fn spawn(&self, me: &Mailbox<SystemMsg>, state: &mut SystemState, id: ProjectId) {
        let info = self.project_info(state, &id);
        let actor = ProjectActor {
            context: Arc::clone(&self.context),
            info: Arc::clone(&info),
            id: id.clone(),
            path: report_path(me, &id),
        };
        match Actor::spawn_linked(None, actor, (), me.actor().get_cell()).await {
            Ok((actor, _)) => {
                state.by_actor.insert(actor.get_id(), id.clone());
                self.spawned(state, id, Mailbox::new(actor, info));
            }
            // Nothing in its start can fail; if it did, the next message to the project tries again.
            Err(error) => log::error!(project = id.as_str(); "a project could not be started: {error}"),
        }
    }

    fn spawned(&self, state: &mut SystemState, id: ProjectId, mailbox: Mailbox<ProjectMsg>) {
        self.context.registry.register(mailbox.info(), ActorStatus::Running(Arc::new(mailbox.clone())));
        self.projects.insert(id.clone(), mailbox.clone());
        match state.projects.get_mut(&id) {
            Some(child) => child.restored(mailbox),
            None => {
                state.projects.insert(id, Child::running(mailbox));
            }
        }
    }

    fn project_info(&self, state: &SystemState, id: &ProjectId) -> Arc<ActorInfo> {
        state.projects.get(id).map_or_else(
            || ActorInfo::new(id.to_string(), ActorKind::Project, Some((*self.info.id).into()), Some(id.clone())),
            |child| Arc::clone(child.info()),
        )
    }

    /// Sends to a project, and starts it if it does not run. Messages that take this path keep their order.
    async fn send(&self, me: &Mailbox<SystemMsg>, state: &mut SystemState, id: ProjectId, message: ProjectMsg) {
        if !state.projects.contains_key(&id) {
            self.spawn(me, state, id.clone()).await;
        }
        if let Some(project) = state.projects.get_mut(&id) {
            // Projects do not hibernate, so none need be woken.
            let _ = project.send(message);
        }
    }

    /// Lets every project reconcile its records now.
    fn reconcile(state: &mut SystemState) {
        for project in state.projects.values_mut() {
            // Projects do not hibernate, so none need be woken.
            let _ = project.send(ProjectMsg::Reconcile);
        }
    }

    fn project_failed(&self, me: &Mailbox<SystemMsg>, state: &mut SystemState, actor: ActorId, reason: &str) {
        let Some(id) = state.by_actor.remove(&actor) else { return };
        let Some(child) = state.projects.get_mut(&id) else { return };
        log::error!(project = id.as_str(); "a project failed and will be rebuilt: {reason}");
        self.projects.remove(&id);
        let clock = &self.context.clock;
        let now = clock.now();
        let delay = child.record_failure(now, reason);
        self.context.registry.register(child.info(), ActorStatus::Restarting);
        self.context.metrics.restarted(ActorKind::Project);
        child.retry_with(Timer::arm(clock, "restore", now.after(delay), me, SystemMsg::Restore(id)));
    }

    /// Deletes expired records in a spawned task, and arms the timer for the next time.
    fn run_housekeeping(&self, me: &Mailbox<SystemMsg>, state: &mut SystemState) {
        tokio::spawn(delete_expired(Arc::clone(&self.context)));
        let clock = &self.context.clock;
        let at = clock.now().after(HOUSEKEEPING_INTERVAL);
        state.housekeeping = Some(Timer::arm(clock, "housekeeping", at, me, SystemMsg::RunHousekeeping));
    }

    fn inspect(&self, state: &SystemState) -> Inspection {
        let timers = state.housekeeping.iter().map(Timer::view).collect();
        Inspection { timers, state: json!({"projects": state.projects.len(), "media": self.context.media.kind()}) }
    }
}

/// Returns the path of reports from the root to a project.
fn report_path(me: &Mailbox<SystemMsg>, id: &ProjectId) -> ReportPath<ProjectMsg> {
    let (me, id) = (me.clone(), id.clone());
    ReportPath::new(move |message| {
        // If the root has stopped, so has everything below it.
        let _ = me.cast(SystemMsg::Project { id: id.clone(), msg: Box::new(message) });
    })
}

/// Deletes expired records, a bounded number at a time, until there are none.
async fn delete_expired(context: Arc<ActorContext>) {
    loop {
        match context.store.delete_expired(context.settings.retention).await {
            Ok(0) => break,
            Ok(rows) => log::debug!(rows = rows; "deleted expired records"),
            Err(error) => {
                log::warn!("housekeeping waits for the store: {error}");
                break;
            }
        }
    }
}

impl Actor for SystemActor {
    type Msg = SystemMsg;
    type State = SystemState;
    type Arguments = ();

    async fn pre_start(&self, myself: ActorRef<SystemMsg>, (): ()) -> Result<SystemState, ActorProcessingErr> {
        self.info.record_start(self.context.clock.now());
        let me = Mailbox::new(myself, Arc::clone(&self.info));
        me.cast(SystemMsg::Populate).map_err(|_| "the mailbox is closed")?;
        Ok(SystemState::default())
    }

    async fn handle(
        &self,
        myself: ActorRef<SystemMsg>,
        message: SystemMsg,
        state: &mut SystemState,
    ) -> Result<(), ActorProcessingErr> {
        let me = Mailbox::new(myself, Arc::clone(&self.info));
        self.info.record_message(self.context.clock.now(), message.name());
        match message {
            SystemMsg::Populate => self.populate(&me, state).await,
            SystemMsg::Project { id, msg } => self.send(&me, state, id, *msg).await,
            SystemMsg::Report { report, answer } => {
                let (project, _) = report.room.split();
                self.send(&me, state, project, ProjectMsg::Report { report, answer }).await;
            }
            SystemMsg::DeliveriesQueued { project, endpoints } => {
                for id in endpoints {
                    let queued = ProjectMsg::WebhookEndpoint { id, msg: WebhookEndpointMsg::Queued };
                    self.send(&me, state, project.clone(), queued).await;
                }
            }
            SystemMsg::MediaReturned => Self::reconcile(state),
            SystemMsg::Restore(project) => self.spawn(&me, state, project).await,
            SystemMsg::RunHousekeeping => self.run_housekeeping(&me, state),
            SystemMsg::Inspect(reply) => drop(reply.send(self.inspect(state))),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SystemMsg>,
        event: SupervisionEvent,
        state: &mut SystemState,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(project, reason) = event {
            let me = Mailbox::new(myself, Arc::clone(&self.info));
            self.project_failed(&me, state, project.get_id(), &reason.to_string());
        }
        Ok(())
    }

    async fn post_stop(&self, myself: ActorRef<SystemMsg>, _: &mut SystemState) -> Result<(), ActorProcessingErr> {
        myself.stop_children_and_wait(None, Some(STOP_TIMEOUT)).await;
        Ok(())
    }
}
