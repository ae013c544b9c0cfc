//! Settings of recordings and broadcasts.

use std::path::PathBuf;

use conclave_model::settings::EgressConfig;

use crate::backlog::{Capacity, DiskBuffer};
use crate::priority::Priority;

/// Settings of recordings and broadcasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Section `egress`.
    pub egress: EgressConfig,
    /// The directory of recordings, with a directory for each project.
    pub recordings: PathBuf,
}

impl Settings {
    /// Returns the bounds of what waits for the ffmpeg of a recording.
    pub(crate) fn backlog(&self) -> Capacity {
        DiskBuffer {
            directory: self.recordings.clone(),
            bytes: u64::from(self.egress.buffer_mib) * 1024 * 1024,
        }
        .into()
    }

    /// Returns the priority of egresses and their ffmpeg processes, and of those of ingress.
    pub(crate) const fn priority(&self) -> Priority {
        Priority::new(self.egress.nice)
    }

    /// Returns the number of egresses that encode at once. Recordings of single tracks do not count.
    pub(crate) fn max_composites(&self) -> usize {
        usize::try_from(self.egress.max_composites).unwrap_or(usize::MAX)
    }
}
