//! Containers for recordings, and their possible content.

use conclave_sfu::Codec;

use super::containers;

/// File format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// MP4, for H.264 and AAC.
    Mp4,
    /// WebM, for VP8 and Opus.
    Webm,
    /// Ogg, for Opus without video.
    Ogg,
    /// Matroska, for any codec.
    Matroska,
}

/// Media in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// One track, not transcoded.
    Track(Codec),
    /// Composed video, with or without audio.
    Video,
    /// Mixed audio without video.
    Audio,
}

impl Container {
    /// Returns ffmpeg's name for the container.
    pub const fn format(self) -> &'static str {
        match self {
            Self::Mp4 => "mp4",
            Self::Webm => "webm",
            Self::Ogg => "ogg",
            Self::Matroska => "matroska",
        }
    }

    pub const fn extension(self) -> &'static str {
        match self {
            Self::Mp4 => "mp4",
            Self::Webm => "webm",
            Self::Ogg => "ogg",
            Self::Matroska => "mkv",
        }
    }

    /// Returns the container for a file extension in upper or lower case.
    pub fn from_extension(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            // Includes the usual extensions for files with audio or video only.
            "mp4" | "m4a" | "m4v" => Some(Self::Mp4),
            "webm" => Some(Self::Webm),
            "ogg" | "oga" | "opus" => Some(Self::Ogg),
            "mkv" | "mka" => Some(Self::Matroska),
            _ => None,
        }
    }

    /// Returns whether the container can hold a content.
    pub fn can_have(self, content: Content) -> bool {
        match content {
            _ if self == Self::Matroska => true,
            Content::Track(codec) => containers(codec).contains(&self),
            Content::Video => self != Self::Ogg,
            Content::Audio => true,
        }
    }

    /// Returns the default container for a content.
    pub fn default_for(content: Content) -> Self {
        match content {
            Content::Track(codec) => containers(codec).first().copied().unwrap_or(Self::Matroska),
            Content::Video => Self::Mp4,
            Content::Audio => Self::Ogg,
        }
    }
}
