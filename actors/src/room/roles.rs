//! What a room actor does about roles: tells the media plane who receives whom, and changes the role somebody holds.

use std::collections::BTreeMap;

use conclave_db::{NewRoleChange, StoreError};
use conclave_media::{MediaError, RoleGrant};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::role::Role;
use conclave_model::role_change::RoleChanged;
use conclave_model::{ErrorCode, Problem, RoleName};

use super::state::RoomState;
use super::{ChangeRoleRequest, RoomActor};
use crate::error::TreeError;

impl RoomActor {
    /// Gives somebody another role. The media plane goes first: a change that it did not take is not written. One that it
    /// took and that could not be written is told as such, and asking for it again sets both right.
    pub(super) async fn change_role(
        &self,
        state: &mut RoomState,
        wanted: ChangeRoleRequest,
        keep: Option<ResponseRecorder<RoleChanged>>,
    ) -> Result<RoleChanged, TreeError> {
        if !state.is_open() || !state.holds(&wanted.identity) {
            return Err(refused(Problem::participant_not_found()));
        }
        let roles = self.context.store.room_roles(state.room.template_id.clone()).await?;
        let role = role_of(state, &roles, &wanted.role)?;
        // The template may have changed since the rules were said at the last join, to no rule at all even.
        let room = state.room.namespaced_name();
        self.context.media.set_subscription_rules(&room, rules_of(&roles)).await?;
        let changed = self.context.media.set_role(&room, &wanted.identity, RoleGrant::from(role)).await?;
        let Some(participant) = changed else { return Err(refused(Problem::participant_not_found())) };
        let new = NewRoleChange { room: state.room.id, role: wanted.role, participant, by: wanted.by };
        let changed = self.context.store.record_role_change(new, keep).await?;
        state.give_role(&changed.change.participant_sid, &changed.change.role);
        Ok(changed)
    }

    /// Tells the media plane who receives whom, if the template limits that.
    pub(super) async fn set_subscription_rules(
        &self,
        state: &RoomState,
        roles: &BTreeMap<RoleName, Role>,
    ) -> Result<(), MediaError> {
        let rules = rules_of(roles);
        if rules.is_empty() {
            return Ok(());
        }
        self.context.media.set_subscription_rules(&state.room.namespaced_name(), rules).await
    }
}

/// Whom each role receives that does not receive everyone.
fn rules_of(roles: &BTreeMap<RoleName, Role>) -> BTreeMap<RoleName, Option<Vec<RoleName>>> {
    let limited = roles.iter().filter(|(_, role)| role.subscribe.to_roles.is_some());
    limited.map(|(name, role)| (name.clone(), role.subscribe.to_roles.clone())).collect()
}

fn refused(problem: Problem) -> TreeError {
    TreeError::Store(StoreError::Refused(problem))
}

/// A role of the room's template as it stands now.
fn role_of<'a>(state: &RoomState, roles: &'a BTreeMap<RoleName, Role>, name: &RoleName) -> Result<&'a Role, TreeError> {
    if state.room.template_id.is_none() {
        let message = "the room resolves to no template, so it has no roles";
        return Err(refused(Problem::new(ErrorCode::TemplateNotFound, message)));
    }
    roles.get(name).ok_or_else(|| refused(Problem::role_not_found().at("role")))
}
