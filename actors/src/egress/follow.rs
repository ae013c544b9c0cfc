//! How an egress actor keeps the record of its recording or broadcast up to date.

use std::time::Duration;

use conclave_model::Timestamp;
use conclave_model::egress::{Egress, EgressState, EgressStatus};
use conclave_model::idempotency::ResponseRecorder;

use super::upload::Upload;
use super::{EgressActor, EgressActorState, EgressMsg};
use crate::context::ActorContext;
use crate::error::TreeError;
use crate::follow::{Follower, LastAnswer, Observation, PollAnswer};
use crate::info::ActorInfo;
use crate::mailbox::{Mailbox, Timer};

/// Interval at which an egress that should become final soon is polled.
const SETTLE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// The error in the record of an egress that the media plane lost.
const FORGOTTEN: &str =
    "the media plane no longer knows this egress: it was restarted, or its worker died";

impl Observation for EgressState {
    type Status = EgressStatus;

    fn status(&self) -> EgressStatus {
        self.status
    }

    fn error(&self) -> Option<String> {
        self.error.clone()
    }
}

impl Follower for EgressActor {
    type Observation = EgressState;

    fn context(&self) -> &ActorContext {
        &self.context
    }

    fn info(&self) -> &ActorInfo {
        &self.info
    }

    fn last_answer(state: &mut EgressActorState) -> &mut Option<LastAnswer<EgressStatus>> {
        &mut state.last_answer
    }

    async fn record(
        &self,
        state: &mut EgressActorState,
        observation: EgressState,
        at: Timestamp,
    ) -> Result<(), TreeError> {
        self.record_and_store_response(state, observation, at, None)
            .await
    }
}

impl EgressActor {
    /// Polls the media plane and writes its answer. An egress that has ended there is not polled.
    pub(super) async fn refresh(&self, state: &mut EgressActorState) -> Result<Egress, TreeError> {
        if !state.has_ended_on_plane() {
            let answer = self
                .context
                .media
                .egress(&state.egress.namespaced_room(), &self.id)
                .await;
            self.record_answer(state, answer, None).await?;
        }
        Ok(state.egress.clone())
    }

    /// Asks the media plane to stop the egress. One that has ended there stays as it is.
    pub(super) async fn stop(
        &self,
        state: &mut EgressActorState,
        recorder: Option<ResponseRecorder<Egress>>,
    ) -> Result<Egress, TreeError> {
        if !state.has_ended_on_plane() {
            let answer = self
                .context
                .media
                .stop_egress(&state.egress.namespaced_room(), &self.id)
                .await;
            self.record_answer(
                state,
                answer.map(|known| known.map(at_least_ending)),
                recorder,
            )
            .await?;
        }
        Ok(state.egress.clone())
    }

    /// Polls the media plane, in case a report was lost. An egress without an open room is stopped instead.
    pub(super) async fn poll(&self, state: &mut EgressActorState) {
        state.settle = None;
        let polled = if state.room_open {
            self.refresh(state).await
        } else {
            self.stop(state, None).await
        };
        self.warn_if_failed(polled);
    }

    /// Arms the timer that polls an egress which should become final soon, in case that report is lost.
    pub(super) fn arm_settle(&self, me: &Mailbox<EgressMsg>, state: &mut EgressActorState) {
        let settling = state.egress.status == EgressStatus::Ending || !state.room_open;
        if !settling || state.has_ended_on_plane() {
            state.settle = None;
        } else if state.settle.is_none() {
            let at = self.context.clock.now().after(SETTLE_POLL_INTERVAL);
            state.settle = Some(Timer::arm(
                &self.context.clock,
                "settle",
                at,
                me,
                EgressMsg::Poll,
            ));
        }
    }

    /// Writes the media plane's answer. An egress that it does not know has failed.
    async fn record_answer(
        &self,
        state: &mut EgressActorState,
        answer: PollAnswer<EgressState>,
        recorder: Option<ResponseRecorder<Egress>>,
    ) -> Result<(), TreeError> {
        let now = self.context.clock.now();
        self.remember(state, &answer);
        let observation = answer?.unwrap_or_else(|| EgressState {
            egress_id: self.id.clone(),
            status: EgressStatus::Failed,
            error: Some(FORGOTTEN.into()),
            started_at: state.egress.started_at,
            ended_at: Some(now),
        });
        self.record_and_store_response(state, observation, now, recorder)
            .await
    }

    /// Writes a state to the record, with the response to store. Most states are known already, and are not written.
    async fn record_and_store_response(
        &self,
        state: &mut EgressActorState,
        observation: EgressState,
        at: Timestamp,
        recorder: Option<ResponseRecorder<Egress>>,
    ) -> Result<(), TreeError> {
        let has_file = state.upload.as_ref().is_some_and(Upload::is_recording);
        if has_file && observation.status.is_final() {
            return self.end_recording(state, observation, at, recorder).await;
        }
        // The end of a recording with an upload is that of the upload.
        if state.has_ended_on_plane() && !state.egress.status.is_final() {
            return Ok(());
        }
        if recorder.is_some() || state.egress.status.may_become(observation.status) {
            let project = state.egress.project_id.clone();
            state.egress = self
                .context
                .store
                .egresses()
                .record(project, observation, at, recorder)
                .await?;
        }
        Ok(())
    }
}

/// A media plane may answer a stop before its worker has begun to end; the egress is ending all the same.
fn at_least_ending(state: EgressState) -> EgressState {
    match state.status {
        EgressStatus::Starting | EgressStatus::Active => EgressState {
            status: EgressStatus::Ending,
            ..state
        },
        _ => state,
    }
}
