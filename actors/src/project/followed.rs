//! Children that follow something on the media plane until its status is final: recordings, broadcasts and ingress
//! endpoints. How they are created, sent to, loaded and forgotten is the same for all of them.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;

use conclave_db::{Store, StoreError};
use conclave_model::{ProjectId, RoomName};
use ractor::Actor;

use super::ProjectActor;
use super::message::{ChildKey, ProjectMsg};
use super::state::ProjectState;
use crate::children::{Child, ChildSet, RestartCause};
use crate::context::ActorContext;
use crate::info::ActorInfo;
use crate::mailbox::Mailbox;
use crate::registry::InspectMessage;

/// The messages of the actor that follows `F`.
pub(super) type MsgOf<F> = <<F as Followed>::Actor as Actor>::Msg;
/// The children that follow records of type `F`.
pub(super) type SetOf<F> = FollowedSet<<F as Followed>::Id, MsgOf<F>>;

/// The record of something that an actor follows until its status is final.
pub(super) trait Followed: Sized + Send + 'static {
    /// The name that the media plane gave it.
    type Id: Clone + Eq + Hash + Display + Send + Sync + 'static;
    /// The actor that follows it.
    type Actor: Actor<Msg: InspectMessage, Arguments = Self>;

    /// Returns the children that follow records of this type.
    fn set(state: &mut ProjectState) -> &mut SetOf<Self>;

    /// Returns the record's id.
    fn id(&self) -> &Self::Id;

    /// Returns the record's room.
    fn room(&self) -> &RoomName;

    /// Returns the child's name among all children.
    fn key(id: Self::Id) -> ChildKey;

    /// Returns an actor that has not been spawned.
    fn actor(project: &ProjectActor, id: Self::Id, info: Arc<ActorInfo>) -> Self::Actor;

    /// Reads the record; `None` if it is final or does not exist.
    fn load(
        store: Store,
        project: ProjectId,
        id: Self::Id,
    ) -> impl Future<Output = Result<Option<Self>, StoreError>> + Send;

    /// Returns the message that carries a record that was read.
    fn loaded(id: Self::Id, record: Result<Option<Self>, StoreError>) -> ProjectMsg;

    /// Returns the message that polls the media plane.
    fn poll() -> MsgOf<Self>;

    /// Returns the message that says that the room has ended.
    fn room_ended() -> MsgOf<Self>;

    /// Answers a message whose actor does not exist: the record is final, or was never written.
    fn answer_without_actor(project: &ProjectActor, id: Self::Id, message: MsgOf<Self>);

    /// Ends on the media plane, in a spawned task, what a final record may have left there. What has no record is left alone.
    fn clean_up(project: &ProjectActor, id: &Self::Id);
}

impl ProjectActor {
    /// Spawns a child, for the first time or again.
    pub(super) async fn follow<F: Followed>(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        record: F,
    ) {
        let (id, room) = (record.id().clone(), record.room().clone());
        let set = F::set(state);
        set.set_room(id.clone(), room);
        let info = set.children.info(&id);
        let actor = F::actor(self, id.clone(), Arc::clone(&info));
        let spawned = self
            .spawn(me, state, F::key(id.clone()), info, actor, record)
            .await;
        if let Some(mailbox) = spawned {
            F::set(state).children.spawned(&self.context, id, mailbox);
        }
    }

    /// Delivers the reports that waited for the end of a creation.
    pub(super) fn creation_ended<F: Followed>(&self, state: &mut ProjectState) {
        for (id, message) in F::set(state).pending.finish() {
            self.deliver_report::<F>(state, id, message);
        }
    }

    /// Passes a report on. One about an unknown child waits while one is being created.
    pub(super) fn deliver_report<F: Followed>(
        &self,
        state: &mut ProjectState,
        id: F::Id,
        message: MsgOf<F>,
    ) {
        if let Some((id, message)) = F::set(state).deliver(id, message) {
            F::answer_without_actor(self, id, message);
        }
    }

    /// Forwards a message to a child, or answers it from the record.
    pub(super) fn forward<F: Followed>(
        &self,
        state: &mut ProjectState,
        id: F::Id,
        message: MsgOf<F>,
    ) {
        let children = &mut F::set(state).children;
        if children.contains(&id) {
            children.send(&id, message);
        } else {
            F::answer_without_actor(self, id, message);
        }
    }

    /// Tells the children of a room that it has ended.
    pub(super) fn end_followed_of<F: Followed>(state: &mut ProjectState, room: &RoomName) {
        let set = F::set(state);
        for id in set.ids_of_room(room) {
            set.children.send(&id, F::room_ended());
        }
    }

    /// Forgets a child whose record is final, and answers the messages that waited for it.
    pub(super) fn forget<F: Followed>(&self, state: &mut ProjectState, id: &F::Id) {
        let Some(child) = F::set(state).remove(&self.context, id) else {
            return;
        };
        for message in child.into_waiting() {
            F::answer_without_actor(self, id.clone(), message);
        }
    }

    /// Reads a record in a spawned task, to rebuild its actor.
    pub(super) fn load<F: Followed>(&self, me: &Mailbox<ProjectMsg>, id: F::Id) {
        let (store, project, me) = (self.context.store.clone(), self.id.clone(), me.clone());
        tokio::spawn(async move {
            let record = F::load(store, project, id.clone()).await;
            let _ = me.cast(F::loaded(id, record));
        });
    }

    /// Rebuilds an actor from its record, and lets it poll: reports may have been lost with the actor before.
    pub(super) async fn loaded<F: Followed>(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        id: F::Id,
        record: Result<Option<F>, StoreError>,
    ) {
        match record {
            Ok(Some(record)) => {
                let is_running = F::set(state)
                    .children
                    .get(&id)
                    .is_some_and(|child| child.mailbox().is_some());
                if !is_running {
                    self.follow(me, state, record).await;
                    F::set(state).children.send(&id, F::poll());
                }
            }
            Ok(None) => {
                F::clean_up(self, &id);
                self.forget::<F>(state, &id);
            }
            // Only a backup helps. What was asked is answered from the record, which fails, too.
            Err(error @ StoreError::Damaged(_)) => {
                log::error!(project = self.id.as_str(); "the record of {:?} cannot be read: {error}", F::key(id.clone()));
                self.forget::<F>(state, &id);
            }
            Err(error) => self.restore_later(me, state, F::key(id), RestartCause::Store(&error)),
        }
    }
}

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

/// The children of one kind that are being created.
pub(super) struct PendingSpawns<K, M> {
    expected: usize,
    held: Vec<(K, M)>,
}

impl<K, M> Default for PendingSpawns<K, M> {
    fn default() -> Self {
        Self {
            expected: 0,
            held: Vec::new(),
        }
    }
}

impl<K, M> PendingSpawns<K, M> {
    /// Returns the number of children that are being created.
    pub fn len(&self) -> usize {
        self.expected
    }

    /// Counts a child that is being created. The media plane has not named it yet.
    pub fn expect(&mut self) {
        self.expected += 1;
    }

    /// Holds a message to an unknown child while any child is being created; gives it back otherwise.
    pub fn hold(&mut self, name: K, message: M) -> Option<(K, M)> {
        if self.expected == 0 {
            return Some((name, message));
        }
        self.held.push((name, message));
        None
    }

    /// Counts a child whose creation has ended. Returns the held messages, which may know their child now.
    pub fn finish(&mut self) -> Vec<(K, M)> {
        self.expected -= 1;
        std::mem::take(&mut self.held)
    }
}
