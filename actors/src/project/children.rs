//! A project's children: how they are started, fail, are rebuilt and stop.

use std::sync::Arc;

use conclave_db::RunningEgress;
use conclave_model::EndpointId;
use conclave_model::ingress::Ingress;
use ractor::actor::messages::BoxedState;
use ractor::{Actor, ActorId, ActorProcessingErr};

use super::ProjectActor;
use super::message::{ChildKey, ProjectMsg};
use super::state::ProjectState;
use crate::children::{Child, RestartCause};
use crate::info::ActorInfo;
use crate::mailbox::{Mailbox, Timer};
use crate::registry::{ActorStatus, InspectMessage};
use crate::webhook_endpoint::{WebhookEndpointActor, WebhookEndpointMsg, purge_deleted};

impl ProjectActor {
    /// Starts the actors of everything live, and reconciles at once: nothing was reported while the server was down.
    pub(super) async fn populate(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
    ) -> Result<(), ActorProcessingErr> {
        let live = self
            .context
            .store
            .server()
            .live_records(self.id.clone())
            .await?;
        state.lacks_rooms = live.lacks_rooms;
        for snapshot in live.rooms {
            // An empty room hibernates; a deadline that has passed wakes it at once.
            let hibernates =
                snapshot.participants.is_empty() && self.hibernate(me, state, &snapshot.room, None);
            if !hibernates {
                self.spawn_room(me, state, snapshot).await;
            }
        }
        for record in live.egresses {
            self.follow::<RunningEgress>(me, state, record).await;
        }
        for record in live.ingresses {
            self.follow::<Ingress>(me, state, record).await;
        }
        for id in live.webhook_endpoints {
            self.spawn_webhook_endpoint(me, state, id).await;
        }
        self.reconcile(me, state);
        Ok(())
    }

    /// Spawns a child's process, for the first time or again. A child that cannot start must not take the project along: it
    /// is tried again later.
    pub(super) async fn spawn<A: Actor<Msg: InspectMessage>>(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        key: ChildKey,
        info: Arc<ActorInfo>,
        actor: A,
        arguments: A::Arguments,
    ) -> Option<Mailbox<A::Msg>> {
        match Actor::spawn_linked(None, actor, arguments, me.actor().get_cell()).await {
            Ok((actor, _)) => {
                state.by_actor.insert(actor.get_id(), key);
                Some(Mailbox::new(actor, info))
            }
            Err(error) => {
                log::error!(actor = &*info.id; "could not be started: {error}");
                self.restore_later(me, state, key, RestartCause::Actor(&error.to_string()));
                None
            }
        }
    }

    async fn spawn_webhook_endpoint(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        id: EndpointId,
    ) {
        let info = state.webhook_endpoints.info(&id);
        let actor = WebhookEndpointActor {
            context: Arc::clone(&self.context),
            info: Arc::clone(&info),
            project: self.id.clone(),
            id,
        };
        if let Some(mailbox) = self
            .spawn(me, state, ChildKey::WebhookEndpoint(id), info, actor, ())
            .await
        {
            state.webhook_endpoints.spawned(&self.context, id, mailbox);
        }
    }

    /// Forwards a message to a webhook endpoint. One without an actor gets it now, and reads its queue by itself.
    pub(super) async fn forward_to_webhook_endpoint(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        id: EndpointId,
        message: WebhookEndpointMsg,
    ) {
        if state.webhook_endpoints.contains(&id) {
            state.webhook_endpoints.send(&id, message);
        } else {
            self.spawn_webhook_endpoint(me, state, id).await;
        }
    }

    /// Stops the actor of a webhook endpoint that was deleted just now, and deletes its rows.
    pub(super) fn webhook_endpoint_deleted(&self, state: &mut ProjectState, id: EndpointId) {
        self.drop_webhook_endpoint(state, id);
        tokio::spawn(purge_deleted(Arc::clone(&self.context)));
    }

    /// Stops the actor of a deleted webhook endpoint.
    pub(super) fn drop_webhook_endpoint(&self, state: &mut ProjectState, id: EndpointId) {
        let endpoint = state.webhook_endpoints.remove(&self.context, &id);
        if let Some(mailbox) = endpoint.as_ref().and_then(Child::mailbox) {
            mailbox.actor().stop(Some("deleted".into()));
        }
    }

    /// Handles a child that stopped by itself: its record is final, or its room hibernates.
    pub(super) async fn child_stopped(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        actor: ActorId,
        last_state: Option<BoxedState>,
    ) {
        match state.by_actor.remove(&actor) {
            Some(ChildKey::Room(name)) => self.room_stopped(me, state, name, last_state).await,
            Some(ChildKey::Egress(id)) => self.forget::<RunningEgress>(state, &id),
            Some(ChildKey::Ingress(id)) => self.forget::<Ingress>(state, &id),
            Some(ChildKey::WebhookEndpoint(id)) => self.drop_webhook_endpoint(state, id),
            None => {}
        }
    }

    /// Handles a child that failed: it is rebuilt from the database, and its siblings do not notice.
    pub(super) fn child_failed(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        actor: ActorId,
        reason: &str,
    ) {
        let Some(key) = state.by_actor.remove(&actor) else {
            return;
        };
        log::error!(project = self.id.as_str(); "{key:?} failed and will be rebuilt: {reason}");
        self.restore_later(me, state, key, RestartCause::Actor(reason));
    }

    /// Arms the timer that rebuilds a child which failed or could not start. The delay grows with each failure in a row that is its own.
    pub(super) fn restore_later(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        key: ChildKey,
        cause: RestartCause<'_>,
    ) {
        let (clock, child) = (&self.context.clock, state.child(&key));
        let now = clock.now();
        let delay = child.record_failure(now, cause);
        self.context
            .registry
            .register(child.info(), ActorStatus::Restarting);
        self.context.metrics.restarted(child.info().kind);
        child.retry_with(Timer::arm(
            clock,
            "restore",
            now.after(delay),
            me,
            ProjectMsg::Restore(key),
        ));
    }

    /// Rebuilds a child. A webhook endpoint reads its own queue; the records of the others are read first.
    pub(super) async fn restore(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        key: ChildKey,
    ) {
        match key {
            ChildKey::Room(name) if state.rooms.get(&name).is_some_and(Child::is_ready) => {}
            ChildKey::Room(name) => self.load_room(me, name),
            ChildKey::Egress(id) => self.load::<RunningEgress>(me, id),
            ChildKey::Ingress(id) => self.load::<Ingress>(me, id),
            // It may have been deleted meanwhile.
            ChildKey::WebhookEndpoint(id) if !state.webhook_endpoints.contains(&id) => {}
            ChildKey::WebhookEndpoint(id) => self.spawn_webhook_endpoint(me, state, id).await,
        }
    }
}
