//! A project's children of one kind, and what is the same for every kind: how one is spawned, fails, comes back, goes.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;

use ractor::{Actor, Message};

use super::{ChildKey, ProjectActor, ProjectMsg, ProjectState};
use crate::card::{Card, Inspectable, Kind, Mailbox};
use crate::child::Child;
use crate::timer::Timer;
use crate::wiring::Wiring;

/// Children of one kind, by what they are called.
pub(super) struct Family<K, M> {
    members: HashMap<K, Child<M>>,
    kind: Kind,
    /// What stands between the project's path and a child's name.
    folder: &'static str,
    key: fn(K) -> ChildKey,
    inspect: fn(Mailbox<M>) -> Inspectable,
}

impl<K: Clone + Eq + Hash + Display, M: Message> Family<K, M> {
    /// A family without members.
    pub fn new(
        kind: Kind,
        folder: &'static str,
        key: fn(K) -> ChildKey,
        inspect: fn(Mailbox<M>) -> Inspectable,
    ) -> Self {
        Self { members: HashMap::new(), kind, folder, key, inspect }
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

    /// Sends to a child of a family whose members do not rest. One that is not there misses it.
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

    /// The card of a child: the one it had, or a new one.
    pub fn card(&self, project: &ProjectActor, name: &K) -> Arc<Card> {
        self.get(name).map_or_else(
            || {
                let id = format!("{}/{}/{name}", project.id, self.folder);
                Card::new(id, self.kind, Some(Arc::clone(&project.path)), Some(project.id.clone()))
            },
            |child| Arc::clone(child.card()),
        )
    }

    /// Files a child that was spawned, for the first time or again.
    fn place(&mut self, wiring: &Wiring, name: K, mailbox: Mailbox<M>) {
        wiring.registry.list(mailbox.card(), Some((self.inspect)(mailbox.clone())));
        match self.members.get_mut(&name) {
            Some(child) => child.restored(mailbox),
            None => self.insert(name, Child::running(mailbox)),
        }
    }

    /// Notes that a child failed, or could not even start, and arms the timer that tries again.
    pub fn restore_later(&mut self, project: &ProjectActor, me: &Mailbox<ProjectMsg>, name: K, reason: &str) {
        let (clock, card) = (&project.wiring.clock, self.card(project, &name));
        let child = self.members.entry(name.clone()).or_insert_with(|| Child::unborn(card));
        let now = clock.now();
        let delay = child.failed(now, reason.to_owned());
        project.wiring.registry.list(child.card(), None);
        project.wiring.metrics.restarted(self.kind);
        let restore = ProjectMsg::Restore((self.key)(name));
        child.retry_with(Timer::arm(clock, "restore", now.after(delay), me, restore));
    }

    /// Takes a child away for good.
    pub fn strike(&mut self, project: &ProjectActor, name: &K) -> Option<Child<M>> {
        let child = self.members.remove(name)?;
        project.wiring.registry.strike(child.card());
        Some(child)
    }
}

/// Where a project keeps the family of one kind of actor.
pub(super) type FamilyOf<K, A> = fn(&mut ProjectState) -> &mut Family<K, <A as Actor>::Msg>;

impl ProjectActor {
    /// Spawns a child, for the first time or again. One that cannot even start must not take the project along: it is
    /// tried again later.
    pub(super) async fn spawn<K, A>(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        (family, name): (FamilyOf<K, A>, K),
        make: impl FnOnce(Arc<Wiring>, Arc<Card>) -> A,
        arguments: A::Arguments,
    ) where
        K: Clone + Eq + Hash + Display,
        A: Actor,
    {
        let card = family(state).card(self, &name);
        let actor = make(Arc::clone(&self.wiring), Arc::clone(&card));
        match Actor::spawn_linked(None, actor, arguments, me.actor().get_cell()).await {
            Ok((actor, _)) => {
                let key = (family(state).key)(name.clone());
                state.by_actor.insert(actor.get_id(), key);
                family(state).place(&self.wiring, name, Mailbox::new(actor, card));
            }
            Err(error) => {
                log::error!(actor = &*card.id; "could not be started: {error}");
                family(state).restore_later(self, me, name, &error.to_string());
            }
        }
    }
}
