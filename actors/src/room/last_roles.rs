//! The role that a participant joins with: that of its token, unless its identity was given another one in this room since.
//!
//! A token that is minted after a change of role names the change, so no clock decides which of the two is newer. A removal changes
//! nothing about a token.
//!
//! Anyone who has a room code that is not locked to an identity chooses the identity. A token from such a code therefore never brings
//! more than its own role: a change holds for it only if the new role is less.

use std::collections::BTreeMap;

use conclave_media::{ReportError, RoleGrant};
use conclave_model::RoleName;
use conclave_model::participant::Participant;
use conclave_model::role::Role;

use super::RoomActor;
use super::state::RoomState;

impl RoomActor {
    /// Returns the role that the last change gives a participant that joins; `None` if its own holds. The participant is as if it
    /// had the role. Refused if the template has no such role any more: the token's must not come back by that.
    pub(super) async fn take_last_role(
        &self,
        state: &RoomState,
        participant: &mut Participant,
        roles: &BTreeMap<RoleName, Role>,
    ) -> Result<Option<RoleGrant>, ReportError> {
        let (project, room, identity) = (
            state.room.project_id.clone(),
            state.room.id,
            participant.identity.clone(),
        );
        let last = self
            .context
            .store
            .role_changes()
            .last(project, room, identity)
            .await;
        let last = last.map_err(|error| self.report_error(&error))?;
        let changed = last.and_then(|last| last.role_for(participant.known_role_change()));
        let own = participant.role();
        let Some(changed) = changed.filter(|role| own.as_ref() != Some(role)) else {
            return Ok(None);
        };
        let changed = roles.get(&changed).ok_or(ReportError::RoleRemoved)?;
        if participant.exchange().is_some() {
            let own = own
                .as_ref()
                .and_then(|own| roles.get(own))
                .ok_or(ReportError::RoleRemoved)?;
            if !changed.is_less_than(own) {
                return Ok(None);
            }
        }
        let grant = RoleGrant::from(changed);
        participant.set_role(&grant.role, grant.max_kbps);
        Ok(Some(grant))
    }

    /// Lets the media plane give a participant that joins the role that the last change gave it.
    pub(super) async fn set_role_of_join(
        &self,
        state: &RoomState,
        participant: &Participant,
        grant: Option<RoleGrant>,
    ) -> Result<(), ReportError> {
        let Some(grant) = grant else { return Ok(()) };
        let room = state.room.namespaced_name();
        match self
            .context
            .media
            .set_role_of_join(&room, participant, grant)
            .await
        {
            // Who is gone is reported as gone.
            Ok(_) => Ok(()),
            Err(error) => {
                log::warn!(
                    room = room.as_str(), identity = participant.identity.as_str();
                    "the media plane did not take the role of a participant that joins: {error}"
                );
                Err(ReportError::Unavailable)
            }
        }
    }
}
