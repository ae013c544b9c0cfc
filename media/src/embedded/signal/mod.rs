//! Signalling for WebRTC clients in LiveKit's protocol. The HTTP server owns the WebSocket and forwards its frames.
//!
//! ```text
//!                  channels         driver: a task for each session
//! WebSocket ──▶ SignalConnection ──▶ frames ─ shape, budget ─▶ Session ──▶ room state, media worker
//!           ◀── Replies ◀─────────── frames ◀──── messages ────┘  ▲
//!                                                                 └── Sessions ◀── notices and reports of both
//! ```
//!
//! - [`driver`]: admission or refusal, and a task per signalling session. [`channels`]: the channels between a WebSocket and its session,
//!   and from the room to its sessions.
//! - [`connect_request`]: a client's connect request, read from the URL. [`device`]: the codecs that its device sends badly.
//! - [`session`]: one client's state machine. It handles the client's requests, the room's notices and the media worker's reports. It
//!   calls the room state and returns messages for the client.
//! - [`messages`]: these messages. [`frames`]: requests and messages as bytes. [`shape`]: size limits for requests. [`budget`]: rate
//!   limits for clients.
//!
//! A signalling session lasts as long as its join, which may outlive its WebSocket: a client that resumes attaches a new one.

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
