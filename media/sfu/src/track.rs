//! Published tracks as the control side describes them: sources, qualities, sizes.

use conclave_model::TrackSid;
use conclave_model::participant::TrackSource;

use crate::codec::{Codec, TrackMedium};

/// A video quality in LiveKit's terms. Of a track with fewer layers, the better qualities mean its best layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Quality {
    /// The smallest layer, rid `q`.
    Low,
    /// The middle layer, rid `h`.
    Medium,
    /// The largest layer, rid `f`.
    High,
}

impl Quality {
    /// All qualities, worst first.
    pub const ALL: [Self; 3] = [Self::Low, Self::Medium, Self::High];

    /// Returns the position among [`Quality::ALL`], which is the index of the layer as well.
    pub const fn index(self) -> usize {
        match self {
            Self::Low => 0,
            Self::Medium => 1,
            Self::High => 2,
        }
    }
}

/// The size and bitrate that the publisher announced for one layer of a video track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerInfo {
    /// The quality that the layer stands for.
    pub quality: Quality,
    /// Width in pixels; 0 if unknown.
    pub width: u32,
    /// Height in pixels; 0 if unknown.
    pub height: u32,
    /// The bitrate that the publisher aims at, in bits per second; 0 if unknown.
    pub bitrate: u32,
}

/// A track that a participant announced with `AddTrackRequest` and that the control side has admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTrack {
    /// The sid that the control side has given it: `TR_` and more.
    pub sid: TrackSid,
    /// The client's id of the track, which the `msid` of its media section normally repeats.
    pub cid: String,
    /// Sound or pictures.
    pub medium: TrackMedium,
    /// The device or screen. Screen shares have priority when bandwidth is short.
    pub source: TrackSource,
    /// The codec that the answer must prefer. `None` prefers the one that the client offers first.
    pub codec: Option<Codec>,
    /// The codecs that the publisher may use.
    pub allowed_codecs: Vec<Codec>,
    /// Whether Opus is sent in stereo (`TF_STEREO`). Ignored for video.
    pub is_stereo: bool,
    /// Whether Opus may stop sending in silence; false for `TF_NO_DTX`. Ignored for video.
    pub uses_dtx: bool,
    /// Whether Opus may be sent with redundancy (RED); false for `disable_red`. Ignored for video.
    pub uses_red: bool,
    /// Whether the track is muted from the start.
    pub is_muted: bool,
    /// The layers in any order; empty for audio, and for video of which nothing is known.
    pub layers: Vec<LayerInfo>,
    /// Further codecs in which the publisher can send the track, for receivers that cannot decode the first one; those that are
    /// preferred first. It is asked for one when a receiver needs it, and announces that as a track with this sid.
    pub backup_codecs: Vec<Codec>,
    /// Whether all receivers that can decode a backup codec get that once it is sent, so that the publisher sends one codec only.
    pub prefers_backup: bool,
    /// Whether it is the track of this sid in a backup codec, which is the only one of `allowed_codecs`.
    pub is_backup: bool,
}
