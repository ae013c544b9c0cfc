//! Codecs, one file each: from RTP payloads to frames as containers have them, and what a file and a decoder have to know of a codec.
//!
//! A frame of audio is one packet of [Opus](opus), the only audio codec. A picture of video comes in several packets, whose payloads its
//! codec puts together ([`Assembly`]). Before a decoder sees the picture, the size that it announces is read ([`Announced`]): what a decoder
//! of a stranger's stream takes of the memory depends on it. Then come the header of the track in Matroska ([`track_header`]), the files that
//! can have the codec ([`Container`]), and ffmpeg's decoder of it ([`decoder`]).
//!
//! # A new codec of video
//!
//! Its file has a type that implements [`EncodedPicture`]: the state of a picture that is put together, and all that is said above. It has a line
//! among the modules below, and one in the table [`video_codecs!`]. Codecs of NAL units share `nal_units`. Nothing else here changes.

mod av1;
mod container;
mod h264;
mod h265;
mod nal_units;
mod opus;
mod vp8;
mod vp9;

use std::fmt::Debug;
use std::time::Duration;

use conclave_sfu::Codec;

use crate::matroska::{Track, TrackKind};

pub use container::{Container, Content};
pub use h264::of_units;
pub use opus::{SILENCE, duration as opus_duration};

/// The most pixels of a picture: 4096x2304, as level 5.2 of H.264 allows.
pub const MAX_PIXELS: u32 = 4_096 * 2_304;

/// A frame of a track: of video all of one picture, of audio one packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// When it was captured, since the start of the egress. It never goes back within a track.
    pub at: Duration,
    /// Its RTP timestamp.
    pub timestamp: u32,
    /// Whether a decoder can start with it.
    pub is_key: bool,
    /// The frame as containers have it: of H.264 and H.265, NAL units behind their sizes in four bytes.
    pub data: Vec<u8>,
    /// The size in pixels, if the frame announces it.
    pub dimensions: Option<(u32, u32)>,
}

/// What a frame says of the size of pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// It says nothing of it.
    Nothing,
    /// The width and height in pixels.
    Size(u32, u32),
    /// More than is decoded, or what cannot be read.
    Refused,
}

impl Announced {
    /// Returns the largest one of some sizes.
    fn largest(sizes: impl Iterator<Item = (u32, u32)>) -> Self {
        let pixels = |(width, height): &(u32, u32)| u64::from(*width) * u64::from(*height);
        match sizes.max_by_key(pixels) {
            Some(size) if pixels(&size) > MAX_PIXELS.into() => Self::Refused,
            Some((width, height)) => Self::Size(width, height),
            None => Self::Nothing,
        }
    }
}

/// What containers and ffmpeg have to know of a codec of video.
struct VideoFormat {
    /// Its id in Matroska.
    matroska_id: &'static str,
    /// Whether the header of a track has the size of the video, because the configuration of the decoder does not say it.
    has_size: bool,
    /// The files that it can be in, besides Matroska, which takes every codec. The first one is the usual one.
    containers: &'static [Container],
    /// The decoder of ffmpeg, unless it is the one that ffmpeg chooses.
    decoder: Option<&'static str>,
}

/// A codec of video: a picture that is put together from the payloads of its packets, and what is known of all its pictures.
trait EncodedPicture: Debug + Default {
    /// What containers and ffmpeg have to know.
    const FORMAT: VideoFormat;

    /// Adds a payload. Returns whether it was understood and fits to what came before.
    fn push(&mut self, payload: &[u8]) -> bool;

    /// Returns the bytes until now.
    fn bytes(&self) -> usize;

    /// Returns the picture as containers have it; empty if there is none. The next one begins.
    fn take(&mut self) -> Vec<u8>;

    /// Reads what a picture announces.
    fn announced(picture: &[u8]) -> Announced;

    /// Returns the configuration of the decoder of a video that begins with this picture, as containers have it, empty if the codec needs
    /// none; `None` if the picture does not say it.
    fn configuration(_picture: &[u8]) -> Option<Vec<u8>> {
        Some(Vec::new())
    }
}

/// Makes the table of the codecs of video: a variant of [`Assembly`] for each, and the functions that choose by the codec. A packet is
/// pushed without an indirect call.
macro_rules! video_codecs {
    ($($codec:ident => $picture:ty),+ $(,)?) => {
        /// Collects the parts of a picture.
        #[derive(Debug)]
        pub enum Assembly {
            /// Audio is not collected.
            Audio,
            $(
                #[doc = concat!("A picture of ", stringify!($codec), ".")]
                $codec($picture),
            )+
        }

        impl Assembly {
            /// Starts without a part.
            pub fn new(codec: Codec) -> Self {
                match codec {
                    Codec::Opus => Self::Audio,
                    $(Codec::$codec => Self::$codec(<$picture>::default()),)+
                }
            }

            /// Adds a payload. Returns whether it was understood and fits to what came before.
            pub fn push(&mut self, payload: &[u8]) -> bool {
                match self {
                    Self::Audio => false,
                    $(Self::$codec(picture) => picture.push(payload),)+
                }
            }

            /// Returns the bytes until now.
            pub fn bytes(&self) -> usize {
                match self {
                    Self::Audio => 0,
                    $(Self::$codec(picture) => picture.bytes(),)+
                }
            }

            /// Returns the picture as containers have it; empty if there is none. The next one begins.
            pub fn take(&mut self) -> Vec<u8> {
                match self {
                    Self::Audio => Vec::new(),
                    $(Self::$codec(picture) => picture.take(),)+
                }
            }
        }

        /// Reads what a frame announces.
        pub fn announced(codec: Codec, frame: &[u8]) -> Announced {
            match codec {
                Codec::Opus => Announced::Nothing,
                $(Codec::$codec => <$picture>::announced(frame),)+
            }
        }

        /// Returns the configuration of the decoder of a track that begins with this frame; `None` if the frame does not say it.
        fn configuration(codec: Codec, frame: &[u8]) -> Option<Vec<u8>> {
            match codec {
                Codec::Opus => Some(opus::head()),
                $(Codec::$codec => <$picture>::configuration(frame),)+
            }
        }

        /// Returns what containers and ffmpeg have to know of a codec of video; `None` for audio.
        const fn format(codec: Codec) -> Option<&'static VideoFormat> {
            match codec {
                Codec::Opus => None,
                $(Codec::$codec => Some(&<$picture>::FORMAT),)+
            }
        }
    };
}

video_codecs! {
    Vp8 => vp8::Vp8Picture,
    Vp9 => vp9::Vp9Picture,
    Av1 => av1::Av1Picture,
    H264 => h264::H264Picture,
    H265 => h265::H265Picture,
}

/// Returns the header in Matroska of a track that begins with this frame; `None` if the frame does not say what is in the header.
pub fn track_header(codec: Codec, first: &Frame) -> Option<Track> {
    let kind = match format(codec) {
        None => TrackKind::Opus,
        Some(format) => TrackKind::Video {
            codec: format.matroska_id,
            size: if format.has_size {
                Some(first.dimensions?)
            } else {
                None
            },
        },
    };
    Some(Track {
        kind,
        private: configuration(codec, &first.data)?,
    })
}

/// Returns the files that a codec can be in, besides Matroska. The first one is the usual one.
fn containers(codec: Codec) -> &'static [Container] {
    format(codec).map_or(&opus::CONTAINERS, |format| format.containers)
}

/// Returns the decoder of ffmpeg for a codec; `None` if it is the one that ffmpeg chooses.
pub fn decoder(codec: Codec) -> Option<&'static str> {
    format(codec)?.decoder
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_frame_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            for codec in Codec::ALL {
                announced(codec, &bytes);
                configuration(codec, &bytes);
            }
        }
    }
}
