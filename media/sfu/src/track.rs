//! Published tracks as described by the control side: source, qualities, sizes.

use conclave_model::TrackSid;
use conclave_model::participant::TrackSource;

use crate::codec::{Codec, TrackMedium};

/// Video quality in LiveKit's terms. If a track has fewer layers, higher qualities mean its best layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Quality {
    /// Smallest layer, rid `q`.
    Low,
    /// Middle layer, rid `h`.
    Medium,
    /// Largest layer, rid `f`.
    High,
}

impl Quality {
    /// All qualities, worst first.
    pub const ALL: [Self; 3] = [Self::Low, Self::Medium, Self::High];

    /// Returns the position in [`Quality::ALL`], which is also the layer's index.
    pub const fn index(self) -> usize {
        match self {
            Self::Low => 0,
            Self::Medium => 1,
            Self::High => 2,
        }
    }
}

/// Size and bitrate that the publisher announced for a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerInfo {
    /// Quality that the layer represents.
    pub quality: Quality,
    /// Width in pixels; 0 if unknown.
    pub width: u32,
    /// Height in pixels; 0 if unknown.
    pub height: u32,
    /// The publisher's target bitrate in bits per second; 0 if unknown.
    pub bitrate: u32,
}

/// Track that a participant announced with `AddTrackRequest`, and that the control side admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTrack {
    /// Sid given by the control side, with the prefix `TR_`.
    pub sid: TrackSid,
    /// The client's track id, which the `msid` of its media section normally repeats.
    pub cid: String,
    /// Audio or video.
    pub medium: TrackMedium,
    /// Device or screen. Screen shares have priority when bandwidth is short.
    pub source: TrackSource,
    /// Codec that the answer must prefer; `None` for the client's first offered codec.
    pub codec: Option<Codec>,
    /// Codecs that the publisher may use.
    pub allowed_codecs: Vec<Codec>,
    /// Whether Opus is sent in stereo (`TF_STEREO`). Ignored for video.
    pub is_stereo: bool,
    /// Whether Opus may stop sending in silence; false for `TF_NO_DTX`. Ignored for video.
    pub uses_dtx: bool,
    /// Whether Opus may be sent with redundancy (RED); false for `disable_red`. Ignored for video.
    pub uses_red: bool,
    /// Whether the track is muted from the start.
    pub is_muted: bool,
    /// Layers in any order; empty for audio, and for video with unknown layers.
    pub layers: Vec<LayerInfo>,
    /// Further codecs in which the publisher can send the track, in order of preference, for receivers that cannot
    /// decode the first one. When a receiver needs one, the publisher is requested to send it, and announces it as a
    /// track with this sid.
    pub backup_codecs: Vec<Codec>,
    /// Whether all receivers that can decode a backup codec get it once it is sent, so that the publisher sends only
    /// one codec.
    pub prefers_backup: bool,
    /// Whether this announces a backup codec of the track with this sid. It is then the only one in `allowed_codecs`.
    pub is_backup: bool,
}
