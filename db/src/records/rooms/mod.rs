//! The records of rooms: creating, finding and listing them.

mod end;
pub(crate) mod roles;
pub(crate) mod rows;

use std::collections::HashMap;

use conclave_model::idempotency::ResponseRecorder;
use conclave_model::page::{Page, PageRequest};
use conclave_model::room::{Room, RoomStatus, unjoined_deadline};
use conclave_model::{ErrorCode, Problem, ProjectId, RoomId, RoomName, TemplateId};

use crate::engine::writer::{Isolation, Queue};
use crate::error::StoreError;
use crate::records::rooms::rows::{
    ConnectedParticipant, RoomSnapshot, SELECT_BY_NAME, SELECT_OPEN_ROOMS, SELECT_ROOMS,
    all_connected_participants, by_name, connected_participants, room,
};
use crate::records::templates::exists;
use crate::sql::query_builder::QueryBuilder;
use crate::sql::values::args;
use crate::sql::{Sql, no_row};
use crate::store::Store;
use crate::tx::Tx;

/// A room to be created.
#[derive(Debug, Clone)]
pub struct NewRoom {
    /// The project that the room belongs to.
    pub project_id: ProjectId,
    /// A name that the project has never used for a room before.
    pub name: RoomName,
    /// The most participants at once; 0 leaves the limit to the plan.
    pub max_participants: u32,
    /// Seconds that the room stays open without participants.
    pub empty_timeout_seconds: u32,
    /// The client's JSON text, unchanged.
    pub metadata: Option<Box<str>>,
    /// `None` means the project's default template, if it has one.
    pub template_id: Option<TemplateId>,
}

const INSERT: &str =
    "INSERT INTO rooms (id, project_id, name, max_participants, empty_timeout_seconds, metadata, status,
                       template_id, created_at, empty_deadline)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'open', ?7, ?8, ?9)
     ON CONFLICT (project_id, name) DO NOTHING";
const DEFAULT_TEMPLATE: &str = "SELECT default_template_id FROM projects WHERE id = ?1";

/// Finds the template of a new room: the one it names, which must exist, or the project's default.
fn resolve_template(sql: Sql<'_>, new: &NewRoom) -> Result<Option<TemplateId>, StoreError> {
    let Some(named) = &new.template_id else {
        return sql
            .one(DEFAULT_TEMPLATE, args![&new.project_id], |row| {
                row.get("default_template_id")
            })?
            .ok_or_else(no_row);
    };
    if exists(sql, &new.project_id, named)? {
        return Ok(Some(named.clone()));
    }
    StoreError::refuse(Problem::template_not_found().at("template_id"))
}

fn insert(tx: &mut Tx<'_>, room: &Room) -> Result<(), StoreError> {
    let row = args![
        room.id,
        &room.project_id,
        &room.name,
        room.max_participants,
        room.empty_timeout_seconds,
        room.metadata.as_deref(),
        room.template_id.as_ref(),
        room.created_at,
        room.empty_deadline,
    ];
    if tx.sql.change(INSERT, row)? == 0 {
        let message = format!("the project has used the room name {:?} before", room.name);
        return StoreError::refuse(Problem::new(ErrorCode::RoomExists, message).at("name"));
    }
    tx.rooms.add(&room.project_id, 1);
    Ok(())
}

/// Reads the open rooms of a project with their participants, in two queries.
pub(crate) fn open_rooms(
    sql: Sql<'_>,
    project: &ProjectId,
) -> Result<Vec<RoomSnapshot>, StoreError> {
    let rooms = sql.many(SELECT_OPEN_ROOMS, args![project], room)?;
    let mut connected: HashMap<RoomId, Vec<ConnectedParticipant>> = HashMap::new();
    for (room, participant) in all_connected_participants(sql, project)? {
        connected.entry(room).or_default().push(participant);
    }
    let snapshot = |room: Room| RoomSnapshot {
        participants: connected.remove(&room.id).unwrap_or_default(),
        room,
    };
    Ok(rooms.into_iter().map(snapshot).collect())
}

/// The query of a list.
pub(crate) fn list_query(project: &ProjectId) -> QueryBuilder<'_> {
    QueryBuilder::new(
        SELECT_ROOMS,
        "project_id",
        project,
        "created_at DESC, id DESC",
    )
}

/// The query of the open rooms. They are in the order of their index, which has the newest of each template first, and those without
/// a template last: unless it is said, they come first on PostgreSQL.
pub(crate) fn open_query(project: &ProjectId) -> QueryBuilder<'_> {
    QueryBuilder::new(
        SELECT_ROOMS,
        "project_id",
        project,
        "template_id DESC NULLS LAST, id DESC",
    )
    .and_condition(Some("status = 'open'"))
}

/// The query of the rooms whose names are from `first` to `last`.
pub(crate) fn named_query<'a>(
    project: &'a ProjectId,
    first: &'a str,
    last: &'a str,
) -> QueryBuilder<'a> {
    QueryBuilder::new(SELECT_ROOMS, "project_id", project, "name")
        .and("name >=", Some(first))
        .and("name <=", Some(last))
}

impl Store {
    /// Creates a room, with the deadline at which it ends if no participant joins. `done` takes it, on the thread of the writer; it
    /// takes a refusal when the name was used before or the template does not exist.
    pub fn create_room(
        &self,
        new: NewRoom,
        record: Option<ResponseRecorder<Room>>,
        done: impl FnOnce(Result<Room, StoreError>) + Send + 'static,
    ) {
        let queue = Queue::of(&new.project_id);
        let isolation = if record.is_some() {
            Isolation::Savepoint
        } else {
            Isolation::Statement
        };
        let create = move |tx: &mut Tx<'_>| {
            let template_id = resolve_template(tx.sql, &new)?;
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
            tx.store_response(record.as_ref(), &room)?;
            Ok(room)
        };
        self.write_then(queue, isolation, create, done);
    }

    /// Reads a room, open or ended.
    ///
    /// # Errors
    /// Refused when the project has no room by that name.
    pub async fn room(&self, project: ProjectId, name: RoomName) -> Result<Room, StoreError> {
        self.read(
            move |sql| Ok(by_name(sql, &project, &name)?.ok_or_else(Problem::room_not_found)?),
        )
        .await
    }

    /// Lists a project's rooms, open and ended, newest first.
    ///
    /// # Errors
    /// Fails when the database cannot be read, or takes too long.
    pub async fn rooms(
        &self,
        project: ProjectId,
        page: PageRequest,
    ) -> Result<Page<Room>, StoreError> {
        self.list(project, move |sql, project| {
            list_query(project).page(sql, page, room)
        })
        .await
    }

    /// Lists a project's open rooms, by template and then newest first; those without a template are the last.
    ///
    /// # Errors
    /// Fails when the database cannot be read, or takes too long.
    pub async fn live_rooms(
        &self,
        project: ProjectId,
        page: PageRequest,
    ) -> Result<Page<Room>, StoreError> {
        self.list(project, move |sql, project| {
            open_query(project).page(sql, page, room)
        })
        .await
    }

    /// Lists a project's rooms, open and ended, whose names begin with `prefix`, by name.
    ///
    /// # Errors
    /// Fails when the database cannot be read, or takes too long.
    pub async fn rooms_with_prefix(
        &self,
        project: ProjectId,
        prefix: String,
        page: PageRequest,
    ) -> Result<Page<Room>, StoreError> {
        // Names are ASCII, so that this is after every name with the prefix.
        let last = format!("{prefix}\u{7f}");
        self.list(project, move |sql, project| {
            named_query(project, &prefix, &last).page(sql, page, room)
        })
        .await
    }

    /// Returns those of the names that are of rooms which have ended.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn ended_rooms(
        &self,
        project: ProjectId,
        names: Vec<RoomName>,
    ) -> Result<Vec<RoomName>, StoreError> {
        self.read(move |sql| {
            let rows = names.iter().map(|name| *args![&project, name]);
            let rooms = sql.each(SELECT_BY_NAME, rows, |row| row.get::<RoomStatus>("status"))?;
            let ended = names
                .into_iter()
                .zip(rooms)
                .filter(|(_, room)| room.contains(&RoomStatus::Ended));
            Ok(ended.map(|(name, _)| name).collect())
        })
        .await
    }

    /// Reads an open room with its connected participants; `None` when the project has no open room by that name.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn open_room(
        &self,
        project: ProjectId,
        name: RoomName,
    ) -> Result<Option<RoomSnapshot>, StoreError> {
        self.read(move |sql| {
            let open =
                by_name(sql, &project, &name)?.filter(|room| room.status == RoomStatus::Open);
            let Some(room) = open else { return Ok(None) };
            Ok(Some(RoomSnapshot {
                participants: connected_participants(sql, &project, room.id)?,
                room,
            }))
        })
        .await
    }
}
