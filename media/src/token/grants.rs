//! What a participant may do in a room.

use conclave_model::participant::TrackSource;
use conclave_model::role::{PublishCodec, Role};

/// What a participant may do in its room. The default allows everything but to change its own metadata, and is not hidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grants {
    /// Allows publishing audio and video.
    pub can_publish: bool,
    /// Allows receiving other participants.
    pub can_subscribe: bool,
    /// Allows publishing data.
    pub can_publish_data: bool,
    /// The sources that may be published; empty means all. Without effect if `can_publish` is false.
    pub sources: Vec<TrackSource>,
    /// The codecs with which video may be published; `None` for all.
    pub video_codecs: Option<Vec<PublishCodec>>,
    /// Hides the participant from the others.
    pub hidden: bool,
    /// Allows the participant's client to change its name, metadata and attributes.
    pub can_update_own_metadata: bool,
}

impl Default for Grants {
    fn default() -> Self {
        Self {
            can_publish: true,
            can_subscribe: true,
            can_publish_data: true,
            sources: Vec::new(),
            video_codecs: None,
            hidden: false,
            can_update_own_metadata: false,
        }
    }
}

impl Grants {
    /// Creates the grants of a role. A token cannot express `to_roles`, except for an empty list, which forbids subscribing.
    /// The media plane enforces the other lists (see [`crate::MediaPlane::set_subscription_rules`]).
    pub fn from_role(role: &Role) -> Self {
        Self {
            can_publish: role.publish.allows_media(),
            can_subscribe: !role.subscribe.to_roles.as_ref().is_some_and(Vec::is_empty),
            can_publish_data: role.publish.allows_data(),
            sources: role.publish.sources(),
            video_codecs: role.publish.video_codecs.clone(),
            hidden: role.hidden,
            can_update_own_metadata: role.permissions.update_own_metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::role::RoleInput;

    use super::*;

    fn grants(input: &str) -> Grants {
        let input: RoleInput = serde_json::from_str(input).unwrap();
        let role = input.with_defaults("host".parse().unwrap()).unwrap();
        Grants::from_role(&role)
    }

    #[test]
    fn a_role_that_receives_nobody_cannot_subscribe() {
        assert!(grants("{}").can_subscribe);
        assert!(grants(r#"{"subscribe":{"to_roles":["host"]}}"#).can_subscribe);
        assert!(!grants(r#"{"subscribe":{"to_roles":[]}}"#).can_subscribe);
    }

    #[test]
    fn a_role_that_publishes_data_alone_publishes_no_media() {
        let grants = grants(r#"{"publish":{"allowed":["data"]},"hidden":true}"#);
        assert_eq!(
            (grants.can_publish, grants.can_publish_data, grants.hidden),
            (false, true, true)
        );
        assert!(grants.sources.is_empty());
    }

    #[test]
    fn a_role_changes_its_own_metadata_only_if_it_says_so() {
        assert!(
            !grants("{}").can_update_own_metadata && !Grants::default().can_update_own_metadata
        );
        assert!(grants(r#"{"permissions":{"update_own_metadata":true}}"#).can_update_own_metadata);
    }
}
