//! What an egress actor does: takes reports, asks, stops, sees to it that a job settles.

use std::time::Duration;

use conclave_media::{MediaError, ReportError};
use conclave_model::Timestamp;
use conclave_model::egress::{Egress, EgressState, EgressStatus};
use conclave_model::idempotency::ResponseRecorder;

use super::{EgressActor, EgressActorState, EgressMsg};
use crate::answer::LastAnswer;
use crate::error::TreeError;
use crate::mailbox::Mailbox;
use crate::timer::Timer;

/// How often a job that should become final soon is asked whether it has.
const SETTLE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// What the record says of a job that the media plane lost.
const FORGOTTEN: &str = "the media plane no longer knows this egress: it was restarted, or its worker died";

impl EgressActor {
    /// Takes a report: durable when this returns `Ok`.
    pub(super) async fn handle_report(
        &self,
        state: &mut EgressActorState,
        said: EgressState,
        at: Timestamp,
    ) -> Result<(), ReportError> {
        self.note(state, &Ok(Some(said.clone())));
        self.record(state, said, at, None).await.map_err(|error| {
            log::error!(actor = &*self.info.id; "a report could not be written: {error}");
            ReportError::Unavailable
        })
    }

    /// Asks how the job stands, and writes it.
    pub(super) async fn refresh(&self, state: &mut EgressActorState) -> Result<Egress, TreeError> {
        if !state.job.status.is_final() {
            let said = self.context.media.egress(&state.job.namespaced_room(), &self.id).await;
            self.record_answer(state, said, None).await?;
        }
        Ok(state.job.clone())
    }

    /// Tells the job to finish. One that is final stays as it is.
    pub(super) async fn stop(
        &self,
        state: &mut EgressActorState,
        keep: Option<ResponseRecorder<Egress>>,
    ) -> Result<Egress, TreeError> {
        if !state.job.status.is_final() {
            let said = self.context.media.stop_egress(&state.job.namespaced_room(), &self.id).await;
            // A plane may answer before its worker has taken it in; the job has been told all the same.
            let at_least_ending = |said: EgressState| match said.status {
                EgressStatus::Starting | EgressStatus::Active => EgressState { status: EgressStatus::Ending, ..said },
                _ => said,
            };
            let said = said.map(|known| known.map(at_least_ending));
            self.record_answer(state, said, keep).await?;
        }
        Ok(state.job.clone())
    }

    /// Looks after the job by itself: a report may have been lost. Without its room it is also told to finish.
    pub(super) async fn poll(&self, state: &mut EgressActorState) {
        state.settle = None;
        let looked = if state.room_open { self.refresh(state).await } else { self.stop(state, None).await };
        if let Err(error) = looked {
            log::warn!(actor = &*self.info.id; "a job could not be looked after and will be again: {error}");
        }
    }

    /// While the job should become final soon, it is looked after. Reports come first, so this is for the lost ones.
    pub(super) fn arm_settle(&self, me: &Mailbox<EgressMsg>, state: &mut EgressActorState) {
        let settling = state.job.status == EgressStatus::Ending || !state.room_open;
        if !settling || state.job.status.is_final() {
            state.settle = None;
        } else if state.settle.is_none() {
            let at = self.context.clock.now().after(SETTLE_POLL_INTERVAL);
            state.settle = Some(Timer::arm(&self.context.clock, "settle", at, me, EgressMsg::Poll));
        }
    }

    fn note(&self, state: &mut EgressActorState, said: &Result<Option<EgressState>, MediaError>) {
        let read = |said: &EgressState| (said.status, said.error.clone());
        state.last_answer = Some(LastAnswer::of(said, self.context.clock.now(), read));
    }

    /// Writes what the media plane answered. A job that it does not know has failed.
    async fn record_answer(
        &self,
        state: &mut EgressActorState,
        said: Result<Option<EgressState>, MediaError>,
        keep: Option<ResponseRecorder<Egress>>,
    ) -> Result<(), TreeError> {
        let now = self.context.clock.now();
        self.note(state, &said);
        let said = said?.unwrap_or_else(|| EgressState {
            egress_id: self.id.clone(),
            status: EgressStatus::Failed,
            error: Some(FORGOTTEN.into()),
            started_at: state.job.started_at,
            ended_at: Some(now),
        });
        self.record(state, said, now, keep).await
    }

    async fn record(
        &self,
        state: &mut EgressActorState,
        said: EgressState,
        at: Timestamp,
        keep: Option<ResponseRecorder<Egress>>,
    ) -> Result<(), TreeError> {
        // Most reports say what is known.
        if keep.is_some() || state.job.status.may_become(said.status) {
            state.job = self.context.store.record_egress(state.job.project_id.clone(), said, at, keep).await?;
        }
        Ok(())
    }
}
