//! A project's shared parts: the services of all actors, the project's mailbox, and the child of each process.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;

use conclave_model::ProjectId;
use ractor::{Actor, ActorId, ActorRef};

use super::ProjectActor;
use super::message::{ChildKey, ProjectMsg};
use crate::children::{ChildSet, RestartCause};
use crate::context::ActorContext;
use crate::info::{ActorInfo, ActorKind};
use crate::mailbox::{Mailbox, ReportPath};
use crate::registry::InspectMessage;

/// A project's shared parts.
pub(super) struct ProjectContext {
    /// Services and settings for all actors.
    pub shared: Arc<ActorContext>,
    /// The project's own mailbox.
    pub me: Mailbox<ProjectMsg>,
    /// Project id.
    pub id: ProjectId,
    /// Report path to the project.
    pub path: ReportPath<ProjectMsg>,
    by_actor: HashMap<ActorId, ChildKey>,
}

impl ProjectContext {
    pub fn new(actor: &ProjectActor, me: ActorRef<ProjectMsg>) -> Self {
        Self {
            shared: Arc::clone(&actor.context),
            me: Mailbox::new(me, Arc::clone(&actor.info)),
            id: actor.id.clone(),
            path: actor.path.clone(),
            by_actor: HashMap::new(),
        }
    }

    /// Creates an empty set of children with paths `{project}/{folder}/{name}`.
    pub fn children<K: Clone + Eq + Hash + Display, M: InspectMessage>(
        &self,
        kind: ActorKind,
        folder: &'static str,
    ) -> ChildSet<K, M> {
        let (project, parent) = (self.id.clone(), Arc::clone(&self.me.info().id));
        ChildSet::new(move |name| {
            // The registry orders by path, so a project's actors are adjacent.
            let id = format!("{project}/{folder}/{name}");
            ActorInfo::new(id, kind, Some(Arc::clone(&parent)), Some(project.clone()))
        })
    }

    /// Spawns a child's process, for the first time or again. A child that cannot start is tried again later, and must not take the project
    /// down.
    pub async fn spawn<K, A>(
        &mut self,
        set: &mut ChildSet<K, A::Msg>,
        name: K,
        info: Arc<ActorInfo>,
        actor: A,
        arguments: A::Arguments,
    ) where
        K: Clone + Eq + Hash + Display + Into<ChildKey>,
        A: Actor<Msg: InspectMessage>,
    {
        // Linked, so that the project is notified of its end, and takes it along.
        match Actor::spawn_linked(None, actor, arguments, self.me.actor().get_cell()).await {
            Ok((actor, _)) => {
                // Notifications name processes, and a rebuilt child has another process.
                self.by_actor.insert(actor.get_id(), name.clone().into());
                set.spawned(&self.shared, name, Mailbox::new(actor, info));
            }
            Err(error) => {
                log::error!(actor = &*info.id; "could not be started: {error}");
                self.restore_later(set, &name, RestartCause::Actor(&error.to_string()));
            }
        }
    }

    /// Arms the timer that rebuilds a child which failed or could not start.
    pub fn restore_later<K, M>(&self, set: &mut ChildSet<K, M>, name: &K, cause: RestartCause<'_>)
    where
        K: Clone + Eq + Hash + Display + Into<ChildKey>,
        M: InspectMessage,
    {
        let restore = ProjectMsg::Restore(name.clone().into());
        set.restore_later(&self.shared, name, cause, &self.me, restore);
    }

    /// Returns the child of a process that has ended.
    pub fn take_child(&mut self, process: ActorId) -> Option<ChildKey> {
        self.by_actor.remove(&process)
    }
}
