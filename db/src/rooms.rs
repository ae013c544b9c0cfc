//! Rooms: their records, and what an actor needs to take one up. What happens inside them stands in `live`.

use std::collections::BTreeMap;

use conclave_model::idempotency::ResponseRecorder;
use conclave_model::page::{Page, PageRequest};
use conclave_model::participant::ParticipantKind;
use conclave_model::role::{Role, RolePermissions};
use conclave_model::room::{Room, RoomStatus, unjoined_deadline};
use conclave_model::{
    ErrorCode, Identity, ParticipantSid, Problem, ProjectId, RoleName, RoomId, RoomName, SessionId, TemplateId,
    Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::columns::Columns;
use crate::error::OrStoreError;
use crate::query_builder::QueryBuilder;
use crate::writer::Tx;
use crate::{Store, StoreError, templates};

/// A room to be made.
#[derive(Debug, Clone)]
pub struct NewRoom {
    /// Whose.
    pub project_id: ProjectId,
    /// Never used before in the project.
    pub name: RoomName,
    /// 0 leaves the cap to the plan.
    pub max_participants: u32,
    /// How long it stays open with nobody in it.
    pub empty_timeout_seconds: u32,
    /// The very JSON text that was sent.
    pub metadata: Option<Box<str>>,
    /// `None` takes the project's default, if it has one.
    pub template_id: Option<TemplateId>,
}

/// A room and who is in it, at one moment: what an actor takes a room up from, and what a change of it gives back.
#[derive(Debug, Clone)]
pub struct RoomSnapshot {
    /// The record.
    pub room: Room,
    /// Who is in it, as far as the records know.
    pub participants: Vec<ConnectedParticipant>,
}

/// Somebody whose session is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectedParticipant {
    /// The session.
    pub session: SessionId,
    /// Who.
    pub identity: Identity,
    /// Which join.
    pub sid: ParticipantSid,
    /// What joined.
    pub kind: ParticipantKind,
    /// The role held.
    pub role: Option<RoleName>,
    /// When it joined.
    pub joined_at: Timestamp,
}

/// What minting a token has to know, read at one moment.
#[derive(Debug, Clone)]
pub struct TokenContext {
    /// The room.
    pub room: Room,
    /// The role asked for, when the room's template has it.
    pub role: Option<Role>,
    /// Who holds that role now; counted only for a role with a cap.
    pub holders: u32,
    /// Who is in the room now.
    pub participant_count: u32,
}

const COLUMNS: &str = "id, project_id, name, max_participants, empty_timeout_seconds, metadata, status, template_id, \
                       created_at, started_at, ended_at, empty_deadline";

fn status(word: &str) -> Option<RoomStatus> {
    [RoomStatus::Open, RoomStatus::Ended].into_iter().find(|status| status.as_str() == word)
}

fn room(row: &Row<'_>) -> rusqlite::Result<Room> {
    Ok(Room {
        id: RoomId(row.get(0)?),
        project_id: row.parsed(1)?,
        name: row.parsed(2)?,
        max_participants: row.get(3)?,
        empty_timeout_seconds: row.get(4)?,
        metadata: row.get::<_, Option<String>>(5)?.map(Into::into),
        status: row.word(6, status)?,
        template_id: row.parsed_opt(7)?,
        created_at: row.time(8)?,
        started_at: row.time_opt(9)?,
        ended_at: row.time_opt(10)?,
        empty_deadline: row.time_opt(11)?,
    })
}

/// A project's room by its name.
pub(crate) fn by_name(sql: &Connection, project: &ProjectId, name: &RoomName) -> Result<Option<Room>, StoreError> {
    sql.prepare_cached(&format!("SELECT {COLUMNS} FROM rooms WHERE project_id = ?1 AND name = ?2"))
        .and_then(|mut s| s.query_row([project.as_str(), name.as_str()], room).optional())
        .or_store_error()
}

/// A room by its row.
pub(crate) fn by_id(sql: &Connection, id: RoomId) -> Result<Room, StoreError> {
    sql.prepare_cached(&format!("SELECT {COLUMNS} FROM rooms WHERE id = ?1"))
        .and_then(|mut s| s.query_row([id.0], room))
        .or_store_error()
}

/// Everybody whose session in a room is open.
pub(crate) fn connected_participants(sql: &Connection, id: RoomId) -> Result<Vec<ConnectedParticipant>, StoreError> {
    let mut statement = sql
        .prepare_cached(
            "SELECT id, participant_identity, participant_sid, kind, role, joined_at FROM sessions
             WHERE room_id = ?1 AND left_at IS NULL ORDER BY joined_at, id",
        )
        .or_store_error()?;
    let person = |row: &Row<'_>| {
        Ok(ConnectedParticipant {
            session: SessionId(row.get(0)?),
            identity: row.parsed(1)?,
            sid: row.parsed(2)?,
            kind: row.word(3, |word| Some(ParticipantKind::from(word)))?,
            role: row.parsed_opt(4)?,
            joined_at: row.time(5)?,
        })
    };
    statement.query_map([id.0], person).and_then(Iterator::collect).or_store_error()
}

fn count(sql: &Connection, query: &str, params: impl rusqlite::Params) -> Result<u32, StoreError> {
    sql.prepare_cached(query).and_then(|mut s| s.query_row(params, |row| row.get(0))).or_store_error()
}

/// The template a new room points at: the one named, which must exist, or the project's default.
fn resolve_template(tx: &Tx<'_>, new: &NewRoom) -> Result<Option<TemplateId>, StoreError> {
    let Some(named) = &new.template_id else {
        return tx
            .sql
            .prepare_cached("SELECT default_template_id FROM projects WHERE id = ?1")
            .and_then(|mut s| s.query_row([new.project_id.as_str()], |row| row.parsed_opt(0)))
            .or_store_error();
    };
    let known = tx
        .sql
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM templates WHERE id = ?1 AND project_id = ?2)")
        .and_then(|mut s| s.query_row([named.as_str(), new.project_id.as_str()], |row| row.get(0)))
        .or_store_error()?;
    if known { Ok(Some(named.clone())) } else { StoreError::refuse(Problem::template_not_found().at("template_id")) }
}

fn insert(tx: &Tx<'_>, room: &Room) -> Result<(), StoreError> {
    let inserted = tx
        .sql
        .prepare_cached(
            "INSERT INTO rooms (id, project_id, name, max_participants, empty_timeout_seconds, metadata, status,
                                template_id, created_at, empty_deadline)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'open', ?7, ?8, ?9)
             ON CONFLICT (project_id, name) DO NOTHING",
        )
        .and_then(|mut s| {
            s.execute(params![
                room.id.0,
                room.project_id.as_str(),
                room.name.as_str(),
                room.max_participants,
                room.empty_timeout_seconds,
                room.metadata.as_deref(),
                room.template_id.as_ref().map(TemplateId::as_str),
                room.created_at.millis(),
                room.empty_deadline.map(Timestamp::millis),
            ])
        })
        .or_store_error()?;
    if inserted == 0 {
        let message = format!("the project has used the room name {:?} before", room.name);
        return StoreError::refuse(Problem::new(ErrorCode::RoomExists, message).at("name"));
    }
    Ok(())
}

impl Store {
    /// Makes a room, with the deadline it ends at if nobody joins.
    ///
    /// # Errors
    /// Refused when the name was used before or the template is not there.
    pub async fn create_room(&self, new: NewRoom, keep: Option<ResponseRecorder<Room>>) -> Result<Room, StoreError> {
        self.write(move |tx| {
            let template_id = resolve_template(tx, &new)?;
            let room = Room {
                id: RoomId::new(),
                project_id: new.project_id,
                name: new.name,
                max_participants: new.max_participants,
                empty_timeout_seconds: new.empty_timeout_seconds,
                metadata: new.metadata,
                status: RoomStatus::Open,
                template_id,
                created_at: tx.now,
                started_at: None,
                ended_at: None,
                empty_deadline: Some(unjoined_deadline(tx.now, new.empty_timeout_seconds)),
            };
            insert(tx, &room)?;
            tx.store_response(keep.as_ref(), &room)?;
            Ok(room)
        })
        .await
    }

    /// A room's record.
    ///
    /// # Errors
    /// Refused when the project has no room by that name.
    pub async fn room(&self, project: ProjectId, name: RoomName) -> Result<Room, StoreError> {
        self.read(move |sql| {
            by_name(sql, &project, &name)?.ok_or_else(|| StoreError::Refused(Problem::room_not_found()))
        })
        .await
    }

    /// A project's rooms, newest first, ended ones too.
    ///
    /// # Errors
    /// The store's own.
    pub async fn rooms(&self, project: ProjectId, page: PageRequest) -> Result<Page<Room>, StoreError> {
        self.read(move |sql| {
            let wanted = QueryBuilder::of_project("project_id", &project);
            wanted.page(sql, &format!("SELECT {COLUMNS} FROM rooms"), "created_at DESC, id DESC", page, room)
        })
        .await
    }

    /// A project's open rooms with who is in them.
    ///
    /// # Errors
    /// The store's own.
    pub async fn open_rooms(&self, project: ProjectId) -> Result<Vec<RoomSnapshot>, StoreError> {
        self.read(move |sql| {
            let query = format!("SELECT {COLUMNS} FROM rooms WHERE project_id = ?1 AND status = 'open'");
            let mut statement = sql.prepare_cached(&query).or_store_error()?;
            let rooms: Vec<Room> =
                statement.query_map([project.as_str()], room).and_then(Iterator::collect).or_store_error()?;
            rooms
                .into_iter()
                .map(|room| {
                    connected_participants(sql, room.id).map(|participants| RoomSnapshot { room, participants })
                })
                .collect()
        })
        .await
    }

    /// One room with who is in it; `None` when the project has no open room by that name.
    ///
    /// # Errors
    /// The store's own.
    pub async fn open_room(&self, project: ProjectId, name: RoomName) -> Result<Option<RoomSnapshot>, StoreError> {
        self.read(move |sql| {
            let open = by_name(sql, &project, &name)?.filter(|room| room.status == RoomStatus::Open);
            open.map(|room| {
                connected_participants(sql, room.id).map(|participants| RoomSnapshot { room, participants })
            })
            .transpose()
        })
        .await
    }

    /// What minting a token for a room, and perhaps a role, has to know.
    ///
    /// # Errors
    /// Refused when the project has no such room, or a role is asked for that the room's template does not have.
    pub async fn token_context(
        &self,
        project: ProjectId,
        name: RoomName,
        role: Option<RoleName>,
    ) -> Result<TokenContext, StoreError> {
        self.read(move |sql| {
            let room = by_name(sql, &project, &name)?.ok_or_else(|| StoreError::Refused(Problem::room_not_found()))?;
            let role = role.map(|role| room_role(sql, &room, &role)).transpose()?;
            context_of(sql, room, role)
        })
        .await
    }

    /// The roles of a room's template as they stand now; empty when it resolves to none.
    ///
    /// # Errors
    /// The store's own.
    pub async fn room_roles(&self, template: Option<TemplateId>) -> Result<BTreeMap<RoleName, Role>, StoreError> {
        match template {
            Some(id) => self.read(move |sql| templates::roles_of(sql, &id)).await,
            None => Ok(BTreeMap::new()),
        }
    }
}

/// What minting has to know of a room and a role of its template.
pub(crate) fn context_of(sql: &Connection, room: Room, role: Option<Role>) -> Result<TokenContext, StoreError> {
    let capped = role.as_ref().filter(|role| role.max_peer_count.get() > 0);
    let holders = capped.map_or(Ok(0), |role| {
        let query = "SELECT count(*) FROM sessions WHERE room_id = ?1 AND left_at IS NULL AND role = ?2";
        count(sql, query, params![room.id.0, role.name.as_str()])
    })?;
    let query = "SELECT count(*) FROM sessions WHERE room_id = ?1 AND left_at IS NULL";
    let participant_count = count(sql, query, [room.id.0])?;
    Ok(TokenContext { room, role, holders, participant_count })
}

/// A role of a room's template, as it stands now.
pub(crate) fn room_role(sql: &Connection, room: &Room, name: &RoleName) -> Result<Role, StoreError> {
    let Some(template) = &room.template_id else {
        let message = "the room resolves to no template, so it has no roles";
        return StoreError::refuse(Problem::new(ErrorCode::TemplateNotFound, message));
    };
    templates::role_of(sql, template, name)?.ok_or_else(|| StoreError::Refused(Problem::role_not_found().at("role")))
}

impl Store {
    /// What a participant may do to others: the permissions, as they stand now, of the role it holds live in the room,
    /// else of the role its token names. Nothing when neither is a role of the room's template.
    ///
    /// # Errors
    /// The store's own.
    pub async fn effective_permissions(
        &self,
        project: ProjectId,
        name: RoomName,
        identity: Identity,
        token_role: Option<RoleName>,
    ) -> Result<RolePermissions, StoreError> {
        self.read(move |sql| {
            let Some(room) = by_name(sql, &project, &name)? else { return Ok(RolePermissions::default()) };
            let live = connected_participants(sql, room.id)?.into_iter().find(|person| person.identity == identity);
            let role = live.map_or(token_role, |person| person.role);
            let (Some(template), Some(role)) = (&room.template_id, role) else {
                return Ok(RolePermissions::default());
            };
            Ok(templates::role_of(sql, template, &role)?.map(|role| role.permissions).unwrap_or_default())
        })
        .await
    }
}
