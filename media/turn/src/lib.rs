//! TURN server (RFC 8656) that relays to this process's media workers and to nothing else.
//!
//! Clients whose network blocks UDP to unknown ports, or UDP altogether, reach the media workers
//! through it: by UDP at a port of its own, or by TCP and TLS at the API's listener.
//!
//! # Dramatis personae
//!
//! - `server`: [`TurnServer`], which starts threads and takes connections. `shared`: the state that
//!   all its clients share.
//! - `session`: a client's state machine, without I/O. It maps each message to a reaction: reply,
//!   relay, or nothing.
//! - `messages`: requests and responses as bytes. `framing`: messages in a byte stream.
//! - [`credentials`]: user names, passwords and nonces. `admission`: the participants that may use
//!   the server now, and their message rate.
//! - `allocation`: a client's allocation with its permissions and channels. `relay`: its socket,
//!   and the media workers' addresses.
//! - `limits`: allocation quotas, and the response rate for unauthenticated clients.
//! - `udp`, `stream`: the drivers for datagrams and connections.
//! - `metrics`: counters for `/metrics`.
//!
//! # An allocation
//!
//! 1. At the join, the media plane admits the participant and sends it credentials that expire.
//! 2. The client sends an Allocate request without credentials. The server replies 401 with a nonce
//!    and keeps no state.
//! 3. The client repeats the request, signed. The server checks nonce, user name, signature,
//!    admission and quotas, in this order, then opens a UDP socket and replies with its address.
//! 4. The client permits a media worker's address (CreatePermission), or binds a channel to it
//!    (ChannelBind), which saves 32 bytes per packet.
//! 5. From then on, packets pass between the client and the allocation's socket. A media worker
//!    sees an ordinary UDP client, so relayed packets need no lock or queue there.
//! 6. The allocation ends at a refresh with lifetime 0, after ten minutes without a refresh, when
//!    the connection closes, or when the participant leaves.
//!
//! # Failures
//!
//! - *An unauthenticated flood* gets few, short responses: a forged source address must not turn
//!   the server into an amplifier.
//! - *A participant floods.* Its messages wait for the next interval of 100 ms (TCP), or are
//!   dropped (UDP).
//! - *A client does not read.* Its packets are dropped once 64 KiB are buffered, and its connection
//!   is closed after ten seconds.
//! - *The relay's socket receives packets from elsewhere.* They are dropped unless they come from a
//!   media worker's own address, which no other host can use as its source: the kernel rejects such
//!   packets.
//!
//! # Why not simpler
//!
//! The wire format comes from `stun-types` and `turn-types`, but the state machine is ours. General
//! TURN servers relay to any address, keep state for unauthenticated clients, and read users from a
//! list, which could not follow a participant that leaves.

mod admission;
mod allocation;
pub mod credentials;
mod framing;
mod limits;
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

/// Client state machine without sockets, for the fuzz targets.
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    pub use crate::framing::{InvalidMessage, MessageReader};
    pub use crate::session::{ClientTransport, OpenRelay, TurnReaction, TurnSession};
}

pub use admission::RelayAccess;
pub use framing::is_turn;
pub use limits::MAX_ALLOCATIONS;
pub use metrics::{TurnMetrics, TurnRefusal};
pub use server::{ALLOCATION_TIMEOUT, TurnServer, UdpRelay};
pub use shared::TurnSettings;
pub use stream::TurnConnection;
