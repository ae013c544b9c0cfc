//! Projects: how they are started, sent to, fail and are rebuilt.
//!
//! A message to a project that is not running is buffered while the project's record is read. A shared media plane may report rooms of
//! projects that this server does not have; those get no actor.

use std::collections::HashMap;
use std::sync::Arc;

use conclave_db::StoreError;
use conclave_media::{MediaInventory, ReportError};
use conclave_model::{NamespacedRoom, ProjectId};
use ractor::{Actor, ActorId};

use super::SystemMsg;
use super::route::ProjectMailboxes;
use crate::children::{Child, ChildSet, RestartCause};
use crate::context::ActorContext;
use crate::info::{ActorInfo, ActorKind};
use crate::mailbox::{Mailbox, ReportPath};
use crate::project::{ProjectActor, ProjectMsg};

/// Projects with live records.
pub(super) struct Projects {
    context: Arc<ActorContext>,
    /// The system actor's mailbox.
    me: Mailbox<SystemMsg>,
    children: ChildSet<ProjectId, ProjectMsg>,
    by_actor: HashMap<ActorId, ProjectId>,
    /// Running projects' mailboxes, for callers outside the tree.
    running: ProjectMailboxes,
}

impl Projects {
    pub fn new(
        context: Arc<ActorContext>,
        me: Mailbox<SystemMsg>,
        running: ProjectMailboxes,
    ) -> Self {
        let parent = Arc::clone(&me.info().id);
        let children = ChildSet::new(move |id: &ProjectId| {
            ActorInfo::new(
                id.to_string(),
                ActorKind::Project,
                Some(Arc::clone(&parent)),
                Some(id.clone()),
            )
        });
        Self {
            context,
            me,
            children,
            by_actor: HashMap::new(),
            running,
        }
    }

    /// Counts the projects.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// Starts the projects with live records.
    pub async fn populate(&mut self, projects: Vec<ProjectId>) {
        for project in projects {
            // A report may have started it while the store was unavailable.
            if !self.children.contains(&project) {
                self.spawn(project).await;
            }
        }
    }

    /// Spawns a project's actor, for the first time or again.
    async fn spawn(&mut self, id: ProjectId) {
        let info = self.children.info(&id);
        let actor = ProjectActor {
            context: Arc::clone(&self.context),
            info: Arc::clone(&info),
            id: id.clone(),
            path: report_path(&self.me, &id),
        };
        match Actor::spawn_linked(None, actor, (), self.me.actor().get_cell()).await {
            Ok((actor, _)) => {
                // Notifications name processes, and a rebuilt project has another process.
                self.by_actor.insert(actor.get_id(), id.clone());
                let mailbox = Mailbox::new(actor, info);
                // Before callers find the mailbox, the project has its own first message in it.
                self.running.insert(id.clone(), mailbox.clone());
                self.children.spawned(&self.context, id, mailbox);
            }
            Err(error) => self.restore_later(id, RestartCause::Actor(&error.to_string())),
        }
    }

    /// Sends to a project, and starts it if it is not running. Messages on this path keep their order.
    pub fn send(&mut self, id: ProjectId, message: ProjectMsg) {
        if !self.children.contains(&id) {
            // The message is buffered below until the project is known to exist.
            self.load(id.clone());
        }
        // Projects do not hibernate, so none has to be woken.
        let _ = self.children.supervised(&id).send(message);
    }

    /// Makes every project reconcile its records now.
    pub fn reconcile(&mut self) {
        self.children.send_all(|| ProjectMsg::Reconcile);
    }

    /// Sends each running project its part of the inventory. Other projects have no live records to compare it with.
    pub fn surveyed(&mut self, survey: MediaInventory) {
        for (project, share) in survey.by_project() {
            self.children
                .send(&project, ProjectMsg::Surveyed(Box::new(share)));
        }
    }

    /// Reads in a spawned task whether a project exists, to start its actor.
    pub fn load(&self, id: ProjectId) {
        let (store, me) = (self.context.store.clone(), self.me.clone());
        tokio::spawn(async move {
            let exists = store
                .projects()
                .get(id.clone())
                .await
                .map(|project| project.is_some());
            let _ = me.cast(SystemMsg::ProjectLoaded { id, exists });
        });
    }

    /// Starts a project that exists. Otherwise, replies to the buffered messages. Returns whether the project had failed,
    /// so that reports may have been lost.
    pub async fn loaded(&mut self, id: ProjectId, exists: Result<bool, StoreError>) -> bool {
        match exists {
            Ok(true) => {
                self.spawn(id.clone()).await;
                // Reports may have been lost with the failed actor, and tickets for queued ones, too.
                let has_failed = self.children.get(&id).is_some_and(Child::has_failed);
                if has_failed {
                    for room in self.context.reports.renew_tickets(&id) {
                        self.send(id.clone(), ProjectMsg::Reports(room));
                    }
                }
                return has_failed;
            }
            Ok(false) => {
                log::debug!(project = id.as_str(); "reports about a project that does not exist were dropped");
                let child = self.children.remove(&self.context, &id);
                for message in child.map(Child::into_waiting).into_iter().flatten() {
                    self.reply_as_unknown(&id, message);
                }
            }
            Err(error) => self.restore_later(id, RestartCause::Store(&error)),
        }
        false
    }

    /// Replies on behalf of a project that does not exist. Other callers get no reply: no credential belongs to such a project.
    fn reply_as_unknown(&self, project: &ProjectId, message: ProjectMsg) {
        match message {
            ProjectMsg::Reports(room) => {
                let room = NamespacedRoom::new(project, &room);
                for waiting in self.context.reports.take_all(&room) {
                    waiting.replies.send(Err(ReportError::UnknownRoom));
                }
            }
            ProjectMsg::FollowedReport { answer, .. } => {
                let _ = answer.send(Err(ReportError::UnknownRoom));
            }
            _ => {}
        }
    }

    /// Schedules a failed project to be rebuilt.
    pub fn failed(&mut self, process: ActorId, reason: &str) {
        if let Some(id) = self.by_actor.remove(&process) {
            self.restore_later(id, RestartCause::Actor(reason));
        }
    }

    /// Arms the timer that rebuilds a project which failed or could not start.
    fn restore_later(&mut self, id: ProjectId, cause: RestartCause<'_>) {
        log::error!(project = id.as_str(); "a project failed and will be rebuilt: {cause}");
        // From now on messages go through the root, which buffers them.
        self.running.remove(&id);
        let Self {
            context,
            me,
            children,
            ..
        } = self;
        children.restore_later(context, &id, cause, me, SystemMsg::Restore(id.clone()));
        // The children ended with their supervisor. The rebuilt project registers them again.
        context.registry.deregister_children(&children.info(&id));
    }
}

/// Returns the report path from the root to a project.
fn report_path(me: &Mailbox<SystemMsg>, id: &ProjectId) -> ReportPath<ProjectMsg> {
    let (me, id) = (me.clone(), id.clone());
    ReportPath::new(move |message| {
        // If the root has stopped, so has everything below it.
        let _ = me.cast(SystemMsg::Project {
            id: id.clone(),
            msg: Box::new(message),
        });
    })
}
