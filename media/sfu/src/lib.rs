//! The packet side of the embedded media plane: WebRTC transports and selective forwarding.
//!
//! Media workers are threads, each with a UDP port of its own. A room lives on one worker, with all its participants'
//! transports and its forwarding tables, so a packet takes no lock and changes no thread. The control side (signalling,
//! admission, permissions) decides; it sends [`Command`]s to the worker of a room and receives [`Event`]s. No packet waits
//! for it.
//!
//! - [`command`] and [`event`]: the interface, with the order of commands in the life of a connection.
//! - [`config`]: ports, addresses and limits.
//! - [`recorder`]: receivers of tracks in this process.
//! - [`snapshot`]: the state of participants, for inspection.
//!
//! The transport is str0m: a state machine without I/O for each peer connection. What the workers do with it is a state
//! machine without I/O as well; the driver around it has the threads, sockets and clocks.

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
pub mod packetize;
mod queue;
pub mod recorder;
mod sdp;
pub mod snapshot;
pub mod track;
mod transport;
mod worker;
mod workers;

/// The state machine of a worker, without threads and sockets: for tests and fuzzing.
#[cfg(any(test, feature = "fuzzing"))]
pub mod machine {
    pub use crate::transport::Source;
    pub use crate::worker::{Datagram, Worker};
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
pub use queue::RoomHandle;
pub use recorder::{PacketSink, RecordedPacket, SenderReport};
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
