//! The log of role changes (contract "RoleChangeResult", decisions "RoleChange").

use crate::event::ChangedBy;
use crate::key::ApiKeyPrefix;
use crate::participant::Participant;
use crate::{Identity, ParticipantSid, RoleChangeId, RoleName, RoomName, Timestamp};

/// One participant was given another role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleChange {
    /// The row.
    pub id: RoleChangeId,
    /// The room.
    pub room: RoomName,
    /// Whose role.
    pub participant_identity: Identity,
    /// In which join.
    pub participant_sid: ParticipantSid,
    /// The new role.
    pub role: RoleName,
    /// The role before; `None` when none was held.
    pub previous_role: Option<RoleName>,
    /// Who made the change.
    pub changed_by: ChangedBy,
    /// When.
    pub created_at: Timestamp,
}

impl RoleChange {
    /// The participant who made the change, if it was one.
    #[must_use]
    pub const fn changed_by_identity(&self) -> Option<&Identity> {
        match &self.changed_by {
            ChangedBy::Identity(identity) => Some(identity),
            ChangedBy::ApiKey(_) => None,
        }
    }

    /// The prefix of the key that made the change, if it was one.
    #[must_use]
    pub const fn changed_by_api_key_prefix(&self) -> Option<&ApiKeyPrefix> {
        match &self.changed_by {
            ChangedBy::Identity(_) => None,
            ChangedBy::ApiKey(prefix) => Some(prefix),
        }
    }
}

/// What a change came to: its row, and the participant as the media plane has it since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleChanged {
    /// The row.
    pub change: RoleChange,
    /// Who holds the new role now.
    pub participant: Participant,
}
