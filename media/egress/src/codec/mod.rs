//! A picture of video out of its packets.

use conclave_sfu::Codec;

use super::av1::Av1Picture;
use super::nal_units::Units;
use super::vp9::Vp9Picture;
use super::{h264, h265, vp8};

/// Collects the parts of a picture.
#[derive(Debug)]
pub enum Assembly {
    /// A frame of VP8, as it is decoded.
    Vp8(Vec<u8>),
    /// A picture of VP9: a frame, or several with an index.
    Vp9(Vp9Picture),
    /// A picture of AV1: units with their sizes.
    Av1(Av1Picture),
    /// Units of H.264.
    H264(Units),
    /// Units of H.265.
    H265(Units),
}

impl Assembly {
    /// Starts without a part. Sound is not collected.
    pub fn new(codec: Codec) -> Self {
        match codec {
            Codec::Opus | Codec::Vp8 => Self::Vp8(Vec::new()),
            Codec::Vp9 => Self::Vp9(Vp9Picture::default()),
            Codec::Av1 => Self::Av1(Av1Picture::default()),
            Codec::H264 => Self::H264(Units::default()),
            Codec::H265 => Self::H265(Units::default()),
        }
    }

    /// Adds a payload. Returns whether it was understood and fits to what came before.
    pub fn push(&mut self, payload: &[u8]) -> bool {
        match self {
            Self::Vp8(frame) => {
                let Some(part) =
                    vp8::parse(payload).filter(|part| part.is_first || !frame.is_empty())
                else {
                    return false;
                };
                frame.extend_from_slice(part.data);
                true
            }
            Self::Vp9(picture) => picture.push(payload),
            Self::Av1(picture) => picture.push(payload),
            Self::H264(units) => h264::push(units, payload),
            Self::H265(units) => h265::push(units, payload),
        }
    }

    /// Returns the bytes until now.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Vp8(frame) => frame.len(),
            Self::Vp9(picture) => picture.bytes(),
            Self::Av1(picture) => picture.bytes(),
            Self::H264(units) | Self::H265(units) => units.bytes(),
        }
    }

    /// Returns the picture as containers have it; empty if there is none. The next one begins.
    pub fn take(&mut self) -> Vec<u8> {
        match self {
            Self::Vp8(frame) => std::mem::take(frame),
            Self::Vp9(picture) => picture.take(),
            Self::Av1(picture) => picture.take(),
            Self::H264(units) | Self::H265(units) => units.take(),
        }
    }
}
