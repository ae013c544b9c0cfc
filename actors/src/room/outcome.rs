//! The outcomes of calls to the media plane, each with the reply that waits for it.

use conclave_media::{MediaError, MuteOutcome};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::participant::Participant;
use conclave_model::role_change::RoleChanged;

use super::requests::{
    ChangeRoleRequest, MuteReply, RemoveReply, RoleReply, SendDataReply, participant_not_found,
};
use crate::error::TreeError;

/// The number of a call, unique within one run of a room's actor.
pub type CallId = u64;

/// The result of a call, with the reply that waits for it.
#[derive(Debug)]
pub enum CallOutcome {
    /// A participant was disconnected, or was not there.
    Removed(RemoveReply, Result<bool, MediaError>),
    /// A track was muted or unmuted, or was not there.
    Muted(MuteReply, Result<MuteOutcome, MediaError>),
    /// Data was sent.
    DataSent(SendDataReply, Result<(), MediaError>),
    /// A participant was given another role, which is not written yet.
    RoleSet(Box<AcceptedRole>, Result<Participant, TreeError>),
}

/// A role change that is written once the media plane has accepted it.
#[derive(Debug)]
pub struct AcceptedRole {
    /// The participant and the role.
    pub(super) request: ChangeRoleRequest,
    /// The response to store with the change.
    pub(super) recorder: Option<ResponseRecorder<RoleChanged>>,
    /// Answered once the change is durable.
    pub(super) reply: RoleReply,
}

impl CallOutcome {
    /// Gives the caller the media plane's answer. A role change that cannot be written any more is answered as one of a room
    /// that has ended.
    pub(super) fn answer_as_ended(self) {
        match self {
            Self::Removed(reply, result) => drop(reply.send(result.map_err(TreeError::from))),
            Self::Muted(reply, result) => drop(reply.send(result.map_err(TreeError::from))),
            Self::DataSent(reply, result) => drop(reply.send(result.map_err(TreeError::from))),
            Self::RoleSet(accepted, result) => {
                let error = result.map_or_else(|error| error, |_| participant_not_found());
                let _ = accepted.reply.send(Err(error));
            }
        }
    }
}
