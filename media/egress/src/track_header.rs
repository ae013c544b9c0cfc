//! The headers of tracks in Matroska.

use conclave_sfu::Codec;

use crate::matroska::{Track, TrackKind};
use crate::rtp::{Frame, configuration};

/// Returns the header of a track that begins with this frame; `None` if the frame does not say what is in the header.
pub fn header(codec: Codec, frame: &Frame) -> Option<Track> {
    let (id, has_size) = match codec {
        Codec::Opus => {
            return Some(Track {
                kind: TrackKind::Opus,
                private: opus_head(),
            });
        }
        Codec::Vp8 => ("V_VP8", true),
        Codec::Vp9 => ("V_VP9", true),
        Codec::Av1 => ("V_AV1", true),
        // Their configurations say the size.
        Codec::H264 => ("V_MPEG4/ISO/AVC", false),
        Codec::H265 => ("V_MPEGH/ISO/HEVC", false),
    };
    let size = if has_size {
        Some(frame.dimensions?)
    } else {
        None
    };
    Some(Track {
        kind: TrackKind::Video { codec: id, size },
        private: configuration(codec, &frame.data)?,
    })
}

/// Returns the identification header of a stream of two channels (RFC 7845, section 5.1).
fn opus_head() -> Vec<u8> {
    let mut head = b"OpusHead\x01\x02".to_vec();
    head.extend_from_slice(&[0, 0]);
    head.extend_from_slice(&48_000_u32.to_le_bytes());
    head.extend_from_slice(&[0, 0, 0]);
    head
}
