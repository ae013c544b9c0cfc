//! Templates: reusable roles and settings for rooms.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::{PartialSchema, ToSchema};

use crate::egress::{CompositeMedia, EgressSource, Layout};
use crate::non_null::non_null;
use crate::role::Role;
use crate::schema::word_enum;
use crate::{
    DestinationName, Identity, Problem, ProjectId, RoleName, TemplateId, TemplateName, Timestamp,
};

/// Template with its roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Template id.
    pub id: TemplateId,
    /// Owning project.
    pub project_id: ProjectId,
    /// Name, unique in the project.
    pub name: TemplateName,
    /// Whether rooms that are created without a template use it.
    pub is_default: bool,
    /// Preferred media region.
    pub region: Region,
    /// Recording that starts by itself in rooms created from now on.
    pub auto_record: Option<AutoRecord>,
    /// Maximum duration of rooms that are created with the template and state none, in seconds; `None` is unlimited.
    pub max_duration_seconds: Option<u32>,
    /// Roles by name.
    pub roles: BTreeMap<RoleName, Role>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Last change.
    pub updated_at: Timestamp,
}

word_enum! {
    /// A media region. Stored and validated; it does not change where traffic goes today.
    // The contract's regions, in its order.
    Region {
        /// Chosen by the server.
        Auto = "auto",
        /// East Africa.
        AfEast = "af-east",
        /// Western Europe.
        EuWest = "eu-west",
        /// Eastern United States.
        UsEast = "us-east",
    }
}

#[expect(
    clippy::derivable_impls,
    reason = "`word_enum!` accepts only doc comments as attributes"
)]
impl Default for Region {
    fn default() -> Self {
        // The contract's default.
        Self::Auto
    }
}

word_enum! {
    /// The type of a recording that starts by itself.
    AutoRecordType {
        /// One composite of the room, from its first join to its end.
        RoomComposite = "room_composite",
        /// A recording per participant, from its first join on.
        Participant = "participant",
    }
}

/// A recording that starts by itself when participants join a room of the template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AutoRecord {
    /// The type of the recording.
    #[serde(rename = "type")]
    #[schema(schema_with = AutoRecordType::schema)]
    pub recording_type: AutoRecordType,
    /// Arrangement of the participants; default speaker. Only for `room_composite`.
    #[serde(
        default,
        deserialize_with = "non_null",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(schema_with = Layout::schema)]
    pub layout: Option<Layout>,
    /// A recording destination of the template. Without one, the file is written to the project's local directory.
    #[serde(
        default,
        deserialize_with = "non_null",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(schema_with = DestinationName::schema)]
    pub destination: Option<DestinationName>,
}

impl AutoRecord {
    /// Refuses a field of the other type, which would have no effect.
    ///
    /// # Errors
    /// 400 `invalid_request` at `layout`.
    pub fn check(&self) -> Result<(), Problem> {
        match (self.recording_type, self.layout) {
            (AutoRecordType::Participant, Some(_)) => Err(Problem::invalid(
                "layout",
                "is allowed only for type room_composite",
            )),
            _ => Ok(()),
        }
    }

    /// Returns the media that the recording contains: the room's, or the participant's.
    pub fn source(&self, identity: Identity) -> EgressSource {
        match self.recording_type {
            AutoRecordType::RoomComposite => EgressSource::RoomComposite {
                // The default of a recording that is started by a request.
                layout: self.layout.unwrap_or(Layout::Speaker),
                media: CompositeMedia::Both,
            },
            AutoRecordType::Participant => EgressSource::Participant(identity),
        }
    }
}

/// A role subscribes to a role that the template does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("names the role {missing:?}, which the template does not have")]
pub struct UnknownRoleReference {
    /// Role with the reference.
    pub role: RoleName,
    /// Index in `subscribe.to_roles`.
    pub index: usize,
    /// Role that does not exist.
    pub missing: RoleName,
}

/// Checks that every `subscribe.to_roles` in a template names the template's own roles.
///
/// # Errors
/// The first reference to a role that does not exist.
pub fn check_references(roles: &BTreeMap<RoleName, Role>) -> Result<(), UnknownRoleReference> {
    for role in roles.values() {
        // The index becomes part of the error's field.
        for (index, name) in role.subscribe.to_roles.iter().flatten().enumerate() {
            if !roles.contains_key(name) {
                return Err(UnknownRoleReference {
                    role: role.name.clone(),
                    index,
                    missing: name.clone(),
                });
            }
        }
    }
    Ok(())
}

/// Returns the first other role with `name` in its `subscribe.to_roles`.
pub fn referring_role<'a>(
    roles: &'a BTreeMap<RoleName, Role>,
    name: &RoleName,
) -> Option<&'a RoleName> {
    roles
        .values()
        // A role that refers to itself does not keep itself from being deleted.
        .filter(|role| role.name != *name)
        .find(|role| {
            role.subscribe
                .to_roles
                .iter()
                .flatten()
                .any(|listed| listed == name)
        })
        .map(|role| &role.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::{RoleInput, RoleSubscribeInput};

    fn roles(of: &[(&str, &[&str])]) -> BTreeMap<RoleName, Role> {
        let role = |name: &str, to: &[&str]| {
            let to_roles = Some(to.iter().map(|n| n.parse().unwrap()).collect());
            let subscribe = Some(RoleSubscribeInput {
                to_roles,
                max_kbps: None,
            });
            RoleInput {
                subscribe,
                ..RoleInput::default()
            }
            .with_defaults(name.parse().unwrap())
            .unwrap()
        };
        of.iter()
            .map(|(name, to)| (name.parse().unwrap(), role(name, to)))
            .collect()
    }

    #[test]
    fn a_role_may_name_itself_and_its_siblings_but_nobody_else() {
        assert_eq!(
            check_references(&roles(&[("a", &["a", "b"]), ("b", &[])])),
            Ok(())
        );
        let dangling = check_references(&roles(&[("a", &["b"]), ("b", &["a", "c"])])).unwrap_err();
        assert_eq!(
            (
                dangling.role.as_str(),
                dangling.index,
                dangling.missing.as_str()
            ),
            ("b", 1, "c")
        );
    }

    #[test]
    fn a_role_that_names_itself_does_not_hold_itself_back() {
        let roles = roles(&[("a", &["a"]), ("b", &["a"])]);
        assert_eq!(
            referring_role(&roles, &"a".parse().unwrap())
                .unwrap()
                .as_str(),
            "b"
        );
        assert_eq!(referring_role(&roles, &"b".parse().unwrap()), None);
    }
}
