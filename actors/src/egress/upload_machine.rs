//! Upload state machine, without I/O: when the file is uploaded, and the resulting status of its recording.

use std::time::Duration;

use conclave_db::{PendingUpload, RecordingEnd, UploadRest};
use conclave_model::egress::EgressStatus;
use conclave_model::{NodeId, Timestamp};
use conclave_outbound::upload::UploadFailure;
use serde_json::{Value, json};

/// Delays before further attempts while the server runs. The last one repeats.
const DELAYS: [Duration; 4] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(600),
];
/// Delay before a file on another server's disk is looked for again. The disk may be shared, and mounted later.
const LOOK_AGAIN: Duration = Duration::from_secs(600);
/// Interrupted attempts after which the recording has failed, although its file may still be uploaded.
const PATIENCE: usize = 4;

/// Recording upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UploadMachine {
    phase: Phase,
    /// Attempts that have failed in this run of the server.
    failures: usize,
    last_failure: Option<String>,
    file: FileLocation,
}

/// Server whose disk has the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileLocation {
    /// This server.
    Here,
    /// Another server, whose disk may be shared.
    Elsewhere {
        /// The other server.
        node: NodeId,
        /// Time at which the file was first missed.
        missing_since: Option<Timestamp>,
        /// Time after which a missing file counts as lost.
        lost_after: Duration,
    },
}

impl FileLocation {
    /// Returns a file's location.
    pub fn new(pending: &PendingUpload, here: &NodeId, lost_after: Duration) -> Self {
        match &pending.node {
            Some(node) if node != here => Self::Elsewhere {
                node: node.clone(),
                missing_since: pending.missing_since,
                lost_after,
            },
            // Recordings by versions without node ids are taken for this server's own.
            _ => Self::Here,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The recording is running.
    Recording,
    /// The next attempt is due at this time.
    Waiting(Timestamp),
    /// An attempt is running.
    Running,
    /// Nothing is left to do.
    Ended,
}

/// Attempt result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AttemptResult {
    /// The file was uploaded.
    Uploaded,
    /// There will be another attempt, before which the recording is not final.
    Retried,
    /// There was nothing to upload.
    NoFile,
    /// The file is on another server's disk, and will be uploaded by that server when it is active again.
    Awaited {
        /// Time at which it was first missed.
        since: Timestamp,
    },
    /// The other server was not active for too long.
    Lost {
        /// Server whose disk has the file.
        node: NodeId,
        /// Time for which it was awaited.
        waited: Duration,
    },
    /// The recording has failed.
    Failed {
        /// Reason why the last attempt failed.
        reason: String,
        /// Whether there will be others.
        rest: UploadRest,
    },
}

impl AttemptResult {
    /// Returns the attempt's label in the metrics; `None` if nothing was attempted.
    pub const fn label(&self) -> Option<&'static str> {
        match self {
            Self::Uploaded => Some("uploaded"),
            Self::Retried => Some("retried"),
            Self::Failed { .. } => Some("failed"),
            Self::NoFile | Self::Awaited { .. } | Self::Lost { .. } => None,
        }
    }
}

impl UploadMachine {
    /// Creates the upload of a recording that runs, or that has ended, possibly in an earlier run of the server.
    pub fn new(has_recording_ended: bool, file: FileLocation, now: Timestamp) -> Self {
        // After a restart, an outstanding upload starts at once.
        let phase = if has_recording_ended {
            Phase::Waiting(now)
        } else {
            Phase::Recording
        };
        Self {
            phase,
            failures: 0,
            last_failure: None,
            file,
        }
    }

    /// Returns whether the recording runs, so that there is no file yet.
    pub fn is_recording(&self) -> bool {
        self.phase == Phase::Recording
    }

    /// Returns whether nothing is left to do.
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Records the end of the recording, after which its file exists.
    pub fn end_recording(&mut self, now: Timestamp) {
        // A second report about the end must not restart the upload.
        if self.is_recording() {
            self.phase = Phase::Waiting(now);
        }
    }

    /// Returns when the next attempt is due, if there is one.
    pub fn due(&self) -> Option<Timestamp> {
        if let Phase::Waiting(at) = self.phase {
            Some(at)
        } else {
            None
        }
    }

    /// Starts an attempt if it is due. Returns whether it was.
    pub fn begin(&mut self, now: Timestamp) -> bool {
        let is_due = self.due().is_some_and(|at| at <= now);
        if is_due {
            self.phase = Phase::Running;
        }
        is_due
    }

    /// Records an attempt's result.
    pub fn end_attempt(
        &mut self,
        result: Result<(), UploadFailure>,
        now: Timestamp,
    ) -> AttemptResult {
        // The end unless one of the cases below schedules another attempt.
        self.phase = Phase::Ended;
        let (reason, may_recover) = match result {
            Ok(()) => return AttemptResult::Uploaded,
            Err(UploadFailure::NoFile) => return self.miss_file(now),
            // Nobody can restore the destination, so the file stays where it is.
            Err(UploadFailure::NoDestination) => {
                return AttemptResult::Failed {
                    reason: "the destination was deleted".into(),
                    rest: UploadRest::Nothing,
                };
            }
            // Refused by the storage, such as for wrong credentials. The recording fails now, so that the operator learns of it, but later
            // attempts may succeed.
            Err(UploadFailure::Refused(reason)) => (reason, false),
            Err(UploadFailure::Interrupted(reason)) => (reason, true),
        };
        // For the debug endpoint only.
        self.last_failure = Some(reason.clone());
        let delay = DELAYS
            // The last delay is repeated as long as the server runs.
            .get(self.failures)
            .or(DELAYS.last())
            .copied()
            .unwrap_or_default();
        self.failures += 1;
        self.phase = Phase::Waiting(now.after(delay));
        // A short outage of the storage must not make recordings fail.
        if may_recover && self.failures < PATIENCE {
            AttemptResult::Retried
        } else {
            AttemptResult::Failed {
                reason,
                rest: UploadRest::Attempts,
            }
        }
    }

    /// Waits for a file on another server's disk.
    fn miss_file(&mut self, now: Timestamp) -> AttemptResult {
        let FileLocation::Elsewhere {
            node,
            missing_since,
            lost_after,
        } = &mut self.file
        else {
            return AttemptResult::NoFile;
        };
        // The first time counts, across restarts: it is in the records.
        let since = *missing_since.get_or_insert(now);
        let lost_at = since.after(*lost_after);
        if lost_at <= now {
            return AttemptResult::Lost {
                node: node.clone(),
                waited: *lost_after,
            };
        }
        // Not later than the time at which the file counts as lost.
        self.phase = Phase::Waiting(lost_at.min(now.after(LOOK_AGAIN)));
        AttemptResult::Awaited { since }
    }

    /// Schedules another attempt after the result of one could not be written.
    pub fn postpone(&mut self, now: Timestamp) {
        self.phase = Phase::Waiting(now.after(DELAYS[0]));
    }

    /// Returns the state for the debug endpoint.
    pub fn inspect(&self) -> Value {
        let phase = match self.phase {
            Phase::Recording => "recording",
            Phase::Waiting(_) => "waiting",
            Phase::Running => "running",
            Phase::Ended => "ended",
        };
        let mut state = json!({"phase": phase, "failed_attempts": self.failures, "last_failure": self.last_failure});
        if let FileLocation::Elsewhere {
            node,
            missing_since,
            ..
        } = &self.file
        {
            (state["node"], state["missing_since"]) = (json!(node), json!(missing_since));
        }
        state
    }
}

/// Returns the final state of a recording after an upload attempt, or `None` if there will be another one. `has_failed_before` means that
/// an earlier attempt has made it fail: its status stays, and only the error can change.
pub(super) fn final_state(
    end: &RecordingEnd,
    result: &AttemptResult,
    has_failed_before: bool,
) -> Option<RecordingEnd> {
    let failed = |error: String| {
        Some(RecordingEnd {
            status: EgressStatus::Failed,
            error: Some(error),
        })
    };
    // A recording that failed by itself keeps its own error, followed by the upload's.
    let cause = end
        .error
        .as_ref()
        .map(|error| format!("{error}; "))
        .unwrap_or_default();
    match result {
        AttemptResult::Retried | AttemptResult::Awaited { .. } => None,
        // The status cannot leave `failed`, but the error must not claim that the file is missing.
        AttemptResult::Uploaded if has_failed_before && end.error.is_none() => {
            failed("the upload failed at first; a later attempt has uploaded the file".into())
        }
        AttemptResult::Uploaded => Some(end.clone()),
        // The recording ended before anything was written to its file.
        AttemptResult::NoFile
            if matches!(end.status, EgressStatus::Failed | EgressStatus::Aborted) =>
        {
            Some(end.clone())
        }
        AttemptResult::NoFile => failed("the recorded file is gone".into()),
        // The file may still exist there, so the error names the server.
        AttemptResult::Lost { node, waited } => failed(format!(
            "{cause}the recorded file is on the disk of another server, {node}, which was not active for {}",
            humantime::format_duration(*waited)
        )),
        AttemptResult::Failed { reason, rest } => {
            let rest = match rest {
                UploadRest::Attempts => ", which tries again",
                UploadRest::Nothing => "",
            };
            failed(format!(
                "{cause}the upload failed: {reason}; the file stays on the server{rest}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_millis(0)
    }

    fn interrupted() -> Result<(), UploadFailure> {
        Err(UploadFailure::Interrupted("connection refused".into()))
    }

    fn failed(reason: &str, rest: UploadRest) -> AttemptResult {
        AttemptResult::Failed {
            reason: reason.into(),
            rest,
        }
    }

    #[test]
    fn an_upload_begins_when_the_recording_has_ended_and_once() {
        let mut upload = UploadMachine::new(false, FileLocation::Here, now());
        assert!(!upload.begin(now()) && upload.is_recording());
        upload.end_recording(now());
        assert!(upload.begin(now()) && !upload.begin(now()));
        upload.end_recording(now());
        assert!(!upload.begin(now()));
        assert_eq!(upload.end_attempt(Ok(()), now()), AttemptResult::Uploaded);
        assert!(upload.has_ended() && !upload.begin(now()));
    }

    #[test]
    fn an_upload_that_is_outstanding_at_a_start_begins_at_once() {
        assert!(UploadMachine::new(true, FileLocation::Here, now()).begin(now()));
    }

    #[test]
    fn a_failed_attempt_is_made_again_with_growing_delays_up_to_ten_minutes_as_long_as_the_server_runs()
     {
        let refused = || Err(UploadFailure::Refused("403".into()));
        for (failure, patience) in [(interrupted as fn() -> _, 4), (refused as fn() -> _, 1)] {
            let (mut upload, mut at) = (UploadMachine::new(true, FileLocation::Here, now()), now());
            for (number, seconds) in [10, 60, 300, 600, 600, 600, 600].into_iter().enumerate() {
                assert!(upload.begin(at));
                let result = upload.end_attempt(failure(), at);
                assert_eq!(
                    result == AttemptResult::Retried,
                    number + 1 < patience,
                    "{number}: {result:?}"
                );
                assert!(
                    !upload.begin(at.after(Duration::from_secs(seconds - 1)))
                        && !upload.has_ended()
                );
                at = at.after(Duration::from_secs(seconds));
                assert_eq!(upload.due(), Some(at));
            }
            assert!(upload.begin(at));
            assert_eq!(upload.end_attempt(Ok(()), at), AttemptResult::Uploaded);
            assert!(upload.has_ended());
        }
    }

    #[test]
    fn an_attempt_without_a_destination_or_a_file_is_the_last_one() {
        for (failure, result) in [
            (
                UploadFailure::NoDestination,
                failed("the destination was deleted", UploadRest::Nothing),
            ),
            (UploadFailure::NoFile, AttemptResult::NoFile),
        ] {
            let mut upload = UploadMachine::new(true, FileLocation::Here, now());
            assert!(upload.begin(now()));
            assert_eq!(upload.end_attempt(Err(failure), now()), result);
            assert!(upload.has_ended());
        }
    }

    fn at_hour(hour: u64) -> Timestamp {
        now().after(Duration::from_secs(hour * 3_600))
    }

    fn elsewhere(missing_since: Option<Timestamp>) -> FileLocation {
        let (node, lost_after) = (NodeId::new(), Duration::from_secs(24 * 3_600));
        FileLocation::Elsewhere {
            node,
            missing_since,
            lost_after,
        }
    }

    #[test]
    fn a_file_on_the_disk_of_another_server_is_looked_for_every_ten_minutes_and_lost_after_a_day() {
        let mut upload = UploadMachine::new(true, elsewhere(None), now());
        let (mut at, mut looks) = (now(), 0);
        let last = loop {
            assert!(upload.begin(at));
            let result = upload.end_attempt(Err(UploadFailure::NoFile), at);
            if result != (AttemptResult::Awaited { since: now() }) {
                break result;
            }
            (at, looks) = (upload.due().unwrap(), looks + 1);
        };
        assert!(matches!(last, AttemptResult::Lost { .. }) && upload.has_ended());
        assert_eq!((at, looks), (at_hour(24), 24 * 6));
    }

    #[test]
    fn the_wait_for_another_server_goes_on_after_a_start_and_ends_when_the_file_is_there() {
        let mut upload = UploadMachine::new(true, elsewhere(Some(now())), at_hour(23));
        assert!(upload.begin(at_hour(23)));
        let missed = upload.end_attempt(Err(UploadFailure::NoFile), at_hour(23));
        assert_eq!(missed, AttemptResult::Awaited { since: now() });
        assert!(upload.begin(at_hour(24)));
        assert_eq!(
            upload.end_attempt(Ok(()), at_hour(24)),
            AttemptResult::Uploaded
        );
        assert!(upload.has_ended());
    }

    #[test]
    fn a_file_is_here_if_this_server_recorded_it_or_an_earlier_version() {
        let (here, day) = (NodeId::new(), Duration::from_secs(24 * 3_600));
        let place = |node: Option<&NodeId>| {
            let pending = PendingUpload {
                node: node.cloned(),
                ..PendingUpload::default()
            };
            FileLocation::new(&pending, &here, day)
        };
        assert_eq!(
            (place(None), place(Some(&here))),
            (FileLocation::Here, FileLocation::Here)
        );
        assert!(matches!(
            place(Some(&NodeId::new())),
            FileLocation::Elsewhere { .. }
        ));
    }

    #[test]
    fn the_final_state_is_that_of_the_recording_unless_the_upload_failed() {
        let end = |status, error: Option<&str>| RecordingEnd {
            status,
            error: error.map(Into::into),
        };
        let (complete, limit) = (
            end(EgressStatus::Complete, None),
            end(EgressStatus::LimitReached, None),
        );
        let crashed = end(EgressStatus::Failed, Some("restarted"));
        for end in [&complete, &limit, &crashed] {
            assert_eq!(final_state(end, &AttemptResult::Retried, false), None);
            let uploaded = final_state(end, &AttemptResult::Uploaded, false);
            assert_eq!(uploaded.as_ref(), Some(end));
        }
        let error = |end, result, before| {
            final_state(end, &result, before)
                .and_then(|end| end.error)
                .unwrap()
        };
        let stays = "the file stays on the server";
        assert_eq!(
            error(&limit, failed("403", UploadRest::Attempts), false),
            format!("the upload failed: 403; {stays}, which tries again")
        );
        assert_eq!(
            error(&crashed, failed("403", UploadRest::Nothing), false),
            format!("restarted; the upload failed: 403; {stays}")
        );
        assert!(error(&complete, AttemptResult::Uploaded, true).contains("a later attempt"));
        assert_eq!(error(&crashed, AttemptResult::Uploaded, true), "restarted");
        assert_eq!(error(&crashed, AttemptResult::NoFile, false), "restarted");
        let lost = AttemptResult::Lost {
            node: "node_0123456789ab".parse().unwrap(),
            waited: Duration::from_secs(86_400),
        };
        assert_eq!(
            error(&crashed, lost, false),
            "restarted; the recorded file is on the disk of another server, node_0123456789ab, which was not active for 1day"
        );
        let aborted = end(EgressStatus::Aborted, None);
        assert_eq!(
            final_state(&aborted, &AttemptResult::NoFile, false),
            Some(aborted)
        );
        assert_eq!(
            error(&complete, AttemptResult::NoFile, false),
            "the recorded file is gone"
        );
    }
}
