//! Signalling of WebRTC clients in LiveKit's protocol. The websocket itself is the HTTP server's, which passes on its frames.
//!
//! ```text
//!                  channels         driver: a task for each session
//! websocket ──▶ SignalConnection ──▶ frames ─ shape, budget ─▶ Session ──▶ machine, media worker
//!           ◀── Replies ◀─────────── frames ◀──── messages ────┘  ▲
//!                                                                 └── Sessions ◀── notices and reports of both
//! ```
//!
//! - [`driver`]: admission, or how a client is turned away, and a task for each session. [`channels`]: those between a websocket and
//!   a session, and those to the sessions of a room.
//! - [`connect_request`]: what a client asks for when it connects, read from the url. [`device`]: which codecs it does not send well.
//! - [`session`]: the state machine of one client. It takes the client's requests, what happens in the room and what
//!   the media worker reports; it calls the machine and returns messages for the client.
//! - [`messages`]: the messages that it returns. [`frames`]: requests and messages as bytes. [`shape`]: how large requests may be;
//!   [`budget`]: how many of them a client may send.
//!
//! A session lives as long as its join, which may outlive its websocket: a client that resumes attaches a new one.

pub(super) mod budget;
pub(super) mod channels;
mod connect_request;
mod device;
pub(super) mod driver;
mod frames;
mod messages;
mod session;
mod shape;

pub use budget::Excess;
pub use channels::{FrameSender, Replies, SessionEnded, SignalConnection, SignalFrame};
pub use connect_request::{ConnectRequest, JoinError};
pub use driver::Refusal;
