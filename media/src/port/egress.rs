//! Requests to start recordings and broadcasts.

use conclave_model::NamespacedRoom;
use conclave_model::destination::RecordingConfig;
use conclave_model::egress::{EgressSource, EgressState};
use conclave_model::filepath::FilePath;
use conclave_model::rtmp::RtmpUrl;

/// A request to start an egress: a recording or a broadcast. If the room is not live, the media plane opens it.
#[derive(Debug, Clone)]
pub struct EgressRequest {
    /// The room to record or broadcast.
    pub room: NamespacedRoom,
    /// The room's effective maximum of participants, used if the media plane opens it; `None` means no limit.
    pub max_participants: Option<u32>,
    /// What of the room is recorded or broadcast.
    pub source: EgressSource,
    /// Where the result is written.
    pub output: EgressOutput,
}

/// An egress that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedEgress {
    /// Its id and state.
    pub state: EgressState,
    /// The path of its file, if the media plane chose another one than it was asked for.
    pub filepath: Option<FilePath>,
    /// Whether the media plane leaves its file in the project's local directory, so that the server has to upload it.
    pub is_uploaded_by_server: bool,
}

impl From<EgressState> for StartedEgress {
    fn from(state: EgressState) -> Self {
        Self { state, filepath: None, is_uploaded_by_server: false }
    }
}

/// Where the output of an egress is written.
#[derive(Debug, Clone)]
pub enum EgressOutput {
    /// A file.
    File {
        /// The file's path, relative to the project's directory or to the destination's prefix.
        filepath: FilePath,
        /// The storage; `None` means the project's local directory.
        destination: Option<RecordingConfig>,
        /// Paths of earlier recordings in the same storage, which are not used again.
        taken: Vec<FilePath>,
    },
    /// RTMP receivers, 1 to 8.
    Streams(Vec<RtmpUrl>),
}
