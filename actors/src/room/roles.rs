//! Roles in a room: subscription rules on the media plane, and changes of the role that a participant holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use conclave_db::NewRoleChange;
use conclave_media::{MediaError, ReportError, RoleGrant};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::participant::Participant;
use conclave_model::role::{Role, RoleSubscribe};
use conclave_model::role_change::RoleChanged;
use conclave_model::{ErrorCode, NamespacedRoom, Problem, RoleName, TemplateId};

use super::RoomActor;
use super::commands::Target;
use super::message::{
    AcceptedRole, CallOutcome, ChangeRoleRequest, RoleReply, RoomMsg, participant_not_found,
};
use super::roster::RoomState;
use crate::context::ActorContext;
use crate::error::TreeError;
use crate::mailbox::Mailbox;

impl RoomActor {
    /// Starts to give a participant another role. The media plane goes first: a change that it refuses is not written.
    pub(super) fn change_role(
        &self,
        me: &Mailbox<RoomMsg>,
        state: &mut RoomState,
        request: ChangeRoleRequest,
        recorder: Option<ResponseRecorder<RoleChanged>>,
        reply: RoleReply,
    ) {
        if !state.is_connected(&request.identity) {
            let _ = reply.send(Err(participant_not_found()));
            return;
        }
        let (context, room) = (Arc::clone(&self.context), state.room.namespaced_name());
        let template = state.room.template_id.clone();
        let target = Target::RoleOf(request.identity.clone());
        let accepted = Box::new(AcceptedRole {
            request,
            recorder,
            reply,
        });
        self.call_media(me, state, target, async move {
            let result = set_role(&context, &room, template, &accepted.request).await;
            CallOutcome::RoleSet(accepted, result)
        });
    }

    /// Writes a role change that the media plane has accepted. If it cannot be written, the caller gets the store's error,
    /// and the same request again brings both sides together.
    pub(super) async fn write_role_change(
        &self,
        state: &mut RoomState,
        accepted: AcceptedRole,
        participant: Participant,
    ) {
        let AcceptedRole {
            request,
            recorder,
            reply,
        } = accepted;
        let new = NewRoleChange {
            project_id: state.room.project_id.clone(),
            room: state.room.id,
            role: request.role,
            participant,
            by: request.by,
        };
        let written = self
            .context
            .store
            .role_changes()
            .record(new, recorder)
            .await;
        if let Ok(RoleChanged { change, .. }) = &written {
            state.set_role(&change.participant_sid, &change.role);
        }
        let _ = reply.send(written.map_err(TreeError::from));
    }

    /// Sends the subscription rules of the room's template to the media plane, if there are any.
    pub(super) async fn set_subscription_rules(
        &self,
        state: &RoomState,
        roles: &BTreeMap<RoleName, Role>,
    ) -> Result<(), MediaError> {
        let rules = subscription_rules(roles);
        if rules.is_empty() {
            return Ok(());
        }
        self.context
            .media
            .set_subscription_rules(&state.room.namespaced_name(), rules)
            .await
    }

    /// Sends the subscription rules for a participant that joins, before it can receive anything.
    pub(super) async fn set_rules_of_join(
        &self,
        state: &RoomState,
        roles: &BTreeMap<RoleName, Role>,
    ) -> Result<(), ReportError> {
        self.set_subscription_rules(state, roles).await.map_err(|error| {
            log::warn!(room = state.room.namespaced_name().as_str(); "the media plane did not accept the subscription rules: {error}");
            ReportError::Unavailable
        })
    }
}

/// Gives a participant another role on the media plane. Returns the participant as it is then.
async fn set_role(
    context: &ActorContext,
    room: &NamespacedRoom,
    template: Option<TemplateId>,
    request: &ChangeRoleRequest,
) -> Result<Participant, TreeError> {
    let (project, _) = room.split();
    let roles = context
        .store
        .rooms()
        .roles(project, template.clone())
        .await?;
    let role = find_role(template.as_ref(), &roles, &request.role)?;
    // The template may have changed since the last join sent its rules, and may have no rule any more.
    context
        .media
        .set_subscription_rules(room, subscription_rules(&roles))
        .await?;
    let changed = context
        .media
        .set_role(room, &request.identity, RoleGrant::from(role))
        .await?;
    changed.ok_or_else(participant_not_found)
}

/// Returns what each role receives, for the roles that do not receive everything.
fn subscription_rules(roles: &BTreeMap<RoleName, Role>) -> BTreeMap<RoleName, RoleSubscribe> {
    let limited = roles
        .iter()
        .filter(|(_, role)| role.subscribe != RoleSubscribe::default());
    limited
        .map(|(name, role)| (name.clone(), role.subscribe.clone()))
        .collect()
}

/// Returns a role of the room's template.
fn find_role<'a>(
    template: Option<&TemplateId>,
    roles: &'a BTreeMap<RoleName, Role>,
    name: &RoleName,
) -> Result<&'a Role, TreeError> {
    if template.is_none() {
        let message = "the room resolves to no template, so it has no roles";
        return Err(Problem::new(ErrorCode::TemplateNotFound, message).into());
    }
    roles
        .get(name)
        .ok_or_else(|| Problem::role_not_found().at("role").into())
}
