//! What a project actor does about recordings and broadcasts: starts, passes on, holds against the media plane.

use std::sync::Arc;

use conclave_db::{NewEgress, RunningEgress, StoreError};
use conclave_media::{EgressRequest, ReportError};
use conclave_model::egress::{Egress, EgressDetail, EgressState, UsedDestination};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::{EgressId, ErrorCode, RoomId, RoomName, Timestamp};
use tokio::sync::oneshot;

use super::child_set::ChildSetOf;
use super::{ProjectActor, ProjectMsg, ProjectState};
use crate::context::ActorContext;
use crate::egress::{EgressActor, EgressMsg, EgressReply};
use crate::error::TreeError;
use crate::mailbox::Mailbox;

/// A recording or a broadcast to be started.
#[derive(Debug)]
pub struct StartEgressRequest {
    /// Of which room.
    pub room: RoomId,
    /// What is asked of the media plane.
    pub egress: EgressRequest,
    /// What is written of it.
    pub detail: EgressDetail,
    /// The destination it was asked for with, if one was named.
    pub destination: Option<UsedDestination>,
}

/// Starts a job on the media plane, then writes it. What cannot be written is stopped again.
async fn start(
    context: &ActorContext,
    wanted: StartEgressRequest,
    keep: Option<ResponseRecorder<Egress>>,
) -> Result<Egress, TreeError> {
    let room = wanted.egress.room.clone();
    let state = context.media.start_egress(wanted.egress).await?;
    let egress_id = state.egress_id.clone();
    let new = NewEgress { room: wanted.room, detail: wanted.detail, destination: wanted.destination, state };
    let written = context.store.start_egress(new, keep).await;
    // One that is known already is somebody else's, and goes on.
    if written.as_ref().is_err_and(|error| !is_known(error)) {
        log::warn!(egress_id = egress_id.as_str(); "a job was started and could not be written; it is stopped");
        if let Err(error) = context.media.stop_egress(&room, &egress_id).await {
            log::error!(egress_id = egress_id.as_str(); "a job without a record could not be stopped: {error}");
        }
    }
    Ok(written?)
}

/// Whether a job was not written because its egress has a record already.
fn is_known(error: &StoreError) -> bool {
    let known = [ErrorCode::RecordingExists, ErrorCode::BroadcastExists];
    matches!(error, StoreError::Refused(problem) if known.contains(&problem.code))
}

impl ProjectActor {
    /// Starts a job beside the actor: a media plane may take long.
    pub(super) fn start_egress(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        wanted: StartEgressRequest,
        keep: Option<ResponseRecorder<Egress>>,
        reply: EgressReply,
    ) {
        state.pending_egresses.expect();
        let (context, me) = (Arc::clone(&self.context), me.clone());
        tokio::spawn(async move {
            let result = Box::new(start(&context, wanted, keep).await);
            // A project that stops now finds the job in the database when it starts again.
            let _ = me.cast(ProjectMsg::EgressStarted { result, reply });
        });
    }

    /// A job was started and written, or was not: it gets its actor, and what was reported of it meanwhile.
    pub(super) async fn egress_started(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        result: Result<Egress, TreeError>,
        reply: EgressReply,
    ) {
        if let Ok(job) = &result {
            let room_open = state.rooms.contains(&job.room);
            self.spawn_job(me, state, RunningEgress { egress: job.clone(), room_open }).await;
        }
        let _ = reply.send(result);
        for (id, message) in state.pending_egresses.made(&mut state.jobs) {
            drop_unknown(&id, message);
        }
    }

    /// Spawns a job's actor, for the first time or again.
    pub(super) async fn spawn_job(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState, running: RunningEgress) {
        let children: ChildSetOf<EgressId, EgressActor> = |state| &mut state.jobs;
        let id = running.egress.egress_id.clone();
        state.job_rooms.insert(id.clone(), running.egress.room.clone());
        let name = id.clone();
        self.spawn(me, state, (children, name), |context, info| EgressActor { context, info, id }, running).await;
    }

    /// Something was reported of a job. One that nobody knows may be on its way into the records; when nothing is, it is
    /// none of ours.
    pub(super) fn job_reported(
        &self,
        state: &mut ProjectState,
        said: EgressState,
        at: Timestamp,
        answer: oneshot::Sender<Result<(), ReportError>>,
    ) {
        let id = said.egress_id.clone();
        let message = EgressMsg::Report { said, at, answer };
        if let Some(message) = state.pending_egresses.pass(&mut state.jobs, id.clone(), message) {
            drop_unknown(&id, message);
        }
    }

    /// Passes a message on to a job's actor. One that has none is final, and its record is the answer.
    pub(super) fn pass_to_job(&self, state: &mut ProjectState, id: EgressId, message: EgressMsg) {
        if state.jobs.contains(&id) {
            return state.jobs.send(&id, message);
        }
        let (EgressMsg::Refresh(reply) | EgressMsg::Stop { reply, .. }) = message else { return };
        let (store, project) = (self.context.store.clone(), self.id.clone());
        tokio::spawn(async move {
            let job = store.egress_by_id(project, id).await;
            let _ = reply.send(job.map_err(TreeError::from));
        });
    }

    /// A room has ended: its jobs have nothing left to take.
    pub(super) fn end_jobs_of(&self, state: &mut ProjectState, room: &RoomName) {
        let own = state.job_rooms.iter().filter(|(_, of)| *of == room).map(|(id, _)| id.clone());
        for id in own.collect::<Vec<_>>() {
            state.jobs.send(&id, EgressMsg::RoomEnded);
        }
    }

    /// A job's actor has stopped: the job is final.
    pub(super) fn forget_job(&self, state: &mut ProjectState, id: &EgressId) {
        state.job_rooms.remove(id);
        let Some(child) = state.jobs.remove(self, id) else { return };
        // Whoever came too late is told what stands in the record.
        for message in child.into_waiting() {
            self.pass_to_job(state, id.clone(), message);
        }
    }

    /// Reads a job's record, to rebuild its actor from.
    pub(super) fn take_up_job_again(&self, me: &Mailbox<ProjectMsg>, id: EgressId) {
        let (store, project, me) = (self.context.store.clone(), self.id.clone(), me.clone());
        tokio::spawn(async move {
            let running = Box::new(store.running_egress(project, id.clone()).await);
            let _ = me.cast(ProjectMsg::EgressLoaded { id, running });
        });
    }

    /// The record of a job that failed is here.
    pub(super) async fn egress_loaded(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        id: EgressId,
        running: Result<Option<RunningEgress>, StoreError>,
    ) {
        match running {
            Ok(Some(running)) => {
                self.spawn_job(me, state, running).await;
                // Reports may have been lost with the actor.
                state.jobs.send(&id, EgressMsg::Poll);
            }
            Ok(None) => self.forget_job(state, &id),
            Err(error) => state.jobs.restore_later(self, me, id, &error.to_string()),
        }
    }
}

/// An egress that is neither a recording nor a broadcast of ours is dropped (contract "Event types").
fn drop_unknown(id: &EgressId, message: EgressMsg) {
    if let EgressMsg::Report { answer, .. } = message {
        log::debug!(egress_id = id.as_str(); "a report of an unknown egress was dropped");
        let _ = answer.send(Ok(()));
    }
}
