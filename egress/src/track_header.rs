//! The headers of tracks in Matroska.

use conclave_rtc::Codec;

use crate::matroska::{Track, TrackKind};
use crate::rtp::{Frame, decoder_configuration};

/// Returns the header of a track that begins with this frame; `None` if the frame does not say what is in the header.
pub fn header(codec: Codec, frame: &Frame) -> Option<Track> {
    match codec {
        Codec::Opus => Some(Track { kind: TrackKind::Opus, private: opus_head() }),
        Codec::Vp8 => {
            let kind = TrackKind::Video { codec: "V_VP8", size: Some(frame.dimensions?) };
            Some(Track { kind, private: Vec::new() })
        }
        Codec::H264 => {
            let kind = TrackKind::Video { codec: "V_MPEG4/ISO/AVC", size: None };
            Some(Track { kind, private: decoder_configuration(&frame.data)? })
        }
    }
}

/// Returns the identification header of a stream of two channels (RFC 7845, section 5.1).
fn opus_head() -> Vec<u8> {
    let mut head = b"OpusHead\x01\x02".to_vec();
    head.extend_from_slice(&[0, 0]);
    head.extend_from_slice(&48_000_u32.to_le_bytes());
    head.extend_from_slice(&[0, 0, 0]);
    head
}
