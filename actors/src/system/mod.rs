//! The system actor: the root of the supervision tree.
//!
//! It starts projects when they have something live, passes the media plane's reports and committed events down to them, asks
//! the media plane what is live, and deletes expired records.
//!
//! - [`message`]: the messages.
//! - [`projects`]: how projects are started, fail and are rebuilt.
//! - [`survey`]: what is live on the media plane.
//!
//! Limits: expired records are deleted every 10 minutes; a heartbeat is written each minute, on PostgreSQL each second.
//!
//! Supervision: no supervisor restarts the root, so its handlers do not fail: a store that does not answer is asked again. It
//! rebuilds projects that fail, and stops all actors when the server stops.

use std::sync::Arc;

use conclave_db::StoreError;
use conclave_media::{MediaError, Report, ReportError, Survey};
use conclave_model::{EndpointId, ProjectId};
use ractor::RpcReplyPort;
use tokio::sync::oneshot;

use crate::mailbox::{Mailbox, Timer};
use crate::project::ProjectMsg;
use crate::registry::{InspectMessage, Inspection};

mod projects;
mod route;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use conclave_db::StoreError;
use conclave_model::ProjectId;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use serde_json::json;

use crate::children::ChildSet;
use crate::context::ActorContext;
use crate::info::{ActorInfo, ActorKind};
use crate::mailbox::Mailbox;
use crate::mailbox::Timer;
use crate::project::ProjectMsg;
use crate::registry::Inspection;
use crate::system::ProjectMailboxes;
use crate::webhook_endpoint::{WebhookEndpointMsg, purge_deleted};

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

/// The projects, and the timers.
pub struct SystemState {
    projects: ChildSet<ProjectId, ProjectMsg>,
    by_actor: HashMap<ActorId, ProjectId>,
    housekeeping: Option<Timer>,
    heartbeat: Option<Timer>,
    survey: Option<Timer>,
}

impl SystemActor {
    /// Starts the projects that have something live. A store that does not answer is asked again.
    async fn populate(&self, me: &Mailbox<SystemMsg>, state: &mut SystemState) {
        match self.context.store.server().live_projects().await {
            Ok(projects) => {
                for project in projects {
                    // A report may have started it while the store did not answer.
                    if !state.projects.contains(&project) {
                        self.spawn(me, state, project).await;
                    }
                }
                self.run_housekeeping(me, state);
                // Each project reads its records before it handles its share.
                self.survey(me, state);
            }
            // They start with the first message to them.
            Err(error @ StoreError::Damaged(_)) => {
                log::error!("the projects with something live are not known: {error}");
                self.run_housekeeping(me, state);
                self.survey(me, state);
            }
            Err(error) => {
                log::error!("the projects could not be read and will be tried again: {error}");
                let at = self.context.clock.now().after(POPULATE_RETRY);
                state.housekeeping = Some(Timer::arm(
                    &self.context.clock,
                    "populate",
                    at,
                    me,
                    SystemMsg::Populate,
                ));
            }
        }
    }

    /// Deletes expired records in a spawned task, and arms the timer for the next time.
    fn run_housekeeping(&self, me: &Mailbox<SystemMsg>, state: &mut SystemState) {
        tokio::spawn(delete_expired(Arc::clone(&self.context)));
        let clock = &self.context.clock;
        let at = clock.now().after(HOUSEKEEPING_INTERVAL);
        state.housekeeping = Some(Timer::arm(
            clock,
            "housekeeping",
            at,
            me,
            SystemMsg::RunHousekeeping,
        ));
    }

    /// Records in a spawned task that the server runs: after a crash, sessions end at the last of these records. The timer of the
    /// next one is armed when it is written.
    fn write_heartbeat(&self, me: &Mailbox<SystemMsg>) {
        let (store, me) = (self.context.store.clone(), me.clone());
        tokio::spawn(async move {
            if let Err(error) = store.server().renew_heartbeat().await {
                log::warn!("a heartbeat could not be written: {error}");
            }
            let _ = me.cast(SystemMsg::HeartbeatWritten);
        });
    }

    fn arm_heartbeat(&self, me: &Mailbox<SystemMsg>, state: &mut SystemState) {
        let at = self
            .context
            .clock
            .now()
            .after(self.context.store.server().heartbeat_interval());
        state.heartbeat = Some(Timer::arm(
            &self.context.clock,
            "heartbeat",
            at,
            me,
            SystemMsg::WriteHeartbeat,
        ));
    }

    fn inspect(&self, state: &SystemState) -> Inspection {
        let timers = [&state.housekeeping, &state.heartbeat, &state.survey]
            .into_iter()
            .flatten()
            .map(Timer::view)
            .collect();
        Inspection {
            timers,
            state: json!({"projects": state.projects.len(), "media": self.context.media.kind()}),
        }
    }
}

/// Deletes what is left of deleted webhook endpoints, and expired records, a bounded number at a time, until there are none.
async fn delete_expired(context: Arc<ActorContext>) {
    purge_deleted(Arc::clone(&context)).await;
    loop {
        match context
            .store
            .server()
            .delete_expired(context.settings.webhooks.retention)
            .await
        {
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

    async fn pre_start(
        &self,
        myself: ActorRef<SystemMsg>,
        (): (),
    ) -> Result<SystemState, ActorProcessingErr> {
        self.info.record_start(self.context.clock.now());
        let me = Mailbox::new(myself, Arc::clone(&self.info));
        me.cast(SystemMsg::Populate)
            .map_err(|_| "the mailbox is closed")?;
        me.cast(SystemMsg::WriteHeartbeat)
            .map_err(|_| "the mailbox is closed")?;
        let parent: Arc<str> = (*self.info.id).into();
        let projects = ChildSet::new(move |id: &ProjectId| {
            ActorInfo::new(
                id.to_string(),
                ActorKind::Project,
                Some(Arc::clone(&parent)),
                Some(id.clone()),
            )
        });
        let by_actor = HashMap::new();
        Ok(SystemState {
            projects,
            by_actor,
            housekeeping: None,
            heartbeat: None,
            survey: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<SystemMsg>,
        message: SystemMsg,
        state: &mut SystemState,
    ) -> Result<(), ActorProcessingErr> {
        let me = Mailbox::new(myself, Arc::clone(&self.info));
        self.info.record_message(self.context.clock.now(), &message);
        match message {
            SystemMsg::Populate => self.populate(&me, state).await,
            SystemMsg::Project { id, msg } => self.send(&me, state, id, *msg),
            SystemMsg::FollowedReport { report, answer } => {
                let (project, _) = report.room.split();
                self.send(
                    &me,
                    state,
                    project,
                    ProjectMsg::FollowedReport { report, answer },
                );
            }
            SystemMsg::DeliveriesQueued { project, endpoints } => {
                for id in endpoints {
                    let queued = ProjectMsg::WebhookEndpoint {
                        id,
                        msg: WebhookEndpointMsg::Queued,
                    };
                    self.send(&me, state, project.clone(), queued);
                }
            }
            SystemMsg::MediaReturned => self.reconcile(&me, state),
            SystemMsg::Survey => self.survey(&me, state),
            SystemMsg::Surveyed(survey) => Self::surveyed(state, *survey),
            SystemMsg::Restore(project) => self.load(&me, project),
            SystemMsg::ProjectLoaded { id, exists } => self.loaded(&me, state, id, exists).await,
            SystemMsg::RunHousekeeping => self.run_housekeeping(&me, state),
            SystemMsg::WriteHeartbeat => self.write_heartbeat(&me),
            SystemMsg::HeartbeatWritten => self.arm_heartbeat(&me, state),
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

    async fn post_stop(
        &self,
        myself: ActorRef<SystemMsg>,
        _: &mut SystemState,
    ) -> Result<(), ActorProcessingErr> {
        myself
            .stop_children_and_wait(None, Some(self.context.settings.stop_timeout(2)))
            .await;
        Ok(())
    }
}

/// A message to the system actor.
#[derive(Debug, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum SystemMsg {
    /// Start the projects that have something live. The first message.
    Populate,
    /// Forward a message to a project, which is started if it does not run.
    Project {
        /// The project whose actor receives the message.
        id: ProjectId,
        /// The message to forward.
        msg: Box<ProjectMsg>,
    },
    /// The media plane reports an event of a recording, a broadcast or an ingress endpoint.
    FollowedReport {
        /// The event that the media plane reports.
        report: Report,
        /// Answered once the event is durable, or refused.
        answer: oneshot::Sender<Result<(), ReportError>>,
    },
    /// Deliveries were queued for webhook endpoints.
    DeliveriesQueued {
        /// The project of the endpoints.
        project: ProjectId,
        /// The endpoints with new deliveries.
        endpoints: Vec<EndpointId>,
    },
    /// The media plane answers again after an outage.
    MediaReturned,
    /// Rebuild a project: the delay after its failure is over.
    Restore(ProjectId),
    /// The record of a project without an actor was read.
    ProjectLoaded {
        /// The id of the project.
        id: ProjectId,
        /// Whether the project exists.
        exists: Result<bool, StoreError>,
    },
    /// Delete expired records.
    RunHousekeeping,
    /// Ask the media plane what is live, and arm the timer for the next time.
    Survey,
    /// What is live on the media plane.
    Surveyed(Box<Result<Survey, MediaError>>),
    /// Record that the server runs.
    WriteHeartbeat,
    /// The heartbeat was written, or could not be.
    HeartbeatWritten,
    /// Return a snapshot.
    Inspect(RpcReplyPort<Inspection>),
}

impl InspectMessage for SystemMsg {
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self {
        Self::Inspect(reply)
    }
}

impl SystemActor {
    /// Lets every project reconcile its records now.
    pub(super) fn reconcile(&self, me: &Mailbox<SystemMsg>, state: &mut SystemState) {
        state.projects.send_all(|| ProjectMsg::Reconcile);
        self.survey(me, state);
    }

    /// Asks the media plane what is live, in a spawned task, and arms the timer for the next time.
    pub(super) fn survey(&self, me: &Mailbox<SystemMsg>, state: &mut SystemState) {
        let clock = &self.context.clock;
        let at = clock.now().after(self.context.settings.reconcile);
        state.survey = Some(Timer::arm(clock, "survey", at, me, SystemMsg::Survey));
        let (media, me) = (Arc::clone(&self.context.media), me.clone());
        tokio::spawn(async move {
            let survey = Box::new(media.survey().await);
            let _ = me.cast(SystemMsg::Surveyed(survey));
        });
    }

    /// Gives each project that runs its share. One that does not run has nothing to compare it with.
    pub(super) fn surveyed(state: &mut SystemState, survey: Result<Survey, MediaError>) {
        let survey =
            survey.inspect_err(|error| log::warn!("the records were not reconciled: {error}"));
        for (project, share) in survey.map(Survey::by_project).unwrap_or_default() {
            state
                .projects
                .send(&project, ProjectMsg::Surveyed(Box::new(share)));
        }
    }
}
