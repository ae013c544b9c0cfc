//! The LiveKit plane against a fake LiveKit: its calls, peculiarities of LiveKit's API, and failures.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod calls;
mod config_check;
mod egress;
mod ghosts;
mod ingress;
mod outages;
mod subscriptions;
mod webhook_properties;
mod webhooks;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use conclave_media::livekit::{LivekitPlane, LivekitSettings};
use conclave_media::token::TokenSigner;
use conclave_media::{
    MediaError, MediaEvent, Report, ReportError, ReportInlet, ReportReply, ReportSink,
};
use conclave_model::{Clock, Identity, LeaseCheck, NamespacedRoom, Secret};
use livekit_double::Double;
use tokio::sync::oneshot;

const ROOM: &str = "prj_0123456789ab.standup";

fn room() -> NamespacedRoom {
    ROOM.parse().unwrap()
}

fn alice() -> Identity {
    "alice".parse().unwrap()
}

/// Time limit of calls that succeed at once, also on a busy machine.
const AMPLE: Duration = Duration::from_secs(60);

/// A plane, the fake LiveKit that it calls, and the reports that it sent.
struct TestPlane {
    double: Double,
    plane: LivekitPlane,
    sink: Arc<RecordingSink>,
}

impl TestPlane {
    fn new() -> Self {
        Self::with_timeout(AMPLE)
    }

    fn with_timeout(timeout: Duration) -> Self {
        Self::with(timeout, Clock::system())
    }

    /// Creates a plane with a manual clock, which starts at the current time.
    fn with_clock() -> (Self, Clock) {
        let clock = Clock::manual(Clock::system().now());
        (Self::with(AMPLE, clock.clone()), clock)
    }

    fn with(timeout: Duration, clock: Clock) -> Self {
        let double = Double::start();
        let sink = Arc::<RecordingSink>::default();
        let plane = plane_at(
            &double.url(),
            &double.api_secret,
            timeout,
            clock,
            Arc::clone(&sink) as _,
        );
        Self {
            double,
            plane,
            sink,
        }
    }
}

/// Creates a plane whose reports are not received.
fn plane(url: &str, secret: &str, timeout: Duration) -> LivekitPlane {
    plane_at(
        url,
        secret,
        timeout,
        Clock::system(),
        Arc::new(ReportInlet::default()),
    )
}

fn plane_at(
    url: &str,
    secret: &str,
    timeout: Duration,
    clock: Clock,
    sink: Arc<dyn ReportSink>,
) -> LivekitPlane {
    let signer = Arc::new(TokenSigner::new("APIdouble", &Secret::new(secret)));
    LivekitPlane::new(settings(url, timeout), signer, clock, sink)
}

fn settings(url: &str, timeout: Duration) -> LivekitSettings {
    let lease = LeaseCheck::not_needed();
    LivekitSettings {
        url: url.to_owned(),
        timeout,
        recordings: "/recordings".into(),
        lease,
    }
}

/// Accepts all reports, or replies with the errors that were set.
#[derive(Default)]
struct RecordingSink {
    reports: Mutex<Vec<Report>>,
    errors: Mutex<VecDeque<ReportError>>,
}

impl RecordingSink {
    fn fail_next(&self, error: ReportError) {
        self.errors.lock().unwrap().push_back(error);
    }

    fn take_reports(&self) -> Vec<Report> {
        std::mem::take(&mut *self.reports.lock().unwrap())
    }

    fn take_events(&self) -> Vec<MediaEvent> {
        self.take_reports()
            .into_iter()
            .map(|report| report.event)
            .collect()
    }
}

impl ReportSink for RecordingSink {
    fn report_all(&self, reports: Vec<Report>) -> Vec<ReportReply> {
        let record = |report| {
            let (sender, answer) = oneshot::channel();
            let error = self.errors.lock().unwrap().pop_front();
            self.reports.lock().unwrap().push(report);
            sender.send(error.map_or(Ok(()), Err)).unwrap();
            answer
        };
        reports.into_iter().map(record).collect()
    }
}

fn message(error: MediaError) -> String {
    match error {
        MediaError::Unavailable(message) | MediaError::Refused(message) => message,
        other @ (MediaError::CircuitOpen { .. }
        | MediaError::NoSuchTrack
        | MediaError::Encrypted { .. }
        | MediaError::InvalidFilepath(_)
        | MediaError::Busy { .. }) => {
            panic!("{other}")
        }
    }
}

/// Waits for a condition that a spawned task establishes.
async fn eventually(mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "the condition did not hold within 60 s"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
