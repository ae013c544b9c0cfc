//! Ingress endpoints. A status never leaves what is final, but that an owner deletes what its room has completed; the event
//! of a move stands in the same transaction.

use std::sync::LazyLock;

use conclave_model::event::{Event, EventContext};
use conclave_model::ingress::{Ingress, IngressState, IngressStatus, InputType, StreamKeyHash};
use conclave_model::page::{Page, PageRequest};
use conclave_model::room::{Room, RoomStatus};
use conclave_model::{ErrorCode, Identity, IngressId, IngressRowId, Problem, ProjectId, RoomId, RoomName, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::columns::Columns;
use crate::error::OrStoreError;
use crate::query_builder::QueryBuilder;
use crate::rooms::by_id;
use crate::writer::Tx;
use crate::{Store, StoreError};

/// An endpoint that the media plane has made.
#[derive(Debug, Clone)]
pub struct NewIngress {
    /// The room it publishes into.
    pub room: RoomId,
    /// The media plane's id of it.
    pub ingress_id: IngressId,
    /// How an encoder speaks to it.
    pub input_type: InputType,
    /// The identity that the stream joins as.
    pub participant_identity: Identity,
    /// The display name that it joins with.
    pub participant_name: Option<String>,
    /// Where an encoder publishes, with the stream key redacted.
    pub url: String,
    /// What is kept of the stream key.
    pub key_hash: StreamKeyHash,
}

/// Which endpoints are wanted.
#[derive(Debug, Clone, Default)]
pub struct IngressFilter {
    /// Of the room by this name.
    pub room: Option<RoomName>,
    /// In this status.
    pub status: Option<IngressStatus>,
    /// Of this input type.
    pub input_type: Option<InputType>,
}

const COLUMNS: &str = "id, project_id, room, ingress_id, input_type, participant_identity, participant_name, url, \
                       key_hash, status, error, created_at, updated_at, deleted_at";
/// As the partial indexes say it.
const LIVE: &str = "status NOT IN ('complete', 'deleted')";
/// What the record says when the media plane says nothing.
const NO_REASON: &str = "the media plane gave no reason";

static SELECT_LIVE: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {COLUMNS} FROM ingresses WHERE project_id = ?1 AND {LIVE}"));

fn ingress(row: &Row<'_>) -> rusqlite::Result<Ingress> {
    Ok(Ingress {
        id: IngressRowId(row.get(0)?),
        project_id: row.parsed(1)?,
        room: row.parsed(2)?,
        ingress_id: row.parsed(3)?,
        input_type: row.word(4, |word| word.parse().ok())?,
        participant_identity: row.parsed(5)?,
        participant_name: row.get(6)?,
        url: row.get(7)?,
        key_hash: StreamKeyHash(row.get(8)?),
        status: row.word(9, |word| word.parse().ok())?,
        error: row.get(10)?,
        created_at: row.time(11)?,
        updated_at: row.time(12)?,
        deleted_at: row.time_opt(13)?,
    })
}

fn existing(sql: &Connection, project: &ProjectId, id: &IngressId) -> Result<Ingress, StoreError> {
    let found = sql
        .prepare_cached(&format!("SELECT {COLUMNS} FROM ingresses WHERE project_id = ?1 AND ingress_id = ?2"))
        .and_then(|mut s| s.query_row([project.as_str(), id.as_str()], ingress).optional())
        .or_store_error()?;
    found.ok_or_else(|| StoreError::Refused(Problem::new(ErrorCode::IngressNotFound, "no ingress by that id")))
}

fn insert(tx: &Tx<'_>, room: &Room, new: &NewIngress) -> Result<(), StoreError> {
    let inserted = tx
        .sql
        .prepare_cached(
            "INSERT INTO ingresses (id, project_id, room_id, room, ingress_id, input_type, participant_identity,
                                    participant_name, url, key_hash, status, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'inactive', ?11, ?11)
             ON CONFLICT (ingress_id) DO NOTHING",
        )
        .and_then(|mut s| {
            s.execute(params![
                IngressRowId::new().0,
                room.project_id.as_str(),
                room.id.0,
                room.name.as_str(),
                new.ingress_id.as_str(),
                new.input_type.as_str(),
                new.participant_identity.as_str(),
                new.participant_name,
                new.url,
                new.key_hash.0,
                tx.now.millis(),
            ])
        })
        .or_store_error()?;
    if inserted > 0 {
        return Ok(());
    }
    StoreError::refuse(Problem::new(ErrorCode::IngressExists, "that ingress is already registered"))
}

fn create(tx: &Tx<'_>, new: &NewIngress) -> Result<Ingress, StoreError> {
    let room = by_id(tx.sql, new.room)?;
    if room.status == RoomStatus::Ended {
        return StoreError::refuse(Problem::room_ended());
    }
    insert(tx, &room, new)?;
    existing(tx.sql, &room.project_id, &new.ingress_id)
}

/// Moves an endpoint, with the event of the move.
fn advance(
    tx: &mut Tx<'_>,
    before: &Ingress,
    next: IngressStatus,
    error: Option<&str>,
    at: Timestamp,
) -> Result<(), StoreError> {
    let deleted_at = (next == IngressStatus::Deleted).then(|| at.millis());
    tx.sql
        .prepare_cached(
            "UPDATE ingresses SET status = ?2, error = ?3, updated_at = max(?4, updated_at), deleted_at = ?5
             WHERE id = ?1",
        )
        .and_then(|mut s| s.execute(params![before.id.0, next.as_str(), error, tx.now.millis(), deleted_at]))
        .or_store_error()?;
    let Some(told) = before.status.event_status(next) else { return Ok(()) };
    let scene = EventContext { project_id: before.project_id.clone(), room: before.room.clone(), occurred_at: at };
    tx.emit(&Event::ingress(scene, &before.ingress_id, &before.participant_identity, told))
}

/// Writes what the media plane says, unless it is known already or the endpoint is final.
fn record(tx: &mut Tx<'_>, project: &ProjectId, said: &IngressState, at: Timestamp) -> Result<Ingress, StoreError> {
    let before = existing(tx.sql, project, &said.ingress_id)?;
    // A record says what went wrong, and nothing when nothing did.
    let failed = said.status == IngressStatus::Error;
    let error = failed.then(|| said.error.as_deref().unwrap_or(NO_REASON));
    if before.status.is_final() || (before.status, before.error.as_deref()) == (said.status, error) {
        return Ok(before);
    }
    advance(tx, &before, said.status, error, at)?;
    existing(tx.sql, project, &said.ingress_id)
}

/// A room ends: nothing can be published through its endpoints any more.
pub(crate) fn complete_of_room(tx: &mut Tx<'_>, room: RoomId, at: Timestamp) -> Result<(), StoreError> {
    let query = format!("SELECT {COLUMNS} FROM ingresses WHERE room_id = ?1 AND {LIVE} ORDER BY id");
    let live: Vec<Ingress> =
        tx.sql.prepare_cached(&query).and_then(|mut s| s.query_map([room.0], ingress)?.collect()).or_store_error()?;
    live.iter().try_for_each(|endpoint| advance(tx, endpoint, IngressStatus::Complete, None, at))
}

impl Store {
    /// Writes an endpoint that the media plane has made.
    ///
    /// # Errors
    /// Refused when the room has ended, or the endpoint is known already.
    pub async fn create_ingress(&self, new: NewIngress) -> Result<Ingress, StoreError> {
        self.write(move |tx| create(tx, &new)).await
    }

    /// Writes how an endpoint stands, as the media plane says it did at `at`. What is known already, and anything that is
    /// said of a final one, changes nothing.
    ///
    /// # Errors
    /// Refused when the project has no such endpoint.
    pub async fn record_ingress(
        &self,
        project: ProjectId,
        said: IngressState,
        at: Timestamp,
    ) -> Result<Ingress, StoreError> {
        self.write(move |tx| record(tx, &project, &said, at)).await
    }

    /// Writes that an endpoint was deleted, at most once.
    ///
    /// # Errors
    /// Refused when the project has no such endpoint.
    pub async fn delete_ingress(&self, project: ProjectId, id: IngressId) -> Result<Ingress, StoreError> {
        self.write(move |tx| {
            let (before, at) = (existing(tx.sql, &project, &id)?, tx.now);
            if before.status == IngressStatus::Deleted {
                return Ok(before);
            }
            advance(tx, &before, IngressStatus::Deleted, None, at)?;
            existing(tx.sql, &project, &id)
        })
        .await
    }

    /// An endpoint, deleted or not.
    ///
    /// # Errors
    /// Refused when the project has none by that id.
    pub async fn ingress(&self, project: ProjectId, id: IngressId) -> Result<Ingress, StoreError> {
        self.read(move |sql| existing(sql, &project, &id)).await
    }

    /// A project's endpoints that match, newest first, deleted ones too.
    ///
    /// # Errors
    /// The store's own.
    pub async fn ingresses(
        &self,
        project: ProjectId,
        filter: IngressFilter,
        page: PageRequest,
    ) -> Result<Page<Ingress>, StoreError> {
        self.read(move |sql| {
            let mut wanted = QueryBuilder::of_project("project_id", &project);
            wanted.and("room = ?", filter.room.map(String::from));
            wanted.and("status = ?", filter.status.map(IngressStatus::as_str));
            wanted.and("input_type = ?", filter.input_type.map(InputType::as_str));
            wanted.page(sql, &format!("SELECT {COLUMNS} FROM ingresses"), "created_at DESC, id DESC", page, ingress)
        })
        .await
    }

    /// A project's endpoints that are not final.
    ///
    /// # Errors
    /// The store's own.
    pub async fn live_ingresses(&self, project: ProjectId) -> Result<Vec<Ingress>, StoreError> {
        self.read(move |sql| {
            let mut statement = sql.prepare_cached(&SELECT_LIVE).or_store_error()?;
            statement.query_map([project.as_str()], ingress).and_then(Iterator::collect).or_store_error()
        })
        .await
    }

    /// One endpoint that is not final; `None` when the project has none by that id.
    ///
    /// # Errors
    /// The store's own.
    pub async fn live_ingress(&self, project: ProjectId, id: IngressId) -> Result<Option<Ingress>, StoreError> {
        self.read(move |sql| {
            sql.prepare_cached(&format!("{} AND ingress_id = ?2", *SELECT_LIVE))
                .and_then(|mut s| s.query_row([project.as_str(), id.as_str()], ingress).optional())
                .or_store_error()
        })
        .await
    }
}
