//! A project's children: how they come to be, fail, come back and go.

use conclave_db::{RoomSnapshot, StoreError};
use conclave_model::{EndpointId, RoomName};
use ractor::actor::messages::BoxedState;
use ractor::{ActorId, ActorProcessingErr};

use super::child_set::ChildSetOf;
use super::{ChildKey, ProjectActor, ProjectMsg, ProjectState};
use crate::child::Child;
use crate::mailbox::Mailbox;
use crate::room::{RoomActor, RoomMsg};
use crate::webhook_endpoint::{WebhookEndpointActor, WebhookEndpointMsg};

impl ProjectActor {
    /// Takes up everything that lives, and holds it against the media plane at once: nobody reported while we were away.
    pub(super) async fn populate(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
    ) -> Result<(), ActorProcessingErr> {
        for snapshot in self.context.store.open_rooms(self.id.clone()).await? {
            // Nobody inside: it rests. A deadline that has passed wakes it at once.
            let idle = snapshot.participants.is_empty() && self.hibernate(me, state, &snapshot.room, None);
            if !idle {
                self.spawn_room(me, state, snapshot).await;
            }
        }
        for running in self.context.store.running_egresses(self.id.clone()).await? {
            self.spawn_job(me, state, running).await;
        }
        for ingress in self.context.store.live_ingresses(self.id.clone()).await? {
            self.spawn_ingress(me, state, ingress).await;
        }
        for endpoint in self.context.store.active_webhook_endpoint_ids(self.id.clone()).await? {
            self.spawn_endpoint(me, state, endpoint).await;
        }
        self.reconcile(me, state);
        Ok(())
    }

    /// Spawns a room's actor, for the first time or again.
    pub(super) async fn spawn_room(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState, snapshot: RoomSnapshot) {
        let children: ChildSetOf<RoomName, RoomActor> = |state| &mut state.rooms;
        let (name, system) = (snapshot.room.name.clone(), self.system.clone());
        let make = |context, info| RoomActor { context, info, system };
        self.spawn(me, state, (children, name), make, snapshot).await;
    }

    async fn spawn_endpoint(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState, id: EndpointId) {
        let children: ChildSetOf<EndpointId, WebhookEndpointActor> = |state| &mut state.endpoints;
        self.spawn(me, state, (children, id), |context, info| WebhookEndpointActor { context, info, id }, ()).await;
    }

    /// Tells endpoints that something is queued. One that has no actor yet gets it now, and looks by itself.
    pub(super) async fn wake_endpoints(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        endpoints: Vec<EndpointId>,
    ) {
        for id in endpoints {
            if state.endpoints.contains(&id) {
                state.endpoints.send(&id, WebhookEndpointMsg::Queued);
            } else {
                self.spawn_endpoint(me, state, id).await;
            }
        }
    }

    /// Stops the actor of a deleted endpoint.
    pub(super) fn drop_endpoint(&self, state: &mut ProjectState, id: EndpointId) {
        let endpoint = state.endpoints.remove(self, &id);
        if let Some(mailbox) = endpoint.as_ref().and_then(Child::mailbox) {
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
            Some(ChildKey::Job(id)) => self.forget_job(state, &id),
            Some(ChildKey::Ingress(id)) => self.forget_ingress(state, &id),
            Some(ChildKey::Endpoint(id)) => self.drop_endpoint(state, id),
            None => {}
        }
    }

    /// Strikes a room that has ended from the children. Whoever came too late is told that it has ended.
    pub(super) fn forget_room(&self, state: &mut ProjectState, name: &RoomName) {
        self.end_jobs_of(state, name);
        self.end_ingresses_of(state, name);
        let Some(child) = state.rooms.remove(self, name) else { return };
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
        match key {
            ChildKey::Room(name) => state.rooms.restore_later(self, me, name, &reason),
            ChildKey::Job(id) => state.jobs.restore_later(self, me, id, &reason),
            ChildKey::Ingress(id) => state.ingresses.restore_later(self, me, id, &reason),
            ChildKey::Endpoint(id) => state.endpoints.restore_later(self, me, id, &reason),
        }
    }

    /// The wait is over. An endpoint reads its own queue; the records of a room or a job are read first,
    /// beside the actor.
    pub(super) async fn restore(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState, key: ChildKey) {
        match key {
            ChildKey::Endpoint(id) if state.endpoints.contains(&id) => {
                self.spawn_endpoint(me, state, id).await;
            }
            ChildKey::Endpoint(_) => {}
            ChildKey::Room(name) => self.take_up_again(me, name),
            ChildKey::Job(id) => self.take_up_job_again(me, id),
            ChildKey::Ingress(id) => self.take_up_ingress_again(me, id),
        }
    }

    /// Reads a room's records, to rebuild its actor from.
    pub(super) fn take_up_again(&self, me: &Mailbox<ProjectMsg>, name: RoomName) {
        let (store, project, me) = (self.context.store.clone(), self.id.clone(), me.clone());
        tokio::spawn(async move {
            let snapshot = Box::new(store.open_room(project, name.clone()).await);
            let _ = me.cast(ProjectMsg::RoomLoaded { name, snapshot });
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
                log::error!(project = self.id.as_str(), room = name.as_str(); "a room's records could not be read: {error}");
                state.rooms.restore_later(self, me, name.clone(), &error.to_string());
            }
        }
    }
}
