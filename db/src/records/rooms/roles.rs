//! What minting a token and acting on other participants need to know of a room and its template's roles.

use std::collections::BTreeMap;

use conclave_model::role::{Role, RolePermissions};
use conclave_model::room::Room;
use conclave_model::{
    ErrorCode, Identity, Problem, ProjectId, RoleChangeId, RoleName, RoomName, TemplateId,
};

use crate::error::StoreError;
use crate::records::role_changes::last_role_change;
use crate::records::rooms::rows::{by_name, connected_participants};
use crate::records::templates;
use crate::sql::Sql;
use crate::sql::values::args;
use crate::store::Store;

/// The room and the role that a token is minted for, with their numbers of participants, at one moment.
#[derive(Debug, Clone)]
pub struct TokenContext {
    /// The room's record.
    pub room: Room,
    /// The requested role; `None` when none was requested, or the room's template has lost it since a code was created.
    pub role: Option<Role>,
    /// The number of connected participants with another identity that hold the role; 0 for a role without a limit.
    pub holders: u32,
    /// The number of connected participants with another identity.
    pub participant_count: u32,
    /// The last change of the identity's role in the room, which the token has to name to be newer.
    pub role_change: Option<RoleChangeId>,
}

/// Counts connected participants without the one that has the identity `?3`. The whole count reads an index only, so the one is
/// subtracted instead of left out.
const COUNT_PARTICIPANTS: &str = "SELECT count(*) - (
         SELECT count(*) FROM sessions
         WHERE left_at IS NULL AND room_id = (SELECT id FROM rooms WHERE id = ?1 AND project_id = ?2)
             AND participant_identity = ?3
     ) FROM sessions WHERE left_at IS NULL AND room_id = (SELECT id FROM rooms WHERE id = ?1 AND project_id = ?2)";
/// The same for those with the role `?4`.
const COUNT_HOLDERS: &str = "SELECT count(*) FROM sessions
     WHERE left_at IS NULL AND room_id = (SELECT id FROM rooms WHERE id = ?1 AND project_id = ?2)
         AND participant_identity <> ?3 AND role || '' = ?4";

/// Reads the numbers of participants for minting a token. The participant that is connected with the token's own identity does not
/// count: the next join replaces it. `identity` is absent if it is random.
pub(crate) fn token_context(
    sql: Sql<'_>,
    room: Room,
    role: Option<Role>,
    identity: Option<&Identity>,
) -> Result<TokenContext, StoreError> {
    // No identity is empty.
    let own = identity.map_or("", Identity::as_str);
    let holders = match role.as_ref().filter(|role| role.max_peer_count.get() > 0) {
        Some(limited) => sql.value(
            COUNT_HOLDERS,
            args![room.id, &room.project_id, own, &limited.name],
        )?,
        None => 0,
    };
    let participant_count = sql.value(COUNT_PARTICIPANTS, args![room.id, &room.project_id, own])?;
    Ok(TokenContext {
        room,
        role,
        holders,
        participant_count,
        role_change: None,
    })
}

/// Reads a role of the room's template; refused when the room has no template or the template no such role.
pub(crate) fn room_role(sql: Sql<'_>, room: &Room, name: &RoleName) -> Result<Role, StoreError> {
    let Some(template) = &room.template_id else {
        let message = "the room resolves to no template, so it has no roles";
        return StoreError::refuse(Problem::new(ErrorCode::TemplateNotFound, message));
    };
    let found = templates::find_role(sql, &room.project_id, template, name)?;
    found.ok_or_else(|| Problem::role_not_found().at("role").into())
}

/// Who acts with a room token.
#[derive(Debug, Clone)]
pub struct TokenActor {
    /// The identity of the token.
    pub identity: Identity,
    /// The role of the token.
    pub role: Option<RoleName>,
    /// The role change that the token was minted after, if it names one.
    pub role_change: Option<RoleChangeId>,
    /// Whether the token gives no more than its own role, whatever role its identity holds or was given.
    pub is_limited: bool,
}

/// Reads the permissions of the role that a participant holds in the room, or else would hold if it joined with its token.
fn effective_permissions(
    sql: Sql<'_>,
    project: &ProjectId,
    name: &RoomName,
    actor: TokenActor,
) -> Result<RolePermissions, StoreError> {
    let Some(room) = by_name(sql, project, name)? else {
        return Ok(RolePermissions::default());
    };
    let TokenActor {
        identity,
        role: own,
        role_change,
        is_limited,
    } = actor;
    let role = match connected_participants(sql, project, room.id)?
        .into_iter()
        .find(|p| p.identity == identity)
    {
        Some(connected) => connected.role,
        None => {
            let changed = last_role_change(sql, project, room.id, &identity)?;
            changed
                .and_then(|changed| changed.role_for(role_change))
                .or_else(|| own.clone())
        }
    };
    let (Some(template), Some(role)) = (&room.template_id, role) else {
        return Ok(RolePermissions::default());
    };
    let find = |name: &RoleName| templates::find_role(sql, project, template, name);
    let held = find(&role)?;
    let acting = match held {
        Some(held) if is_limited && own.as_ref() != Some(&role) => {
            let own = own.as_ref().map(find).transpose()?.flatten();
            own.map(|own| if held.is_less_than(&own) { held } else { own })
        }
        held => held,
    };
    Ok(acting.map(|role| role.permissions).unwrap_or_default())
}

impl Store {
    /// Reads what minting a token for a room, and optionally a role, needs to know.
    ///
    /// # Errors
    /// Refused when the project has no such room, or the room's template does not have the requested role.
    pub async fn token_context(
        &self,
        project: ProjectId,
        name: RoomName,
        role: Option<RoleName>,
        identity: Identity,
    ) -> Result<TokenContext, StoreError> {
        self.read(move |sql| {
            let room = by_name(sql, &project, &name)?.ok_or_else(Problem::room_not_found)?;
            let role = role.map(|role| room_role(sql, &room, &role)).transpose()?;
            let changed = last_role_change(sql, &project, room.id, &identity)?;
            let context = token_context(sql, room, role, Some(&identity))?;
            Ok(TokenContext {
                role_change: changed.map(|changed| changed.id),
                ..context
            })
        })
        .await
    }

    /// Reads the current roles of a room's template; empty for a room without a template.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn room_roles(
        &self,
        project: ProjectId,
        template: Option<TemplateId>,
    ) -> Result<BTreeMap<RoleName, Role>, StoreError> {
        match template {
            Some(id) => {
                self.read(move |sql| templates::roles(sql, &project, &id))
                    .await
            }
            None => Ok(BTreeMap::new()),
        }
    }

    /// Reads what a participant may do to others: the permissions of the role that it holds in the room now, or else of the
    /// role that it would join with by its token. Empty when the room's template has no such role.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn effective_permissions(
        &self,
        project: ProjectId,
        name: RoomName,
        actor: TokenActor,
    ) -> Result<RolePermissions, StoreError> {
        self.read(move |sql| effective_permissions(sql, &project, &name, actor))
            .await
    }
}
