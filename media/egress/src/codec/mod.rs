//! Codecs, one file each: from RTP payloads to frames, and the properties that files and decoders
//! need.
//!
//! An audio frame is one [Opus](opus) packet; there is no other audio codec. A video frame spans
//! packets, whose payloads its codec collects in a [`FrameAssembly`]. The frame's [`AnnouncedSize`]
//! is read before a decoder gets it, because it determines the memory that untrusted media can make
//! the decoder allocate. The remaining functions serve the recording: [`track_header`] for
//! Matroska, [`Container`] for files, and [`decoder`] for ffmpeg.
//!
//! # Adding a video codec
//!
//! Add a file with a type that implements [`FrameAssembler`], and list it among the modules and in
//! [`video_codecs!`]. Codecs based on NAL units share `nal_units`. Nothing else in this crate
//! changes.

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

use crate::matroska::{MatroskaTrack, MatroskaTrackKind};

pub use container::{Container, Content};
pub use h264::announced_by_nal_units;
pub use opus::{SILENCE, duration as opus_duration};

/// Maximum pixels per frame: 4096x2304, as H.264 allows at level 5.2.
pub const MAX_PIXELS: u32 = 4_096 * 2_304;

/// Encoded frame: one video frame, or one audio packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedFrame {
    /// Capture time since the start of the egress, never decreasing within a track.
    pub at: Duration,
    /// RTP timestamp.
    pub timestamp: u32,
    /// Whether a decoder can start with this frame.
    pub is_key: bool,
    /// Data as containers store it. NAL units are preceded by their size in four bytes.
    pub data: Vec<u8>,
    /// Width and height in pixels, if the frame announces them.
    pub dimensions: Option<(u32, u32)>,
}

/// Frame size announced by an encoded frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnouncedSize {
    /// The frame announces no size.
    Unspecified,
    /// Width and height in pixels.
    Size(u32, u32),
    /// The size exceeds the maximum, or cannot be read.
    Refused,
}

impl AnnouncedSize {
    /// Returns the largest size.
    fn largest(sizes: impl Iterator<Item = (u32, u32)>) -> Self {
        let pixels = |(width, height): &(u32, u32)| u64::from(*width) * u64::from(*height);
        // The largest size counts: the decoder allocates for it, whichever frame it shows.
        match sizes.max_by_key(pixels) {
            Some(size) if pixels(&size) > MAX_PIXELS.into() => Self::Refused,
            Some((width, height)) => Self::Size(width, height),
            None => Self::Unspecified,
        }
    }
}

/// Video codec properties for containers and ffmpeg.
struct VideoFormat {
    /// Codec id in Matroska.
    matroska_id: &'static str,
    /// Whether a track's header needs the size, because the decoder configuration lacks it.
    has_size: bool,
    /// Containers besides Matroska, which takes any codec; the default one first.
    containers: &'static [Container],
    /// ffmpeg's decoder; `None` for its default one.
    decoder: Option<&'static str>,
}

/// Video codec: frame assembly, and properties common to all frames.
trait FrameAssembler: Debug + Default {
    /// Properties for containers and ffmpeg.
    const FORMAT: VideoFormat;

    /// Adds a payload. Returns whether it is well-formed and continues the previous one.
    fn push(&mut self, payload: &[u8]) -> bool;

    /// Returns the bytes collected so far.
    fn bytes(&self) -> usize;

    /// Returns the frame as containers store it, or nothing if it is empty, and starts the next
    /// one.
    fn take(&mut self) -> Vec<u8>;

    /// Reads the size that a frame announces.
    fn announced(frame: &[u8]) -> AnnouncedSize;

    /// Returns the decoder configuration for a video that starts with this frame, empty if the
    /// codec has none; `None` if the frame lacks the information.
    fn configuration(_frame: &[u8]) -> Option<Vec<u8>> {
        Some(Vec::new())
    }
}

/// Defines [`FrameAssembly`], with a variant per video codec, and the functions that dispatch on
/// the codec. An enum avoids an indirect call per packet.
macro_rules! video_codecs {
    ($($codec:ident => $assembler:ty),+ $(,)?) => {
        /// Frame that is being assembled.
        #[derive(Debug)]
        pub enum FrameAssembly {
            /// Audio needs no assembly.
            Audio,
            $(
                #[doc = concat!("A picture of ", stringify!($codec), ".")]
                $codec($assembler),
            )+
        }

        impl FrameAssembly {
            /// Creates an empty assembly.
            pub fn new(codec: Codec) -> Self {
                match codec {
                    Codec::Opus => Self::Audio,
                    $(Codec::$codec => Self::$codec(<$assembler>::default()),)+
                }
            }

            /// Adds a payload. Returns whether it is well-formed and continues the previous one.
            pub fn push(&mut self, payload: &[u8]) -> bool {
                match self {
                    Self::Audio => false,
                    $(Self::$codec(assembler) => assembler.push(payload),)+
                }
            }

            /// Returns the bytes collected so far.
            pub fn bytes(&self) -> usize {
                match self {
                    Self::Audio => 0,
                    $(Self::$codec(assembler) => assembler.bytes(),)+
                }
            }

            /// Returns the frame as containers store it, or nothing if it is empty, and starts the
            /// next one.
            pub fn take(&mut self) -> Vec<u8> {
                match self {
                    Self::Audio => Vec::new(),
                    $(Self::$codec(assembler) => assembler.take(),)+
                }
            }
        }

        /// Reads the size that a frame announces.
        pub fn announced(codec: Codec, frame: &[u8]) -> AnnouncedSize {
            match codec {
                Codec::Opus => AnnouncedSize::Unspecified,
                $(Codec::$codec => <$assembler>::announced(frame),)+
            }
        }

        /// Returns the decoder configuration for a track that starts with this frame; `None` if the
        /// frame lacks the information.
        fn configuration(codec: Codec, frame: &[u8]) -> Option<Vec<u8>> {
            match codec {
                Codec::Opus => Some(opus::head()),
                $(Codec::$codec => <$assembler>::configuration(frame),)+
            }
        }

        /// Returns a video codec's properties; `None` for audio.
        const fn format(codec: Codec) -> Option<&'static VideoFormat> {
            match codec {
                Codec::Opus => None,
                $(Codec::$codec => Some(&<$assembler>::FORMAT),)+
            }
        }
    };
}

video_codecs! {
    Vp8 => vp8::Vp8Assembler,
    Vp9 => vp9::Vp9Assembler,
    Av1 => av1::Av1Assembler,
    H264 => h264::H264Assembler,
    H265 => h265::H265Assembler,
}

/// Returns the Matroska header for a track that starts with this frame; `None` if the frame lacks
/// the information.
pub fn track_header(codec: Codec, first: &EncodedFrame) -> Option<MatroskaTrack> {
    let kind = match format(codec) {
        None => MatroskaTrackKind::Opus,
        Some(format) => MatroskaTrackKind::Video {
            codec: format.matroska_id,
            size: if format.has_size {
                // Inter frames do not announce the size, so the track has to start at a key frame.
                Some(first.dimensions?)
            } else {
                None
            },
        },
    };
    Some(MatroskaTrack {
        kind,
        private: configuration(codec, &first.data)?,
    })
}

/// Returns a codec's containers besides Matroska, the default one first.
fn containers(codec: Codec) -> &'static [Container] {
    format(codec).map_or(&opus::CONTAINERS, |format| format.containers)
}

/// Returns ffmpeg's decoder for a codec; `None` for its default one.
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
