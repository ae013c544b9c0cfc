//! What an ingress actor does: takes reports, asks, deletes.

use std::sync::Arc;
use std::time::Duration;

use conclave_db::StoreError;
use conclave_media::{KnownIngress, MediaError, MediaPlane, ReportError};
use conclave_model::ingress::{Ingress, IngressState, IngressStatus};
use conclave_model::{IngressId, Timestamp};

use super::{IngressActor, IngressActorState};
use crate::answer::LastAnswer;
use crate::error::TreeError;
use crate::project::ProjectMsg;
use crate::system::SystemMsg;

/// How long an endpoint waits for its room.
const TURN: Duration = Duration::from_secs(2);
/// What the record says of an endpoint that the media plane lost.
const FORGOTTEN: &str = "the media plane no longer knows this ingress: delete it, and make another";

impl IngressActor {
    /// Takes a report: durable when this returns `Ok`.
    pub(super) async fn handle_report(
        &self,
        state: &mut IngressActorState,
        said: IngressState,
        at: Timestamp,
    ) -> Result<(), ReportError> {
        self.note(state, &Ok(Some(said.clone())));
        self.record(state, said, at).await.map_err(|error| {
            log::error!(actor = &*self.info.id; "a report could not be written: {error}");
            ReportError::Unavailable
        })
    }

    /// Asks how the endpoint stands, and writes it. A plane that keeps endpoints in memory takes it up again with this.
    pub(super) async fn refresh(&self, state: &mut IngressActorState) -> Result<Ingress, TreeError> {
        let ingress = &state.ingress;
        if ingress.status.is_final() {
            // What made it final may have been written by others.
            return Ok(self.context.store.ingress(ingress.project_id.clone(), ingress.ingress_id.clone()).await?);
        }
        let said = self.context.media.ingress(&KnownIngress::from(ingress)).await;
        self.note(state, &said);
        let said = said?.unwrap_or_else(|| IngressState {
            ingress_id: state.ingress.ingress_id.clone(),
            status: IngressStatus::Error,
            error: Some(FORGOTTEN.into()),
        });
        self.record(state, said, self.context.clock.now()).await?;
        Ok(state.ingress.clone())
    }

    /// Takes the endpoint off the media plane, so that its key opens nothing from then on, and writes that.
    pub(super) async fn delete(&self, state: &mut IngressActorState) -> Result<Ingress, TreeError> {
        let (project, id) = (state.ingress.project_id.clone(), state.ingress.ingress_id.clone());
        self.context.media.delete_ingress(&id).await.inspect_err(|error| self.note(state, &Err(error.clone())))?;
        self.wait_for_room(&state.ingress).await;
        state.ingress = self.context.store.delete_ingress(project, id).await?;
        Ok(state.ingress.clone())
    }

    /// The room has ended and completed the record. The live side may be away: reconciliation finds what is left of it.
    pub(super) fn complete(&self, state: &mut IngressActorState) {
        if state.ingress.status.is_final() {
            return;
        }
        state.ingress.status = IngressStatus::Complete;
        let (media, id) = (Arc::clone(&self.context.media), state.ingress.ingress_id.clone());
        tokio::spawn(async move { take_off(&*media, &id).await });
    }

    /// Looks after the endpoint by itself: a report may have been lost.
    pub(super) async fn poll(&self, state: &mut IngressActorState) {
        if let Err(error) = self.refresh(state).await {
            log::warn!(actor = &*self.info.id; "an ingress could not be looked after and will be again: {error}");
        }
    }

    fn note(&self, state: &mut IngressActorState, said: &Result<Option<IngressState>, MediaError>) {
        let read = |said: &IngressState| (said.status, said.error.clone());
        state.last_answer = Some(LastAnswer::of(said, self.context.clock.now(), read));
    }

    async fn record(&self, state: &mut IngressActorState, said: IngressState, at: Timestamp) -> Result<(), StoreError> {
        // Most reports say what is known; an error is held against the record by the store, which knows its words.
        let known = state.ingress.status == said.status && said.status != IngressStatus::Error;
        if !known && !state.ingress.status.is_final() {
            self.wait_for_room(&state.ingress).await;
            state.ingress = self.context.store.record_ingress(state.ingress.project_id.clone(), said, at).await?;
        }
        Ok(())
    }

    /// Waits until the room's actor has written what the encoder did before: it reached the room on the same way, ahead of
    /// this. A room that takes longer than [`TURN`] is in trouble, and the order of two events is not worth more.
    async fn wait_for_room(&self, ingress: &Ingress) {
        let turn = |reply| SystemMsg::ToProject {
            project: ingress.project_id.clone(),
            message: Box::new(ProjectMsg::RoomBarrier { name: ingress.room.clone(), reply }),
        };
        if self.system.call(turn, TURN).await.is_err() {
            log::warn!(actor = &*self.info.id, room = ingress.room.as_str(); "the room did not give an ingress its turn");
        }
    }
}

/// Takes an endpoint off the media plane that has no record any more, or a final one.
pub(crate) async fn take_off(media: &dyn MediaPlane, id: &IngressId) {
    if let Err(error) = media.delete_ingress(id).await {
        log::warn!(ingress_id = id.as_str(); "an ingress was not taken off the media plane: {error}");
    }
}
