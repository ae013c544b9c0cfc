//! Keeps a recording's or a broadcast's record up to date.

use std::time::Duration;

use conclave_model::Timestamp;
use conclave_model::egress::{Egress, EgressKind, EgressState, EgressStatus};
use conclave_model::idempotency::ResponseRecorder;

use super::upload::Upload;
use super::{EgressMsg, LiveEgress};
use crate::context::ActorContext;
use crate::error::TreeError;
use crate::follow::{Follower, LastReply, Observation, PollReply};
use crate::info::ActorInfo;
use crate::mailbox::Timer;

/// Interval at which an egress that should soon be final is polled.
const SETTLE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Error in the record of an egress that the media plane lost.
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

impl Follower for LiveEgress {
    type Observation = EgressState;

    fn context(&self) -> &ActorContext {
        &self.context
    }

    fn info(&self) -> &ActorInfo {
        self.me.info()
    }

    fn last_answer(&mut self) -> &mut Option<LastReply<EgressStatus>> {
        &mut self.last_answer
    }

    async fn record(&mut self, observation: EgressState, at: Timestamp) -> Result<(), TreeError> {
        self.record_and_store_response(observation, at, None).await
    }
}

impl LiveEgress {
    /// Polls the media plane, and writes its reply. An egress that has ended there is not polled.
    pub(super) async fn refresh(&mut self) -> Result<Egress, TreeError> {
        if !self.has_ended_on_plane() {
            let answer = self
                .context
                .media
                .egress(&self.egress.namespaced_room(), &self.id)
                .await;
            self.record_reply(answer, None).await?;
        }
        Ok(self.egress.clone())
    }

    /// Stops the egress on the media plane. If it has ended there, nothing happens.
    pub(super) async fn stop(
        &mut self,
        recorder: Option<ResponseRecorder<Egress>>,
    ) -> Result<Egress, TreeError> {
        if !self.has_ended_on_plane() {
            let answer = self
                .context
                .media
                .stop_egress(&self.egress.namespaced_room(), &self.id)
                .await;
            self.record_reply(answer.map(|known| known.map(at_least_ending)), recorder)
                .await?;
        }
        Ok(self.egress.clone())
    }

    /// Pauses or resumes the recording: on the media plane first, so that a pause that the caller knows of is in force. If its write
    /// fails, it is undone there.
    pub(super) async fn set_paused(
        &mut self,
        paused: bool,
        recorder: Option<ResponseRecorder<Egress>>,
    ) -> Result<Egress, TreeError> {
        if !self.egress.is_running() {
            return Err(EgressKind::recording_ended().into());
        }
        let answer = self
            .context
            .media
            .set_egress_paused(&self.egress.namespaced_room(), &self.id, paused)
            .await;
        // The reply may show that the recording has ended meanwhile, which is then recorded, and the pause refused.
        self.record_reply(answer, None).await?;
        let project = self.egress.project_id.clone();
        let written = self
            .context
            .store
            .egresses()
            .set_paused(project, self.id.clone(), paused, recorder)
            .await;
        match written {
            Ok(egress) => {
                self.egress = egress;
                Ok(self.egress.clone())
            }
            Err(error) => {
                self.undo_pause(paused).await;
                Err(error.into())
            }
        }
    }

    /// Pauses or resumes the recording on the media plane as its record has it, after the change to `paused` was not written. Otherwise the
    /// file would lack media without a pause in the record.
    async fn undo_pause(&self, paused: bool) {
        let recorded = self.egress.paused.unwrap_or(false);
        if recorded == paused {
            return;
        }
        let undone = self
            .context
            .media
            .set_egress_paused(&self.egress.namespaced_room(), &self.id, recorded)
            .await;
        if let Err(error) = undone {
            log::error!(
                egress_id = self.id.as_str();
                "a recording's pause or its end was not written, and could not be undone on the media plane: {error}"
            );
        }
    }

    /// Polls the media plane, in case a report was lost. An egress whose room has ended is stopped instead.
    pub(super) async fn poll(&mut self) {
        self.settle = None;
        // An egress must not outlive its room, even if the message about the end of the room was lost.
        let polled = if self.room_open {
            self.refresh().await
        } else {
            self.stop(None).await
        };
        self.warn_if_failed(polled);
    }

    /// Arms the timer that polls an egress which should soon be final, in case the report about its end is lost.
    pub(super) fn arm_settle(&mut self) {
        // While an egress runs in an open room, the regular reconciliation is enough.
        let settling = self.egress.status == EgressStatus::Ending || !self.room_open;
        if !settling || self.has_ended_on_plane() {
            self.settle = None;
        } else if self.settle.is_none() {
            // Polls repeat until the status is final, since each message arms the timer again.
            let at = self.context.clock.now().after(SETTLE_POLL_INTERVAL);
            self.settle = Some(Timer::arm(
                &self.context.clock,
                "settle",
                at,
                &self.me,
                EgressMsg::Poll,
            ));
        }
    }

    /// Writes the media plane's reply. An egress that is unknown to the media plane is recorded as failed.
    async fn record_reply(
        &mut self,
        answer: PollReply<EgressState>,
        recorder: Option<ResponseRecorder<Egress>>,
    ) -> Result<(), TreeError> {
        let now = self.context.clock.now();
        self.remember(&answer);
        let observation = answer?.unwrap_or_else(|| EgressState {
            egress_id: self.id.clone(),
            status: EgressStatus::Failed,
            error: Some(FORGOTTEN.into()),
            started_at: self.egress.started_at,
            ended_at: Some(now),
        });
        self.record_and_store_response(observation, now, recorder)
            .await
    }

    /// Writes a state to the record, with the response to store. A state that is already recorded is not written again.
    async fn record_and_store_response(
        &mut self,
        observation: EgressState,
        at: Timestamp,
        recorder: Option<ResponseRecorder<Egress>>,
    ) -> Result<(), TreeError> {
        // The recording is over, but its record becomes final only with the upload.
        let has_file = self.upload.as_ref().is_some_and(Upload::is_recording);
        if has_file && observation.status.is_final() {
            return self.end_recording(observation, at, recorder).await;
        }
        // A recording with an upload ends with the upload, so late reports about the recording change nothing.
        if self.has_ended_on_plane() && !self.egress.status.is_final() {
            return Ok(());
        }
        // A response has to be stored even if the state is already recorded.
        if recorder.is_some() || self.egress.status.may_become(observation.status) {
            let project = self.egress.project_id.clone();
            self.egress = self
                .context
                .store
                .egresses()
                .record(project, observation, at, recorder)
                .await?;
        }
        Ok(())
    }
}

/// Returns the state to record after a stop request, which is at least `ending`: a media plane may reply before its worker has started to
/// stop.
fn at_least_ending(state: EgressState) -> EgressState {
    match state.status {
        EgressStatus::Starting | EgressStatus::Active => EgressState {
            status: EgressStatus::Ending,
            ..state
        },
        _ => state,
    }
}
