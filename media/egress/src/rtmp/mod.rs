//! The sending end of RTMP: a connection to a receiver of a broadcast, in this process, so that no command line, file or other process has
//! its stream key.
//!
//! 1. `flv`: the tags of the encoder's stream, which become messages.
//! 2. `messages`, `client`: the protocol, without I/O.
//! 3. `dialler`: where a url leads, checked addresses and TLS. `eyeballs`: the address that answers first.
//! 4. `connection`: a thread for each connection.

mod client;
mod connection;
mod dialler;
mod eyeballs;
mod flv;
mod messages;

pub use connection::{Connection, ConnectionState};
pub use dialler::{Dialler, Endpoint};
#[cfg(feature = "fuzzing")]
pub use flv::FILE_HEADER_BYTES;
pub use flv::{Splitter, Tag, TagKind};

#[cfg(test)]
pub mod double;
