//! Settings of recordings and broadcasts.

use std::path::PathBuf;
use std::time::Duration;

use crate::backlog::{Capacity, DiskBuffer};
use crate::priority::Priority;

/// Settings of recordings and broadcasts (`egress` and `recordings`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The ffmpeg program: a path, or a name that is looked up in `PATH`.
    pub ffmpeg: String,
    /// The directory of recordings, with a directory for each project.
    pub recordings: PathBuf,
    /// The longest recording or broadcast. A longer one is `limit_reached`.
    pub longest: Duration,
    /// How long the room may have no participants. An egress is complete after that.
    pub empty_timeout: Duration,
    /// How long egresses have for their files when the server stops.
    pub stop_timeout: Duration,
    /// Number of egresses that encode at once. Recordings of single tracks do not count.
    pub composites: usize,
    /// The encoding of composed pictures and mixed sound.
    pub encoding: Encoding,
    /// The priority of egresses and their ffmpeg processes, and of those of ingress.
    pub priority: Priority,
    /// Largest size in bytes of the file in which a recording keeps what its encoder has not read yet, in `recordings`.
    pub buffer: u64,
}

impl Settings {
    /// Returns the bounds of what waits for the ffmpeg of a recording.
    pub(crate) fn backlog(&self) -> Capacity {
        DiskBuffer {
            directory: self.recordings.clone(),
            bytes: self.buffer,
        }
        .into()
    }
}

/// The encoding of composed pictures and mixed sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoding {
    /// The width of the picture in pixels, even.
    pub width: u32,
    /// The height of the picture in pixels, even.
    pub height: u32,
    /// Pictures per second.
    pub frame_rate: u32,
    /// The bitrate of the video in kilobits a second.
    pub video_kbps: u32,
    /// The bitrate of the audio in kilobits a second.
    pub audio_kbps: u32,
    /// The preset of x264: the faster, the less processor time and the lower the quality.
    pub preset: String,
}
