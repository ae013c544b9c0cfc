//! The tracks that an egress leaves out, because too many are decoded at once or their pictures are too large: in the log, and for
//! inspection.

use std::time::{Duration, Instant};

use conclave_model::{EgressId, TrackSid};

use super::handle::Progress;

/// How often it is looked anew which tracks are left out. Until then, a track does not ask for a decoder again.
const INTERVAL: Duration = Duration::from_secs(1);
/// The least time between two lines in the log.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// The most tracks that are named.
const NAMED: usize = 20;

/// When something was done last.
#[derive(Debug, Default)]
pub struct LeftOut {
    looked: Option<Instant>,
    logged: Option<Instant>,
}

impl LeftOut {
    /// Returns whether it has to be looked which tracks are left out.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.looked.is_none_or(|at| now >= at + INTERVAL);
        if is_due {
            self.looked = Some(now);
        }
        is_due
    }

    /// Takes the tracks that are left out now.
    pub fn note(&mut self, egress: &EgressId, mut tracks: Vec<TrackSid>, progress: &Progress, now: Instant) {
        let count = tracks.len();
        tracks.sort_unstable();
        tracks.truncate(NAMED);
        if count > 0 && self.logged.is_none_or(|at| now >= at + LOG_INTERVAL) {
            self.logged = Some(now);
            let names: Vec<_> = tracks.iter().map(TrackSid::as_str).collect();
            log::warn!(
                egress = egress.as_str(), tracks = count;
                "tracks are left out, as too many are decoded or their pictures are too large: {}", names.join(", ")
            );
        }
        progress.set_left_out(count, tracks);
    }
}
