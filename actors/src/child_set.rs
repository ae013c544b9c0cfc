//! The children of one kind.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;

use crate::child::{Child, Supervised};
use crate::context::ActorContext;
use crate::info::ActorInfo;
use crate::inspection::InspectMessage;
use crate::mailbox::Mailbox;
use crate::registry::ActorStatus;

/// The children of one kind by name.
pub struct ChildSet<K, M> {
    children: HashMap<K, Child<M>>,
    new_info: NewInfo<K>,
}

/// Makes the info of a child that has none yet.
type NewInfo<K> = Box<dyn Fn(&K) -> Arc<ActorInfo> + Send>;

impl<K: Clone + Eq + Hash + Display, M: InspectMessage> ChildSet<K, M> {
    /// Returns an empty set, whose children get their infos from `new_info`.
    pub fn new(new_info: impl Fn(&K) -> Arc<ActorInfo> + Send + 'static) -> Self {
        Self {
            children: HashMap::new(),
            new_info: Box::new(new_info),
        }
    }

    /// Returns the number of children, whether or not they have a process.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// Whether there is a child with this name.
    pub fn contains(&self, name: &K) -> bool {
        self.children.contains_key(name)
    }

    /// Returns a child.
    pub fn get(&self, name: &K) -> Option<&Child<M>> {
        self.children.get(name)
    }

    /// Returns a child.
    pub fn get_mut(&mut self, name: &K) -> Option<&mut Child<M>> {
        self.children.get_mut(name)
    }

    /// Returns a child for its restart; a new one that failed to start if there is none.
    pub fn supervised(&mut self, name: &K) -> &mut Child<M> {
        let Self { children, new_info } = self;
        children
            .entry(name.clone())
            .or_insert_with_key(|name| Child::failed_to_start(new_info(name)))
    }

    /// Adds a child without a process.
    pub fn insert(&mut self, name: K, child: Child<M>) {
        self.children.insert(name, child);
    }

    /// Sends to a child that never hibernates. A message to a child that does not exist is dropped.
    pub fn send(&mut self, name: &K, message: M) {
        if let Some(child) = self.children.get_mut(name) {
            // No child of this kind hibernates, so none need be woken.
            let _ = child.send(message);
        }
    }

    /// Sends to all children, none of which hibernates.
    pub fn send_all(&mut self, message: impl Fn() -> M) {
        for child in self.children.values_mut() {
            let _ = child.send(message());
        }
    }

    /// Returns the mailboxes of the running children.
    pub fn running(&self) -> impl Iterator<Item = &Mailbox<M>> {
        self.children.values().filter_map(Child::mailbox)
    }

    /// Returns the info of a child, or a new one if there is no such child.
    pub fn info(&self, name: &K) -> Arc<ActorInfo> {
        self.get(name)
            .map_or_else(|| (self.new_info)(name), |child| Arc::clone(child.info()))
    }

    /// Adds a child that was spawned, for the first time or again.
    pub fn spawned(&mut self, context: &ActorContext, name: K, mailbox: Mailbox<M>) {
        context.registry.register(
            mailbox.info(),
            ActorStatus::Running(Arc::new(mailbox.clone())),
        );
        match self.children.get_mut(&name) {
            Some(child) => child.restored(mailbox),
            None => self.insert(name, Child::running(mailbox)),
        }
    }

    /// Removes a child that has stopped for good.
    pub fn remove(&mut self, context: &ActorContext, name: &K) -> Option<Child<M>> {
        let child = self.children.remove(name)?;
        context.registry.deregister(child.info());
        Some(child)
    }
}
