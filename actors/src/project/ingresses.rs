//! A project's ingress endpoints: their creation, and their specifics as children.

use std::sync::Arc;

use conclave_db::{NewIngress, Store, StoreError};
use conclave_media::ReportError;
use conclave_model::ingress::{Ingress, IngressState, StreamKeyHash};
use conclave_model::{ErrorCode, IngressId, ProjectId, RoomName, Timestamp};
use tokio::sync::oneshot;

use super::context::ProjectContext;
use super::followed::{Followed, FollowedSet};
use super::message::{CreateIngressReply, CreateIngressRequest, ProjectMsg};
use super::rooms::Rooms;
use crate::context::ActorContext;
use crate::error::TreeError;
use crate::info::ActorInfo;
use crate::ingress::{
    CreatedIngress, IngressActor, IngressMsg, IngressObservation, IngressReply, delete_on_plane,
};

impl Followed for Ingress {
    type Id = IngressId;
    type Actor = IngressActor;

    fn id(&self) -> &IngressId {
        &self.ingress_id
    }

    fn room(&self) -> &RoomName {
        &self.room
    }

    fn actor(project: &ProjectContext, id: IngressId, info: Arc<ActorInfo>) -> IngressActor {
        let path = project
            .path
            .narrow(move |observation| ProjectMsg::IngressObserved {
                id: id.clone(),
                observation,
            });
        IngressActor {
            context: Arc::clone(&project.shared),
            info,
            path,
        }
    }

    async fn load(
        store: Store,
        project: ProjectId,
        id: IngressId,
    ) -> Result<Option<Self>, StoreError> {
        store.ingresses().live(project, id).await
    }

    fn loaded(id: IngressId, record: Result<Option<Self>, StoreError>) -> ProjectMsg {
        ProjectMsg::IngressLoaded {
            id,
            record: Box::new(record),
        }
    }

    fn poll() -> IngressMsg {
        IngressMsg::Poll
    }

    fn room_ended() -> IngressMsg {
        IngressMsg::RoomEnded
    }

    fn reply_without_actor(project: &ProjectContext, id: IngressId, message: IngressMsg) {
        let (context, project) = (Arc::clone(&project.shared), project.id.clone());
        match message {
            // The endpoint does not belong to this server.
            IngressMsg::Report { answer, .. } => {
                log::debug!(ingress_id = id.as_str(); "a report of an unknown ingress was dropped");
                let _ = answer.send(Ok(()));
            }
            IngressMsg::Refresh(reply) => {
                drop(tokio::spawn(reply_with_record(context, project, id, reply)));
            }
            // A final endpoint may still exist on the media plane, if it was unavailable before.
            IngressMsg::Delete(reply) => drop(tokio::spawn(async move {
                match context.media.delete_ingress(&id).await {
                    Ok(()) => delete_record(context, project, id, reply).await,
                    Err(error) => drop(reply.send(Err(error.into()))),
                }
            })),
            IngressMsg::Observed {
                observation:
                    IngressObservation::Polled {
                        reply: Some(reply), ..
                    },
                ..
            } => {
                tokio::spawn(reply_with_record(context, project, id, reply));
            }
            IngressMsg::Observed {
                observation: IngressObservation::Deleted(reply),
                ..
            } => {
                tokio::spawn(delete_record(context, project, id, reply));
            }
            IngressMsg::Observed { .. }
            | IngressMsg::RoomEnded
            | IngressMsg::Poll
            | IngressMsg::Inspect(_) => {}
        }
    }

    fn clean_up(project: &ProjectContext, id: &IngressId) {
        // Nothing without a record is deleted: another server may use the same media plane.
        let (context, project, id) = (Arc::clone(&project.shared), project.id.clone(), id.clone());
        tokio::spawn(async move {
            if context
                .store
                .ingresses()
                .get(project, id.clone())
                .await
                .is_ok_and(|record| record.status.is_final())
            {
                delete_on_plane(&*context.media, &id).await;
            }
        });
    }
}

impl FollowedSet<Ingress> {
    /// Creates an endpoint in a spawned task, since a media plane may take long.
    pub fn create(
        &mut self,
        project: &ProjectContext,
        request: CreateIngressRequest,
        reply: CreateIngressReply,
    ) {
        self.begin_creation();
        let (context, me) = (Arc::clone(&project.shared), project.me.clone());
        tokio::spawn(async move {
            let result = Box::new(create(&context, request).await);
            // If the project has stopped, it will find the record in the database at its next start.
            let _ = me.cast(ProjectMsg::IngressCreated { result, reply });
        });
    }

    /// Spawns the actor of a created endpoint, and delivers the reports that were buffered for it.
    pub async fn created(
        &mut self,
        project: &mut ProjectContext,
        rooms: &Rooms,
        result: Result<CreatedIngress, TreeError>,
        reply: CreateIngressReply,
    ) {
        if let Ok(CreatedIngress { ingress, .. }) = &result {
            self.follow(project, ingress.clone()).await;
            if !rooms.contains(&ingress.room) {
                // The room has ended since, which has completed the record.
                self.send(&ingress.ingress_id, IngressMsg::RoomEnded);
            }
        }
        let _ = reply.send(result);
        self.end_creation(project);
    }

    /// Delivers a reported state, after the room's earlier reports.
    pub fn reported(
        &mut self,
        project: &ProjectContext,
        rooms: &mut Rooms,
        report: (RoomName, IngressState, Timestamp),
        answer: oneshot::Sender<Result<(), ReportError>>,
    ) {
        let (room, state, at) = report;
        let id = state.ingress_id.clone();
        let message = IngressMsg::Report {
            state,
            at,
            // The encoder's join is written before `ingress.started`, as it happened.
            after: rooms.barrier(project, &room),
            answer,
        };
        self.deliver_report(project, id, message);
    }

    /// Delivers the media plane's reply, after the room's earlier reports.
    pub fn observed(
        &mut self,
        project: &ProjectContext,
        rooms: &mut Rooms,
        id: IngressId,
        observation: IngressObservation,
    ) {
        let after = self.room(&id).and_then(|room| rooms.barrier(project, room));
        self.forward(project, id, IngressMsg::Observed { observation, after });
    }
}

/// Creates an endpoint on the media plane, then writes its record. An endpoint that cannot be written is deleted again.
async fn create(
    context: &ActorContext,
    request: CreateIngressRequest,
) -> Result<CreatedIngress, TreeError> {
    let created = context
        .media
        .create_ingress(request.ingress.clone())
        .await?;
    let (project_id, _) = request.ingress.room.split();
    let new = NewIngress {
        project_id,
        room: request.room,
        ingress_id: created.ingress_id.clone(),
        input_type: request.ingress.input_type,
        participant_identity: request.ingress.identity,
        participant_name: request.ingress.name,
        // The record never has the stream key, which is shown once in the response.
        url: format!("{}/REDACTED", created.url),
        key_hash: StreamKeyHash::from_key(created.stream_key.reveal()),
    };
    let written = context
        .store
        .ingresses()
        .create(new)
        .await
        .map_err(TreeError::from);
    // An endpoint with a record was created by another request, and stays.
    if written.as_ref().is_err_and(|error| !is_known(error)) {
        delete_on_plane(&*context.media, &created.ingress_id).await;
    }
    Ok(CreatedIngress {
        ingress: written?,
        stream_key: created.stream_key,
    })
}

/// Returns whether an endpoint was not written because it already has a record.
fn is_known(error: &TreeError) -> bool {
    matches!(error, TreeError::Refused(problem) if problem.code == ErrorCode::IngressExists)
}

async fn reply_with_record(
    context: Arc<ActorContext>,
    project: ProjectId,
    id: IngressId,
    reply: IngressReply,
) {
    let record = context.store.ingresses().get(project, id).await;
    let _ = reply.send(record.map_err(TreeError::from));
}

async fn delete_record(
    context: Arc<ActorContext>,
    project: ProjectId,
    id: IngressId,
    reply: IngressReply,
) {
    let record = context.store.ingresses().delete(project, id).await;
    let _ = reply.send(record.map_err(TreeError::from));
}
