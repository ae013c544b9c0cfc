//! The tracks that an egress leaves out, because too many are decoded at once or their pictures are too large: in the log, and for
//! inspection.

use std::time::{Duration, Instant};

use conclave_model::{EgressId, Throttle, TrackSid};

use super::handle::Progress;

/// How often it is looked anew which tracks are left out. Until then, a track does not ask for a decoder again.
const INTERVAL: Duration = Duration::from_secs(1);
/// The least time between two lines in the log.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// The most tracks that are named.
const NAMED: usize = 20;

/// When the tracks are looked at, and named in the log.
#[derive(Debug)]
pub struct LeftOut {
    looks: Throttle,
    log_lines: Throttle,
}

impl Default for LeftOut {
    fn default() -> Self {
        Self {
            looks: Throttle::new(INTERVAL),
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
