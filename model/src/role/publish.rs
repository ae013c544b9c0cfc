//! Media and data that a role may publish, and their quality.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::bounded::{FrameRate, Kbps, Pixels};
use crate::participant::TrackSource;
use crate::schema::word_enum;

word_enum! {
    /// A kind of media or data that a role may publish.
    PublishKind {
        /// A microphone.
        Audio = "audio",
        /// A camera.
        Video = "video",
        /// A shared screen with its audio.
        Screen = "screen",
        /// Data messages.
        Data = "data",
    }
}

/// The media and data that a role may publish, with all defaults filled in; also the PublishProfile of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RolePublish {
    /// The kinds that may be published.
    pub allowed: Vec<PublishKind>,
    /// Limit of all published media, in kilobits a second; null is unlimited.
    #[schema(required = true)]
    pub max_kbps: Option<Kbps>,
    /// The encoding of microphone audio.
    pub audio: AudioProfile,
    /// The encoding of camera video.
    pub video: VideoProfile,
    /// The encoding of a shared screen.
    pub screen: VideoProfile,
    /// Whether video is sent in several qualities at once.
    pub simulcast: bool,
    /// Beyond the contract and its description: the codecs with which video may be published; absent for all. Shown only if it was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    pub video_codecs: Option<Vec<PublishCodec>>,
}

/// The encoding of audio.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AudioProfile {
    /// Bitrate in kilobits a second.
    pub max_kbps: Kbps,
    /// The audio codec; only Opus today.
    pub codec: AudioCodec,
}

word_enum! {
    /// An audio codec.
    AudioCodec {
        /// Opus (RFC 6716).
        Opus = "opus",
    }
}

/// The encoding of video.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VideoProfile {
    /// Bitrate in kilobits a second.
    pub max_kbps: Kbps,
    /// The video codec that publishers prefer.
    pub codec: VideoCodec,
    /// Frame rate in frames a second.
    pub frame_rate: FrameRate,
    /// Width in pixels.
    pub width: Pixels,
    /// Height in pixels.
    pub height: Pixels,
}

word_enum! {
    /// A video codec.
    VideoCodec {
        /// VP8.
        Vp8 = "vp8",
        /// H.264.
        H264 = "h264",
        /// VP9.
        Vp9 = "vp9",
        /// AV1.
        Av1 = "av1",
    }
}

word_enum! {
    /// A codec with which video can be published.
    PublishCodec {
        /// VP8.
        Vp8 = "vp8",
        /// H.264.
        H264 = "h264",
        /// VP9.
        Vp9 = "vp9",
        /// AV1.
        Av1 = "av1",
        // Not among the contract's codecs, but clients can publish it.
        /// H.265.
        H265 = "h265",
    }
}

impl RolePublish {
    /// Returns whether audio, video or a screen may be published.
    #[must_use]
    pub fn allows_media(&self) -> bool {
        self.allowed.iter().any(|kind| *kind != PublishKind::Data)
    }

    /// Returns whether data may be published.
    #[must_use]
    pub fn allows_data(&self) -> bool {
        self.allowed.contains(&PublishKind::Data)
    }

    /// Returns the track sources of the allowed kinds; none if all kinds of media are allowed, which LiveKit takes for every source. Then
    /// tracks without a source are allowed, too: LiveKit's SDKs for Python and Go publish them by default.
    #[must_use]
    pub fn sources(&self) -> Vec<TrackSource> {
        const MEDIA: [PublishKind; 3] =
            [PublishKind::Audio, PublishKind::Video, PublishKind::Screen];
        if MEDIA.iter().all(|kind| self.allowed.contains(kind)) {
            return Vec::new();
        }
        let of = |kind: &PublishKind| -> &'static [TrackSource] {
            match kind {
                PublishKind::Audio => &[TrackSource::Microphone],
                PublishKind::Video => &[TrackSource::Camera],
                PublishKind::Screen => &[TrackSource::ScreenShare, TrackSource::ScreenShareAudio],
                // Data has no track source.
                PublishKind::Data => &[],
            }
        };
        self.allowed.iter().flat_map(of).copied().collect()
    }
}
