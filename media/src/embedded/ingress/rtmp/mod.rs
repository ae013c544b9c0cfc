//! Encoders that publish by RTMP.
//!
//! - [`listener`]: the socket, how many connections there may be, and their TLS.
//! - [`connection`]: one encoder: its connection, its participant, and its transcoders.
//! - [`session`]: the protocol of one connection, around the crate `rml_rtmp`.
//! - [`stream`]: what becomes of the media. H.264 passes to receivers as it is, and AAC is transcoded in any case.
//! - [`feed`]: what of it a transcoder reads.
//!
//! Session and stream are state machines without I/O. An encoder is a participant without a connection of WebRTC: the media worker
//! gets its packets from here. Its join has the two phases of every client's.

mod connection;
mod feed;
mod listener;
mod session;
mod stream;

/// The state machines, and what they read with: for fuzzing.
#[cfg(feature = "fuzzing")]
pub mod machine {
    pub use super::session::{RtmpError, RtmpEvent, RtmpSession};
    pub use super::stream::{Action, MediaStream, Unplayable};
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
