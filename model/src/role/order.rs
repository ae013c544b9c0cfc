//! Role order.

use std::cmp::Ordering;

use super::{Permission, PublishKind, Role};
use crate::RoleName;
use crate::bounded::Kbps;

impl Role {
    /// Returns whether the role is less than another one, so that assigning it is a demotion. The
    /// first difference decides: permissions, publishable media, their bitrate, received media,
    /// visibility, and priority. A role with something that the other lacks is not less, nor is an
    /// equal role.
    #[must_use]
    pub fn is_less_than(&self, other: &Self) -> bool {
        let holds = |role: &Self, permission: &Permission| role.permissions.allows(*permission);
        let publishes = |role: &Self, kind: &PublishKind| role.publish.allowed.contains(kind);
        let order = by_contents(Permission::ALL, |one| (holds(self, one), holds(other, one)))
            .then_with(|| {
                by_contents(PublishKind::ALL, |one| {
                    (publishes(self, one), publishes(other, one))
                })
            })
            .then_with(|| {
                by_limit(
                    self.publish.max_kbps.as_ref(),
                    other.publish.max_kbps.as_ref(),
                )
            })
            .then_with(|| {
                by_received_roles(
                    self.subscribe.to_roles.as_deref(),
                    other.subscribe.to_roles.as_deref(),
                )
            })
            .then_with(|| {
                by_limit(
                    self.subscribe.max_kbps.as_ref(),
                    other.subscribe.max_kbps.as_ref(),
                )
            })
            // A participant that the others do not see observes them unnoticed.
            .then_with(|| self.hidden.cmp(&other.hidden))
            // 1 is the most important priority.
            .then_with(|| other.priority.get().cmp(&self.priority.get()));
        order == Ordering::Less
    }
}

/// Compares two sets by their elements in `all`. If neither contains the other, the first is
/// greater.
fn by_contents<T>(all: &[T], contains: impl Fn(&T) -> (bool, bool)) -> Ordering {
    let mut order = Ordering::Equal;
    for one in all {
        // Something that the other role lacks decides at once; the rest cannot change it.
        match contains(one) {
            (true, false) => return Ordering::Greater,
            (false, true) => order = Ordering::Less,
            (true, true) | (false, false) => {}
        }
    }
    order
}

/// Compares two limits; no limit is the greatest.
fn by_limit(one: Option<&Kbps>, other: Option<&Kbps>) -> Ordering {
    // Above the range of `Kbps`.
    let limit = |kbps: Option<&Kbps>| kbps.map_or(i32::MAX, |kbps| kbps.get());
    limit(one).cmp(&limit(other))
}

/// Compares two received-role lists; `None` means every role.
fn by_received_roles(one: Option<&[RoleName]>, other: Option<&[RoleName]>) -> Ordering {
    match (one, other) {
        (None, None) => Ordering::Equal,
        // Every role includes roles that are added to the template later.
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(one), Some(other)) => {
            let all: Vec<&RoleName> = one.iter().chain(other).collect();
            by_contents(&all, |role| (one.contains(role), other.contains(role)))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::role::RoleInput;

    fn role(input: Value) -> Role {
        let input: RoleInput = serde_json::from_value(input).unwrap();
        input.with_defaults("role".parse().unwrap()).unwrap()
    }

    #[test]
    fn a_role_that_lacks_something_is_less_and_what_differs_first_decides() {
        for (less, more) in [
            (json!({}), json!({"permissions": {"end_room": true}})),
            (
                json!({}),
                json!({"permissions": {"record": true}, "publish": {"allowed": ["audio"]}}),
            ),
            (
                json!({"publish": {"allowed": ["audio"]}}),
                json!({"publish": {"allowed": ["audio", "data"]}}),
            ),
            (
                json!({"publish": {"allowed": []}}),
                json!({"subscribe": {"to_roles": []}}),
            ),
            (json!({"publish": {"max_kbps": 500}}), json!({})),
            (
                json!({"publish": {"max_kbps": 500}}),
                json!({"publish": {"max_kbps": 501}}),
            ),
            (json!({"subscribe": {"to_roles": ["a"]}}), json!({})),
            (
                json!({"subscribe": {"to_roles": []}}),
                json!({"subscribe": {"to_roles": ["a"]}}),
            ),
            (json!({"subscribe": {"max_kbps": 500}}), json!({})),
            (json!({}), json!({"hidden": true})),
            (json!({"priority": 3}), json!({"priority": 1})),
        ] {
            assert!(
                role(less.clone()).is_less_than(&role(more.clone())),
                "{less} {more}"
            );
            assert!(
                !role(more.clone()).is_less_than(&role(less.clone())),
                "{more} {less}"
            );
        }
    }

    #[test]
    fn of_roles_that_are_equal_or_have_different_things_neither_is_less() {
        for (one, other) in [
            (json!({}), json!({})),
            (
                json!({"permissions": {"record": true}}),
                json!({"permissions": {"broadcast": true}}),
            ),
            (
                json!({"publish": {"allowed": ["audio"]}}),
                json!({"publish": {"allowed": ["video"]}}),
            ),
            (
                json!({"subscribe": {"to_roles": ["a"]}}),
                json!({"subscribe": {"to_roles": ["b"]}}),
            ),
        ] {
            assert!(
                !role(one.clone()).is_less_than(&role(other.clone())),
                "{one} {other}"
            );
            assert!(
                !role(other.clone()).is_less_than(&role(one.clone())),
                "{other} {one}"
            );
        }
    }
}
