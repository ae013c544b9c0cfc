//! Role changes: the log, and the change of a session's role that each entry records.

use conclave_model::event::{ChangedBy, Event, ParticipantRef};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::key::ApiKeyPrefix;
use conclave_model::page::{Page, PageRequest};
use conclave_model::participant::Participant;
use conclave_model::role_change::{RoleChange, RoleChanged};
use conclave_model::{Identity, Problem, ProjectId, RoleChangeId, RoleName, RoomId};
use rusqlite::types::Type;
use rusqlite::{Row, params};

use crate::columns::Columns;
use crate::error::OrStoreError;
use crate::live::event_context;
use crate::query_builder::QueryBuilder;
use crate::rooms::{ConnectedParticipant, by_id, connected_participants};
use crate::writer::Tx;
use crate::{Store, StoreError};

const COLUMNS: &str = "id, room, participant_identity, participant_sid, role, previous_role, changed_by_identity, \
                       changed_by_api_key_prefix, created_at";

/// A change that the media plane has made.
#[derive(Debug, Clone)]
pub struct NewRoleChange {
    /// In which room.
    pub room: RoomId,
    /// The new role.
    pub role: RoleName,
    /// The participant as the media plane has it since.
    pub participant: Participant,
    /// Who made the change.
    pub by: ChangedBy,
}

fn changed_by(row: &Row<'_>) -> rusqlite::Result<ChangedBy> {
    if let Some(identity) = row.parsed_opt(6)? {
        return Ok(ChangedBy::Identity(identity));
    }
    let prefix = row.parsed_opt(7)?.map(ChangedBy::ApiKey);
    prefix.ok_or_else(|| rusqlite::Error::InvalidColumnType(7, "changed_by_api_key_prefix".into(), Type::Null))
}

fn role_change(row: &Row<'_>) -> rusqlite::Result<RoleChange> {
    Ok(RoleChange {
        id: RoleChangeId(row.get(0)?),
        room: row.parsed(1)?,
        participant_identity: row.parsed(2)?,
        participant_sid: row.parsed(3)?,
        role: row.parsed(4)?,
        previous_role: row.parsed_opt(5)?,
        changed_by: changed_by(row)?,
        created_at: row.time(8)?,
    })
}

fn insert(tx: &Tx<'_>, project: &ProjectId, room: RoomId, change: &RoleChange) -> Result<(), StoreError> {
    tx.sql
        .prepare_cached(
            "INSERT INTO role_changes (id, project_id, room_id, room, participant_identity, participant_sid, role,
                                       previous_role, changed_by_identity, changed_by_api_key_prefix, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )
        .and_then(|mut s| {
            s.execute(params![
                change.id.0,
                project.as_str(),
                room.0,
                change.room.as_str(),
                change.participant_identity.as_str(),
                change.participant_sid.as_str(),
                change.role.as_str(),
                change.previous_role.as_ref().map(RoleName::as_str),
                change.changed_by_identity().map(Identity::as_str),
                change.changed_by_api_key_prefix().map(ApiKeyPrefix::as_str),
                change.created_at.millis(),
            ])
        })
        .or_store_error()?;
    Ok(())
}

fn set_session_role(tx: &Tx<'_>, person: &ConnectedParticipant, role: &RoleName) -> Result<(), StoreError> {
    tx.sql
        .prepare_cached("UPDATE sessions SET role = ?2 WHERE id = ?1 AND left_at IS NULL")
        .and_then(|mut s| s.execute(params![person.session.0, role.as_str()]))
        .or_store_error()?;
    Ok(())
}

fn record(tx: &mut Tx<'_>, new: NewRoleChange) -> Result<RoleChanged, StoreError> {
    let held = connected_participants(tx.sql, new.room)?.into_iter().find(|person| person.sid == new.participant.sid);
    let Some(person) = held else { return StoreError::refuse(Problem::participant_not_found()) };
    let room = by_id(tx.sql, new.room)?;
    set_session_role(tx, &person, &new.role)?;
    let change = RoleChange {
        id: RoleChangeId::new(),
        room: room.name.clone(),
        participant_identity: person.identity.clone(),
        participant_sid: person.sid.clone(),
        role: new.role.clone(),
        previous_role: person.role.clone(),
        changed_by: new.by,
        created_at: tx.now,
    };
    insert(tx, &room.project_id, room.id, &change)?;
    let who = ParticipantRef { identity: person.identity, sid: person.sid, role: Some(new.role) };
    tx.emit(&Event::role_changed(event_context(&room, tx.now), &who, person.role, &change.changed_by))?;
    Ok(RoleChanged { change, participant: new.participant })
}

impl Store {
    /// Writes that somebody was given another role: the log, the session, the event and the answer to keep, together.
    ///
    /// # Errors
    /// Refused when no open session is that participant's.
    pub async fn record_role_change(
        &self,
        new: NewRoleChange,
        keep: Option<ResponseRecorder<RoleChanged>>,
    ) -> Result<RoleChanged, StoreError> {
        self.write(move |tx| {
            let changed = record(tx, new)?;
            tx.store_response(keep.as_ref(), &changed)?;
            Ok(changed)
        })
        .await
    }

    /// A room's role changes, newest first, of everybody or of one identity.
    ///
    /// # Errors
    /// The store's own.
    pub async fn role_changes(
        &self,
        project: ProjectId,
        room: RoomId,
        identity: Option<Identity>,
        page: PageRequest,
    ) -> Result<Page<RoleChange>, StoreError> {
        self.read(move |sql| {
            let mut wanted = QueryBuilder::of_project("project_id", &project);
            wanted.and("room_id = ?", Some(room.0));
            wanted.and("participant_identity = ?", identity.map(String::from));
            let select = format!("SELECT {COLUMNS} FROM role_changes");
            wanted.page(sql, &select, "created_at DESC, id DESC", page, role_change)
        })
        .await
    }
}
