//! Upload of a recording's file, after the recording has ended.

use std::sync::Arc;

use conclave_db::{PendingUpload, RecordingEnd, StoreError, UploadRest, Uploads};
use conclave_model::destination::RecordingConfig;
use conclave_model::egress::{Egress, EgressDetail, EgressState, EgressStatus};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::{DestinationId, EgressId, ProjectId, Timestamp};
use conclave_outbound::upload::{
    RunningUpload, UploadFailure, UploadProgress, UploadRecords, UploadedFile,
};
use serde_json::Value;

use super::upload_machine::{AttemptResult, FileLocation, UploadMachine, final_state};
use super::{EgressMsg, LiveEgress};
use crate::context::ActorContext;
use crate::error::TreeError;
use crate::mailbox::Timer;

/// Recording upload.
pub(super) struct Upload {
    machine: UploadMachine,
    /// Recording outcome; `None` while it runs.
    end: Option<RecordingEnd>,
    /// Recorded time at which the file was first missed.
    missing_since: Option<Timestamp>,
    /// Whether an earlier attempt has made the recording fail.
    has_failed_before: bool,
    progress: Arc<UploadProgress>,
    running: Option<RunningUpload>,
    pub timer: Option<Timer>,
}

impl Upload {
    pub fn new(egress: &Egress, pending: PendingUpload, context: &ActorContext) -> Self {
        let file = FileLocation::new(&pending, &context.node, context.settings.lost_after);
        let PendingUpload {
            end,
            multipart_id,
            missing_since,
            ..
        } = pending;
        Self {
            machine: UploadMachine::new(end.is_some(), file, context.clock.now()),
            missing_since,
            end,
            has_failed_before: egress.status.is_final(),
            // The first attempt aborts the multipart upload of an earlier run.
            progress: Arc::new(UploadProgress::new(egress.egress_id.clone(), multipart_id)),
            running: None,
            timer: None,
        }
    }

    /// Returns whether the recording runs, so that there is no file yet.
    pub fn is_recording(&self) -> bool {
        self.machine.is_recording()
    }

    /// Returns whether nothing is left to do.
    pub fn has_ended(&self) -> bool {
        self.machine.has_ended()
    }

    /// Returns the state for the debug endpoint.
    pub fn inspect(&self) -> Value {
        let mut state = self.machine.inspect();
        state["sent_bytes"] = self.progress.sent().into();
        state["size_bytes"] = self.progress.size().into();
        state
    }
}

/// Store operations for an upload.
struct Records {
    uploads: Uploads,
    project: ProjectId,
    egress: EgressId,
    /// Destination, whose configuration is read for each attempt.
    destination: DestinationId,
}

impl UploadRecords for Records {
    async fn storage(&self) -> Result<RecordingConfig, UploadFailure> {
        let found = self
            .uploads
            .storage(self.project.clone(), self.destination.clone())
            .await;
        // The credentials cannot be decrypted, or the database is unavailable. Both may be over at
        // the next attempt.
        found
            .map_err(interrupted)?
            .ok_or(UploadFailure::NoDestination)
    }

    async fn record_multipart(&self, multipart: String) -> Result<(), UploadFailure> {
        let recorded =
            self.uploads
                .record_multipart(self.project.clone(), self.egress.clone(), multipart);
        recorded.await.map_err(interrupted)
    }
}

fn interrupted(error: StoreError) -> UploadFailure {
    UploadFailure::Interrupted(error.to_string())
}

impl LiveEgress {
    /// Records the outcome of a recording. It is ending until its file is uploaded.
    pub(super) async fn end_recording(
        &mut self,
        observation: EgressState,
        at: Timestamp,
        recorder: Option<ResponseRecorder<Egress>>,
    ) -> Result<(), TreeError> {
        let end = RecordingEnd {
            status: observation.status,
            error: observation.error.clone(),
        };
        let project = self.egress.project_id.clone();
        self.egress = self
            .context
            .store
            .uploads()
            .record_recording_end(project, observation, at, recorder)
            .await?;
        // After the write: if that fails, the same report or a poll repeats it.
        if let Some(upload) = &mut self.upload {
            upload.end = Some(end);
            upload.machine.end_recording(self.context.clock.now());
        }
        Ok(())
    }

    /// Starts an attempt that is due, or arms the timer for the next one.
    pub(super) fn drive_upload(&mut self) {
        let (clock, now) = (&self.context.clock, self.context.clock.now());
        let Some(upload) = &mut self.upload else {
            return;
        };
        if upload.machine.begin(now) {
            upload.timer = None;
            let (EgressDetail::Recording { filepath, .. }, Some(used)) =
                (&self.egress.detail, &self.egress.destination)
            else {
                // Only recordings with a destination have an upload.
                return;
            };
            let (project, destination) = (self.egress.project_id.clone(), used.id.clone());
            let (uploads, egress) = (self.context.store.uploads().clone(), self.id.clone());
            let records = Records {
                uploads,
                project: project.clone(),
                egress,
                destination: destination.clone(),
            };
            let file = UploadedFile {
                project,
                destination,
                filepath: filepath.clone(),
            };
            let (me, progress) = (self.me.clone(), Arc::clone(&upload.progress));
            // If the actor has stopped, the row of the upload makes its successor start another
            // attempt.
            let done = move |result| drop(me.cast(EgressMsg::Uploaded(result)));
            upload.running = Some(self.context.uploads.start(file, records, progress, done));
        } else if let Some(at) = upload.machine.due()
            && upload.timer.is_none()
        {
            upload.timer = Some(Timer::arm(
                clock,
                "upload",
                at,
                &self.me,
                EgressMsg::UploadDue,
            ));
        }
    }

    /// Handles an attempt's result, and writes the final state of the recording.
    pub(super) async fn upload_ended(&mut self, result: Result<(), UploadFailure>) {
        let now = self.context.clock.now();
        let Some(upload) = &mut self.upload else {
            return;
        };
        upload.running = None;
        let result = upload.machine.end_attempt(result, now);
        if let Some(outcome) = result.label() {
            self.context.metrics.uploaded(outcome);
        }
        // Before the final state, which may depend on how long the file has been missing.
        self.record_missing_file(&result).await;
        let Some(upload) = &mut self.upload else {
            return;
        };
        let Some(end) = &upload.end else { return };
        let Some(RecordingEnd { status, error }) =
            // Without a final state there will be another attempt.
            final_state(end, &result, upload.has_failed_before)
        else {
            return;
        };
        let (egress_id, started_at) = (self.id.clone(), self.egress.started_at);
        let last = EgressState {
            egress_id,
            status,
            error,
            started_at,
            ended_at: Some(now),
        };
        let rest = if let AttemptResult::Failed { rest, .. } = result {
            rest
        } else {
            UploadRest::Nothing
        };
        let project = self.egress.project_id.clone();
        match self
            .context
            .store
            .uploads()
            .settle(project, last, now, rest)
            .await
        {
            Ok(egress) => self.egress = egress,
            // The upload is repeated, rather than its result being lost. Uploading the same file
            // again is harmless.
            Err(error) => {
                log::error!(egress_id = self.id.as_str(); "writing an upload's result failed, so the upload is repeated: {error}");
                return upload.machine.postpone(now);
            }
        }
        // The failure is logged once, and not at each further attempt.
        let has_failed_before = std::mem::replace(&mut upload.has_failed_before, true);
        self.log_result(&result, has_failed_before);
        // Only now: according to the record, the destination has the file.
        if result == AttemptResult::Uploaded {
            self.remove_file();
        }
    }

    /// Records the time since which the file is missing, or that it is there.
    async fn record_missing_file(&mut self, result: &AttemptResult) {
        let Some(upload) = &mut self.upload else {
            return;
        };
        let since = if let AttemptResult::Awaited { since } = result {
            Some(*since)
        } else {
            None
        };
        // Written only if it changes, since the file is looked for every ten minutes.
        if upload.has_ended() || since == upload.missing_since {
            return;
        }
        let (project, egress_id) = (self.egress.project_id.clone(), self.id.as_str());
        if since.is_some() {
            log::warn!(project = project.as_str(), egress_id; "a recording's file is on another server's disk: run that server, or share the disk");
        }
        match self
            .context
            .store
            .uploads()
            .record_missing_file(project, self.id.clone(), since)
            .await
        {
            Ok(()) => upload.missing_since = since,
            Err(error) => {
                log::warn!(egress_id; "recording that a file is missing failed: {error}");
            }
        }
    }

    /// Logs the first failure, and the success.
    fn log_result(&self, result: &AttemptResult, has_failed_before: bool) {
        let egress = &self.egress;
        let (project, egress_id) = (egress.project_id.as_str(), self.id.as_str());
        match &egress.error {
            Some(error) if egress.status == EgressStatus::Failed && !has_failed_before => {
                log::warn!(project, egress_id; "a recording has failed: {error}");
            }
            _ if *result == AttemptResult::Uploaded => {
                log::info!(project, egress_id; "a recording was uploaded");
            }
            _ => {}
        }
    }

    /// Removes an uploaded recording's file, in a spawned task.
    fn remove_file(&self) {
        let EgressDetail::Recording { filepath, .. } = &self.egress.detail else {
            return;
        };
        let (context, project, filepath) = (
            Arc::clone(&self.context),
            self.egress.project_id.clone(),
            filepath.clone(),
        );
        // On a blocking thread: removing a large file may take long.
        tokio::task::spawn_blocking(move || {
            if let Err(error) = context.uploads.remove(&project, &filepath) {
                log::warn!(project = project.as_str(); "removing an uploaded recording's file failed: {error}");
            }
        });
    }
}
