//! The LiveKit plane against a server written for the tests: each call, each of LiveKit's quirks, each way it fails.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod calls;
mod jobs;
mod outages;
mod settings;
mod stranded;
mod subscriptions;
mod webhooks;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use conclave_media::livekit::{LivekitPlane, LivekitSettings};
use conclave_media::token::TokenSigner;
use conclave_media::{MediaError, MediaEvent, Report, ReportAnswer, ReportError, ReportSink};
use conclave_model::{Clock, Identity, NamespacedRoom, Secret};
use livekit_double::Double;
use tokio::sync::oneshot;

const ROOM: &str = "prj_0123456789ab.standup";

fn room() -> NamespacedRoom {
    ROOM.parse().unwrap()
}

fn alice() -> Identity {
    "alice".parse().unwrap()
}

/// A plane, its server, and what it reported.
struct Stage {
    double: Double,
    plane: LivekitPlane,
    sink: Arc<Notes>,
}

impl Stage {
    fn new() -> Self {
        Self::with_timeout(Duration::from_secs(5))
    }

    fn with_timeout(timeout: Duration) -> Self {
        Self::with(timeout, Clock::system())
    }

    /// One whose clock the test moves, from now on.
    fn with_clock() -> (Self, Clock) {
        let clock = Clock::manual(Clock::system().now());
        (Self::with(Duration::from_secs(5), clock.clone()), clock)
    }

    fn with(timeout: Duration, clock: Clock) -> Self {
        let double = Double::start();
        let plane = plane_at(&double.url(), &double.api_secret, timeout, clock);
        let sink = Arc::<Notes>::default();
        plane.set_report_sink(Arc::clone(&sink) as Arc<dyn ReportSink>);
        Self { double, plane, sink }
    }
}

fn plane(url: &str, secret: &str, timeout: Duration) -> LivekitPlane {
    plane_at(url, secret, timeout, Clock::system())
}

fn plane_at(url: &str, secret: &str, timeout: Duration, clock: Clock) -> LivekitPlane {
    let signer = Arc::new(TokenSigner::new("APIdouble", &Secret::new(secret)));
    let settings = LivekitSettings { url: url.to_owned(), timeout, recordings: "/recordings".into() };
    LivekitPlane::new(settings, signer, clock)
}

/// Takes every report, or answers as it was told to.
#[derive(Default)]
struct Notes {
    reports: Mutex<Vec<Report>>,
    refusals: Mutex<VecDeque<ReportError>>,
}

impl Notes {
    fn refuse_next(&self, refusal: ReportError) {
        self.refusals.lock().unwrap().push_back(refusal);
    }

    fn take(&self) -> Vec<Report> {
        std::mem::take(&mut *self.reports.lock().unwrap())
    }

    fn facts(&self) -> Vec<MediaEvent> {
        self.take().into_iter().map(|report| report.event).collect()
    }
}

impl ReportSink for Notes {
    fn report(&self, report: Report) -> ReportAnswer {
        let (answer, taken) = oneshot::channel();
        let refusal = self.refusals.lock().unwrap().pop_front();
        self.reports.lock().unwrap().push(report);
        answer.send(refusal.map_or(Ok(()), Err)).unwrap();
        taken
    }
}

fn message(error: MediaError) -> String {
    match error {
        MediaError::Unavailable(message) | MediaError::Refused(message) => message,
        open @ MediaError::CircuitOpen { .. } => panic!("{open}"),
    }
}

/// Waits for something that happens beside the caller.
async fn eventually(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(10), "it did not come to hold");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
