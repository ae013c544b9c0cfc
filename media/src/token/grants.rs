//! Who may do what in a room, whichever way it was decided.

use conclave_model::participant::TrackSource;
use conclave_model::role::{RolePublish, RoleSubscribe};

/// What the holder of a token may do in its room. The default is an ordinary participant: everything, and seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grants {
    /// Publish audio and video.
    pub can_publish: bool,
    /// Receive others.
    pub can_subscribe: bool,
    /// Publish data.
    pub can_publish_data: bool,
    /// Sources that may be published; empty is every source. Says nothing when `can_publish` is false.
    pub sources: Vec<TrackSource>,
    /// Not shown to others.
    pub hidden: bool,
}

impl Default for Grants {
    fn default() -> Self {
        Self { can_publish: true, can_subscribe: true, can_publish_data: true, sources: Vec::new(), hidden: false }
    }
}

impl Grants {
    /// What a role comes to. `to_roles` names roles, which a token cannot: only "nobody" can be said here, the rest is
    /// the media plane's to enforce (see [`crate::MediaPlane::set_subscription_rules`]).
    #[must_use]
    pub fn from_role(publish: &RolePublish, subscribe: &RoleSubscribe, hidden: bool) -> Self {
        Self {
            can_publish: publish.allows_media(),
            can_subscribe: !subscribe.to_roles.as_ref().is_some_and(Vec::is_empty),
            can_publish_data: publish.allows_data(),
            sources: publish.sources(),
            hidden,
        }
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::role::RoleInput;

    use super::*;

    fn of(input: &str) -> Grants {
        let input: RoleInput = serde_json::from_str(input).unwrap();
        let role = input.normalise("host".parse().unwrap()).unwrap();
        Grants::from_role(&role.publish, &role.subscribe, role.hidden)
    }

    #[test]
    fn a_role_that_receives_nobody_cannot_subscribe() {
        assert!(of("{}").can_subscribe);
        assert!(of(r#"{"subscribe":{"to_roles":["host"]}}"#).can_subscribe);
        assert!(!of(r#"{"subscribe":{"to_roles":[]}}"#).can_subscribe);
    }

    #[test]
    fn a_role_that_publishes_data_alone_publishes_no_media() {
        let grants = of(r#"{"publish":{"allowed":["data"]},"hidden":true}"#);
        assert_eq!((grants.can_publish, grants.can_publish_data, grants.hidden), (false, true, true));
        assert!(grants.sources.is_empty());
    }
}
