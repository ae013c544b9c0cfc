//! Roles: what a participant may publish, what it receives, and whom it may moderate (contract "Role (and RoleInput)",
//! shapes of the open objects from the decisions, section 3).
//!
//! A [`Role`] is complete. A [`RoleInput`] is what a caller sends: every field optional, filled from the defaults before
//! anything else looks at it.

mod input;
mod permissions;
mod publish;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use self::input::{AudioInput, RoleInput, RoleNameMismatch, RolePublishInput, RoleSubscribeInput, VideoInput};
pub use self::permissions::{Permission, RolePermissions};
pub use self::publish::{AudioCodec, AudioProfile, PublishKind, RolePublish, VideoCodec, VideoProfile};
use crate::RoleName;
use crate::bounded::{Kbps, PeerCount, Priority};

/// A role as it is stored, served and turned into grants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Role {
    /// Unique in the template.
    #[schema(value_type = String)]
    pub name: RoleName,
    /// What holders may publish, and how.
    pub publish: RolePublish,
    /// Whom holders receive.
    pub subscribe: RoleSubscribe,
    /// What holders may do to others.
    pub permissions: RolePermissions,
    /// 1 is the most important.
    pub priority: Priority,
    /// -1 admits nobody, 0 is unlimited, a positive number caps concurrent holders.
    pub max_peer_count: PeerCount,
    /// A hidden participant is not visible to others.
    pub hidden: bool,
}

/// Whom a role receives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RoleSubscribe {
    /// Roles received; null is every role, an empty list nobody.
    #[schema(value_type = Option<Vec<String>>, required = true)]
    pub to_roles: Option<Vec<RoleName>>,
    /// Ceiling over everything received, in kilobits a second; null is no ceiling.
    #[schema(required = true)]
    pub max_kbps: Option<Kbps>,
}
