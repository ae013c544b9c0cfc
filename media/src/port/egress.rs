//! Recordings and broadcasts, as they are asked of a media plane.

use conclave_model::NamespacedRoom;
use conclave_model::destination::RecordingConfig;
use conclave_model::egress::EgressSource;
use conclave_model::filepath::FilePath;
use conclave_model::rtmp::RtmpUrl;

/// A job to be started. The room need not be live: the plane opens its side.
#[derive(Debug, Clone)]
pub struct EgressRequest {
    /// Of which room.
    pub room: NamespacedRoom,
    /// The effective cap of that room, should the plane open its side now; `None` is no cap.
    pub max_participants: Option<u32>,
    /// What it takes from it.
    pub source: EgressSource,
    /// Where that goes.
    pub output: EgressOutput,
}

/// Where a job's output goes.
#[derive(Debug, Clone)]
pub enum EgressOutput {
    /// Into a file.
    File {
        /// Its name, relative to the project's own directory or to what the destination says.
        filepath: FilePath,
        /// The storage it is put into; `None` is the project's local recording directory.
        destination: Option<RecordingConfig>,
    },
    /// To RTMP receivers, 1 to 8.
    Streams(Vec<RtmpUrl>),
}
