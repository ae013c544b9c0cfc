//! The system actor: the root of the supervision tree.
//!
//! It starts projects with live records, passes the media plane's reports down to them, requests the live object inventory from the
//! media plane, and deletes expired records.
//!
//! - [`projects`]: how projects are started, fail and are rebuilt.
//! - [`route`]: how a message from outside the tree reaches a project.
//!
//! Limits: expired records are deleted every 10 minutes. A heartbeat is written every minute, on PostgreSQL every second.
//!
//! Supervision: no supervisor restarts the root, so its handlers never fail: requests to an unavailable store are repeated. It rebuilds
//! projects that fail, and stops all actors when the server stops.

mod projects;
mod route;

use std::sync::Arc;
use std::time::Duration;

use conclave_db::StoreError;
use conclave_media::{MediaError, MediaInventory, Report, ReportError};
use conclave_model::ProjectId;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use serde_json::json;
use tokio::sync::oneshot;

use crate::context::ActorContext;
use crate::info::ActorInfo;
use crate::mailbox::{Mailbox, Timer};
use crate::project::ProjectMsg;
use crate::registry::{InspectMessage, Inspection};
use crate::webhook_endpoint::purge_deleted;
use projects::Projects;

pub use route::{ProjectMailboxes, ProjectRoute};

/// Interval at which expired records are deleted.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Delay before the live projects are read again after the store was unavailable.
const POPULATE_RETRY: Duration = Duration::from_secs(1);

/// Message to the system actor.
#[derive(Debug, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum SystemMsg {
    /// Start the projects with live records. The first message.
    Populate,
    /// Forward a message to a project, which is started if it is not running.
    Project {
        /// Project whose actor receives the message.
        id: ProjectId,
        /// Message to forward.
        msg: Box<ProjectMsg>,
    },
    /// The media plane reports an event of a recording, a broadcast or an ingress endpoint.
    FollowedReport {
        /// Reported event.
        report: Report,
        /// Replied to once the event is durable, or refused.
        answer: oneshot::Sender<Result<(), ReportError>>,
    },
    /// The media plane is available again after an outage.
    MediaReturned,
    /// Rebuild a project, since the delay after its failure is over.
    Restore(ProjectId),
    /// The record of a project without an actor was read.
    ProjectLoaded {
        /// Project id.
        id: ProjectId,
        /// Whether the project exists.
        exists: Result<bool, StoreError>,
    },
    /// Delete expired records.
    RunHousekeeping,
    /// Request the live object inventory from the media plane, and arm the timer for the next time.
    Survey,
    /// Live object inventory on the media plane.
    Surveyed(Box<Result<MediaInventory, MediaError>>),
    /// Record that the server runs.
    WriteHeartbeat,
    /// The heartbeat was written, or has failed.
    HeartbeatWritten,
    /// Return a snapshot.
    Inspect(RpcReplyPort<Inspection>),
}

impl InspectMessage for SystemMsg {
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self {
        Self::Inspect(reply)
    }
}

/// Arguments of the system actor, set once.
pub struct SystemActor {
    /// Services and settings shared by all actors.
    pub context: Arc<ActorContext>,
    /// Identity and counters.
    pub info: Arc<ActorInfo>,
    /// Running projects' mailboxes, for callers outside the tree.
    pub projects: ProjectMailboxes,
}

/// The running tree: its projects, and the server's timers.
pub struct LiveSystem {
    context: Arc<ActorContext>,
    me: Mailbox<SystemMsg>,
    projects: Projects,
    housekeeping: Option<Timer>,
    heartbeat: Option<Timer>,
    survey: Option<Timer>,
}

impl LiveSystem {
    fn new(actor: &SystemActor, me: ActorRef<SystemMsg>) -> Self {
        let (context, me) = (
            Arc::clone(&actor.context),
            Mailbox::new(me, Arc::clone(&actor.info)),
        );
        Self {
            projects: Projects::new(Arc::clone(&context), me.clone(), actor.projects.clone()),
            context,
            me,
            housekeeping: None,
            heartbeat: None,
            survey: None,
        }
    }

    async fn handle(&mut self, message: SystemMsg) {
        match message {
            SystemMsg::Populate => self.populate().await,
            SystemMsg::Project { id, msg } => self.projects.send(id, *msg),
            SystemMsg::FollowedReport { report, answer } => {
                let (project, _) = report.room.split();
                self.projects
                    .send(project, ProjectMsg::FollowedReport { report, answer });
            }
            // Reports were lost during the outage, also about objects without an actor.
            SystemMsg::MediaReturned => {
                self.projects.reconcile();
                self.survey();
            }
            SystemMsg::Survey => self.survey(),
            SystemMsg::Surveyed(survey) => match *survey {
                Ok(survey) => self.projects.surveyed(survey),
                // The timer repeats it.
                Err(error) => log::warn!(
                    "reading the media plane's inventory failed, so nothing was reconciled: {error}"
                ),
            },
            SystemMsg::Restore(project) => self.projects.load(project),
            SystemMsg::ProjectLoaded { id, exists } => {
                // The project had failed, so reports about objects without an actor may have been lost with it.
                if self.projects.loaded(id, exists).await {
                    self.survey();
                }
            }
            SystemMsg::RunHousekeeping => self.run_housekeeping(),
            SystemMsg::WriteHeartbeat => self.write_heartbeat(),
            SystemMsg::HeartbeatWritten => {
                // Armed after the write: while the store is slow, heartbeats must not pile up.
                let interval = self.context.store.server().heartbeat_interval();
                self.heartbeat = Some(self.timer("heartbeat", interval, SystemMsg::WriteHeartbeat));
            }
            SystemMsg::Inspect(reply) => drop(reply.send(self.inspect())),
        }
    }

    /// Starts the projects with live records. If the store is unavailable, this is repeated.
    async fn populate(&mut self) {
        match self.context.store.server().live_projects().await {
            Ok(projects) => {
                // Spawning is quick: each project loads its records in its own first message.
                self.projects.populate(projects).await;
                self.run_housekeeping();
                // Each project reads its records before it handles its part of the inventory.
                self.survey();
            }
            // Projects start with the first message to them.
            Err(error @ StoreError::Damaged(_)) => {
                log::error!(
                    "the records of live projects are damaged, so each project starts at its first request: {error}"
                );
                self.run_housekeeping();
                self.survey();
            }
            Err(error) => {
                log::error!("reading the live projects failed and is repeated: {error}");
                self.housekeeping =
                    Some(self.timer("populate", POPULATE_RETRY, SystemMsg::Populate));
            }
        }
    }

    /// Arms a timer that sends a message to the system actor.
    fn timer(&self, name: &'static str, delay: Duration, message: SystemMsg) -> Timer {
        let clock = &self.context.clock;
        Timer::arm(clock, name, clock.now().after(delay), &self.me, message)
    }

    /// Deletes expired records in a spawned task, and arms the timer for the next time.
    fn run_housekeeping(&mut self) {
        tokio::spawn(delete_expired(Arc::clone(&self.context)));
        self.housekeeping = Some(self.timer(
            "housekeeping",
            HOUSEKEEPING_INTERVAL,
            SystemMsg::RunHousekeeping,
        ));
    }

    /// Writes a heartbeat in a spawned task: after a crash, sessions end at the last one. The timer for the next one is armed when it is
    /// written.
    fn write_heartbeat(&self) {
        let (store, me) = (self.context.store.clone(), self.me.clone());
        tokio::spawn(async move {
            if let Err(error) = store.server().renew_heartbeat().await {
                log::warn!("a heartbeat could not be written: {error}");
            }
            // If the root has stopped, so has the server.
            let _ = me.cast(SystemMsg::HeartbeatWritten);
        });
    }

    /// Requests the inventory from the media plane, once for all projects, in a spawned task, and arms the timer for the next time.
    fn survey(&mut self) {
        let interval = self.context.settings.reconcile;
        self.survey = Some(self.timer("survey", interval, SystemMsg::Survey));
        let (media, me) = (Arc::clone(&self.context.media), self.me.clone());
        tokio::spawn(async move {
            let survey = Box::new(media.inventory().await);
            let _ = me.cast(SystemMsg::Surveyed(survey));
        });
    }

    fn inspect(&self) -> Inspection {
        let timers = [&self.housekeeping, &self.heartbeat, &self.survey]
            .into_iter()
            .flatten()
            .map(Timer::view)
            .collect();
        Inspection {
            timers,
            state: json!({"projects": self.projects.len(), "media": self.context.media.kind()}),
        }
    }
}

/// Deletes the remains of deleted webhook endpoints, and expired records, in small steps until there are none.
async fn delete_expired(context: Arc<ActorContext>) {
    purge_deleted(Arc::clone(&context)).await;
    loop {
        match context
            .store
            .server()
            .delete_expired(context.settings.retention)
            .await
        {
            Ok(0) => break,
            Ok(rows) => log::debug!(rows = rows; "deleted expired records"),
            // The next housekeeping continues.
            Err(error) => {
                log::warn!("housekeeping waits for the store: {error}");
                break;
            }
        }
    }
}

impl Actor for SystemActor {
    type Msg = SystemMsg;
    type State = LiveSystem;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<SystemMsg>,
        (): (),
    ) -> Result<LiveSystem, ActorProcessingErr> {
        self.info.record_start(self.context.clock.now());
        let system = LiveSystem::new(self, myself);
        // Handled after the start, which must not depend on the store.
        for first in [SystemMsg::Populate, SystemMsg::WriteHeartbeat] {
            let sent = system.me.cast(first);
            sent.map_err(|_| "the mailbox is closed")?;
        }
        Ok(system)
    }

    async fn handle(
        &self,
        _: ActorRef<SystemMsg>,
        message: SystemMsg,
        system: &mut LiveSystem,
    ) -> Result<(), ActorProcessingErr> {
        self.info.record_message(self.context.clock.now(), &message);
        system.handle(message).await;
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<SystemMsg>,
        event: SupervisionEvent,
        system: &mut LiveSystem,
    ) -> Result<(), ActorProcessingErr> {
        // A project that stops does so with the root, and is not rebuilt.
        if let SupervisionEvent::ActorFailed(project, reason) = event {
            system
                .projects
                .failed(project.get_id(), &reason.to_string());
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        myself: ActorRef<SystemMsg>,
        _: &mut LiveSystem,
    ) -> Result<(), ActorProcessingErr> {
        // Waits for the children, whose exit would otherwise be a kill in the middle of a message.
        myself
            .stop_children_and_wait(None, Some(self.context.settings.stop_timeout(2)))
            .await;
        Ok(())
    }
}
