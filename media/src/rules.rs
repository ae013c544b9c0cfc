//! Subscription rules: the roles that each role in a room receives, and its bitrate limit.

use std::collections::{BTreeMap, HashMap, HashSet};

use conclave_model::RoleName;
use conclave_model::role::RoleSubscribe;

/// Rules by receiving role. A role without an entry receives every role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SubscriptionRules(HashMap<RoleName, SubscriptionRule>);

/// A role's rule as a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SubscriptionRule {
    /// Roles whose tracks it receives; `None` for all.
    to_roles: Option<HashSet<RoleName>>,
    /// Limit for a participant's total received bitrate, in kbit/s.
    max_kbps: Option<u32>,
}

impl SubscriptionRules {
    /// Returns whether no role is restricted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a participant with the role `receiver` receives no other. Its grants forbid subscribing then.
    pub fn receives_nobody(&self, receiver: Option<&RoleName>) -> bool {
        // An empty list differs from an absent one, which means all.
        self.to_roles(receiver).is_some_and(HashSet::is_empty)
    }

    /// Returns whether a participant with the role `receiver` receives tracks from a participant with the role
    /// `publisher`. A participant without a role receives everyone, and is received only by unrestricted receivers.
    pub fn receives(&self, receiver: Option<&RoleName>, publisher: Option<&RoleName>) -> bool {
        self.to_roles(receiver)
            // A list names roles, so it can never include a publisher without one.
            .is_none_or(|roles| publisher.is_some_and(|role| roles.contains(role)))
    }

    /// Returns the limit for the total bitrate that a participant with the role `receiver` receives, in kbit/s; `None`
    /// for no limit.
    pub fn max_kbps(&self, receiver: Option<&RoleName>) -> Option<u32> {
        self.0.get(receiver?)?.max_kbps
    }

    fn to_roles(&self, receiver: Option<&RoleName>) -> Option<&HashSet<RoleName>> {
        self.0.get(receiver?)?.to_roles.as_ref()
    }
}

impl From<BTreeMap<RoleName, RoleSubscribe>> for SubscriptionRules {
    fn from(rules: BTreeMap<RoleName, RoleSubscribe>) -> Self {
        let rule = |subscribe: RoleSubscribe| SubscriptionRule {
            to_roles: subscribe.to_roles.map(HashSet::from_iter),
            max_kbps: subscribe
                .max_kbps
                .and_then(|kbps| u32::try_from(kbps.get()).ok()),
        };
        Self(
            rules
                .into_iter()
                .map(|(role, subscribe)| (role, rule(subscribe)))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str) -> RoleName {
        name.parse().unwrap()
    }

    #[test]
    fn a_list_allows_the_roles_that_it_names_and_no_participant_without_a_role() {
        let to = |to_roles| RoleSubscribe {
            to_roles,
            max_kbps: None,
        };
        let rules = BTreeMap::from([
            (role("guest"), to(Some(vec![role("host")]))),
            (role("host"), to(None)),
            (role("silenced"), to(Some(vec![]))),
        ]);
        let rules = SubscriptionRules::from(rules);
        let receives = |receiver: Option<&str>, publisher: Option<&str>| {
            rules.receives(receiver.map(role).as_ref(), publisher.map(role).as_ref())
        };
        assert!(receives(Some("guest"), Some("host")));
        assert!(!receives(Some("guest"), Some("guest")) && !receives(Some("guest"), None));
        assert!(receives(Some("host"), Some("guest")) && receives(Some("host"), None));
        assert!(!receives(Some("silenced"), Some("host")));
        assert!(
            rules.receives_nobody(Some(&role("silenced")))
                && !rules.receives_nobody(Some(&role("guest")))
                && !rules.receives_nobody(None)
        );
        assert!(receives(Some("other"), None) && receives(None, Some("silenced")));
    }

    #[test]
    fn a_limit_holds_for_the_participants_with_its_role() {
        let limited = RoleSubscribe {
            to_roles: None,
            max_kbps: Some(500.try_into().unwrap()),
        };
        let rules = SubscriptionRules::from(BTreeMap::from([(role("guest"), limited)]));
        assert_eq!(rules.max_kbps(Some(&role("guest"))), Some(500));
        assert_eq!(
            (rules.max_kbps(Some(&role("host"))), rules.max_kbps(None)),
            (None, None)
        );
        assert!(rules.receives(Some(&role("guest")), None));
    }
}
