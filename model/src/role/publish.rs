//! The media and data that a role may publish, and in what quality.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::bounded::{FrameRate, Kbps, Pixels};
use crate::participant::TrackSource;
use crate::schema::word_enum;

word_enum! {
    /// What may be published.
    PublishKind {
        /// The microphone.
        Audio = "audio",
        /// The camera.
        Video = "video",
        /// The screen and its sound.
        Screen = "screen",
        /// Data messages.
        Data = "data",
    }
}

/// What a role may publish, resolved: also the PublishProfile of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RolePublish {
    /// Kinds that may be published.
    pub allowed: Vec<PublishKind>,
    /// Ceiling over everything published, in kilobits a second; null is no ceiling.
    #[schema(required = true)]
    pub max_kbps: Option<Kbps>,
    /// How audio is sent.
    pub audio: AudioProfile,
    /// How camera video is sent.
    pub video: VideoProfile,
    /// How a shared screen is sent.
    pub screen: VideoProfile,
    /// Whether video is sent in several qualities at once.
    pub simulcast: bool,
}

/// How audio is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AudioProfile {
    /// Kilobits a second.
    pub max_kbps: Kbps,
    /// The codec.
    pub codec: AudioCodec,
}

word_enum! {
    /// Audio codecs.
    AudioCodec {
        /// Opus.
        Opus = "opus",
    }
}

/// How video is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VideoProfile {
    /// Kilobits a second.
    pub max_kbps: Kbps,
    /// The codec.
    pub codec: VideoCodec,
    /// Frames a second.
    pub frame_rate: FrameRate,
    /// Pixels.
    pub width: Pixels,
    /// Pixels.
    pub height: Pixels,
}

word_enum! {
    /// Video codecs.
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

impl RolePublish {
    /// Whether anything but data may be published.
    #[must_use]
    pub fn allows_media(&self) -> bool {
        self.allowed.iter().any(|kind| *kind != PublishKind::Data)
    }

    /// Whether data may be published.
    #[must_use]
    pub fn allows_data(&self) -> bool {
        self.allowed.contains(&PublishKind::Data)
    }

    /// The track sources that the allowed kinds come to.
    #[must_use]
    pub fn sources(&self) -> Vec<TrackSource> {
        let of = |kind: &PublishKind| -> &'static [TrackSource] {
            match kind {
                PublishKind::Audio => &[TrackSource::Microphone],
                PublishKind::Video => &[TrackSource::Camera],
                PublishKind::Screen => &[TrackSource::ScreenShare, TrackSource::ScreenShareAudio],
                PublishKind::Data => &[],
            }
        };
        self.allowed.iter().flat_map(of).copied().collect()
    }
}
