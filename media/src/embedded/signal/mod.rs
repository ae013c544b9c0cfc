//! Signalling of WebRTC clients in LiveKit's protocol, without I/O.
//!
//! - [`join`]: what a client asks for when it connects, read from the url. [`device`]: which codecs it does not send well.
//!   [`refusal`]: how it is turned away.
//! - [`session`]: the state machine of one client. It takes the client's requests, what happens in the room and what
//!   the media worker reports; it calls the machine and returns messages for the client.
//! - [`shape`]: how large requests may be; [`budget`]: how many of them a client may send.
//! - [`driver`]: a task for each session, and admission. [`registry`]: the channels to the sessions; [`connection`]: those to
//!   a websocket.
//!
//! A session lives as long as its join, which may outlive its websocket: a client that resumes attaches a new one.

pub(super) mod budget;
mod connection;
mod device;
pub(super) mod driver;
mod frames;
mod join;
mod messages;
mod refusal;
pub(super) mod registry;
mod session;
mod shape;

pub use budget::Excess;
pub use connection::{FrameSender, Replies, SessionEnded, SignalConnection, SignalFrame};
pub use join::{ConnectRequest, JoinError};
pub use refusal::Refusal;
