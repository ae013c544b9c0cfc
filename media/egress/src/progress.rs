//! Egress counters for inspection, and rate-limited warnings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use conclave_model::{EgressId, Throttle, TrackSid};
use parking_lot::Mutex;

/// Minimum time between two warnings about the same problem.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Interval between checks for tracks left out, which then ask for a decoder again.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum left-out tracks listed by sid.
const MAX_NAMED_TRACKS: usize = 20;

/// Receiver's connection state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetState {
    /// The receiver accepted the stream.
    Connected,
    /// A connection is being established.
    Connecting,
    /// The connection was lost or refused, and the next attempt is scheduled.
    Waiting,
}

/// Video frame totals since the server started, including finished egresses.
#[derive(Debug, Default)]
pub struct EgressTotals {
    /// Frames written or sent.
    pub frames: AtomicU64,
    /// Frames dropped because this machine was too slow.
    pub dropped_frames: AtomicU64,
}

/// One egress's counters, readable at any time.
#[derive(Debug)]
pub struct EgressProgress {
    start: Instant,
    totals: Arc<EgressTotals>,
    /// Media written or sent, in milliseconds.
    pub media_millis: AtomicU64,
    /// Bytes written or sent.
    pub bytes: AtomicU64,
    /// Video frames written or sent.
    pub frames: AtomicU64,
    /// Video frames dropped because this server or the encoder was too slow.
    pub dropped_frames: AtomicU64,
    /// Video frames lost on the way to this server.
    pub lost_frames: AtomicU64,
    /// Packets dropped because the egress was too slow.
    pub dropped_packets: AtomicU64,
    /// Bytes on disk not yet read by the encoder.
    pub buffered_bytes: AtomicU64,
    /// Composition delay beyond its usual 800 ms, in milliseconds.
    pub late_millis: AtomicU64,
    /// Receivers, ordered as the broadcast's URLs.
    targets: Mutex<Vec<TargetState>>,
    left_out: Mutex<LeftOutTracks>,
}

/// Count of tracks left out, because too many are decoded or their frames are too large, and the
/// first 20 by sid.
pub type LeftOutTracks = (usize, Vec<TrackSid>);

impl Default for EgressProgress {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl EgressProgress {
    pub(crate) fn new(totals: Arc<EgressTotals>) -> Self {
        Self {
            start: Instant::now(),
            totals,
            media_millis: AtomicU64::default(),
            bytes: AtomicU64::default(),
            frames: AtomicU64::default(),
            dropped_frames: AtomicU64::default(),
            lost_frames: AtomicU64::default(),
            dropped_packets: AtomicU64::default(),
            buffered_bytes: AtomicU64::default(),
            late_millis: AtomicU64::default(),
            targets: Mutex::default(),
            left_out: Mutex::default(),
        }
    }

    /// Returns the time since the egress was created.
    pub fn runs_for(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the receivers' states, ordered as the broadcast's URLs.
    pub fn targets(&self) -> Vec<TargetState> {
        self.targets.lock().clone()
    }

    pub(crate) fn set_targets(&self, states: Vec<TargetState>) {
        *self.targets.lock() = states;
    }

    /// Returns the tracks that are currently left out.
    pub fn left_out(&self) -> LeftOutTracks {
        self.left_out.lock().clone()
    }

    pub(crate) fn set_left_out(&self, count: usize, first: Vec<TrackSid>) {
        *self.left_out.lock() = (count, first);
    }

    pub(crate) fn add_frames(&self, count: u64) {
        // The totals outlive the egress: metrics must never decrease.
        self.frames.fetch_add(count, Ordering::Relaxed);
        self.totals.frames.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn add_dropped_frames(&self, count: u64) {
        self.dropped_frames.fetch_add(count, Ordering::Relaxed);
        self.totals
            .dropped_frames
            .fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn set(counter: &AtomicU64, value: u64) {
        counter.store(value, Ordering::Relaxed);
    }
}

/// Warnings about video frames dropped because the machine is too slow.
#[derive(Debug)]
pub struct DroppedFramesLog {
    log_lines: Throttle,
    /// Counter value at the last warning.
    logged: u64,
}

impl Default for DroppedFramesLog {
    fn default() -> Self {
        Self {
            log_lines: Throttle::new(LOG_INTERVAL),
            logged: 0,
        }
    }
}

impl DroppedFramesLog {
    /// Logs the frames dropped since the last warning, at most once a minute.
    pub fn warn(&mut self, egress: &EgressId, progress: &EgressProgress, now: Instant) {
        let dropped = progress.dropped_frames.load(Ordering::Relaxed);
        // `allow` comes second: it would start an interval although nothing is logged.
        if dropped > self.logged && self.log_lines.allow(now) {
            self.logged = dropped;
            log::warn!(
                egress = egress.as_str(), dropped_frames = dropped;
                "video frames dropped: the machine is too busy for this recording or broadcast. Lower egress.max_composites or \
                 egress.frame_rate, or use more cores"
            );
        }
    }

    /// Logs a finished egress's total if it dropped frames.
    pub fn warn_at_end(&self, egress: &EgressId, progress: &EgressProgress) {
        let [dropped, frames] =
            [&progress.dropped_frames, &progress.frames].map(|count| count.load(Ordering::Relaxed));
        if dropped > 0 {
            log::warn!(
                egress = egress.as_str(), dropped_frames = dropped, frames = frames;
                "recording or broadcast ended with dropped video frames: the machine was too busy"
            );
        }
    }
}

/// Schedule and warnings for tracks that an egress leaves out.
#[derive(Debug)]
pub struct LeftOutLog {
    checks: Throttle,
    log_lines: Throttle,
}

impl Default for LeftOutLog {
    fn default() -> Self {
        Self {
            checks: Throttle::new(CHECK_INTERVAL),
            log_lines: Throttle::new(LOG_INTERVAL),
        }
    }
}

impl LeftOutLog {
    /// Returns whether the next check is due.
    pub fn is_due(&self, now: Instant) -> bool {
        self.checks.allow(now)
    }

    /// Records the tracks that are left out now, and logs them at most once a minute.
    pub fn record(
        &self,
        egress: &EgressId,
        mut tracks: Vec<TrackSid>,
        progress: &EgressProgress,
        now: Instant,
    ) {
        // Counted before the list is cut.
        let count = tracks.len();
        // The caller's map has a random order; sorted, the same tracks are named each time.
        tracks.sort_unstable();
        tracks.truncate(MAX_NAMED_TRACKS);
        if count > 0 && self.log_lines.allow(now) {
            let names: Vec<_> = tracks.iter().map(TrackSid::as_str).collect();
            log::warn!(
                egress = egress.as_str(), tracks = count;
                "tracks left out of a recording or broadcast, because too many are decoded or their frames are too large: {}", names.join(", ")
            );
        }
        progress.set_left_out(count, tracks);
    }
}
