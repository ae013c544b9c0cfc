//! The sending end of RTMP: a connection to a receiver of a broadcast, in this process, so that no command line, file or other process has
//! its stream key.
//!
//! - `endpoint`: where a url leads. `chunks`, `amf`, `client`: the protocol, without I/O.
//! - `dialler`: checked addresses and TLS. `eyeballs`: the address that answers first. `connection`: a thread for each connection.

mod amf;
mod chunks;
mod client;
mod connection;
mod dialler;
mod endpoint;
mod eyeballs;

pub use connection::{Connection, ConnectionState};
pub use dialler::Dialler;
pub use endpoint::Endpoint;

#[cfg(test)]
pub mod double;
