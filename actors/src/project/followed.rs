//! Children that follow an object on the media plane until its status is final: recordings, broadcasts and ingress endpoints. All of them
//! are created, loaded and forgotten in the same way.
//!
//! A creation runs in a spawned task. The media plane starts the object before its record is written, because the media plane names it.
//! Reports about an unknown object are buffered while anything is being created ([`Creations`]).

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;

use conclave_db::{Store, StoreError};
use conclave_model::{ProjectId, RoomName};
use ractor::Actor;

use super::context::ProjectContext;
use super::message::{ChildKey, ProjectMsg};
use crate::children::{ChildSet, RestartCause};
use crate::info::{ActorInfo, ActorKind};
use crate::registry::InspectMessage;

/// Messages of the actor that follows `F`.
pub(super) type MsgOf<F> = <<F as Followed>::Actor as Actor>::Msg;

/// Record of an object that an actor follows until its status is final.
pub(super) trait Followed: Sized + Send + 'static {
    /// Name given by the media plane.
    type Id: Clone + Eq + Hash + Display + Into<ChildKey> + Send + Sync + 'static;
    /// Actor that follows the object.
    type Actor: Actor<Msg: InspectMessage, Arguments = Self>;

    /// Returns the record's id.
    fn id(&self) -> &Self::Id;

    /// Returns the record's room.
    fn room(&self) -> &RoomName;

    /// Creates an actor that has not been spawned.
    fn actor(project: &ProjectContext, id: Self::Id, info: Arc<ActorInfo>) -> Self::Actor;

    /// Reads the record; `None` if it is final or does not exist.
    fn load(
        store: Store,
        project: ProjectId,
        id: Self::Id,
    ) -> impl Future<Output = Result<Option<Self>, StoreError>> + Send;

    /// Returns the message that carries a loaded record.
    fn loaded(id: Self::Id, record: Result<Option<Self>, StoreError>) -> ProjectMsg;

    /// Returns the message that polls the media plane.
    fn poll() -> MsgOf<Self>;

    /// Returns the message about the end of the room.
    fn room_ended() -> MsgOf<Self>;

    /// Replies to a message whose actor does not exist: the record is final, or was never written.
    fn reply_without_actor(project: &ProjectContext, id: Self::Id, message: MsgOf<Self>);

    /// Ends an object that a final record may have left on the media plane, in a spawned task. Objects without a record are left alone.
    fn clean_up(project: &ProjectContext, id: &Self::Id);
}

/// Children that follow records of one type, with their rooms, and those being created.
pub(super) struct FollowedSet<F: Followed> {
    children: ChildSet<F::Id, MsgOf<F>>,
    creations: Creations<F::Id, MsgOf<F>>,
    rooms: HashMap<F::Id, RoomName>,
}

impl<F: Followed> FollowedSet<F> {
    /// Creates a set without children, whose paths have this folder.
    pub fn new(project: &ProjectContext, kind: ActorKind, folder: &'static str) -> Self {
        Self {
            children: project.children(kind, folder),
            creations: Creations::default(),
            rooms: HashMap::new(),
        }
    }

    /// Counts the children.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// Returns whether there is a child with this id.
    pub fn contains(&self, id: &F::Id) -> bool {
        self.children.contains(id)
    }

    /// Returns the room of a child.
    pub fn room(&self, id: &F::Id) -> Option<&RoomName> {
        self.rooms.get(id)
    }

    /// Counts the running creations, which have no record yet.
    pub fn pending(&self) -> usize {
        self.creations.running
    }

    /// Counts a creation that starts.
    pub fn begin_creation(&mut self) {
        self.creations.begin();
    }

    /// Counts a finished creation, and delivers the reports that were buffered for it.
    pub fn end_creation(&mut self, project: &ProjectContext) {
        for (id, message) in self.creations.end() {
            self.deliver_report(project, id, message);
        }
    }

    /// Spawns a child, for the first time or again.
    pub async fn follow(&mut self, project: &mut ProjectContext, record: F) {
        let id = record.id().clone();
        // Kept beside the child, so that the end of the room reaches a child without a process, too.
        self.rooms.insert(id.clone(), record.room().clone());
        let info = self.children.info(&id);
        let actor = F::actor(project, id.clone(), Arc::clone(&info));
        project
            .spawn(&mut self.children, id, info, actor, record)
            .await;
    }

    /// Delivers a report. If the child is unknown and a creation is running, the report is buffered.
    pub fn deliver_report(&mut self, project: &ProjectContext, id: F::Id, message: MsgOf<F>) {
        if self.children.contains(&id) {
            self.children.send(&id, message);
        } else if let Some((id, message)) = self.creations.buffer(id, message) {
            F::reply_without_actor(project, id, message);
        }
    }

    /// Forwards a message to a child, or replies from the record.
    pub fn forward(&mut self, project: &ProjectContext, id: F::Id, message: MsgOf<F>) {
        if self.children.contains(&id) {
            self.children.send(&id, message);
        } else {
            F::reply_without_actor(project, id, message);
        }
    }

    /// Sends to a child, if it exists.
    pub fn send(&mut self, id: &F::Id, message: MsgOf<F>) {
        self.children.send(id, message);
    }

    /// Makes every running child poll the media plane.
    pub fn poll(&self) {
        // An actor that stops at this moment is rebuilt from its record, and polls then.
        self.children
            .running()
            .for_each(|child| drop(child.cast(F::poll())));
    }

    /// Notifies the children of a room that has ended.
    pub fn end_room(&mut self, room: &RoomName) {
        for (id, _) in self.rooms.iter().filter(|(_, of)| *of == room) {
            self.children.send(id, F::room_ended());
        }
    }

    /// Removes a child whose record is final, and replies to the messages buffered for it.
    pub fn forget(&mut self, project: &ProjectContext, id: &F::Id) {
        self.rooms.remove(id);
        // A stray that was cleaned up never had a child.
        let Some(child) = self.children.remove(&project.shared, id) else {
            return;
        };
        for message in child.into_waiting() {
            F::reply_without_actor(project, id.clone(), message);
        }
    }

    /// Reads a record in a spawned task, to rebuild its actor.
    pub fn load(project: &ProjectContext, id: F::Id) {
        let store = project.shared.store.clone();
        let (of, me) = (project.id.clone(), project.me.clone());
        tokio::spawn(async move {
            let record = F::load(store, of, id.clone()).await;
            let _ = me.cast(F::loaded(id, record));
        });
    }

    /// Reads the records of live objects without an actor. A final one is cleaned up, another one gets its actor.
    pub fn load_strays(&self, project: &ProjectContext, live: impl Iterator<Item = F::Id>) {
        // An object that is being created has no record yet.
        if self.pending() == 0 {
            live.filter(|id| !self.children.contains(id))
                .for_each(|id| Self::load(project, id));
        }
    }

    /// Rebuilds an actor from its record, and makes it poll, since reports may have been lost with its predecessor.
    pub async fn loaded(
        &mut self,
        project: &mut ProjectContext,
        id: F::Id,
        record: Result<Option<F>, StoreError>,
    ) {
        match record {
            Ok(Some(record)) => {
                // The record may have been loaded twice, for a restart and by reconciliation.
                let is_running = self
                    .children
                    .get(&id)
                    .is_some_and(|child| child.mailbox().is_some());
                if !is_running {
                    self.follow(project, record).await;
                    // After the messages that were buffered, whose callers wait.
                    self.children.send(&id, F::poll());
                }
            }
            Ok(None) => {
                F::clean_up(project, &id);
                self.forget(project, &id);
            }
            // Only a backup helps. Buffered requests are answered from the record, which fails as well.
            Err(error @ StoreError::Damaged(_)) => {
                let child: ChildKey = id.clone().into();
                log::error!(project = project.id.as_str(); "the record of {child:?} cannot be read: {error}");
                self.forget(project, &id);
            }
            Err(error) => {
                project.restore_later(&mut self.children, &id, RestartCause::Store(&error));
            }
        }
    }

    /// Schedules a failed child to be rebuilt.
    pub fn failed(&mut self, project: &ProjectContext, id: &F::Id, reason: &str) {
        project.restore_later(&mut self.children, id, RestartCause::Actor(reason));
    }
}

/// Children of one kind that are being created in spawned tasks, and the buffered reports about unknown ones.
struct Creations<K, M> {
    running: usize,
    buffered: Vec<(K, M)>,
}

impl<K, M> Default for Creations<K, M> {
    fn default() -> Self {
        Self {
            running: 0,
            buffered: Vec::new(),
        }
    }
}

impl<K, M> Creations<K, M> {
    /// Counts a creation that starts. The media plane has not named the object yet.
    fn begin(&mut self) {
        self.running += 1;
    }

    /// Buffers a message to an unknown child while any creation is running; returns it otherwise.
    fn buffer(&mut self, name: K, message: M) -> Option<(K, M)> {
        if self.running == 0 {
            return Some((name, message));
        }
        self.buffered.push((name, message));
        None
    }

    /// Counts a finished creation. Returns the buffered messages, whose child may be known now.
    fn end(&mut self) -> Vec<(K, M)> {
        // All of them, although other creations may run: messages for those are buffered again.
        self.running -= 1;
        std::mem::take(&mut self.buffered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_to_an_unknown_child_is_held_until_a_creation_has_ended() {
        let mut creations = Creations::default();
        assert_eq!(creations.buffer("EG_1", 1), Some(("EG_1", 1)));
        creations.begin();
        creations.begin();
        assert_eq!(creations.buffer("EG_1", 1), None);
        assert_eq!(creations.buffer("EG_2", 2), None);
        assert_eq!(creations.end(), [("EG_1", 1), ("EG_2", 2)]);
        assert_eq!(
            creations.buffer("EG_2", 2),
            None,
            "the other creation may be its own"
        );
        assert_eq!(creations.end(), [("EG_2", 2)]);
        assert_eq!(creations.buffer("EG_2", 2), Some(("EG_2", 2)));
    }
}
