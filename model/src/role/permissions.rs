//! The moderation calls that a role may make.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema::word_enum;

/// What a role may do to others through the moderation calls. All false unless said otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RolePermissions {
    /// End the room.
    pub end_room: bool,
    /// Remove somebody.
    pub remove_others: bool,
    /// Mute somebody's track.
    pub mute_others: bool,
    /// Unmute somebody's track.
    pub unmute_others: bool,
    /// Give somebody another role.
    pub change_role: bool,
    /// Send data through the server.
    pub send_data: bool,
    /// Start and stop recordings.
    pub record: bool,
    /// Start and stop broadcasts.
    pub broadcast: bool,
}

word_enum! {
    /// One of the permissions, by the name that `field` of a 403 gives it.
    Permission {
        /// End the room.
        EndRoom = "end_room",
        /// Remove somebody.
        RemoveOthers = "remove_others",
        /// Mute somebody's track.
        MuteOthers = "mute_others",
        /// Unmute somebody's track.
        UnmuteOthers = "unmute_others",
        /// Give somebody another role.
        ChangeRole = "change_role",
        /// Send data through the server.
        SendData = "send_data",
        /// Start and stop recordings.
        Record = "record",
        /// Start and stop broadcasts.
        Broadcast = "broadcast",
    }
}

impl RolePermissions {
    /// Whether the permission is held.
    #[must_use]
    pub const fn allows(&self, permission: Permission) -> bool {
        match permission {
            Permission::EndRoom => self.end_room,
            Permission::RemoveOthers => self.remove_others,
            Permission::MuteOthers => self.mute_others,
            Permission::UnmuteOthers => self.unmute_others,
            Permission::ChangeRole => self.change_role,
            Permission::SendData => self.send_data,
            Permission::Record => self.record,
            Permission::Broadcast => self.broadcast,
        }
    }
}
