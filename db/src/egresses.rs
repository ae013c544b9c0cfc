//! The records of egresses: recordings and broadcasts. A status only moves forward: its `UPDATE` names the statuses that it may
//! leave. A change of status and its event are one transaction.

use std::sync::LazyLock;

use conclave_model::egress::{Egress, EgressDetail, EgressKind, EgressState, EgressStatus, UsedDestination};
use conclave_model::event::{Event, EventContext};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::page::{Page, PageRequest};
use conclave_model::room::Room;
use conclave_model::{EgressId, EgressRowId, ProjectId, RoomId, RoomName, Timestamp};

use crate::destinations;
use crate::error::StoreError;
use crate::open_sessions::event_context;
use crate::query_builder::QueryBuilder;
use crate::room_rows::open_by_id;
use crate::sql::{Row, Sql};
use crate::store::Store;
use crate::tx::Tx;
use crate::values::args;

/// An egress that the media plane has accepted.
#[derive(Debug, Clone)]
pub struct NewEgress {
    /// The project that the egress belongs to.
    pub project_id: ProjectId,
    /// The room that it records or broadcasts.
    pub room: RoomId,
    /// Whether it is a recording or a broadcast, and of what.
    pub detail: EgressDetail,
    /// The destination that the request named, if any.
    pub destination: Option<UsedDestination>,
    /// The state that the media plane returned when it accepted the egress.
    pub state: EgressState,
}

/// The filters of a list of egresses; `None` matches all.
#[derive(Debug, Clone, Default)]
pub struct EgressFilter {
    /// Only egresses of the room with this name.
    pub room: Option<RoomName>,
    /// Only egresses in this status.
    pub status: Option<EgressStatus>,
    /// Only egresses started at this instant or later.
    pub after: Option<Timestamp>,
    /// Only egresses started at this instant or earlier.
    pub before: Option<Timestamp>,
}

/// An egress that is not final.
#[derive(Debug, Clone)]
pub struct RunningEgress {
    /// The egress's record.
    pub egress: Egress,
    /// Whether its room is open.
    pub room_open: bool,
}

/// The error of an egress that failed without a reason from the media plane.
const NO_REASON: &str = "the media plane gave no reason";

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT e.id, e.project_id, e.room, e.egress_id, e.kind, e.recording_type, e.filepath, e.urls, e.destination,
                    e.destination_id, e.status, e.error, e.started_at, e.ended_at, e.created_at",
            $rest
        )
    };
}

const SELECT: &str = select!(" FROM egresses e");
const SELECT_ONE: &str = select!(" FROM egresses e WHERE e.project_id = ?1 AND e.egress_id = ?2");
const SELECT_RUNNING: &str = select!(
    ", r.status = 'open' FROM egresses e JOIN rooms r ON r.id = e.room_id WHERE e.project_id = ?1 AND e.ended_at IS NULL"
);
const SELECT_ONE_RUNNING: &str = select!(
    ", r.status = 'open' FROM egresses e JOIN rooms r ON r.id = e.room_id
     WHERE e.project_id = ?1 AND e.ended_at IS NULL AND e.egress_id = ?2"
);
const INSERT: &str =
    "INSERT INTO egresses (id, project_id, room_id, room, egress_id, kind, recording_type, filepath, urls,
                           destination, destination_id, status, started_at, created_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 'starting', ?12, ?13)
     ON CONFLICT (egress_id) DO NOTHING";

/// For each status, the update that moves an egress to it from one of its legal predecessors.
static UPDATES: LazyLock<Vec<(EgressStatus, String)>> =
    LazyLock::new(|| EgressStatus::ALL.iter().map(|status| (*status, update_to(*status))).collect());

fn update_to(status: EgressStatus) -> String {
    let from: Vec<_> = status.predecessors().iter().map(|status| format!("'{}'", status.as_str())).collect();
    format!(
        "UPDATE egresses
         SET status = ?3, error = ?4, ended_at = CASE WHEN ?5 < started_at THEN started_at ELSE ?5 END
         WHERE project_id = ?1 AND egress_id = ?2 AND status IN ({})",
        from.join(", ")
    )
}

fn detail(row: &Row<'_>) -> Result<EgressDetail, StoreError> {
    match row.get(4)? {
        EgressKind::Recording => Ok(EgressDetail::Recording { recording_type: row.get(5)?, filepath: row.get(6)? }),
        EgressKind::Broadcast => Ok(EgressDetail::Broadcast { urls: row.json(7)? }),
    }
}

fn egress(row: &Row<'_>) -> Result<Egress, StoreError> {
    let (name, id): (Option<_>, Option<_>) = (row.get(8)?, row.get(9)?);
    Ok(Egress {
        id: row.get(0)?,
        project_id: row.get(1)?,
        room: row.get(2)?,
        egress_id: row.get(3)?,
        detail: detail(row)?,
        destination: name.zip(id).map(|(name, id)| UsedDestination { id, name }),
        status: row.get(10)?,
        error: row.get(11)?,
        started_at: row.get(12)?,
        ended_at: row.get(13)?,
        created_at: row.get(14)?,
    })
}

fn running(row: &Row<'_>) -> Result<RunningEgress, StoreError> {
    Ok(RunningEgress { egress: egress(row)?, room_open: row.get(15)? })
}

fn find(sql: Sql<'_>, project: &ProjectId, id: &EgressId) -> Result<Option<Egress>, StoreError> {
    sql.one(SELECT_ONE, args![project, id], egress)
}

fn existing(sql: Sql<'_>, project: &ProjectId, id: &EgressId) -> Result<Egress, StoreError> {
    find(sql, project, id)?.ok_or_else(|| StoreError::Fault("an egress that was started has no record".into()))
}

fn insert(tx: &Tx<'_>, room: &Room, new: &NewEgress) -> Result<(), StoreError> {
    let (recording_type, filepath, urls) = match &new.detail {
        EgressDetail::Recording { recording_type, filepath } => (Some(*recording_type), Some(filepath), None),
        EgressDetail::Broadcast { urls } => (None, None, Some(serde_json::to_string(urls)?)),
    };
    let destination = new.destination.as_ref();
    let row = args![
        EgressRowId::new(),
        &room.project_id,
        room.id,
        &room.name,
        &new.state.egress_id,
        new.detail.kind(),
        recording_type,
        filepath,
        urls.as_deref(),
        destination.map(|used| &used.name),
        destination.map(|used| &used.id),
        new.state.started_at,
        tx.now,
    ];
    if tx.sql.change(INSERT, row)? == 0 { StoreError::refuse(new.detail.kind().already_exists()) } else { Ok(()) }
}

fn start(tx: &mut Tx<'_>, new: &NewEgress) -> Result<Egress, StoreError> {
    let room = open_by_id(tx.sql, &new.project_id, new.room)?;
    if let Some(used) = &new.destination
        && !destinations::exists(tx.sql, &new.project_id, &used.id)?
    {
        return StoreError::refuse(destinations::not_found().at("destination"));
    }
    insert(tx, &room, new)?;
    let (id, at) = (&new.state.egress_id, new.state.started_at);
    tx.emit(&Event::egress_started(event_context(&room, at), new.detail.kind(), id))?;
    existing(tx.sql, &room.project_id, id)
}

/// Moves an egress forward, and emits the event of the move. An egress that may not move to that status does not change.
fn advance(tx: &mut Tx<'_>, project: &ProjectId, state: &EgressState, at: Timestamp) -> Result<Egress, StoreError> {
    let Some((_, update)) = UPDATES.iter().find(|(status, _)| *status == state.status) else {
        return existing(tx.sql, project, &state.egress_id);
    };
    // Only a failed egress has an error, and it always has one.
    let failed = state.status == EgressStatus::Failed;
    let error = failed.then(|| state.error.as_deref().unwrap_or(NO_REASON));
    let ended_at = state.status.is_final().then(|| state.ended_at.unwrap_or(at));
    let moved = tx.sql.change(update, args![project, &state.egress_id, state.status, error, ended_at])? > 0;
    let egress = existing(tx.sql, project, &state.egress_id)?;
    if moved {
        let context =
            EventContext { project_id: egress.project_id.clone(), room: egress.room.clone(), occurred_at: at };
        tx.emit(&Event::egress_updated(context, egress.kind(), &egress.egress_id, egress.status))?;
    }
    Ok(egress)
}

/// The query of a list.
pub(crate) fn list_query<'a>(project: &'a ProjectId, kind: EgressKind, filter: &'a EgressFilter) -> QueryBuilder<'a> {
    QueryBuilder::new(SELECT, ("e.project_id", project), "e.started_at DESC, e.id DESC")
        .and("e.kind =", Some(kind))
        .and("e.room =", filter.room.as_ref())
        .and("e.status =", filter.status)
        .and("e.started_at >=", filter.after)
        .and("e.started_at <=", filter.before)
}

impl Store {
    /// Records an egress that the media plane has accepted, with its event.
    ///
    /// # Errors
    /// Refused when the room has ended, the destination was deleted, or the egress is recorded already.
    pub async fn start_egress(
        &self,
        new: NewEgress,
        record: Option<ResponseRecorder<Egress>>,
    ) -> Result<Egress, StoreError> {
        self.write(move |tx| {
            let egress = start(tx, &new)?;
            tx.store_response(record.as_ref(), &egress)?;
            Ok(egress)
        })
        .await
    }

    /// Records the state of an egress that the media plane reported for the time `at`. A known state, and one that would move the
    /// egress backwards, changes nothing.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn record_egress(
        &self,
        project: ProjectId,
        state: EgressState,
        at: Timestamp,
        record: Option<ResponseRecorder<Egress>>,
    ) -> Result<Egress, StoreError> {
        self.write(move |tx| {
            let egress = advance(tx, &project, &state, at)?;
            tx.store_response(record.as_ref(), &egress)?;
            Ok(egress)
        })
        .await
    }

    /// Reads an egress of one kind.
    ///
    /// # Errors
    /// Refused when the project has no egress of that kind by that id.
    pub async fn egress(&self, project: ProjectId, kind: EgressKind, id: EgressId) -> Result<Egress, StoreError> {
        self.read(move |sql| {
            let found = find(sql, &project, &id)?.filter(|egress| egress.kind() == kind);
            Ok(found.ok_or_else(|| kind.not_found())?)
        })
        .await
    }

    /// Lists a project's egresses of one kind, newest first.
    ///
    /// # Errors
    /// Fails when the database cannot be read, or takes too long.
    pub async fn egresses(
        &self,
        project: ProjectId,
        kind: EgressKind,
        filter: EgressFilter,
        page: PageRequest,
    ) -> Result<Page<Egress>, StoreError> {
        self.list(project, move |sql, project| list_query(project, kind, &filter).page(sql, page, egress)).await
    }

    /// Reads a project's egresses that are not final.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn running_egresses(&self, project: ProjectId) -> Result<Vec<RunningEgress>, StoreError> {
        self.bulk_read(move |sql| sql.many(SELECT_RUNNING, args![&project], running)).await
    }

    /// Reads an egress that is not final; `None` when the project has none by that id.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn running_egress(&self, project: ProjectId, id: EgressId) -> Result<Option<RunningEgress>, StoreError> {
        self.read(move |sql| sql.one(SELECT_ONE_RUNNING, args![&project, &id], running)).await
    }

    /// Reads an egress that is final; `None` when the project has none by that id.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn ended_egress(&self, project: ProjectId, id: EgressId) -> Result<Option<Egress>, StoreError> {
        self.read(move |sql| Ok(find(sql, &project, &id)?.filter(|egress| egress.status.is_final()))).await
    }

    /// Reads an egress of either kind that is known to exist.
    ///
    /// # Errors
    /// Fails when there is no such record, or the database cannot be read.
    pub async fn egress_by_id(&self, project: ProjectId, id: EgressId) -> Result<Egress, StoreError> {
        self.read(move |sql| existing(sql, &project, &id)).await
    }
}
