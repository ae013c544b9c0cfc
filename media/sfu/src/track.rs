//! Published tracks as the control side describes them: codecs, sources, qualities.

use conclave_model::TrackSid;
use conclave_model::participant::TrackSource;

/// The medium of a track. A data track of the model has no media section, so it is not one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrackMedium {
    /// The track has audio.
    Audio,
    /// The track has video.
    Video,
}

/// A codec that this server forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Opus, the only audio codec.
    Opus,
    /// VP8, the default of video.
    Vp8,
    /// H.264, constrained baseline.
    H264,
    /// VP9, profile 0, with layers in one stream or by simulcast.
    Vp9,
    /// AV1, main profile, with layers in one stream or by simulcast.
    Av1,
    /// H.265, main profile.
    H265,
}

impl Codec {
    /// All codecs. Of video, the one that a server prefers first.
    pub const ALL: [Self; 6] = [
        Self::Vp8,
        Self::H264,
        Self::Vp9,
        Self::Av1,
        Self::H265,
        Self::Opus,
    ];

    /// Returns the MIME type as LiveKit spells it in `TrackInfo` and `Codec` messages.
    pub const fn mime_type(self) -> &'static str {
        match self {
            Self::Opus => "audio/opus",
            Self::Vp8 => "video/VP8",
            Self::H264 => "video/H264",
            Self::Vp9 => "video/VP9",
            Self::Av1 => "video/AV1",
            Self::H265 => "video/H265",
        }
    }

    /// Returns the codec that a MIME type, or the part behind its slash, names in any case; `None` if it is not forwarded.
    pub fn from_mime_type(text: &str) -> Option<Self> {
        let name = text.rsplit('/').next().unwrap_or(text);
        Self::ALL.into_iter().find(|codec| {
            codec
                .mime_type()
                .rsplit('/')
                .next()
                .is_some_and(|known| known.eq_ignore_ascii_case(name))
        })
    }

    /// Returns the codec that str0m's name stands for; `None` if it is not forwarded.
    pub(crate) const fn from_rtc(codec: str0m::format::Codec) -> Option<Self> {
        match codec {
            str0m::format::Codec::Opus => Some(Self::Opus),
            str0m::format::Codec::Vp8 => Some(Self::Vp8),
            str0m::format::Codec::H264 => Some(Self::H264),
            str0m::format::Codec::Vp9 => Some(Self::Vp9),
            str0m::format::Codec::Av1 => Some(Self::Av1),
            str0m::format::Codec::H265 => Some(Self::H265),
            _ => None,
        }
    }

    /// Returns the ticks of the RTP timestamp per second.
    pub const fn clock_rate(self) -> u32 {
        match self {
            Self::Opus => 48_000,
            Self::Vp8 | Self::H264 | Self::Vp9 | Self::Av1 | Self::H265 => 90_000,
        }
    }

    /// Returns whether one stream of the codec can have several layers.
    pub const fn has_layers(self) -> bool {
        matches!(self, Self::Vp9 | Self::Av1)
    }

    /// Returns whether the payload numbers the pictures, so that a receiver knows which one is missing. Of other codecs it knows that from the
    /// dependency descriptors, or else shows nothing behind a gap in the sequence numbers, even one that only padding has left.
    pub const fn numbers_pictures(self) -> bool {
        matches!(self, Self::Vp8 | Self::Vp9)
    }

    /// Returns whether the codec carries sound or pictures.
    pub const fn medium(self) -> TrackMedium {
        match self {
            Self::Opus => TrackMedium::Audio,
            Self::Vp8 | Self::H264 | Self::Vp9 | Self::Av1 | Self::H265 => TrackMedium::Video,
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_codec_is_found_by_its_mime_type_in_any_case() {
        for (text, codec) in [
            ("video/vp8", Codec::Vp8),
            ("H264", Codec::H264),
            ("audio/OPUS", Codec::Opus),
            ("vp9", Codec::Vp9),
            ("video/AV1", Codec::Av1),
        ] {
            assert_eq!(Codec::from_mime_type(text), Some(codec));
        }
        assert_eq!(Codec::from_mime_type("video/AV1X"), None);
    }
}
