//! Roles: publishing, receiving and moderation rights of participants.
//!
//! A [`Role`] is complete. A [`RoleInput`] is sent by a caller: every field is optional, and filled
//! from the defaults before any other use.

mod attributes;
mod input;
mod order;
mod publish;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use self::attributes::{RoleAttributes, RoleAttributesError};
pub use self::input::{
    AudioInput, RoleInput, RoleNameMismatch, RolePublishInput, RoleSubscribeInput, VideoInput,
};
pub use self::publish::{
    AudioCodec, AudioProfile, PublishCodec, PublishKind, RolePublish, VideoCodec, VideoProfile,
};
use crate::RoleName;
use crate::bounded::{Kbps, PeerCount, Priority};
use crate::schema::word_enum;

/// A role as it is stored, served and turned into grants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Role {
    /// The name, unique in the template.
    #[schema(value_type = String)]
    pub name: RoleName,
    /// The media that holders may publish, and its quality.
    pub publish: RolePublish,
    /// The roles whose media holders receive.
    pub subscribe: RoleSubscribe,
    /// The moderation calls that holders may make.
    pub permissions: RolePermissions,
    /// The priority; 1 is the most important.
    pub priority: Priority,
    /// Maximum number of concurrent holders in a room; -1 admits no participant, 0 is unlimited.
    pub max_peer_count: PeerCount,
    /// Whether holders are invisible to other participants.
    pub hidden: bool,
    /// Beyond the contract: attributes that participants who join with the role start with. Shown only if there are any.
    // Absent if empty, so that responses have the contract's fields only.
    #[serde(default, skip_serializing_if = "RoleAttributes::is_empty")]
    pub attributes: RoleAttributes,
}

/// The media that a role receives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RoleSubscribe {
    /// Roles whose media is received; null is every role, an empty list none.
    #[schema(value_type = Option<Vec<String>>, required = true)]
    pub to_roles: Option<Vec<RoleName>>,
    /// Limit of all received media, in kilobits a second; null is unlimited.
    #[schema(required = true)]
    pub max_kbps: Option<Kbps>,
}

/// The moderation calls that a role may make. All default to false.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RolePermissions {
    /// May end the room.
    pub end_room: bool,
    /// May remove participants.
    pub remove_others: bool,
    /// May mute tracks of other participants.
    pub mute_others: bool,
    /// May unmute tracks of other participants.
    pub unmute_others: bool,
    /// May change the roles of participants.
    pub change_role: bool,
    /// May send data through the server.
    pub send_data: bool,
    /// May start and stop recordings.
    pub record: bool,
    /// May start and stop broadcasts.
    pub broadcast: bool,
    /// Beyond the contract: may change its own name, metadata and attributes by the protocol of clients. Shown only if it is true.
    // Absent if false, for the same reason.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub update_own_metadata: bool,
}

word_enum! {
    /// One of the permissions, by the name that `field` of a 403 gives it.
    Permission {
        /// May end the room.
        EndRoom = "end_room",
        /// May remove participants.
        RemoveOthers = "remove_others",
        /// May mute tracks of other participants.
        MuteOthers = "mute_others",
        /// May unmute tracks of other participants.
        UnmuteOthers = "unmute_others",
        /// May change the roles of participants.
        ChangeRole = "change_role",
        /// May send data through the server.
        SendData = "send_data",
        /// May start and stop recordings.
        Record = "record",
        /// May start and stop broadcasts.
        Broadcast = "broadcast",
        /// May change its own name, metadata and attributes.
        UpdateOwnMetadata = "update_own_metadata",
    }
}

impl RolePermissions {
    /// Creates the permissions for which `is_held` is true.
    pub fn new(is_held: impl Fn(Permission) -> bool) -> Self {
        Self {
            // Field by field, so the compiler reports a permission that is missing here.
            end_room: is_held(Permission::EndRoom),
            remove_others: is_held(Permission::RemoveOthers),
            mute_others: is_held(Permission::MuteOthers),
            unmute_others: is_held(Permission::UnmuteOthers),
            change_role: is_held(Permission::ChangeRole),
            send_data: is_held(Permission::SendData),
            record: is_held(Permission::Record),
            broadcast: is_held(Permission::Broadcast),
            update_own_metadata: is_held(Permission::UpdateOwnMetadata),
        }
    }

    /// Returns whether the role has the permission.
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
            Permission::UpdateOwnMetadata => self.update_own_metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_permission_allows_itself_and_no_other() {
        for granted in Permission::ALL {
            let json = format!(r#"{{"{granted}":true}}"#);
            let role: RolePermissions = serde_json::from_str(&json).unwrap();
            let allowed: Vec<_> = Permission::ALL
                .iter()
                .filter(|permission| role.allows(**permission))
                .collect();
            assert_eq!(allowed, [granted]);
            assert_eq!(
                RolePermissions::new(|permission| permission == *granted),
                role
            );
        }
    }

    #[test]
    fn what_the_contract_does_not_have_is_shown_only_if_it_is_held() {
        let json = serde_json::to_value(RolePermissions::default()).unwrap();
        assert_eq!(json.as_object().unwrap().len(), 8, "{json}");
        let held = RolePermissions {
            update_own_metadata: true,
            ..RolePermissions::default()
        };
        let json = serde_json::to_value(held).unwrap();
        assert_eq!(json["update_own_metadata"], true);
        assert_eq!(
            serde_json::from_value::<RolePermissions>(json).unwrap(),
            held
        );
    }
}
