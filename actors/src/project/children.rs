//! A project's children: how they come to be, fail, come back and go.

use std::sync::Arc;

use conclave_db::{RoomSnapshot, StoreError};
use conclave_model::{EndpointId, RoomName};
use ractor::actor::messages::BoxedState;
use ractor::{Actor, ActorId, ActorProcessingErr};

use super::{ChildKey, ProjectActor, ProjectMsg, ProjectState};
use crate::card::{Card, Inspectable, Kind, Mailbox};
use crate::child::Child;
use crate::room::{RoomActor, RoomMsg};
use crate::timer::Timer;
use crate::webhook_endpoint::{EndpointActor, EndpointMsg};

impl ProjectActor {
    /// Takes up everything that lives, and holds it against the media plane at once: nobody reported while we were away.
    pub(super) async fn populate(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
    ) -> Result<(), ActorProcessingErr> {
        for snapshot in self.wiring.store.open_rooms(self.id.clone()).await? {
            // Nobody inside: it rests. A deadline that has passed wakes it at once.
            let idle = snapshot.people.is_empty() && self.lay_to_rest(me, state, &snapshot.room, None);
            if !idle {
                self.spawn_room(me, state, snapshot).await;
            }
        }
        for endpoint in self.wiring.store.active_endpoints(self.id.clone()).await? {
            self.spawn_endpoint(me, state, endpoint).await;
        }
        self.reconcile(me, state);
        Ok(())
    }

    pub(super) fn arm_reconcile(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState) {
        let at = self.wiring.clock.now().after(self.wiring.settings.reconcile);
        let timer = Timer::arm(&self.wiring.clock, "reconcile", at, me, ProjectMsg::Reconcile);
        state.reconcile = Some(timer);
    }

    /// The card of a child: the one it had, or a new one.
    pub(super) fn card_of<M: ractor::Message>(&self, known: Option<&Child<M>>, kind: Kind, tail: &str) -> Arc<Card> {
        known.map_or_else(
            || {
                let id = format!("{}/{tail}", self.id);
                Card::new(id, kind, Some(Arc::clone(&self.path)), Some(self.id.clone()))
            },
            |child| Arc::clone(child.card()),
        )
    }

    /// Spawns a room's actor, for the first time or again.
    pub(super) async fn spawn_room(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState, snapshot: RoomSnapshot) {
        let name = snapshot.room.name.clone();
        let card = self.card_of(state.rooms.get(&name), Kind::Room, &format!("room/{name}"));
        let actor = RoomActor { wiring: Arc::clone(&self.wiring), card: Arc::clone(&card) };
        match Actor::spawn_linked(None, actor, snapshot, me.actor().get_cell()).await {
            Ok((actor, _)) => {
                state.by_actor.insert(actor.get_id(), ChildKey::Room(name.clone()));
                let mailbox: Mailbox<RoomMsg> = Mailbox::new(actor, card);
                self.wiring.registry.list(mailbox.card(), Some(Inspectable::Room(mailbox.clone())));
                place(&mut state.rooms, name, mailbox);
            }
            Err(error) => self.spawn_failed(me, state, ChildKey::Room(name), &error.to_string()),
        }
    }

    async fn spawn_endpoint(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState, id: EndpointId) {
        let card = self.card_of(state.endpoints.get(&id), Kind::WebhookEndpoint, &format!("webhook/{id}"));
        let actor = EndpointActor { wiring: Arc::clone(&self.wiring), card: Arc::clone(&card), id };
        match Actor::spawn_linked(None, actor, (), me.actor().get_cell()).await {
            Ok((actor, _)) => {
                state.by_actor.insert(actor.get_id(), ChildKey::Endpoint(id));
                let mailbox: Mailbox<EndpointMsg> = Mailbox::new(actor, card);
                self.wiring.registry.list(mailbox.card(), Some(Inspectable::WebhookEndpoint(mailbox.clone())));
                place(&mut state.endpoints, id, mailbox);
            }
            Err(error) => self.spawn_failed(me, state, ChildKey::Endpoint(id), &error.to_string()),
        }
    }

    /// A child that could not even start must not take the project along: it is tried again later.
    fn spawn_failed(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState, key: ChildKey, reason: &str) {
        log::error!(project = self.id.as_str(); "{key:?} could not be started: {reason}");
        self.schedule_restore(me, state, key, reason);
    }

    /// Tells endpoints that something is queued. One that has no actor yet gets it now, and looks by itself.
    pub(super) async fn wake_endpoints(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        endpoints: Vec<EndpointId>,
    ) {
        for id in endpoints {
            match state.endpoints.get_mut(&id) {
                // Endpoints do not rest, so there is nobody to wake.
                Some(endpoint) => {
                    let _ = endpoint.send(EndpointMsg::Queued);
                }
                None => self.spawn_endpoint(me, state, id).await,
            }
        }
    }

    /// Stops the actor of a deleted endpoint.
    pub(super) fn drop_endpoint(&self, state: &mut ProjectState, id: EndpointId) {
        let Some(endpoint) = state.endpoints.remove(&id) else { return };
        self.wiring.registry.strike(endpoint.card());
        if let Some(mailbox) = endpoint.mailbox() {
            mailbox.actor().stop(Some("deleted".into()));
        }
    }

    /// A child stopped by itself: its subject is final, or a room rests.
    pub(super) async fn child_stopped(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        actor: ActorId,
        last_state: Option<BoxedState>,
    ) {
        match state.by_actor.remove(&actor) {
            Some(ChildKey::Room(name)) => self.room_stopped(me, state, name, last_state).await,
            Some(ChildKey::Endpoint(id)) => self.drop_endpoint(state, id),
            None => {}
        }
    }

    /// Strikes a room that has ended from the children. Whoever came too late is told that it has ended.
    pub(super) fn forget_room(&self, state: &mut ProjectState, name: &RoomName) {
        let Some(child) = state.rooms.remove(name) else { return };
        self.wiring.registry.strike(child.card());
        child.into_waiting().into_iter().for_each(RoomMsg::answer_as_ended);
    }

    /// A child failed: it is rebuilt from the database after a delay that grows. Its siblings do not notice.
    pub(super) fn child_failed(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        actor: ActorId,
        reason: String,
    ) {
        let Some(key) = state.by_actor.remove(&actor) else { return };
        log::error!(project = self.id.as_str(); "{key:?} failed and will be restored: {reason}");
        self.schedule_restore(me, state, key, &reason);
    }

    fn schedule_restore(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState, key: ChildKey, reason: &str) {
        let clock = &self.wiring.clock;
        let now = clock.now();
        let arm = |delay| Timer::arm(clock, "restore", now.after(delay), me, ProjectMsg::Restore(key.clone()));
        match &key {
            ChildKey::Room(name) => {
                let card = self.card_of(state.rooms.get(name), Kind::Room, &format!("room/{name}"));
                let child = state.rooms.entry(name.clone()).or_insert_with(|| Child::unborn(card));
                let delay = child.failed(now, reason.to_owned());
                self.wiring.registry.list(child.card(), None);
                child.retry_with(arm(delay));
            }
            ChildKey::Endpoint(id) => {
                let card = self.card_of(state.endpoints.get(id), Kind::WebhookEndpoint, &format!("webhook/{id}"));
                let child = state.endpoints.entry(*id).or_insert_with(|| Child::unborn(card));
                let delay = child.failed(now, reason.to_owned());
                self.wiring.registry.list(child.card(), None);
                child.retry_with(arm(delay));
            }
        }
    }

    /// The wait is over. An endpoint reads its own queue; a room's records are read first, beside the actor.
    pub(super) async fn restore(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState, key: ChildKey) {
        match key {
            ChildKey::Endpoint(id) if state.endpoints.contains_key(&id) => {
                self.spawn_endpoint(me, state, id).await;
            }
            ChildKey::Endpoint(_) => {}
            ChildKey::Room(name) => self.take_up_again(me, name),
        }
    }

    /// Reads a room's records, to rebuild its actor from.
    pub(super) fn take_up_again(&self, me: &Mailbox<ProjectMsg>, name: RoomName) {
        let (store, project, me) = (self.wiring.store.clone(), self.id.clone(), me.clone());
        tokio::spawn(async move {
            let snapshot = Box::new(store.open_room(project, name.clone()).await);
            let _ = me.cast(ProjectMsg::Found { name, snapshot });
        });
    }

    /// The records of a room that failed, or was woken, are here.
    pub(super) async fn found(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        name: &RoomName,
        snapshot: Result<Option<RoomSnapshot>, StoreError>,
    ) {
        match snapshot {
            Ok(Some(snapshot)) => {
                self.spawn_room(me, state, snapshot).await;
                // Reports may have been lost with the actor.
                if state.rooms.get(name).is_some_and(Child::has_failed) {
                    self.send_to_room(me, state, name, RoomMsg::Reconcile);
                }
            }
            Ok(None) => self.forget_room(state, name),
            Err(error) => {
                self.spawn_failed(me, state, ChildKey::Room(name.clone()), &error.to_string());
            }
        }
    }
}

/// Files a spawned child: a new one, or one that is back.
fn place<K: std::hash::Hash + Eq, M: ractor::Message>(
    children: &mut std::collections::HashMap<K, Child<M>>,
    key: K,
    mailbox: Mailbox<M>,
) {
    match children.get_mut(&key) {
        Some(child) => child.restored(mailbox),
        None => {
            children.insert(key, Child::running(mailbox));
        }
    }
}
