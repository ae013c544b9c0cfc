//! Role changes: the log, and the session's role that each entry changes.

use conclave_model::event::{ChangedBy, Event, ParticipantRef};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::page::{Page, PageRequest};
use conclave_model::participant::Participant;
use conclave_model::role_change::{RoleChange, RoleChanged};
use conclave_model::{Identity, Problem, ProjectId, RoleChangeId, RoleName, RoomId, Timestamp};

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::records::rooms::rows::{by_id, connected_participants};
use crate::records::sessions::rows::event_context;
use crate::sql::query_builder::QueryBuilder;
use crate::sql::values::args;
use crate::sql::{Row, Sql};
use crate::tx::Tx;

/// Role change that the media plane has made.
#[derive(Debug, Clone)]
pub struct NewRoleChange {
    /// Project that the room belongs to.
    pub project_id: ProjectId,
    /// Room that the participant is connected to.
    pub room: RoomId,
    /// New role.
    pub role: RoleName,
    /// Participant as returned by the media plane after the change.
    pub participant: Participant,
    /// Participant, API key or operator that requested the change.
    pub by: ChangedBy,
}

/// Last change of an identity's role in a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRoleChange {
    /// Change id.
    pub id: RoleChangeId,
    /// Role given by the change.
    pub role: RoleName,
    /// Change time.
    pub created_at: Timestamp,
}

impl LastRoleChange {
    /// Returns the role that the change gives a participant that joins or acts with a token; `None` if the token was minted after the
    /// change. `known` is the change named by the token.
    #[must_use]
    pub fn role_for(self, known: Option<RoleChangeId>) -> Option<RoleName> {
        // A token that names this change was minted after it, with the role that it is meant to have.
        (known != Some(self.id)).then_some(self.role)
    }
}

/// Reads the last change of an identity's role in a room.
pub(crate) fn last_role_change(
    sql: Sql<'_>,
    project: &ProjectId,
    room: RoomId,
    identity: &Identity,
) -> Result<Option<LastRoleChange>, StoreError> {
    let read = |row: &Row<'_>| {
        Ok(LastRoleChange {
            id: row.get("id")?,
            role: row.get("role")?,
            created_at: row.get("created_at")?,
        })
    };
    sql.one(SELECT_LAST, args![room, identity, project], read)
}

const SELECT: &str = "SELECT id, room, participant_identity, participant_sid, role, previous_role, changed_by_identity,
            changed_by_api_key_prefix, created_at
     FROM role_changes";
const SELECT_LAST: &str = "SELECT id, role, created_at FROM role_changes
     WHERE room_id = ?1 AND participant_identity = ?2 AND project_id = ?3 ORDER BY created_at DESC, id DESC LIMIT 1";
const INSERT: &str =
    "INSERT INTO role_changes (id, project_id, room_id, room, participant_identity, participant_sid, role,
                               previous_role, changed_by_identity, changed_by_api_key_prefix, created_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
const SET_SESSION_ROLE: &str =
    "UPDATE sessions SET role = ?3 WHERE id = ?1 AND project_id = ?2 AND left_at IS NULL";

fn changed_by(row: &Row<'_>) -> Result<ChangedBy, StoreError> {
    // Exactly one of the two columns is set.
    if let Some(identity) = row.get("changed_by_identity")? {
        return Ok(ChangedBy::Identity(identity));
    }
    // The operator has no API key, so the column has a reserved word, which is not a valid prefix.
    let prefix: String = row.get("changed_by_api_key_prefix")?;
    if prefix == ChangedBy::OPERATOR {
        Ok(ChangedBy::Operator)
    } else {
        row.get("changed_by_api_key_prefix").map(ChangedBy::ApiKey)
    }
}

fn role_change(row: &Row<'_>) -> Result<RoleChange, StoreError> {
    Ok(RoleChange {
        id: row.get("id")?,
        room: row.get("room")?,
        participant_identity: row.get("participant_identity")?,
        participant_sid: row.get("participant_sid")?,
        role: row.get("role")?,
        previous_role: row.get("previous_role")?,
        changed_by: changed_by(row)?,
        created_at: row.get("created_at")?,
    })
}

fn insert(
    tx: &Tx<'_>,
    project: &ProjectId,
    room: RoomId,
    change: &RoleChange,
) -> Result<(), StoreError> {
    let row = args![
        change.id,
        project,
        room,
        &change.room,
        &change.participant_identity,
        &change.participant_sid,
        &change.role,
        change.previous_role.as_ref(),
        change.changed_by.identity(),
        change.changed_by.api_key_prefix(),
        change.created_at,
    ];
    tx.sql.put(INSERT, row)
}

fn record(tx: &mut Tx<'_>, new: NewRoleChange) -> Result<RoleChanged, StoreError> {
    // The media plane has made the change already. Without an open session there is nothing to record.
    let mut connected = connected_participants(tx.sql, &new.project_id, new.room)?.into_iter();
    // By sid and not by identity: a participant that has joined again since has another session.
    let before = connected
        .find(|p| p.sid == new.participant.sid)
        .ok_or_else(Problem::participant_not_found)?;
    let room = by_id(tx.sql, &new.project_id, new.room)?;
    tx.sql.put(
        SET_SESSION_ROLE,
        args![before.session, &room.project_id, &new.role],
    )?;
    let change = RoleChange {
        id: RoleChangeId::new(),
        room: room.name.clone(),
        participant_identity: before.identity.clone(),
        participant_sid: before.sid.clone(),
        role: new.role.clone(),
        previous_role: before.role.clone(),
        changed_by: new.by,
        created_at: tx.now,
    };
    insert(tx, &room.project_id, room.id, &change)?;
    let participant = ParticipantRef {
        identity: before.identity,
        sid: before.sid,
        role: Some(new.role),
    };
    // The role before is from the session, since the media plane does not report it.
    tx.emit(&Event::role_changed(
        event_context(&room, tx.now),
        participant,
        before.role,
        &change.changed_by,
    ))?;
    Ok(RoleChanged {
        change,
        participant: new.participant,
    })
}

/// Returns the query that lists a room's role changes, newest first, of one participant or of all.
pub(crate) fn list_query<'a>(
    project: &'a ProjectId,
    room: RoomId,
    identity: Option<&'a Identity>,
) -> QueryBuilder<'a> {
    QueryBuilder::new(SELECT, "project_id", project, "created_at DESC, id DESC")
        .and("room_id =", Some(room))
        .and("participant_identity =", identity)
}

/// Role change records.
#[derive(Debug, Clone)]
pub struct RoleChanges(pub(crate) Database);

impl RoleChanges {
    /// Records that a connected participant received another role: the log entry, the session's role and the event.
    ///
    /// # Errors
    /// Refused when the participant has no open session in the room.
    pub async fn record(
        &self,
        new: NewRoleChange,
        response: Option<ResponseRecorder<RoleChanged>>,
    ) -> Result<RoleChanged, StoreError> {
        self.0
            .write_recorded(Queue::for_project(&new.project_id), response, move |tx| {
                record(tx, new)
            })
            .await
    }

    /// Lists a room's role changes, newest first; with `identity`, only that identity's.
    ///
    /// # Errors
    /// Fails when the database cannot be read, or takes too long.
    pub async fn list(
        &self,
        project: ProjectId,
        room: RoomId,
        identity: Option<Identity>,
        page: PageRequest,
    ) -> Result<Page<RoleChange>, StoreError> {
        self.0
            .list(project, move |sql, project| {
                list_query(project, room, identity.as_ref()).page(sql, page, role_change)
            })
            .await
    }
}
