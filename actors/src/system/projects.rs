//! The projects: how they are started, sent to, fail and are rebuilt.
//!
//! A message to a project that does not run reads the project's record first, and waits meanwhile. A media plane that others
//! use too reports rooms of projects that this server does not have; those get no actor.

use std::sync::Arc;

use conclave_db::StoreError;
use conclave_media::ReportError;
use conclave_model::{NamespacedRoom, ProjectId};
use ractor::{Actor, ActorId};

use super::{SystemActor, SystemMsg, SystemState};
use crate::children::{Child, RestartCause, Supervised};
use crate::info::ActorKind;
use crate::mailbox::{Mailbox, ReportPath, Timer};
use crate::project::{ProjectActor, ProjectMsg};
use crate::registry::ActorStatus;

impl SystemActor {
    /// Spawns a project's actor, for the first time or again.
    pub(super) async fn spawn(
        &self,
        me: &Mailbox<SystemMsg>,
        state: &mut SystemState,
        id: ProjectId,
    ) {
        let info = state.projects.info(&id);
        let actor = ProjectActor {
            context: Arc::clone(&self.context),
            info: Arc::clone(&info),
            id: id.clone(),
            path: report_path(me, &id),
        };
        match Actor::spawn_linked(None, actor, (), me.actor().get_cell()).await {
            Ok((actor, _)) => {
                state.by_actor.insert(actor.get_id(), id.clone());
                let mailbox = Mailbox::new(actor, info);
                self.projects.insert(id.clone(), mailbox.clone());
                state.projects.spawned(&self.context, id, mailbox);
            }
            Err(error) => {
                self.restore_later(me, state, id, RestartCause::Actor(&error.to_string()));
            }
        }
    }

    /// Sends to a project, and starts it if it does not run. Messages that take this path keep their order.
    pub(super) fn send(
        &self,
        me: &Mailbox<SystemMsg>,
        state: &mut SystemState,
        id: ProjectId,
        message: ProjectMsg,
    ) {
        if !state.projects.contains(&id) {
            self.load(me, id.clone());
        }
        // Projects do not hibernate, so none need be woken.
        let _ = state.projects.supervised(&id).send(message);
    }

    /// Reads in a spawned task whether a project exists, to start its actor.
    pub(super) fn load(&self, me: &Mailbox<SystemMsg>, id: ProjectId) {
        let (store, me) = (self.context.store.clone(), me.clone());
        tokio::spawn(async move {
            let exists = store
                .projects()
                .get(id.clone())
                .await
                .map(|project| project.is_some());
            let _ = me.cast(SystemMsg::ProjectLoaded { id, exists });
        });
    }

    /// Starts a project that exists. One that does not exist is forgotten, and the messages that waited for it are answered.
    pub(super) async fn loaded(
        &self,
        me: &Mailbox<SystemMsg>,
        state: &mut SystemState,
        id: ProjectId,
        exists: Result<bool, StoreError>,
    ) {
        match exists {
            Ok(true) => {
                self.spawn(me, state, id.clone()).await;
                // Reports may have been lost with the actor that failed, and tickets of those that wait.
                if state.projects.get(&id).is_some_and(Child::has_failed) {
                    for room in self.context.reports.renew_tickets(&id) {
                        self.send(me, state, id.clone(), ProjectMsg::Reports(room));
                    }
                    self.survey(me, state);
                }
            }
            Ok(false) => {
                log::debug!(project = id.as_str(); "reports about a project that does not exist were dropped");
                let waiting = state
                    .projects
                    .remove(&self.context, &id)
                    .map(Child::into_waiting);
                for message in waiting.into_iter().flatten() {
                    self.answer_as_unknown(&id, message);
                }
            }
            Err(error) => self.restore_later(me, state, id, RestartCause::Store(&error)),
        }
    }

    /// Answers on behalf of a project that does not exist. A caller of such a project gets no answer: no credential is its.
    fn answer_as_unknown(&self, project: &ProjectId, message: ProjectMsg) {
        match message {
            ProjectMsg::Reports(room) => {
                for waiting in self
                    .context
                    .reports
                    .take_all(&NamespacedRoom::new(project, &room))
                {
                    waiting.answers.send(Err(ReportError::UnknownRoom));
                }
            }
            ProjectMsg::FollowedReport { answer, .. } => {
                let _ = answer.send(Err(ReportError::UnknownRoom));
            }
            _ => {}
        }
    }

    pub(super) fn project_failed(
        &self,
        me: &Mailbox<SystemMsg>,
        state: &mut SystemState,
        actor: ActorId,
        reason: &str,
    ) {
        let Some(id) = state.by_actor.remove(&actor) else {
            return;
        };
        self.restore_later(me, state, id, RestartCause::Actor(reason));
    }

    /// Arms the timer that rebuilds a project which failed or could not start.
    fn restore_later(
        &self,
        me: &Mailbox<SystemMsg>,
        state: &mut SystemState,
        id: ProjectId,
        cause: RestartCause<'_>,
    ) {
        log::error!(project = id.as_str(); "a project failed and will be rebuilt: {cause}");
        self.projects.remove(&id);
        let child = state.projects.supervised(&id);
        let clock = &self.context.clock;
        let now = clock.now();
        let delay = child.record_failure(now, cause);
        self.context.registry.deregister_children(child.info());
        self.context
            .registry
            .register(child.info(), ActorStatus::Restarting);
        self.context.metrics.restarted(ActorKind::Project);
        child.retry_with(Timer::arm(
            clock,
            "restore",
            now.after(delay),
            me,
            SystemMsg::Restore(id),
        ));
    }
}

/// Returns the path of reports from the root to a project.
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
