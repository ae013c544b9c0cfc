//! What a call on the machine asks the driver to do besides sending reports: to notify clients, to command the
//! media workers, and to let egresses know of changes.

use std::sync::Arc;

use conclave_egress::InputParticipant;
use conclave_model::{EgressId, ParticipantSid, RoleName, TrackSid};
use conclave_sfu::Command;
use livekit_protocol::{DataTrackInfo, ParticipantInfo};

/// Something that the driver has to do. The order matters: a client learns of a track before its packets arrive.
#[derive(Debug)]
pub(super) enum Effect {
    /// Notify a client.
    Notify {
        /// The participant whose client it is.
        to: ParticipantSid,
        /// The notice, from which the session makes its messages.
        notice: ClientNotice,
    },
    /// Let an egress with ffmpeg know of something.
    Job {
        /// The id of the egress.
        egress: EgressId,
        /// What it has to know.
        effect: JobEffect,
    },
    /// Find a media worker for the room.
    OpenMedia,
    /// Command the media worker.
    Command(Command),
    /// Take the room from its media worker.
    CloseMedia,
}

/// What an egress with ffmpeg has to know.
#[derive(Debug)]
pub(super) enum JobEffect {
    /// The participants and tracks that it contains from now on.
    Attend {
        /// Those of the room that it may contain.
        attendees: Vec<InputParticipant>,
        /// Whether the room has no participants at all.
        is_room_empty: bool,
    },
    /// It gets the packets of a track.
    Attach {
        /// The sid of the publisher.
        peer: ParticipantSid,
        /// The sid of the track.
        track: TrackSid,
    },
    /// It is to end.
    Stop,
}

/// Participants as clients see them, for one message.
pub(super) type Infos = Arc<[Arc<ParticipantInfo>]>;

/// A change that a client is notified of.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ClientNotice {
    /// Participants, perhaps the client's own, have changed, come or left.
    ParticipantsChanged(Infos),
    /// The server muted or unmuted a track of the client's participant.
    Muted {
        /// The sid of the track.
        track: TrackSid,
        /// Whether it is muted now.
        muted: bool,
    },
    /// The server ended a track of the client's participant.
    TrackUnpublished(TrackSid),
    /// The server ended a data track of the client's participant.
    DataTrackUnpublished(DataTrackInfo),
    /// The client receives other data tracks than before.
    DataHandlesChanged,
    /// What clients are told of the room itself has changed.
    RoomChanged,
    /// The server changed the participant's role.
    RoleChanged(RoleName),
    /// What the client says of its own participant has been changed, as the update before says.
    MetadataUpdated {
        /// The id of its request.
        request_id: u32,
    },
    /// A track that the client wants may be received, or may not.
    SubscriptionPermission {
        /// The sid of the publisher.
        publisher: ParticipantSid,
        /// The sid of the track.
        track: TrackSid,
        /// Whether it may be received.
        is_allowed: bool,
    },
    /// The participant was disconnected. Nothing follows.
    Disconnected(DisconnectCause),
}

/// Why the server disconnected a participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DisconnectCause {
    /// It was removed.
    Removed,
    /// Its room ended.
    RoomEnded,
    /// Its identity has joined again.
    Replaced,
    /// The control plane refused the join when its media was connected.
    JoinRefused,
    /// Its media was not connected in time.
    JoinTimeout,
    /// The server stops.
    ServerStopped,
    /// It left, or its connection was lost.
    Left,
}
