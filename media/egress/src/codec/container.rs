//! The formats of files, and what each can have.

use conclave_sfu::Codec;

use super::containers;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// MPEG-4: H.264 and AAC.
    Mp4,
    /// WebM: VP8 and Opus.
    Webm,
    /// Ogg: Opus alone.
    Ogg,
    /// Matroska, which takes every codec.
    Matroska,
}

/// What a file contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A track as it is.
    Track(Codec),
    /// Composed video, with or without audio.
    Video,
    /// Mixed audio alone.
    Audio,
}

impl Container {
    /// Returns the name by which ffmpeg knows the format.
    pub const fn format(self) -> &'static str {
        match self {
            Self::Mp4 => "mp4",
            Self::Webm => "webm",
            Self::Ogg => "ogg",
            Self::Matroska => "matroska",
        }
    }

    /// Returns the usual extension of a file.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Mp4 => "mp4",
            Self::Webm => "webm",
            Self::Ogg => "ogg",
            Self::Matroska => "mkv",
        }
    }

    /// Returns the format that an extension in any case stands for.
    pub fn from_extension(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "mp4" | "m4a" | "m4v" => Some(Self::Mp4),
            "webm" => Some(Self::Webm),
            "ogg" | "oga" | "opus" => Some(Self::Ogg),
            "mkv" | "mka" => Some(Self::Matroska),
            _ => None,
        }
    }

    /// Returns whether the format can have a content.
    pub fn can_have(self, content: Content) -> bool {
        match content {
            _ if self == Self::Matroska => true,
            Content::Track(codec) => containers(codec).contains(&self),
            Content::Video => self != Self::Ogg,
            Content::Audio => true,
        }
    }

    /// Returns the usual format of a content.
    pub fn default_for(content: Content) -> Self {
        match content {
            Content::Track(codec) => containers(codec).first().copied().unwrap_or(Self::Matroska),
            Content::Video => Self::Mp4,
            Content::Audio => Self::Ogg,
        }
    }
}
