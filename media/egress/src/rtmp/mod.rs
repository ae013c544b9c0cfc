//! RTMP client: connections to broadcast receivers.
//!
//! The server sends the stream itself, although ffmpeg could, so that no stream key is on a command
//! line, in a file or in another process, and no unchecked address is dialled.
//!
//! - `flv` splits the encoder's output into tags, which become messages.
//! - `messages` and `client` are the protocol, without I/O. `messages` writes chunks and AMF0
//!   values; `client` is a connection's state machine.
//! - `dialler` reads URLs, checks addresses and does TLS. `eyeballs` connects to the first address
//!   that responds.
//! - `connection` has one thread per connection, so that a receiver that hangs delays nothing else.
//!
//! A connection sends the handshake, `connect`, `releaseStream`, `FCPublish`, `createStream` and
//! `publish`. It is accepted with `NetStream.Publish.Start`. From then on, tags are sent from a
//! bounded queue. If the queue is full, or the receiver closes the connection, `output::target`
//! dials again; each connection starts with the headers and a key frame, with timestamps from 0. An
//! accepted connection counts as read once the receiver acknowledges data, or more was sent than
//! both systems buffer.

mod client;
mod connection;
mod dialler;
mod eyeballs;
mod flv;
mod messages;

pub use connection::{RtmpConnection, RtmpConnectionState};
pub use dialler::{RtmpDialler, RtmpEndpoint};
#[cfg(feature = "fuzzing")]
pub use flv::FILE_HEADER_BYTES;
pub use flv::{FlvSplitter, FlvTag, FlvTagKind};

#[cfg(test)]
pub mod double;
