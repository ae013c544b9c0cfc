//! Quality of a participant's session: the current interval, and the sum of the samples.

use std::time::Instant;

use conclave_model::quality::{ClientProgram, QualitySample, QualitySummary, ReconnectReason};

use crate::event::FailureReason;

/// Samples between two reports with a summary: one minute. More often would rewrite its record for little.
const SAMPLES_PER_SUMMARY: u32 = 6;

/// Quality of a participant's session.
#[derive(Debug, Default)]
pub struct SessionMeter {
    /// Start of the current interval; `None` before the participant is connected, and after the last report.
    since: Option<Instant>,
    /// Number of reports.
    reports: u32,
    /// Interruptions in the current interval.
    interruptions: u32,
    /// Resumes in the current interval.
    reconnects: u32,
    summary: QualitySummary,
}

impl SessionMeter {
    /// Creates the meter of a participant that is not connected.
    pub fn new(client: Option<Box<ClientProgram>>) -> Self {
        let summary = QualitySummary {
            client: client.map(|client| *client),
            ..QualitySummary::default()
        };
        Self {
            summary,
            ..Self::default()
        }
    }

    /// Starts the first interval.
    pub fn start(&mut self, now: Instant) {
        self.since = Some(now);
    }

    /// Counts a resume by the client.
    pub fn count_reconnect(&mut self) {
        self.reconnects += 1;
    }

    /// Counts an interruption.
    pub fn count_interruption(&mut self) {
        self.interruptions += 1;
    }

    /// Records that packets arrive again.
    pub fn recover(&mut self) {
        self.summary.failure = None;
    }

    /// Records the codec of a track that the client sends.
    pub fn record_sent_codec(&mut self, name: &str) {
        self.summary.sent.add_codec(name);
    }

    /// Records the codec of a track that the client receives. At the start of the track, since it may end before the next sample.
    pub fn record_received_codec(&mut self, name: &str) {
        self.summary.received.add_codec(name);
    }

    /// Records the reason that a resuming client states.
    pub fn record_reconnect(&mut self, reason: ReconnectReason) {
        self.summary.reconnects.count_reason(reason);
    }

    /// Returns the start of the current interval, if one is measured.
    pub const fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Ends the last interval.
    pub fn stop(&mut self) {
        self.since = None;
    }

    /// Adds the current interval's sample, completed with the interruptions and resumes, and starts the next interval. Returns the sample,
    /// and the summary if a report is due.
    pub fn add(
        &mut self,
        measured: QualitySample,
        is_last: bool,
        now: Instant,
    ) -> (QualitySample, Option<QualitySummary>) {
        let sample = QualitySample {
            interruptions: std::mem::take(&mut self.interruptions),
            reconnects: std::mem::take(&mut self.reconnects),
            ..measured
        };
        self.summary.add(&sample);
        let has_summary = is_last || self.reports.is_multiple_of(SAMPLES_PER_SUMMARY);
        self.reports = self.reports.wrapping_add(1);
        self.since = Some(now);
        (sample, has_summary.then(|| self.summary.clone()))
    }

    /// Records why the session's media failed.
    pub fn record_failure(&mut self, reason: FailureReason) {
        self.summary.failure = Some(reason.as_str().to_owned());
    }
}
