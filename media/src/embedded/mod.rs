//! The embedded media plane: rooms, WebRTC clients, encoders, recordings and broadcasts in this process.
//!
//! A [`room`] is one value: its [`machine`], the channels to its clients' sessions, and the way to its media worker. The machine
//! holds participants, grants, inboxes and measured bitrates as plain data. It does no I/O and takes the time as an argument of
//! each call. The plane is a directory of rooms, with small indexes of what they have in [`common`]. It guards each machine with
//! a lock of its room, passes it the time, and sends its reports to the control plane in the order in which they arose. The
//! sandbox API, the signalling of WebRTC clients and the sessions of encoders drive the same machine. Packets of media do not
//! pass through it: the media workers of `conclave-sfu` forward them.
//!
//! ```text
//! control plane ── MediaPlane ──▶ ┌───────────────┐     ┌─────── room ───────┐
//!                                 │ EmbeddedPlane │ ──▶ │ machine ─▶ effects │ ──▶ sessions, media worker
//! sandbox API, sessions ─────────▶└───────────────┘     └─────────┬──────────┘
//!                                                                 └─ ReportSink ──▶ control plane
//! ```
//!
//! A room is made when it is first used, and dropped once nothing is left of it. An operation locks one room, and none waits for
//! another room. Locks are taken in this order: that of a room; then one of the directory, the indexes, the channels or the
//! media worker, which are held for a look-up or a change.
//!
//! The parts, in an order in which they can be read:
//!
//! - [`machine`]: what happens in a room, without I/O. [`effect`]: what it has others do.
//! - [`join`]: the two phases of a join. The control plane may refuse it in both; until it has accepted the report of the join, the
//!   machine counts the participant but does not show it to the others.
//! - [`plane`]: calls on rooms, their reports and deadlines, and the calls of the port. [`room`], [`common`]: what it is a directory of.
//! - [`egress`]: recordings and broadcasts.
//! - [`signal`]: the sessions of clients. [`ingress`]: encoders, by RTMP and WHIP. [`sandbox`]: participants and encoders without media.

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
mod machine;
mod own_metadata;
mod plane;
mod publish;
mod room;
mod rtc_metrics;
mod sandbox;
mod signal;
mod turn;
mod wire;

/// The state machines of encoders, without sockets and processes: for fuzzing.
#[cfg(feature = "fuzzing")]
pub mod encoders {
    pub use super::ingress::rtmp::machine as rtmp;
    pub use super::ingress::whip::machine as whip;
}

/// What records and broadcasts, for its settings.
pub use conclave_egress as egress_engine;
/// The media workers, for their settings.
pub use conclave_sfu as rtc;
/// The TURN server in this process.
pub use conclave_turn as turn_server;
pub use error::MachineError;
pub use inbox::{InboxEntry, Notice};
pub use ingress::endpoints::RtmpAddress;
pub use ingress::refusal::EncoderRefusal;
pub use ingress::rtmp::{EncoderStream, RtmpListener, RtmpTls};
pub use ingress::whip::{WhipAnswer, WhipPatch, WhipPatchError, WhipRestart, WhipSessionName};
pub use plane::{EmbeddedPlane, EmbeddedPlaneBuilder};
pub use publish::NewTrack;
pub use rtc_metrics::RtcMetrics;
pub use sandbox::{ClientView, JoinAccepted, Sandbox, SandboxError};
pub use signal::{
    ConnectRequest, Excess, FrameSender, JoinError, Refusal, Replies, SessionEnded,
    SignalConnection, SignalFrame,
};
pub use turn::{OwnTurn, TurnCredentials, TurnServers};
