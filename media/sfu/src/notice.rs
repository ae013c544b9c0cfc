//! Instructions in a worker's queue, and notices between workers that share a room.
//!
//! A participant lives on one worker, a room on as many as it needs. On each other worker of the room, the participant
//! has a *mirror*: it has neither transports nor a client, but its tracks can be subscribed to as usual.
//!
//! # Order
//!
//! Each worker has one queue, which keeps the order of a room's instructions. A command that concerns mirrors (a mute,
//! a removal, a new track) goes to the other workers first and to the participant's own worker last, all under the
//! room's lock. So a mirror follows the control side's order without waiting for the participant's worker, and is up to
//! date when a notice from there arrives.
//!
//! When another worker joins the room, it receives a [`Share`] first, then the others do. These reply with the state of
//! their participants. Until a participant's state arrives, the new worker queues the commands for it.

use std::sync::Arc;

use conclave_model::participant::DataKind;
use conclave_model::{ParticipantSid, TrackSid};

use crate::codec::Codec;
use crate::command::{Command, NewPeer};
use crate::data::{DataLink, Routed};
use crate::mirror::{MirrorRing, WorkerId};
use crate::track::NewTrack;

/// Instruction in a worker's queue.
pub enum Instruction {
    /// Command from the control side.
    Command(Command),
    /// The room is now on another worker, too.
    Share(Share),
    /// A participant has joined on another worker.
    AddMirror {
        /// Participant.
        peer: NewPeer,
        /// The participant's worker.
        home: WorkerId,
    },
    /// Notice from another worker of the room.
    Notice {
        /// Sender.
        from: WorkerId,
        /// Opening of the room. An earlier room with the same name may have been closed.
        sharing: SharingId,
        /// Content.
        notice: Notice,
    },
}

impl From<Command> for Instruction {
    fn from(command: Command) -> Self {
        Self::Command(command)
    }
}

/// Id for one opening of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SharingId(pub u64);

/// Instruction to share a room with other workers.
pub struct Share {
    /// Opening of the room.
    pub sharing: SharingId,
    /// Receiver of this instruction.
    pub worker: WorkerId,
    /// Whether participants' user messages are reported.
    pub reports_messages: bool,
    /// The other workers.
    pub neighbours: Vec<NewNeighbour>,
    /// Whether the others have the room already and are going to send their participants' state. If not, the receiver
    /// has to.
    pub is_new: bool,
}

/// Another worker of a room, newly known.
pub struct NewNeighbour {
    /// Index of the worker.
    pub worker: WorkerId,
    /// Messages on their way there.
    pub outgoing: Arc<DataLink>,
    /// Messages on their way from there.
    pub incoming: Arc<DataLink>,
}

/// Notice between workers that share a room.
#[derive(Clone)]
pub enum Notice {
    /// State of a participant on the sender's worker.
    Peer(Box<PeerState>),
    /// All participants from before the room was shared have been sent.
    AllPeers,
    /// A track has a negotiated media section.
    Published {
        /// The track in this codec.
        stream: StreamName,
        /// Whether this is a backup codec.
        is_backup: bool,
        /// RIDs of its layers.
        rids: Vec<String>,
    },
    /// A track has ended, or cannot be published.
    Ended {
        /// Publisher.
        publisher: ParticipantSid,
        /// Track.
        track: TrackSid,
    },
    /// A backup codec is no longer sent, or cannot be.
    BackupEnded(StreamName),
    /// A participant has failed: its tracks have ended, and it publishes no others.
    Failed(ParticipantSid),
    /// Request to fill a ring with a stream's packets.
    Tap(StreamName, Arc<MirrorRing>),
    /// Request to stop that.
    Untap(StreamName),
    /// Request for a key frame.
    KeyFrame {
        /// Stream.
        stream: StreamName,
        /// Layer index.
        layer: usize,
    },
    /// Number of layers in use by a mirror's receivers.
    Used {
        /// Stream.
        stream: StreamName,
        /// Layers, from the lowest.
        layers: usize,
    },
    /// Whether receivers wait for a backup codec that is not sent.
    Awaited {
        /// The missing stream.
        stream: StreamName,
        /// Whether there are any.
        is_awaited: bool,
    },
    /// A participant has subscribed to a track.
    Subscribed {
        /// Publisher.
        publisher: ParticipantSid,
        /// Track.
        track: TrackSid,
    },
    /// A participant's message.
    Message {
        /// Sender.
        sender: ParticipantSid,
        /// Reliable or lossy.
        kind: DataKind,
        /// Message and its receivers.
        routed: Arc<Routed>,
    },
    /// Packet of a data track, with the publisher's handle.
    DataPacket {
        /// Publisher.
        publisher: ParticipantSid,
        /// Packet.
        packet: Arc<[u8]>,
    },
    /// The receivers have caught up for which senders wait.
    CaughtUp,
}

/// A track in one of its codecs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamName {
    /// Publisher.
    pub publisher: ParticipantSid,
    /// Track.
    pub track: TrackSid,
    /// Codec.
    pub codec: Codec,
}

/// Participant state for mirrors.
#[derive(Clone)]
pub struct PeerState {
    /// The participant, with its current permissions.
    pub info: NewPeer,
    /// Tracks without a media section.
    pub announced: Vec<NewTrack>,
    /// Tracks with a media section, with their codec and RIDs.
    pub published: Vec<(NewTrack, Codec, Vec<String>)>,
    /// Data tracks with their handle and whether they are muted.
    pub data_tracks: Vec<(TrackSid, u16, bool)>,
}
