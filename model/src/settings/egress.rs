//! Sections `egress` and `recordings`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;

use super::Rule;

/// Presets of x264, fastest first.
const PRESETS: &[&str] = &[
    "ultrafast",
    "superfast",
    "veryfast",
    "faster",
    "fast",
    "medium",
    "slow",
    "slower",
    "veryslow",
];
/// Width and height of composed video. H.264 with 4:2:0 halves both for its colours, so they must be even.
// 3840 is the width of 4K video.
const PIXELS: Rule = Rule::EvenNumbers(160, 3_840);

crate::settings! {
    /// Recordings and broadcasts.
    pub struct EgressConfig {
        /// Non-public networks in which destinations are allowed.
        pub allow_networks: Vec<IpNet> = Vec::new();
        /// PEM file with root certificates of a [private authority](running.md#private-certificate-authorities) for object storage and
        /// `rtmps://` receivers, in addition to the built-in ones.
        pub root_certs: Option<PathBuf> = None;
        /// PEM file with root certificates for `rtmps://` receivers only.
        ///
        /// This and the settings below apply to the embedded media plane only.
        pub rtmps_root: Option<PathBuf> = None;
        /// The ffmpeg program, which records and broadcasts, and transcodes encoders' media: a path, or a name in `PATH`.
        ///
        /// Without it, recordings and broadcasts are not possible.
        pub ffmpeg: String = "ffmpeg".into();
        /// Maximum duration of a recording or broadcast. A longer one ends as `limit_reached`.
        pub max_duration: Duration = Duration::from_secs(6 * 60 * 60);
        /// Time for which an encoded recording or broadcast continues in a room without participants, before it is complete.
        pub empty_timeout: Duration = Duration::from_secs(5 * 60);
        /// Time limit for running recordings and broadcasts to end when the server stops.
        ///
        /// The server's supervisor must wait 30 seconds longer.
        pub stop_timeout: Duration = Duration::from_secs(20);
        /// Maximum number of recordings and broadcasts that are encoded at once. The same number of encoders' videos, and 16 times as many
        /// audio tracks, are transcoded at once, half of them for one project.
        ///
        /// Each takes up to one core. Further ones get 503 with Retry-After; a refused project with less than an equal share gets the next
        /// slot. Recordings of single tracks are not encoded.
        pub max_composites: u32 = 4, Rule::COUNT;
        /// Amount added to the server's nice value for recordings, broadcasts, transcoders and uploads. See
        /// [Busy machines](recordings.md#busy-machines).
        ///
        /// With a lower value, recordings get more processor time than other programs on the machine; with a higher value, less.
        pub nice: u8 = 5, Rule::Numbers(0, 19);
        /// Maximum size in MiB of the file in which a recording buffers media that its encoder has not read yet on a busy machine.
        ///
        /// The file is in recordings.dir. When it is full, the recording drops video frames, counted by the metric
        /// `conclave_egress_dropped_frames_total`. With 0, only memory is used.
        pub buffer_mib: u32 = 1_024, Rule::Numbers(0, 1_048_576);
        // Size, frame rate and video bitrate are LiveKit's preset `H264_720P_30`.
        /// Width of composed video in pixels.
        pub width: u32 = 1_280, PIXELS;
        /// Height of composed video in pixels.
        pub height: u32 = 720, PIXELS;
        /// Frames per second of composed video.
        pub frame_rate: u32 = 30, Rule::Numbers(1, 60);
        /// Bitrate of encoded video, in kbit/s.
        pub video_kbps: u32 = 3_000, Rule::Numbers(100, 50_000);
        /// Bitrate of encoded audio, in kbit/s.
        // 510 kbit/s is the maximum of Opus (RFC 6716, section 2.1.1).
        pub audio_kbps: u32 = 128, Rule::Numbers(16, 510);
        /// Preset of x264, from `ultrafast` (least CPU time) to `veryslow` (best quality).
        pub preset: String = "veryfast".into(), Rule::OneOf(PRESETS);
    }
}

crate::settings! {
    /// Recordings on this machine's disk.
    pub struct RecordingsConfig {
        /// Directory for recordings. Default: `recordings` in the data directory.
        ///
        /// Use a separate disk if recordings could fill the database's disk.
        pub dir: Option<PathBuf> = None;
        /// Time for which a recording with a destination waits for its file if that is on another server's disk. Then the recording has
        /// failed.
        ///
        /// That server has to be active again to upload the file.
        pub lost_after: Duration = Duration::from_secs(24 * 60 * 60);
        /// Time for which files of recordings without a destination are kept after the recording's end, such as "30d"; unlimited by
        /// default. They are removed within half an hour after it.
        ///
        /// Files with a pending upload are kept until it is done.
        pub retention: Option<Duration> = None;
    }
}

impl RecordingsConfig {
    /// Returns the directory for recordings.
    #[must_use]
    pub fn path(&self, data: &Path) -> PathBuf {
        // Below the data directory, so that an installation without settings needs one directory.
        self.dir.clone().unwrap_or_else(|| data.join("recordings"))
    }
}
