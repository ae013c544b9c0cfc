//! What waits in the queue of a worker, and what workers that share a room tell each other.
//!
//! A participant lives on one worker, and a room on as many as it needs. On each other worker of the room, a participant has a *mirror*:
//! it has neither transports nor a client, but what it publishes can be subscribed to there as anywhere else.
//!
//! # Order
//!
//! Each worker has one queue, in which what concerns a room keeps its order. The control side puts what concerns mirrors (a mute, a
//! removal, a new track) into the queues of the other workers of the room first, and of the participant's own worker last, all
//! under the lock of the room. So a mirror follows in the order of the control side, without waiting for the participant's worker,
//! and it knows of everything that the participant's worker tells it in consequence.
//!
//! When another worker joins the room, it is told so first ([`Share`]), and then the others, which answer with the state of their
//! participants. What the control side says of these in between is held until their state has come.

use std::sync::Arc;

use conclave_model::participant::DataKind;
use conclave_model::{ParticipantSid, TrackSid};

use crate::codec::Codec;
use crate::command::{Command, NewPeer};
use crate::data::{DataLink, Routed};
use crate::mirror::{MirrorRing, WorkerId};
use crate::track::NewTrack;

/// What waits in the queue of a worker for a room.
pub enum Instruction {
    /// A command of the control side.
    Command(Command),
    /// The room is on another worker as well.
    Share(Share),
    /// A participant has come to another worker of the room.
    AddMirror {
        /// The participant.
        peer: NewPeer,
        /// Where it lives.
        home: WorkerId,
    },
    /// Another worker of the room tells something.
    Notice {
        /// Who does.
        from: WorkerId,
        /// For which opening of the room: one of the same name may have been closed before.
        sharing: SharingId,
        /// What it tells.
        notice: Notice,
    },
}

impl From<Command> for Instruction {
    fn from(command: Command) -> Self {
        Self::Command(command)
    }
}

/// Names one opening of a room that is on several workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SharingId(pub u64);

/// Lets a worker share a room with others.
pub struct Share {
    /// The opening of the room.
    pub sharing: SharingId,
    /// The position of the worker that is told.
    pub worker: WorkerId,
    /// Whether user messages of participants are reported.
    pub reports_messages: bool,
    /// The other workers.
    pub neighbours: Vec<NewNeighbour>,
    /// Whether these have the room already, and are going to tell of their participants. Otherwise this worker has to.
    pub is_new: bool,
}

/// Another worker of a room.
pub struct NewNeighbour {
    /// Its position.
    pub worker: WorkerId,
    /// Counts what goes there.
    pub outgoing: Arc<DataLink>,
    /// Counts what comes from there.
    pub incoming: Arc<DataLink>,
}

/// What workers that share a room tell each other.
#[derive(Clone)]
pub enum Notice {
    /// A participant that is on the sender's worker, with all that mirrors of it have to know.
    Peer(Box<PeerState>),
    /// All participants that were there when the room was shared have been told of.
    AllPeers,
    /// A track of a participant has a negotiated media section.
    Published {
        /// The stream: the track in this codec.
        stream: StreamName,
        /// Whether the codec is a backup codec of the track.
        is_backup: bool,
        /// The ids of its layers.
        rids: Vec<String>,
    },
    /// A track of a participant has ended, or cannot be published.
    Ended {
        /// The sid of the participant.
        publisher: ParticipantSid,
        /// The sid of the track.
        track: TrackSid,
    },
    /// A track is not sent in a backup codec any more, or cannot be.
    BackupEnded(StreamName),
    /// A participant has failed: its tracks have ended, and it publishes no others.
    Failed(ParticipantSid),
    /// Packets of a stream are to be put into a ring.
    Tap(StreamName, Arc<MirrorRing>),
    /// Nobody receives a stream there any more.
    Untap(StreamName),
    /// Receivers of a mirror need a key frame.
    KeyFrame {
        /// The stream.
        stream: StreamName,
        /// The index of the layer.
        layer: usize,
    },
    /// How many layers receivers of a mirror have a use for.
    Used {
        /// The stream.
        stream: StreamName,
        /// The layers, from the lowest.
        layers: usize,
    },
    /// Whether receivers wait for a backup codec that is not sent.
    Awaited {
        /// The stream that is missing.
        stream: StreamName,
        /// Whether any do.
        is_awaited: bool,
    },
    /// A participant has subscribed to a track.
    Subscribed {
        /// The sid of the publisher.
        publisher: ParticipantSid,
        /// The sid of the track.
        track: TrackSid,
    },
    /// A message of a participant.
    Message {
        /// The sid of the participant.
        sender: ParticipantSid,
        /// Reliable or lossy.
        kind: DataKind,
        /// The message and its receivers.
        routed: Arc<Routed>,
    },
    /// A packet of a data track, with the handle of its publisher.
    DataPacket {
        /// The sid of the publisher.
        publisher: ParticipantSid,
        /// The packet.
        packet: Arc<[u8]>,
    },
    /// The receivers for which senders wait have caught up.
    CaughtUp,
}

/// A track in one of its codecs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamName {
    /// The sid of the publisher.
    pub publisher: ParticipantSid,
    /// The sid of the track.
    pub track: TrackSid,
    /// The codec.
    pub codec: Codec,
}

/// What mirrors of a participant have to know.
#[derive(Clone)]
pub struct PeerState {
    /// The participant, with its permissions.
    pub info: NewPeer,
    /// Its tracks that are announced only.
    pub announced: Vec<NewTrack>,
    /// Its tracks that have a media section, with their codecs and the ids of their layers.
    pub published: Vec<(NewTrack, Codec, Vec<String>)>,
    /// Its data tracks, with their handles and whether they are muted.
    pub data_tracks: Vec<(TrackSid, u16, bool)>,
}
