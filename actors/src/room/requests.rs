//! Requests to a room, their replies, and the errors that refuse them.

use conclave_media::MuteOutcome;
use conclave_model::event::ChangedBy;
use conclave_model::role_change::RoleChanged;
use conclave_model::{Identity, Problem, RoleName, TrackSid};
use ractor::RpcReplyPort;

use crate::error::TreeError;

/// The reply to a request for another role.
pub type RoleReply = RpcReplyPort<Result<RoleChanged, TreeError>>;
/// The reply to a removal: false when the participant is not connected.
pub type RemoveReply = RpcReplyPort<Result<bool, TreeError>>;
/// The reply to muting or unmuting a track.
pub type MuteReply = RpcReplyPort<Result<MuteOutcome, TreeError>>;
/// The reply to sending data.
pub type SendDataReply = RpcReplyPort<Result<(), TreeError>>;

/// A request to give a participant another role.
#[derive(Debug, Clone)]
pub struct ChangeRoleRequest {
    /// The participant, who must be connected.
    pub identity: Identity,
    /// A role of the room's template.
    pub role: RoleName,
    /// The participant or the API key that makes the request.
    pub by: ChangedBy,
}

/// A request to mute or unmute a participant's track.
#[derive(Debug, Clone)]
pub struct MuteTrackRequest {
    /// The participant that publishes the track.
    pub identity: Identity,
    /// The track to mute or unmute.
    pub track: TrackSid,
    /// True mutes, false unmutes.
    pub muted: bool,
}

/// Returns the error for a participant who is not connected.
pub(super) fn participant_not_found() -> TreeError {
    Problem::participant_not_found().into()
}

/// Returns the error for data to a room that has ended.
pub(super) fn room_ended() -> TreeError {
    Problem::no_room_for_data().into()
}
