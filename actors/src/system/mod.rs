//! The system actor: the root. It starts projects when they have something alive, passes reports and committed events
//! down to them, and keeps house.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use conclave_media::{Report, ReportError};
use conclave_model::{EndpointId, ProjectId};
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use serde_json::json;
use tokio::sync::oneshot;

use crate::child::Child;
use crate::context::ActorContext;
use crate::info::{ActorInfo, ActorKind};
use crate::inspection::{InspectMessage, Inspection};
use crate::mailbox::Mailbox;
use crate::project::{ProjectActor, ProjectMsg};
use crate::registry::ActorStatus;
use crate::timer::Timer;
use crate::tree::Projects;

/// How often what is past its time is forgotten.
const HOUSEKEEPING: Duration = Duration::from_secs(10 * 60);

/// How soon the projects are read again when the store did not answer.
const POPULATE_AGAIN: Duration = Duration::from_secs(1);

/// What the system actor understands.
#[derive(Debug)]
pub enum SystemMsg {
    /// Start the projects that have something alive. The first message.
    Populate,
    /// Something for a project, which is started if it is not there.
    ToProject {
        /// Which.
        project: ProjectId,
        /// What.
        message: Box<ProjectMsg>,
    },
    /// Something happened on the media plane.
    Report {
        /// What.
        report: Report,
        /// Answered once it is durable, or refused.
        answer: oneshot::Sender<Result<(), ReportError>>,
    },
    /// Deliveries were queued.
    Queued {
        /// Whose.
        project: ProjectId,
        /// For which receivers.
        endpoints: Vec<EndpointId>,
    },
    /// The media plane answers again after it was away.
    MediaReturned,
    /// The wait before starting a failed project again is over.
    Restore(ProjectId),
    /// Forget what is past its time.
    RunHousekeeping,
    /// Tell about yourself.
    Inspect(RpcReplyPort<Inspection>),
}

impl SystemMsg {
    const fn name(&self) -> &'static str {
        match self {
            Self::Populate => "populate",
            Self::ToProject { .. } => "to_project",
            Self::Report { .. } => "report",
            Self::Queued { .. } => "queued",
            Self::MediaReturned => "media_returned",
            Self::Restore(_) => "restore",
            Self::RunHousekeeping => "run_housekeeping",
            Self::Inspect(_) => "inspect",
        }
    }
}

impl InspectMessage for SystemMsg {
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self {
        Self::Inspect(reply)
    }
}

/// The actor's read-only parts.
pub struct SystemActor {
    /// Shared parts.
    pub context: Arc<ActorContext>,
    /// Its info.
    pub info: Arc<ActorInfo>,
    /// Where callers outside find a project's mailbox without asking.
    pub projects: Projects,
}

/// The projects that run, and the housekeeping timer.
#[derive(Default)]
pub struct SystemState {
    projects: HashMap<ProjectId, Child<ProjectMsg>>,
    by_actor: HashMap<ActorId, ProjectId>,
    housekeeping: Option<Timer>,
}

impl SystemActor {
    /// Starts what lives. A store that does not answer yet is asked again: the root has nobody to restart it.
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
                let at = self.context.clock.now().after(POPULATE_AGAIN);
                state.housekeeping = Some(Timer::arm(&self.context.clock, "populate", at, me, SystemMsg::Populate));
            }
        }
    }

    async fn spawn(&self, me: &Mailbox<SystemMsg>, state: &mut SystemState, id: ProjectId) {
        let info = state.projects.get(&id).map_or_else(
            || ActorInfo::new(id.to_string(), ActorKind::Project, Some((*self.info.id).into()), Some(id.clone())),
            |child| Arc::clone(child.info()),
        );
        let actor = ProjectActor {
            context: Arc::clone(&self.context),
            info: Arc::clone(&info),
            path: id.as_str().into(),
            id: id.clone(),
            system: me.clone(),
        };
        match Actor::spawn_linked(None, actor, (), me.actor().get_cell()).await {
            Ok((actor, _)) => {
                state.by_actor.insert(actor.get_id(), id.clone());
                let mailbox = Mailbox::new(actor, info);
                self.context.registry.register(mailbox.info(), ActorStatus::Running(Arc::new(mailbox.clone())));
                self.projects.set(id.clone(), mailbox.clone());
                match state.projects.get_mut(&id) {
                    Some(child) => child.restored(mailbox),
                    None => {
                        state.projects.insert(id, Child::running(mailbox));
                    }
                }
            }
            // Its pre_start does nothing that can fail; if it did, the next message for it tries again.
            Err(error) => log::error!(project = id.as_str(); "a project could not be started: {error}"),
        }
    }

    /// Sends to a project, starting it if need be. Going through here keeps the order of what comes this way.
    async fn send(&self, me: &Mailbox<SystemMsg>, state: &mut SystemState, id: ProjectId, message: ProjectMsg) {
        if !state.projects.contains_key(&id) {
            self.spawn(me, state, id.clone()).await;
        }
        if let Some(project) = state.projects.get_mut(&id) {
            // Projects do not rest, so there is nobody to wake.
            let _ = project.send(message);
        }
    }

    /// Every project holds its records against the media plane now, and not only at its next round.
    fn reconcile(state: &mut SystemState) {
        for project in state.projects.values_mut() {
            // Projects do not rest, so there is nobody to wake.
            let _ = project.send(ProjectMsg::Reconcile);
        }
    }

    fn project_failed(&self, me: &Mailbox<SystemMsg>, state: &mut SystemState, actor: ActorId, reason: String) {
        let Some(id) = state.by_actor.remove(&actor) else { return };
        let Some(child) = state.projects.get_mut(&id) else { return };
        log::error!(project = id.as_str(); "a project failed and will be restored: {reason}");
        self.projects.unset(&id);
        let clock = &self.context.clock;
        let now = clock.now();
        let delay = child.failed(now, reason);
        self.context.registry.register(child.info(), ActorStatus::Restarting);
        self.context.metrics.restarted(ActorKind::Project);
        child.retry_with(Timer::arm(clock, "restore", now.after(delay), me, SystemMsg::Restore(id)));
    }

    /// Forgets what is past its time, beside the actor, and comes back later.
    fn run_housekeeping(&self, me: &Mailbox<SystemMsg>, state: &mut SystemState) {
        let context = Arc::clone(&self.context);
        tokio::spawn(async move {
            loop {
                match context.store.delete_expired(context.settings.retention).await {
                    Ok(0) => break,
                    Ok(rows) => log::debug!(rows = rows; "forgot what was past its time"),
                    Err(error) => {
                        log::warn!("housekeeping waits for the store: {error}");
                        break;
                    }
                }
            }
        });
        let clock = &self.context.clock;
        let at = clock.now().after(HOUSEKEEPING);
        state.housekeeping = Some(Timer::arm(clock, "housekeeping", at, me, SystemMsg::RunHousekeeping));
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
            SystemMsg::ToProject { project, message } => self.send(&me, state, project, *message).await,
            SystemMsg::Report { report, answer } => {
                let (project, _) = report.room.split();
                self.send(&me, state, project, ProjectMsg::Report { report, answer }).await;
            }
            SystemMsg::Queued { project, endpoints } => {
                self.send(&me, state, project, ProjectMsg::Queued(endpoints)).await;
            }
            SystemMsg::MediaReturned => Self::reconcile(state),
            SystemMsg::Restore(project) => self.spawn(&me, state, project).await,
            SystemMsg::RunHousekeeping => self.run_housekeeping(&me, state),
            SystemMsg::Inspect(reply) => {
                let timers = state.housekeeping.iter().map(Timer::view).collect();
                let media = self.context.media.kind();
                let inspection =
                    Inspection { timers, state: json!({"projects": state.projects.len(), "media": media}) };
                let _ = reply.send(inspection);
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SystemMsg>,
        event: SupervisionEvent,
        state: &mut SystemState,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(who, reason) = event {
            let me = Mailbox::new(myself, Arc::clone(&self.info));
            self.project_failed(&me, state, who.get_id(), reason.to_string());
        }
        Ok(())
    }

    async fn post_stop(&self, myself: ActorRef<SystemMsg>, _: &mut SystemState) -> Result<(), ActorProcessingErr> {
        myself.stop_children_and_wait(None, Some(crate::tree::STOP_TIMEOUT)).await;
        Ok(())
    }
}
