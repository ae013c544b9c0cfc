//! Settings of recordings and broadcasts.

use std::path::PathBuf;
use std::time::Duration;

/// Settings of recordings and broadcasts (`egress` and `recordings`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The ffmpeg program: a path, or a name that is looked up in `PATH`.
    pub ffmpeg: String,
    /// The directory of recordings, with a directory for each project.
    pub recordings: PathBuf,
    /// The longest recording or broadcast. A longer one is `limit_reached`.
    pub longest: Duration,
}
