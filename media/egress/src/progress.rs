//! What an egress has done, and what it had to leave out: numbers for inspection, and warnings in the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use conclave_model::{EgressId, Throttle, TrackSid};
use parking_lot::Mutex;

/// The least time between two lines in the log about the same.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// How often it is looked anew which tracks are left out. Until then, a track does not ask for a decoder again.
const LEFT_OUT_INTERVAL: Duration = Duration::from_secs(1);
/// The most tracks that are named.
const NAMED: usize = 20;

/// What a receiver is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetState {
    /// It has accepted the stream.
    Connected,
    /// A connection is being made.
    Connecting,
    /// The connection was lost or refused, and is tried again later.
    Waiting,
}

/// Video frames of all egresses since the server was started, also of those that have ended.
#[derive(Debug, Default)]
pub struct Totals {
    /// Frames that were written or sent.
    pub frames: AtomicU64,
    /// Frames that were left out because this machine was too slow.
    pub dropped_frames: AtomicU64,
}

/// What an egress has done. Read at any time.
#[derive(Debug)]
pub struct Progress {
    start: Instant,
    totals: Arc<Totals>,
    /// Media that was written or sent, in milliseconds.
    pub media_millis: AtomicU64,
    /// Bytes that were written or sent.
    pub bytes: AtomicU64,
    /// Frames of video.
    pub frames: AtomicU64,
    /// Frames of video that were left out because this server or the encoder was too slow.
    pub dropped_frames: AtomicU64,
    /// Frames of video that were lost on the way to this server.
    pub lost_frames: AtomicU64,
    /// Packets that were lost because the egress was too slow.
    pub dropped_packets: AtomicU64,
    /// Bytes on disk that the encoder has not read yet.
    pub buffered_bytes: AtomicU64,
    /// How far the composition is behind its usual delay, in milliseconds.
    pub late_millis: AtomicU64,
    /// The receivers of a broadcast, in the order of its urls.
    targets: Mutex<Vec<TargetState>>,
    left_out: Mutex<LeftOutTracks>,
}

/// The tracks that are left out because too many are decoded or their pictures are too large: their number, and the first of them.
pub type LeftOutTracks = (usize, Vec<TrackSid>);

impl Default for Progress {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl Progress {
    pub(crate) fn new(totals: Arc<Totals>) -> Self {
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

    /// Returns how long the egress has run.
    pub fn runs_for(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the states of the receivers of a broadcast, in the order of its urls.
    pub fn targets(&self) -> Vec<TargetState> {
        self.targets.lock().clone()
    }

    pub(crate) fn set_targets(&self, states: Vec<TargetState>) {
        *self.targets.lock() = states;
    }

    /// Returns the tracks that are left out.
    pub fn left_out(&self) -> LeftOutTracks {
        self.left_out.lock().clone()
    }

    pub(crate) fn set_left_out(&self, count: usize, first: Vec<TrackSid>) {
        *self.left_out.lock() = (count, first);
    }

    pub(crate) fn add_frames(&self, count: u64) {
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

/// The warnings about video frames that an egress drops because the machine is too slow.
#[derive(Debug)]
pub struct DroppedFrames {
    log_lines: Throttle,
    /// How many the log has.
    logged: u64,
}

impl Default for DroppedFrames {
    fn default() -> Self {
        Self {
            log_lines: Throttle::new(LOG_INTERVAL),
            logged: 0,
        }
    }
}

impl DroppedFrames {
    /// Warns of frames that were dropped since the last warning, unless that was a moment ago.
    pub fn warn(&mut self, egress: &EgressId, progress: &Progress, now: Instant) {
        let dropped = progress.dropped_frames.load(Ordering::Relaxed);
        if dropped > self.logged && self.log_lines.allow(now) {
            self.logged = dropped;
            log::warn!(
                egress = egress.as_str(), dropped_frames = dropped;
                "the machine is too busy for a recording or broadcast: video frames are dropped. Lower egress.max_composites or \
                 egress.frame_rate, or use more cores"
            );
        }
    }

    /// Warns of the dropped frames of an egress that has ended, if there are any.
    pub fn warn_at_end(&self, egress: &EgressId, progress: &Progress) {
        let [dropped, frames] =
            [&progress.dropped_frames, &progress.frames].map(|count| count.load(Ordering::Relaxed));
        if dropped > 0 {
            log::warn!(
                egress = egress.as_str(), dropped_frames = dropped, frames = frames;
                "a recording or broadcast has ended with dropped video frames, as the machine was too busy"
            );
        }
    }
}

/// The tracks that an egress leaves out, because too many are decoded at once or their pictures are too large: when they are looked at, and
/// named in the log.
#[derive(Debug)]
pub struct LeftOut {
    looks: Throttle,
    log_lines: Throttle,
}

impl Default for LeftOut {
    fn default() -> Self {
        Self {
            looks: Throttle::new(LEFT_OUT_INTERVAL),
            log_lines: Throttle::new(LOG_INTERVAL),
        }
    }
}

impl LeftOut {
    /// Returns whether it has to be looked which tracks are left out.
    pub fn is_due(&self, now: Instant) -> bool {
        self.looks.allow(now)
    }

    /// Takes the tracks that are left out now.
    pub fn note(
        &self,
        egress: &EgressId,
        mut tracks: Vec<TrackSid>,
        progress: &Progress,
        now: Instant,
    ) {
        let count = tracks.len();
        tracks.sort_unstable();
        tracks.truncate(NAMED);
        if count > 0 && self.log_lines.allow(now) {
            let names: Vec<_> = tracks.iter().map(TrackSid::as_str).collect();
            log::warn!(
                egress = egress.as_str(), tracks = count;
                "tracks are left out, as too many are decoded or their pictures are too large: {}", names.join(", ")
            );
        }
        progress.set_left_out(count, tracks);
    }
}
