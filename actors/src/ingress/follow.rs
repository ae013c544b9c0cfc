//! Keeps an endpoint's record up to date, and deletes the endpoint.
//!
//! A reply of the media plane is written after the encoder's earlier events in the room. So the actor sends the reply along the path of the
//! reports, and its project adds a barrier that the room passes.

use std::sync::Arc;
use std::time::Duration;

use conclave_media::{KnownIngress, MediaPlane};
use conclave_model::ingress::{IngressState, IngressStatus};
use conclave_model::{IngressId, Timestamp};

use super::{IngressObservation, IngressReply, LiveIngress};
use crate::context::ActorContext;
use crate::error::TreeError;
use crate::follow::{Follower, LastReply, Observation};
use crate::info::ActorInfo;
use crate::mailbox::BarrierWait;

/// Time limit for the room to pass a barrier, generous enough for an overloaded machine. Callers wait longer. If a room is even slower, the
/// order of two events is not worth more delay.
const BARRIER_TIMEOUT: Duration = Duration::from_secs(20);
/// Error in the record of an ingress endpoint that the media plane lost.
const FORGOTTEN: &str = "the media plane no longer knows this ingress: delete it, and make another";

impl Observation for IngressState {
    type Status = IngressStatus;

    fn status(&self) -> IngressStatus {
        self.status
    }

    fn error(&self) -> Option<String> {
        self.error.clone()
    }
}

impl Follower for LiveIngress {
    type Observation = IngressState;

    fn context(&self) -> &ActorContext {
        &self.context
    }

    fn info(&self) -> &ActorInfo {
        &self.info
    }

    fn last_answer(&mut self) -> &mut Option<LastReply<IngressStatus>> {
        &mut self.last_answer
    }

    async fn record(&mut self, observation: IngressState, at: Timestamp) -> Result<(), TreeError> {
        // Taken in any case: the barrier belongs to this observation only.
        let after = self.after.take();
        if self.changes_record(&observation) {
            self.wait_for_room(after).await;
            let project = self.ingress.project_id.clone();
            self.ingress = self
                .context
                .store
                .ingresses()
                .record(project, observation, at)
                .await?;
        }
        Ok(())
    }
}

impl LiveIngress {
    /// Polls the media plane. The caller gets the record once the reply is written. A media plane that keeps endpoints in memory restores
    /// this one from the request.
    pub(super) async fn refresh(&mut self, reply: IngressReply) {
        if self.ingress.status.is_final() {
            // Another actor's write may have made the status final, such as the end of the room.
            let (project, id) = (
                self.ingress.project_id.clone(),
                self.ingress.ingress_id.clone(),
            );
            let _ = reply.send(
                self.context
                    .store
                    .ingresses()
                    .get(project, id)
                    .await
                    .map_err(TreeError::from),
            );
            return;
        }
        match self.ask().await {
            Err(error) => drop(reply.send(Err(error))),
            // The reply is not written here, but after the room's earlier reports.
            Ok(answer) if self.changes_record(&answer) => self.observed(answer, Some(reply)),
            Ok(_) => drop(reply.send(Ok(self.ingress.clone()))),
        }
    }

    /// Polls the media plane, in case a report was lost.
    pub(super) async fn poll(&mut self) {
        if self.ingress.status.is_final() {
            return;
        }
        match self.ask().await {
            Ok(answer) if self.changes_record(&answer) => self.observed(answer, None),
            answer => self.warn_if_failed(answer),
        }
    }

    /// Deletes the endpoint on the media plane, so that its key admits no encoder from then on, and then in the records.
    pub(super) async fn delete(&mut self, reply: IngressReply) {
        match self
            .context
            .media
            .delete_ingress(&self.ingress.ingress_id)
            .await
        {
            // The deletion may be reported as the end of the stream, which has to be written first.
            Ok(()) => self.path.send(IngressObservation::Deleted(reply)),
            Err(error) => {
                self.remember(&Err(error.clone()));
                let _ = reply.send(Err(error.into()));
            }
        }
    }

    /// Writes a reply of the media plane.
    pub(super) async fn write_observation(
        &mut self,
        observation: IngressObservation,
        after: Option<BarrierWait>,
    ) {
        match observation {
            IngressObservation::Polled {
                state: polled,
                at,
                reply,
            } => {
                self.after = after;
                let written = self.record(polled, at).await.map(|()| self.ingress.clone());
                match reply {
                    Some(reply) => drop(reply.send(written)),
                    None => self.warn_if_failed(written),
                }
            }
            IngressObservation::Deleted(reply) => {
                self.wait_for_room(after).await;
                let (project, id) = (
                    self.ingress.project_id.clone(),
                    self.ingress.ingress_id.clone(),
                );
                let deleted = self.context.store.ingresses().delete(project, id).await;
                // After a failure, the record stays live, and the client can repeat the deletion.
                if let Ok(ingress) = &deleted {
                    self.ingress = ingress.clone();
                }
                let _ = reply.send(deleted.map_err(TreeError::from));
            }
        }
    }

    /// Completes the endpoint of a room that has ended, and deletes it on the media plane. If that is unavailable, reconciliation deletes
    /// it later.
    pub(super) fn complete(&mut self) {
        if self.ingress.status.is_final() {
            return;
        }
        // The end of the room has completed the record in its own transaction.
        // Only in memory: the record is complete already.
        self.ingress.status = IngressStatus::Complete;
        let (media, id) = (
            Arc::clone(&self.context.media),
            self.ingress.ingress_id.clone(),
        );
        tokio::spawn(async move { delete_on_plane(&*media, &id).await });
    }

    /// Requests the endpoint's state from the media plane. An endpoint that it does not know has failed.
    async fn ask(&mut self) -> Result<IngressState, TreeError> {
        let answer = self
            .context
            .media
            .ingress(&KnownIngress::from(&self.ingress))
            .await;
        self.remember(&answer);
        Ok(answer?.unwrap_or_else(|| IngressState {
            ingress_id: self.ingress.ingress_id.clone(),
            status: IngressStatus::Error,
            error: Some(FORGOTTEN.into()),
        }))
    }

    /// Returns whether a state has to be written. Most are already recorded; errors are compared in the store, which has their texts.
    fn changes_record(&self, observation: &IngressState) -> bool {
        let known =
            self.ingress.status == observation.status && observation.status != IngressStatus::Error;
        !known && !self.ingress.status.is_final()
    }

    fn observed(&self, state: IngressState, reply: Option<IngressReply>) {
        let at = self.context.clock.now();
        self.path
            .send(IngressObservation::Polled { state, at, reply });
    }

    /// Waits until the room's actor has written the encoder's earlier events.
    async fn wait_for_room(&self, after: Option<BarrierWait>) {
        let Some(after) = after else { return };
        if !after.passed(BARRIER_TIMEOUT).await {
            let room = self.ingress.room.as_str();
            log::warn!(actor = &*self.info.id, room = room; "the room did not handle its reports in time");
        }
    }
}

/// Deletes an endpoint that has no record, or a final one, on the media plane.
pub(crate) async fn delete_on_plane(media: &dyn MediaPlane, id: &IngressId) {
    if let Err(error) = media.delete_ingress(id).await {
        log::warn!(ingress_id = id.as_str(); "an ingress was not deleted on the media plane: {error}");
    }
}
