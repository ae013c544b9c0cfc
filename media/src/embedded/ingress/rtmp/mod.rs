//! Encoders that publish by RTMP.
//!
//! - [`listener`]: the socket, the limits for connections, and TLS.
//! - [`connection`]: one encoder's connection with its participant and its transcoders.
//! - [`session`]: the protocol of one connection, around the crate `rml_rtmp`.
//! - [`stream`]: the stream's media. H.264 is forwarded unchanged if possible, and AAC is always transcoded.
//! - [`feed`]: a transcoder's input.
//!
//! Session and stream are state machines without I/O. An encoder is a participant without a WebRTC connection: the media worker receives
//! its packets from here. Its join has the same two phases as every other.

mod connection;
mod feed;
mod listener;
mod session;
mod stream;

/// State machines and their parsers, for fuzzing.
#[cfg(feature = "fuzzing")]
pub mod machine {
    pub use super::session::{RtmpError, RtmpEvent, RtmpSession};
    pub use super::stream::{MediaAction, MediaStream, Unplayable};
    pub use crate::embedded::ingress::transcoding::flv::{
        AudioTag, AvcParameters, FileReader, Medium, TimedMessage, VideoTag, file_header, file_tag,
        is_b_slice, read_audio, read_video, units,
    };
    pub use crate::embedded::ingress::transcoding::packets::OggPackets;
    pub use crate::embedded::ingress::transcoding::packets::video_packets as packets;
    pub use crate::embedded::ingress::transcoding::timeline::{MediaTime, Timeline};
}

pub use connection::EncoderStream;
pub(in crate::embedded) use listener::serve;
pub use listener::{RtmpListener, RtmpTls};
