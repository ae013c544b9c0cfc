//! Settings of recordings and broadcasts.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::text;

/// Section `egress`: recordings and broadcasts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EgressConfig {
    /// Networks that destinations may be in although they are not public.
    #[serde(with = "text::list")]
    pub allow_networks: Vec<IpNet>,
    /// File of root certificates, in PEM, that object storage and `rtmps` receivers are trusted by beside the built-in ones.
    #[serde(with = "text::optional")]
    pub root_certs: Option<PathBuf>,
    /// File of further root certificates, in PEM, that `rtmps` receivers are trusted by. Embedded media plane only, as all that follows.
    #[serde(with = "text::optional")]
    pub rtmps_root: Option<PathBuf>,
    /// The ffmpeg program: a path, or a name that is looked up in `PATH`.
    pub ffmpeg: String,
    /// The longest recording or broadcast.
    #[serde(with = "text::required")]
    pub max_duration: Duration,
    /// How long a recording or broadcast that is encoded goes on in a room without participants.
    #[serde(with = "text::required")]
    pub empty_timeout: Duration,
    /// How long running recordings and broadcasts have to end when the server stops.
    #[serde(with = "text::required")]
    pub stop_timeout: Duration,
    /// Number of recordings and broadcasts that are encoded at once. Recordings of single tracks are not encoded.
    pub max_composites: u32,
    /// What is added to the server's nice value for recordings, broadcasts, transcoders and uploads.
    pub nice: u8,
    /// Largest size in MiB of the file in which a recording keeps what its encoder has not read yet.
    pub buffer_mib: u32,
    /// The width of composed pictures in pixels.
    pub width: u32,
    /// The height of composed pictures in pixels.
    pub height: u32,
    /// Composed pictures per second.
    pub frame_rate: u32,
    /// The bitrate of encoded video in kilobits a second.
    pub video_kbps: u32,
    /// The bitrate of encoded audio in kilobits a second.
    pub audio_kbps: u32,
    /// The preset of x264.
    pub preset: String,
}

impl Default for EgressConfig {
    fn default() -> Self {
        Self {
            allow_networks: Vec::new(),
            root_certs: None,
            rtmps_root: None,
            ffmpeg: "ffmpeg".into(),
            max_duration: Duration::from_secs(6 * 60 * 60),
            empty_timeout: Duration::from_secs(5 * 60),
            stop_timeout: Duration::from_secs(20),
            max_composites: 4,
            nice: 5,
            buffer_mib: 1_024,
            width: 1280,
            height: 720,
            frame_rate: 30,
            video_kbps: 3_000,
            audio_kbps: 128,
            preset: "veryfast".into(),
        }
    }
}
