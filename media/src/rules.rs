//! Which roles of a room receive which.

use std::collections::{BTreeMap, HashMap, HashSet};

use conclave_model::RoleName;

/// For each role the roles it receives; `None`, or no entry, is everyone (decisions section 3, `to_roles`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SubscriptionRules(HashMap<RoleName, Option<HashSet<RoleName>>>);

impl SubscriptionRules {
    /// Whether everyone receives everyone.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a holder of `receiver` receives nobody at all, which its grants say too.
    pub fn is_deaf(&self, receiver: Option<&RoleName>) -> bool {
        let roles = receiver.and_then(|role| self.0.get(role)).and_then(Option::as_ref);
        roles.is_some_and(HashSet::is_empty)
    }

    /// Whether a holder of `receiver` receives what a holder of `publisher` publishes. Who holds no role receives
    /// everyone, and is received by those who receive everyone.
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
    fn a_list_admits_the_roles_it_names_and_nobody_without_a_role() {
        let rules = BTreeMap::from([
            (role("guest"), Some(vec![role("host")])),
            (role("host"), None),
            (role("deaf"), Some(vec![])),
        ]);
        let rules = SubscriptionRules::from(rules);
        let receives = |receiver: Option<&str>, publisher: Option<&str>| {
            rules.receives(receiver.map(role).as_ref(), publisher.map(role).as_ref())
        };
        assert!(receives(Some("guest"), Some("host")));
        assert!(!receives(Some("guest"), Some("guest")) && !receives(Some("guest"), None));
        assert!(receives(Some("host"), Some("guest")) && receives(Some("host"), None));
        assert!(!receives(Some("deaf"), Some("host")));
        assert!(rules.is_deaf(Some(&role("deaf"))) && !rules.is_deaf(Some(&role("guest"))) && !rules.is_deaf(None));
        assert!(receives(Some("stranger"), None) && receives(None, Some("deaf")));
    }
}
