//! Ingress endpoints. A final status never changes, except that an endpoint completed by its room can still be deleted. A status change and
//! its event are one transaction.

use conclave_model::event::{Event, EventContext};
use conclave_model::ingress::{Ingress, IngressState, IngressStatus, InputType, StreamKeyHash};
use conclave_model::page::{Page, PageRequest};
use conclave_model::room::Room;
use conclave_model::{
    ErrorCode, Identity, IngressId, IngressRowId, Problem, ProjectId, RoomId, RoomName, Timestamp,
};

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::records::rooms::rows::open_by_id;
use crate::sql::query_builder::QueryBuilder;
use crate::sql::values::args;
use crate::sql::{Row, Sql};
use crate::tx::Tx;

/// Ingress endpoint that the media plane has created.
#[derive(Debug, Clone)]
pub struct NewIngress {
    /// Project that the endpoint belongs to.
    pub project_id: ProjectId,
    /// Room that the endpoint publishes into.
    pub room: RoomId,
    /// The media plane's endpoint id.
    pub ingress_id: IngressId,
    /// Encoder protocol.
    pub input_type: InputType,
    /// Stream participant's identity.
    pub participant_identity: Identity,
    /// Stream participant's display name.
    pub participant_name: Option<String>,
    /// URL for the encoder, with the stream key redacted.
    pub url: String,
    /// Stream key hash. The key itself is not stored.
    pub key_hash: StreamKeyHash,
}

/// Ingress list filters; `None` matches all.
#[derive(Debug, Clone, Default)]
pub struct IngressFilter {
    /// Only endpoints of the room with this name.
    pub room: Option<RoomName>,
    /// Only endpoints with this status.
    pub status: Option<IngressStatus>,
    /// Only endpoints with this input type.
    pub input_type: Option<InputType>,
}

/// Error for an endpoint that failed without a reason from the media plane.
const NO_REASON: &str = "the media plane gave no reason";

/// Condition for a status that is not final, exactly as in the partial indexes.
macro_rules! not_final {
    () => {
        "NOT IN ('complete', 'deleted')"
    };
}

macro_rules! select {
    ($($rest:expr),*) => {
        concat!(
            "SELECT id, project_id, room, ingress_id, input_type, participant_identity, participant_name, url, key_hash, status,
                    error, created_at, updated_at, deleted_at
             FROM ingresses",
            $($rest),*
        )
    };
}

/// `$from` is the condition on the previous status.
macro_rules! update {
    ($from:expr) => {
        concat!(
            "UPDATE ingresses
             SET status = ?3, error = ?4, updated_at = CASE WHEN ?5 < updated_at THEN updated_at ELSE ?5 END, deleted_at = ?6
             WHERE id = ?1 AND project_id = ?2 AND status ",
            $from
        )
    };
}

const SELECT: &str = select!();
const SELECT_ONE: &str = select!(" WHERE project_id = ?1 AND ingress_id = ?2");
const SELECT_LIVE: &str = select!(" WHERE project_id = ?1 AND status ", not_final!());
const SELECT_ONE_LIVE: &str = select!(
    " WHERE project_id = ?1 AND ingress_id = ?2 AND status ",
    not_final!()
);
const SELECT_LIVE_OF_ROOM: &str = select!(
    " WHERE room_id = ?1 AND project_id = ?2 AND status ",
    not_final!(),
    " ORDER BY id"
);
const INSERT: &str =
    "INSERT INTO ingresses (id, project_id, room_id, room, ingress_id, input_type, participant_identity,
                            participant_name, url, key_hash, status, created_at, updated_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'inactive', ?11, ?11)
     ON CONFLICT (ingress_id) DO NOTHING";
const UPDATE: &str = update!(not_final!());
const UPDATE_TO_DELETED: &str = update!("<> 'deleted'");

fn ingress(row: &Row<'_>) -> Result<Ingress, StoreError> {
    Ok(Ingress {
        id: row.get("id")?,
        project_id: row.get("project_id")?,
        room: row.get("room")?,
        ingress_id: row.get("ingress_id")?,
        input_type: row.get("input_type")?,
        participant_identity: row.get("participant_identity")?,
        participant_name: row.get("participant_name")?,
        url: row.get("url")?,
        key_hash: row.get("key_hash")?,
        status: row.get("status")?,
        error: row.get("error")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
        deleted_at: row.get("deleted_at")?,
    })
}

fn existing(sql: Sql<'_>, project: &ProjectId, id: &IngressId) -> Result<Ingress, StoreError> {
    let not_found = || Problem::new(ErrorCode::IngressNotFound, "no ingress by that id");
    Ok(sql
        .one(SELECT_ONE, args![project, id], ingress)?
        .ok_or_else(not_found)?)
}

fn insert(tx: &Tx<'_>, room: &Room, new: &NewIngress) -> Result<(), StoreError> {
    let row = args![
        IngressRowId::new(),
        &room.project_id,
        room.id,
        &room.name,
        &new.ingress_id,
        new.input_type,
        &new.participant_identity,
        new.participant_name.as_deref(),
        &new.url,
        &new.key_hash,
        tx.now,
    ];
    // The media plane's id is unique: a repeated registration inserts nothing.
    if tx.sql.change(INSERT, row)? > 0 {
        return Ok(());
    }
    StoreError::refuse(Problem::new(
        ErrorCode::IngressExists,
        "that ingress is already registered",
    ))
}

/// Changes an endpoint's status, and emits the event of the change, if there is one.
fn advance(
    tx: &mut Tx<'_>,
    before: &Ingress,
    next: IngressStatus,
    error: Option<&str>,
    at: Timestamp,
) -> Result<(), StoreError> {
    let deleted = next == IngressStatus::Deleted;
    // Deletion is the only way out of `complete`.
    let update = if deleted { UPDATE_TO_DELETED } else { UPDATE };
    let deleted_at = deleted.then_some(at);
    tx.sql.put(
        update,
        args![
            before.id,
            &before.project_id,
            next,
            error,
            tx.now,
            deleted_at
        ],
    )?;
    // Only the start and the end of publishing are events.
    let Some(status) = before.status.event_status(next) else {
        return Ok(());
    };
    let context = EventContext {
        project_id: before.project_id.clone(),
        room: before.room.clone(),
        occurred_at: at,
    };
    tx.emit(&Event::ingress(
        context,
        before.ingress_id.clone(),
        before.participant_identity.clone(),
        status,
    ))
}

/// Records a reported state, unless it is already recorded or the endpoint is final.
fn record(
    tx: &mut Tx<'_>,
    project: &ProjectId,
    state: &IngressState,
    at: Timestamp,
) -> Result<Ingress, StoreError> {
    let before = existing(tx.sql, project, &state.ingress_id)?;
    // Only a failed endpoint has an error, and it always has one.
    let failed = state.status == IngressStatus::Error;
    let error = failed.then(|| state.error.as_deref().unwrap_or(NO_REASON));
    // A report may arrive late, after the room has completed the endpoint, or twice.
    if before.status.is_final() || (before.status, before.error.as_deref()) == (state.status, error)
    {
        return Ok(before);
    }
    advance(tx, &before, state.status, error, at)?;
    existing(tx.sql, project, &state.ingress_id)
}

/// Completes the endpoints of a room that ends, since nothing can be published into it.
pub(crate) fn complete_ingresses_of_room(
    tx: &mut Tx<'_>,
    project: &ProjectId,
    room: RoomId,
    at: Timestamp,
) -> Result<(), StoreError> {
    let live = tx
        .sql
        .many(SELECT_LIVE_OF_ROOM, args![room, project], ingress)?;
    // With an event for each publishing endpoint.
    live.iter()
        .try_for_each(|endpoint| advance(tx, endpoint, IngressStatus::Complete, None, at))
}

/// Returns the query that lists a project's ingress endpoints, newest first.
pub(crate) fn list_query<'a>(
    project: &'a ProjectId,
    filter: &'a IngressFilter,
) -> QueryBuilder<'a> {
    QueryBuilder::new(SELECT, "project_id", project, "created_at DESC, id DESC")
        .and("room =", filter.room.as_ref())
        .and("status =", filter.status)
        .and("input_type =", filter.input_type)
}

/// Reads a project's endpoints that are not final.
pub(crate) fn live_ingresses(
    sql: Sql<'_>,
    project: &ProjectId,
) -> Result<Vec<Ingress>, StoreError> {
    sql.many(SELECT_LIVE, args![project], ingress)
}

/// Ingress endpoint records.
#[derive(Debug, Clone)]
pub struct Ingresses(pub(crate) Database);

impl Ingresses {
    /// Records an ingress endpoint that the media plane has created.
    ///
    /// # Errors
    /// Refused when the room has ended, or the endpoint is recorded already.
    pub async fn create(&self, new: NewIngress) -> Result<Ingress, StoreError> {
        self.0
            .write(Queue::for_project(&new.project_id), move |tx| {
                // The room may have ended while the media plane created the endpoint.
                let room = open_by_id(tx.sql, &new.project_id, new.room)?;
                insert(tx, &room, &new)?;
                existing(tx.sql, &room.project_id, &new.ingress_id)
            })
            .await
    }

    /// Records an endpoint's state that the media plane reported for the time `at`. A known state, and any state of a final endpoint,
    /// changes nothing.
    ///
    /// # Errors
    /// Refused when the project has no such endpoint.
    pub async fn record(
        &self,
        project: ProjectId,
        state: IngressState,
        at: Timestamp,
    ) -> Result<Ingress, StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                record(tx, &project, &state, at)
            })
            .await
    }

    /// Records that an endpoint was deleted. A deleted endpoint does not change.
    ///
    /// # Errors
    /// Refused when the project has no such endpoint.
    pub async fn delete(&self, project: ProjectId, id: IngressId) -> Result<Ingress, StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                let (before, at) = (existing(tx.sql, &project, &id)?, tx.now);
                // A repeated deletion succeeds, without another event.
                if before.status == IngressStatus::Deleted {
                    return Ok(before);
                }
                advance(tx, &before, IngressStatus::Deleted, None, at)?;
                existing(tx.sql, &project, &id)
            })
            .await
    }

    /// Reads an endpoint, even a deleted one.
    ///
    /// # Errors
    /// Refused when the project has no such endpoint.
    pub async fn get(&self, project: ProjectId, id: IngressId) -> Result<Ingress, StoreError> {
        self.0.read(move |sql| existing(sql, &project, &id)).await
    }

    /// Lists a project's endpoints, newest first, including deleted ones.
    ///
    /// # Errors
    /// Fails when the database cannot be read, or takes too long.
    pub async fn list(
        &self,
        project: ProjectId,
        filter: IngressFilter,
        page: PageRequest,
    ) -> Result<Page<Ingress>, StoreError> {
        self.0
            .list(project, move |sql, project| {
                list_query(project, &filter).page(sql, page, ingress)
            })
            .await
    }

    /// Reads an endpoint that is not final; `None` if the project has no such endpoint.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn live(
        &self,
        project: ProjectId,
        id: IngressId,
    ) -> Result<Option<Ingress>, StoreError> {
        self.0
            .read(move |sql| sql.one(SELECT_ONE_LIVE, args![&project, &id], ingress))
            .await
    }
}
