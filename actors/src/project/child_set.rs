//! A project's children of one kind, and what is the same for every kind: how one is spawned, fails, comes back, goes.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;

use ractor::Actor;

use super::{ChildKey, ProjectActor, ProjectMsg, ProjectState};
use crate::child::Child;
use crate::context::ActorContext;
use crate::info::{ActorInfo, ActorKind};
use crate::inspection::InspectMessage;
use crate::mailbox::Mailbox;
use crate::registry::ActorStatus;
use crate::timer::Timer;

/// Children of one kind, by what they are called.
pub(super) struct ChildSet<K, M> {
    members: HashMap<K, Child<M>>,
    kind: ActorKind,
    /// What stands between the project's path and a child's name.
    folder: &'static str,
    key: fn(K) -> ChildKey,
}

impl<K: Clone + Eq + Hash + Display, M: InspectMessage> ChildSet<K, M> {
    /// A children without members.
    pub fn new(kind: ActorKind, folder: &'static str, key: fn(K) -> ChildKey) -> Self {
        Self { members: HashMap::new(), kind, folder, key }
    }

    /// How many there are, at rest and waiting to be restored included.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is one by that name.
    pub fn contains(&self, name: &K) -> bool {
        self.members.contains_key(name)
    }

    /// One, to look at.
    pub fn get(&self, name: &K) -> Option<&Child<M>> {
        self.members.get(name)
    }

    /// One, to send to.
    pub fn get_mut(&mut self, name: &K) -> Option<&mut Child<M>> {
        self.members.get_mut(name)
    }

    /// Files one that was not spawned.
    pub fn insert(&mut self, name: K, child: Child<M>) {
        self.members.insert(name, child);
    }

    /// Sends to a child of a children whose members do not rest. One that is not there misses it.
    pub fn send(&mut self, name: &K, message: M) {
        if let Some(child) = self.members.get_mut(name) {
            // Nobody rests, so there is nobody to wake.
            let _ = child.send(message);
        }
    }

    /// Those that run.
    pub fn running(&self) -> impl Iterator<Item = &Mailbox<M>> {
        self.members.values().filter_map(Child::mailbox)
    }

    /// The info of a child: the one it had, or a new one.
    pub fn info(&self, project: &ProjectActor, name: &K) -> Arc<ActorInfo> {
        self.get(name).map_or_else(
            || {
                let id = format!("{}/{}/{name}", project.id, self.folder);
                ActorInfo::new(id, self.kind, Some(Arc::clone(&project.path)), Some(project.id.clone()))
            },
            |child| Arc::clone(child.info()),
        )
    }

    /// Files a child that was spawned, for the first time or again.
    fn place(&mut self, context: &ActorContext, name: K, mailbox: Mailbox<M>) {
        context.registry.register(mailbox.info(), ActorStatus::Running(Arc::new(mailbox.clone())));
        match self.members.get_mut(&name) {
            Some(child) => child.restored(mailbox),
            None => self.insert(name, Child::running(mailbox)),
        }
    }

    /// Notes that a child failed, or could not even start, and arms the timer that tries again.
    pub fn restore_later(&mut self, project: &ProjectActor, me: &Mailbox<ProjectMsg>, name: K, reason: &str) {
        let (clock, info) = (&project.context.clock, self.info(project, &name));
        let child = self.members.entry(name.clone()).or_insert_with(|| Child::failed_to_start(info));
        let now = clock.now();
        let delay = child.failed(now, reason.to_owned());
        project.context.registry.register(child.info(), ActorStatus::Restarting);
        project.context.metrics.restarted(self.kind);
        let restore = ProjectMsg::Restore((self.key)(name));
        child.retry_with(Timer::arm(clock, "restore", now.after(delay), me, restore));
    }

    /// Takes a child away for good.
    pub fn remove(&mut self, project: &ProjectActor, name: &K) -> Option<Child<M>> {
        let child = self.members.remove(name)?;
        project.context.registry.deregister(child.info());
        Some(child)
    }
}

/// Where a project keeps the children of one kind of actor.
pub(super) type ChildSetOf<K, A> = fn(&mut ProjectState) -> &mut ChildSet<K, <A as Actor>::Msg>;

impl ProjectActor {
    /// Spawns a child, for the first time or again. One that cannot even start must not take the project along: it is
    /// tried again later.
    pub(super) async fn spawn<K, A>(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        (children, name): (ChildSetOf<K, A>, K),
        make: impl FnOnce(Arc<ActorContext>, Arc<ActorInfo>) -> A,
        arguments: A::Arguments,
    ) where
        K: Clone + Eq + Hash + Display,
        A: Actor<Msg: InspectMessage>,
    {
        let info = children(state).info(self, &name);
        let actor = make(Arc::clone(&self.context), Arc::clone(&info));
        match Actor::spawn_linked(None, actor, arguments, me.actor().get_cell()).await {
            Ok((actor, _)) => {
                let key = (children(state).key)(name.clone());
                state.by_actor.insert(actor.get_id(), key);
                children(state).place(&self.context, name, Mailbox::new(actor, info));
            }
            Err(error) => {
                log::error!(actor = &*info.id; "could not be started: {error}");
                children(state).restore_later(self, me, name, &error.to_string());
            }
        }
    }
}
