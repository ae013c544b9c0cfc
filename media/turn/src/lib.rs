//! A TURN server (RFC 8656) that relays to the media workers of this process and to nothing else.
//!
//! Clients whose network lets only some ports through reach it by UDP, and by TCP or TLS at the listener of the API. Everything
//! about a client is decided by a state machine without I/O, `session`: who may have an allocation, and what is relayed. Around
//! it are the drivers of datagrams and of streams.
//!
//! The wire format is that of `stun-types` and `turn-types`. The state machine is ours, since a general TURN server relays to every
//! address, keeps something of each stranger, and takes users from a list.
//!
//! An allocation has a socket at an address of this machine, from which its datagrams reach a media worker as from any other client.
//! So a packet of the relay takes no lock and no queue of a media worker, and the kernel bounds what waits. What comes to the socket
//! from anything but a media worker is dropped; the kernel lets nothing from outside have an address of this machine as its source.
//!
//! In reading order:
//!
//! - `server`: [`TurnServer`], which callers start and hand connections to; `shared`: what all of its clients share.
//! - `session`: the state machine of a client, from a message to the reaction to it.
//! - `messages`: what is read of requests, and responses as bytes; `framing`: messages in a stream of bytes.
//! - [`credentials`]: user names, passwords and nonces; `members`: the participants that may use the server now.
//! - `allocation`: a client's allocation with its permissions and channels; `relay`: its socket, and the media workers' addresses.
//! - `limits`: quotas of allocations, and the rate of answers to strangers.
//! - `udp`, `stream`: the drivers, for clients that send datagrams, and for connections.
//! - `metrics`: counters for `/metrics`.

mod allocation;
pub mod credentials;
mod framing;
mod limits;
mod members;
mod messages;
mod metrics;
mod relay;
#[cfg(test)]
#[path = "../tests/support/requests.rs"]
mod requests;
mod server;
mod session;
mod shared;
mod stream;
mod udp;

/// The state machine of a client, without sockets: for fuzzing.
#[cfg(feature = "fuzzing")]
pub mod machine {
    pub use crate::framing::{InvalidMessage, MessageReader};
    pub use crate::session::{OpenRelay, Reaction, Session, Transport};
}

pub use framing::is_turn;
pub use limits::MAX_ALLOCATIONS;
pub use members::RelayAccess;
pub use metrics::{TurnMetrics, TurnRefusal};
pub use server::{PATIENCE, TurnServer, UdpRelay};
pub use shared::TurnSettings;
pub use stream::Connection;
