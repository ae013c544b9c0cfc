//! Subscription rules: which roles of a room receive which.

use std::collections::{BTreeMap, HashMap, HashSet};

use conclave_model::RoleName;

/// For each role, the roles whose tracks it receives; `None`, or no entry, means all (decisions section 3, `to_roles`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SubscriptionRules(HashMap<RoleName, Option<HashSet<RoleName>>>);

impl SubscriptionRules {
    /// Returns whether no role is restricted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a participant with the role `receiver` receives no other. Its grants forbid subscribing then.
    pub fn receives_nobody(&self, receiver: Option<&RoleName>) -> bool {
        let roles = receiver.and_then(|role| self.0.get(role)).and_then(Option::as_ref);
        roles.is_some_and(HashSet::is_empty)
    }

    /// Returns whether a participant with the role `receiver` receives the tracks of one with the role `publisher`. A
    /// participant without a role receives all, and is received by those who receive all.
    pub fn receives(&self, receiver: Option<&RoleName>, publisher: Option<&RoleName>) -> bool {
        match receiver.and_then(|role| self.0.get(role)) {
            None | Some(None) => true,
            Some(Some(roles)) => publisher.is_some_and(|role| roles.contains(role)),
        }
    }
}

impl From<BTreeMap<RoleName, Option<Vec<RoleName>>>> for SubscriptionRules {
    fn from(rules: BTreeMap<RoleName, Option<Vec<RoleName>>>) -> Self {
        Self(rules.into_iter().map(|(role, to)| (role, to.map(HashSet::from_iter))).collect())
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
        let rules = BTreeMap::from([
            (role("guest"), Some(vec![role("host")])),
            (role("host"), None),
            (role("silenced"), Some(vec![])),
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
}
