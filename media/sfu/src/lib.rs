//! The packet side of the embedded media plane: WebRTC transports and selective forwarding.
//!
//! Media workers are threads, each with a UDP port of its own. A participant lives on one worker, with its transports and all
//! that is sent to it, and a room on as many workers as it needs. A packet crosses to each other worker of the room once; it
//! waits for no lock. The control side (signalling, admission, permissions) decides; it sends [`Command`]s to the workers of a
//! room and receives [`Event`]s. No packet waits for it.
//!
//! # Reading order
//!
//! The interface comes first:
//!
//! 1. [`Command`] and [`Event`]: what the control side sends and receives, with the order of commands in the life of a connection;
//!    [`config`] (ports, addresses, limits), [`track`] and [`codec`]; [`recorder`]: receivers of tracks in this process;
//!    [`snapshot`]: the state of participants, for inspection.
//! 2. `workers`, `room`, `placement` and `queue`: the media workers of a process, which of them a room is on, and the way of commands
//!    to them. `notice` and `mirror`: what workers of a room tell each other, and how packets cross.
//! 3. `driver`: the threads, sockets and clocks around the workers.
//!
//! A worker without its driver is a state machine without I/O:
//!
//! 4. `worker`: rooms, participants and tracks, and the path of a packet through them (`worker/receive.rs`, `worker/send.rs`).
//! 5. `transport`: one peer connection, around str0m, which is a state machine without I/O as well.
//!
//! Both are built on values that know no connection:
//!
//! 6. `adapt`: reading and rewriting packets, per codec.
//! 7. `allocate`: which layers fit into a receiver's bandwidth, and what is requested of publishers. `measure`: bitrates, loss, speech.
//! 8. `sdp`: session descriptions as text. `data`: messages between participants. [`packetize`] and [`bits`]: RTP payloads for sources
//!    without WebRTC, and their fields.

// The support of the tests in `tests/` is also that of the unit tests.
#[cfg(test)]
extern crate self as conclave_sfu;

mod adapt;
mod allocate;
pub mod bits;
pub mod codec;
mod command;
pub mod config;
mod data;
mod driver;
mod dropped;
pub mod event;
mod measure;
mod mirror;
mod notice;
mod packet;
pub mod packetize;
mod placement;
mod queue;
pub mod recorder;
mod room;
mod sdp;
pub mod snapshot;
pub mod track;
mod transport;
mod worker;
mod workers;

/// The state machine of a worker, without threads and sockets: for tests and fuzzing.
#[cfg(any(test, feature = "fuzzing"))]
pub mod machine {
    pub use crate::mirror::{RingReader, WorkerId};
    pub use crate::notice::Instruction;
    pub use crate::placement::Placement;
    pub use crate::transport::Source;
    pub use crate::worker::{Crossings, Datagram, Worker};
}

pub use adapt::{DependencyDescriptor, FrameLayer, SpatialLayers, Vp9Descriptor};
pub use bits::Bits;
pub use codec::{Codec, TrackMedium};
pub use command::{
    Command, ConnectionMode, NewPeer, NewRecorder, PeerCommand, PeerPermissions, Reply,
    ServerMessage, SourcePacket, TrackSettings,
};
pub use config::{Config, Limits};
pub use driver::{BindError, WorkerMetrics};
pub use dropped::{DropReason, Drops};
pub use event::{
    CodecUse, ConnectionQuality, Event, EventSink, FailureReason, PeerEvent, PeerQuality,
    PublishRate, Receivers, RoomEvent, SentMessage, Speaker,
};
pub use recorder::{PacketSink, RecordedPacket, SenderReport};
pub use room::RoomHandle;
pub use sdp::{
    DescriptionTooLarge, OfferedSection, check_description, read_sections, without_sent_codecs,
};
pub use snapshot::{
    CandidatePair, LayerSnapshot, PeerSnapshot, PublishedSnapshot, SubscribedSnapshot,
    TransportSnapshot,
};
pub use track::{LayerInfo, NewTrack, Quality};
pub use transport::dependency_extension;
pub use workers::Workers;
