//! Work that a call on the room state leaves to the driver, besides reports: notices for clients, commands for media
//! workers, and changes for egresses.

use std::sync::Arc;

use conclave_egress::InputParticipant;
use conclave_model::{EgressId, ParticipantSid, RoleName, TrackSid};
use conclave_sfu::Command;
use livekit_protocol::{DataTrackInfo, ParticipantInfo};

/// One item of the driver's work. Order matters: a client must learn of a track before its packets arrive.
#[derive(Debug)]
pub(super) enum RoomEffect {
    Notify {
        /// The client's participant.
        to: ParticipantSid,
        /// The notice, from which the session makes its messages.
        notice: ClientNotice,
    },
    /// Inform an egress with ffmpeg.
    Job { egress: EgressId, effect: JobEffect },
    /// Choose a media worker for the room.
    OpenMedia,
    /// Send a command to the media worker.
    Command(Command),
    /// Remove the room from its media worker.
    CloseMedia,
}

/// Change for an egress with ffmpeg.
#[derive(Debug)]
pub(super) enum JobEffect {
    /// New participants and tracks to record.
    SetInputs {
        /// The room's participants that the egress may contain.
        inputs: Vec<InputParticipant>,
        /// Whether the room has no participants at all.
        is_room_empty: bool,
    },
    /// Attach the egress to a track's packets.
    Attach {
        /// The publisher's sid.
        peer: ParticipantSid,
        /// The track's sid.
        track: TrackSid,
    },
    /// Pause the egress, or resume it.
    SetPaused(bool),
    /// Stop the egress.
    Stop,
}

/// Participants as clients see them, for one message, which all receivers share.
pub(super) type ParticipantInfos = Arc<[Arc<ParticipantInfo>]>;

/// Change for a client.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ClientNotice {
    /// Participants, possibly the client's own, have changed, joined or left.
    ParticipantsChanged(ParticipantInfos),
    /// The server muted or unmuted a track of the client's participant.
    Muted {
        /// The track's sid.
        track: TrackSid,
        /// Whether the track is muted now.
        muted: bool,
    },
    /// The server unpublished a track of the client's participant.
    TrackUnpublished(TrackSid),
    /// The server unpublished a data track of the client's participant.
    DataTrackUnpublished(DataTrackInfo),
    /// The data tracks that the client receives have changed.
    DataHandlesChanged,
    /// The room's own information for clients has changed.
    RoomChanged,
    /// The server changed the participant's role.
    RoleChanged(RoleName),
    /// The client's change of its own metadata has been applied. The update precedes this notice.
    MetadataUpdated {
        /// Id of the client's request.
        request_id: u32,
    },
    /// A track that the client requested may be received, or may no longer be.
    SubscriptionPermission {
        /// The publisher's sid.
        publisher: ParticipantSid,
        /// The track's sid.
        track: TrackSid,
        /// Whether the client may receive it.
        is_allowed: bool,
    },
    /// The participant was disconnected. Always the last notice.
    Disconnected(DisconnectCause),
}

/// Reason why the server disconnected a participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DisconnectCause {
    /// Removed by the server.
    Removed,
    /// The room ended.
    RoomEnded,
    /// The identity joined again.
    Replaced,
    /// The control plane refused the join after media had connected.
    JoinRefused,
    /// Media did not connect in time.
    JoinTimeout,
    /// The server is stopping.
    ServerStopped,
    /// The participant left, or its connection was lost.
    Left,
}
