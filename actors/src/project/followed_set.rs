//! The children that follow records of one type, with their rooms and those that are being created.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;

use conclave_model::RoomName;

use super::pending::PendingSpawns;
use crate::child::Child;
use crate::child_set::ChildSet;
use crate::context::ActorContext;
use crate::inspection::InspectMessage;

/// The children that follow records of one type.
pub(super) struct FollowedSet<K, M> {
    pub children: ChildSet<K, M>,
    pub pending: PendingSpawns<K, M>,
    rooms: HashMap<K, RoomName>,
}

impl<K: Clone + Eq + Hash + Display, M: InspectMessage> FollowedSet<K, M> {
    /// Returns a set without pending spawns.
    pub fn new(children: ChildSet<K, M>) -> Self {
        Self {
            children,
            pending: PendingSpawns::default(),
            rooms: HashMap::new(),
        }
    }

    /// Returns the room of a child.
    pub fn room(&self, id: &K) -> Option<&RoomName> {
        self.rooms.get(id)
    }

    /// Sets the room of a child.
    pub fn set_room(&mut self, id: K, room: RoomName) {
        self.rooms.insert(id, room);
    }

    /// Returns the children of a room.
    pub fn ids_of_room(&self, room: &RoomName) -> Vec<K> {
        self.rooms
            .iter()
            .filter(|(_, of)| *of == room)
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Removes a child that has stopped for good.
    pub fn remove(&mut self, context: &ActorContext, id: &K) -> Option<Child<M>> {
        self.rooms.remove(id);
        self.children.remove(context, id)
    }

    /// Sends to a child. A message to an unknown child waits while one is being created; otherwise it is given back.
    pub fn deliver(&mut self, id: K, message: M) -> Option<(K, M)> {
        if !self.children.contains(&id) {
            return self.pending.hold(id, message);
        }
        self.children.send(&id, message);
        None
    }
}
