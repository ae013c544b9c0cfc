//! Roles: what a participant may publish, what it receives, and whom it may moderate.
//!
//! A [`Role`] is complete. A [`RoleInput`] is what a caller sends: every field optional, filled from the defaults before
//! anything else looks at it.

mod attributes;
mod input;
mod order;
mod permissions;
mod publish;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use self::attributes::{RoleAttributes, RoleAttributesError};
pub use self::input::{
    AudioInput, RoleInput, RoleNameMismatch, RolePublishInput, RoleSubscribeInput, VideoInput,
};
pub use self::permissions::{Permission, RolePermissions};
pub use self::publish::{
    AudioCodec, AudioProfile, PublishCodec, PublishKind, RolePublish, VideoCodec, VideoProfile,
};
use crate::RoleName;
use crate::bounded::{Kbps, PeerCount, Priority};

/// A role as it is stored, served and turned into grants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Role {
    /// The name, unique in the template.
    #[schema(value_type = String)]
    pub name: RoleName,
    /// The media that holders may publish, and in what quality.
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
