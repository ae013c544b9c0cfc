//! Selective forwarding unit (SFU) of the embedded media plane: WebRTC transports, and packet forwarding between them.
//!
//! Media workers are threads, each with a UDP port. A participant lives on one worker, with its transports and
//! subscriptions; a room spans as many workers as it needs. A packet crosses to each other worker in the room once,
//! without waiting for a lock.
//!
//! The control side (signalling, admission, permissions) makes the decisions. It sends [`Command`]s to a room's workers
//! and receives [`Event`]s. No packet waits for it.
//!
//! # Map
//!
//! The interface:
//!
//! 1. [`Command`] and [`Event`]: everything that passes between the control side and the workers, with the order of
//!    commands in a connection's life. [`config`]: ports, addresses, limits. [`track`] and [`codec`]: published media.
//!    [`recorder`]: receivers of tracks in this process. [`snapshot`]: participants' state, for inspection.
//! 2. `workers`, `room`, `placement`, `queue`: a process's media workers, their assignment to rooms, and the queues of
//!    commands to them. `notice` and `mirror`: messages and packets between a room's workers.
//! 3. `driver`: threads, sockets and clocks around the workers.
//!
//! A worker without its driver is a state machine without I/O:
//!
//! 4. `worker`: rooms, participants and tracks, and a packet's way through them. Its head describes that way.
//! 5. `transport`: one peer connection, around str0m, which has no I/O either.
//!
//! Both use values that know no connection:
//!
//! 6. `adapt`: reading and rewriting packets, per codec. `packet` and `dropped`: a packet with its track, and the
//!    reasons for not forwarding it.
//! 7. `allocate`: the layers that a receiver gets, and requests to publishers; its head describes an allocation.
//!    `measure`: bitrates, loss, speech.
//! 8. `sdp`: session descriptions as text. `data`: messages between participants. [`packetize`] and [`bits`]: RTP
//!    payloads for sources without WebRTC, and their bit fields.

// The fixtures of `tests/` also serve the unit tests, and name the crate as an outside user would.
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

/// A worker's state machine without threads and sockets, for tests and fuzzing.
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
    PublishRate, QualityReport, Receivers, RoomEvent, SentMessage, Speaker,
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
