//! What a project actor does about ingress endpoints: makes, passes on, takes up again.

use std::sync::Arc;

use conclave_db::{NewIngress, StoreError};
use conclave_media::{IngressRequest, ReportError};
use conclave_model::ingress::{Ingress, IngressState, StreamKeyHash};
use conclave_model::{ErrorCode, IngressId, RoomId, RoomName, Timestamp};
use ractor::RpcReplyPort;
use tokio::sync::oneshot;

use super::child_set::ChildSetOf;
use super::{ProjectActor, ProjectMsg, ProjectState};
use crate::context::ActorContext;
use crate::error::TreeError;
use crate::ingress::{CreatedIngress, IngressActor, IngressMsg, take_off};
use crate::mailbox::Mailbox;

/// The reply to making an endpoint.
pub type CreateIngressReply = RpcReplyPort<Result<CreatedIngress, TreeError>>;

/// An ingress endpoint to be made.
#[derive(Debug)]
pub struct CreateIngressRequest {
    /// In which room.
    pub room: RoomId,
    /// What is asked of the media plane.
    pub ingress: IngressRequest,
}

/// Makes an endpoint on the media plane, then writes it. What cannot be written is taken off again.
async fn make(context: &ActorContext, wanted: CreateIngressRequest) -> Result<CreatedIngress, TreeError> {
    let made = context.media.create_ingress(wanted.ingress.clone()).await?;
    let new = NewIngress {
        room: wanted.room,
        ingress_id: made.ingress_id.clone(),
        input_type: wanted.ingress.input_type,
        participant_identity: wanted.ingress.identity,
        participant_name: wanted.ingress.name,
        url: format!("{}/REDACTED", made.url),
        key_hash: StreamKeyHash::from_key(made.stream_key.reveal()),
    };
    let written = context.store.create_ingress(new).await;
    // One that is known already is somebody else's, and stays.
    if written.as_ref().is_err_and(|error| !is_known(error)) {
        take_off(&*context.media, &made.ingress_id).await;
    }
    Ok(CreatedIngress { ingress: written?, stream_key: made.stream_key })
}

fn is_known(error: &StoreError) -> bool {
    matches!(error, StoreError::Refused(problem) if problem.code == ErrorCode::IngressExists)
}

impl ProjectActor {
    /// Makes an endpoint beside the actor: a media plane may take long.
    pub(super) fn create_ingress(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        wanted: CreateIngressRequest,
        reply: CreateIngressReply,
    ) {
        state.pending_ingresses.expect();
        let (context, me) = (Arc::clone(&self.context), me.clone());
        tokio::spawn(async move {
            let result = Box::new(make(&context, wanted).await);
            // A project that stops now finds the endpoint in the database when it starts again.
            let _ = me.cast(ProjectMsg::IngressCreated { result, reply });
        });
    }

    /// An endpoint was made and written, or was not: it gets its actor, and what was reported of it meanwhile.
    pub(super) async fn ingress_created(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        result: Result<CreatedIngress, TreeError>,
        reply: CreateIngressReply,
    ) {
        if let Ok(CreatedIngress { ingress, .. }) = &result {
            self.spawn_ingress(me, state, ingress.clone()).await;
            if !state.rooms.contains(&ingress.room) {
                // The room ended in between, and the record was completed with it.
                state.ingresses.send(&ingress.ingress_id, IngressMsg::RoomEnded);
            }
        }
        let _ = reply.send(result);
        for (id, message) in state.pending_ingresses.made(&mut state.ingresses) {
            drop_unknown(&id, message);
        }
    }

    /// Spawns an endpoint's actor, for the first time or again.
    pub(super) async fn spawn_ingress(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState, ingress: Ingress) {
        let children: ChildSetOf<IngressId, IngressActor> = |state| &mut state.ingresses;
        let id = ingress.ingress_id.clone();
        state.ingress_rooms.insert(id.clone(), ingress.room.clone());
        let system = self.system.clone();
        self.spawn(me, state, (children, id), |context, info| IngressActor { context, info, system }, ingress).await;
    }

    /// Something was reported of an endpoint.
    pub(super) fn ingress_reported(
        &self,
        state: &mut ProjectState,
        said: IngressState,
        at: Timestamp,
        answer: oneshot::Sender<Result<(), ReportError>>,
    ) {
        let id = said.ingress_id.clone();
        let message = IngressMsg::Report { said, at, answer };
        if let Some(message) = state.pending_ingresses.pass(&mut state.ingresses, id.clone(), message) {
            drop_unknown(&id, message);
        }
    }

    /// Passes a message on to an endpoint's actor. One that has none is final, and its record is the answer.
    pub(super) fn pass_to_ingress(&self, state: &mut ProjectState, id: IngressId, message: IngressMsg) {
        if state.ingresses.contains(&id) {
            return state.ingresses.send(&id, message);
        }
        let (context, project) = (Arc::clone(&self.context), self.id.clone());
        match message {
            IngressMsg::Refresh(reply) => drop(tokio::spawn(async move {
                let ingress = context.store.ingress(project, id).await;
                let _ = reply.send(ingress.map_err(TreeError::from));
            })),
            IngressMsg::Delete(reply) => drop(tokio::spawn(async move {
                let deleted = match context.media.delete_ingress(&id).await {
                    Ok(()) => context.store.delete_ingress(project, id).await.map_err(TreeError::from),
                    Err(error) => Err(error.into()),
                };
                let _ = reply.send(deleted);
            })),
            message => drop_unknown(&id, message),
        }
    }

    /// A room has ended: its endpoints are final.
    pub(super) fn end_ingresses_of(&self, state: &mut ProjectState, room: &RoomName) {
        let own = state.ingress_rooms.iter().filter(|(_, of)| *of == room).map(|(id, _)| id.clone());
        for id in own.collect::<Vec<_>>() {
            state.ingresses.send(&id, IngressMsg::RoomEnded);
        }
    }

    /// An endpoint's actor has stopped: the endpoint is final.
    pub(super) fn forget_ingress(&self, state: &mut ProjectState, id: &IngressId) {
        state.ingress_rooms.remove(id);
        let Some(child) = state.ingresses.remove(self, id) else { return };
        // Whoever came too late is told what stands in the record.
        for message in child.into_waiting() {
            self.pass_to_ingress(state, id.clone(), message);
        }
    }

    /// Reads an endpoint's record, to rebuild its actor from.
    pub(super) fn take_up_ingress_again(&self, me: &Mailbox<ProjectMsg>, id: IngressId) {
        let (store, project, me) = (self.context.store.clone(), self.id.clone(), me.clone());
        tokio::spawn(async move {
            let live = Box::new(store.live_ingress(project, id.clone()).await);
            let _ = me.cast(ProjectMsg::IngressLoaded { id, live });
        });
    }

    /// The record of an endpoint without a running actor is here.
    pub(super) async fn ingress_loaded(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        id: IngressId,
        live: Result<Option<Ingress>, StoreError>,
    ) {
        match live {
            // It was made in the meantime.
            Ok(Some(_)) if state.ingresses.get(&id).is_some_and(|child| child.mailbox().is_some()) => {}
            Ok(Some(ingress)) => {
                self.spawn_ingress(me, state, ingress).await;
                // Reports may have been lost with the actor.
                state.ingresses.send(&id, IngressMsg::Poll);
            }
            Ok(None) => {
                // The media plane may still have an endpoint that the records do not know, or know as final.
                let (media, of) = (Arc::clone(&self.context.media), id.clone());
                tokio::spawn(async move { take_off(&*media, &of).await });
                self.forget_ingress(state, &id);
            }
            Err(error) => state.ingresses.restore_later(self, me, id, &error.to_string()),
        }
    }
}

/// An endpoint that is none of ours is none of our business.
fn drop_unknown(id: &IngressId, message: IngressMsg) {
    if let IngressMsg::Report { answer, .. } = message {
        log::debug!(ingress_id = id.as_str(); "a report of an unknown ingress was dropped");
        let _ = answer.send(Ok(()));
    }
}
