//! The video frames that an egress leaves out because the machine is too slow, in the log.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use conclave_model::{EgressId, Throttle};

use super::handle::Progress;

/// The least time between two lines in the log.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The warnings about dropped frames of an egress.
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
