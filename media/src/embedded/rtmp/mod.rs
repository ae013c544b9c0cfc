//! Encoders that publish by RTMP.
//!
//! - [`session`]: the protocol of one connection, around the crate `rml_rtmp`. [`flv`]: the media in its messages.
//! - [`stream`]: what becomes of the media. H.264 passes to receivers as it is. [`timeline`]: its times.
//! - [`transcoding`] and [`transcoder`]: what receivers cannot play goes through ffmpeg, AAC in any case.
//! - [`publisher`]: the participant, its tracks and its end.
//! - [`connection`], [`listener`] and [`tls`]: the sockets.
//!
//! Session, stream and publisher are state machines without I/O. An encoder is a participant without a connection of WebRTC: the media worker
//! gets its packets from here. Its join has the two phases of every client's.

mod connection;
mod flv;
mod limits;
mod listener;
mod ogg_packets;
mod publisher;
mod session;
mod stream;
mod timeline;
mod tls;
mod transcoder;
mod transcoding;

/// The state machines, and what they read with: for fuzzing.
#[cfg(feature = "fuzzing")]
pub mod machine {
    pub use super::flv::{
        AudioTag, AvcParameters, FileReader, Medium, TimedMessage, VideoTag, file_header, file_tag,
        is_b_slice, read_audio, read_video, units,
    };
    pub use super::ogg_packets::OggPackets;
    pub use super::session::{RtmpError, RtmpEvent, RtmpSession};
    pub use super::stream::{Action, MediaStream, Unplayable, packets};
    pub use super::timeline::{MediaTime, Timeline};
}

pub use listener::RtmpListener;
pub use tls::{EncoderStream, RtmpTls};
