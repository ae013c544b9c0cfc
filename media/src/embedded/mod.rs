//! The embedded media plane: rooms, WebRTC clients, encoders, recordings and broadcasts in this process.
//!
//! Each [`room`] consists of its room state ([`room_state`]), channels to its clients' sessions, and a connection to its
//! media worker. The room state holds participants, grants, inboxes and measured bitrates as plain data; it does no
//! I/O, and each call passes it the time. The plane is a directory of rooms, with the small indexes in [`common`]. It
//! guards each room state with the room's lock, sets its clock, and forwards its reports to the control plane in order.
//! The sandbox API, WebRTC signalling and encoder sessions all use the same room state. Media packets do not pass
//! through it: the media workers in `conclave-sfu` forward them.
//!
//! ```text
//! control plane ── MediaPlane ──▶ ┌───────────────┐     ┌───────── room ──────────┐
//!                                 │ EmbeddedPlane │ ──▶ │ room state ─▶ effects   │ ──▶ sessions, media worker
//! sandbox API, sessions ─────────▶└───────────────┘     └─────────┬───────────────┘
//!                                                                 └─ ReportSink ──▶ control plane
//! ```
//!
//! A room is created on first use and dropped when nothing is left in it. An operation locks exactly one room; no
//! operation waits for a second room. Lock order: first the room, then one of directory, indexes, channels or media
//! worker. The latter are held only for a look-up or a change.
//!
//! Reading order:
//!
//! - [`room_state`]: events in a room, without I/O. [`effect`]: work that it leaves to the driver.
//! - [`join`]: the two phases of a join. The control plane may refuse it in both. Until the control plane has accepted
//!   the join's report, the room state counts the participant but hides it from the others.
//! - [`plane`]: calls on rooms, their reports and deadlines, and the port's calls. [`room`], [`common`]: what the
//!   directory contains.
//! - [`egress`]: recordings and broadcasts.
//! - [`signal`]: client sessions. [`ingress`]: encoders, through RTMP and WHIP. [`sandbox`]: participants and encoders
//!   without media. [`quality`]: measurements on their way to the store.

mod announcement;
mod bitrate_meter;
mod client;
mod common;
mod data_track;
mod effect;
mod egress;
mod error;
mod ids;
mod inbox;
mod ingress;
mod inspection;
mod join;
mod local_participant;
mod own_metadata;
mod plane;
mod publish;
mod quality;
mod room;
mod room_state;
mod rtc_metrics;
mod sandbox;
mod signal;
mod turn;
mod wire;

/// Encoders' state machines, without sockets and processes, for fuzzing.
#[cfg(feature = "fuzzing")]
pub mod encoders {
    pub use super::ingress::rtmp::machine as rtmp;
    pub use super::ingress::whip::machine as whip;
}

/// The egress engine, for its settings.
pub use conclave_egress as egress_engine;
/// The SFU, for its settings.
pub use conclave_sfu as rtc;
/// The embedded TURN server.
pub use conclave_turn as turn_server;
pub use error::RoomStateError;
pub use inbox::{InboxEntry, Notice};
pub use ingress::endpoints::RtmpAddress;
pub use ingress::refusal::EncoderRefusal;
pub use ingress::rtmp::{EncoderStream, RtmpListener, RtmpTls};
pub use ingress::whip::{WhipAnswer, WhipPatch, WhipPatchError, WhipRestart, WhipSessionName};
pub use plane::{EmbeddedPlane, EmbeddedPlaneBuilder};
pub use publish::NewTrack;
pub use quality::SessionQuality;
pub use rtc_metrics::RtcMetrics;
pub use sandbox::{ClientView, JoinAccepted, Sandbox, SandboxError};
pub use signal::{
    ConnectRequest, Excess, FrameSender, JoinError, Refusal, Replies, SessionEnded,
    SignalConnection, SignalFrame,
};
pub use turn::{OwnTurn, TurnCredentials, TurnServers};
