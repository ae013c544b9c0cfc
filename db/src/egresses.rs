//! The records of egresses: recordings and broadcasts. A status only moves forward: its `UPDATE` names the statuses that it may
//! leave (`egress_rows`).

use conclave_model::egress::{Egress, EgressDetail, EgressKind, EgressState, EgressStatus, UsedDestination};
use conclave_model::event::Event;
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::page::{Page, PageRequest};
use conclave_model::room::Room;
use conclave_model::{EgressId, EgressRowId, ProjectId, RoomId, RoomName, Timestamp};

use crate::destinations;
use crate::egress_rows::{
    SELECT, SELECT_ENDED_WITH_UPLOAD, SELECT_ONE_RUNNING, SELECT_RUNNING, advance, egress, existing, find,
};
use crate::error::StoreError;
use crate::open_sessions::event_context;
use crate::query_builder::QueryBuilder;
use crate::room_rows::open_by_id;
use crate::sql::Row;
use crate::store::Store;
use crate::tx::Tx;
use crate::uploads::{self, PendingUpload};
use crate::values::args;
use crate::writer::Queue;

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
    /// Whether its file has to be uploaded when it has ended.
    pub is_uploaded: bool,
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

/// An egress that is not final, or whose file has to be uploaded.
#[derive(Debug, Clone)]
pub struct RunningEgress {
    /// The egress's record.
    pub egress: Egress,
    /// Whether its room is open.
    pub room_open: bool,
    /// The upload of its file; `None` if there is nothing to upload.
    pub upload: Option<PendingUpload>,
}

const INSERT: &str =
    "INSERT INTO egresses (id, project_id, room_id, room, egress_id, kind, recording_type, filepath, urls,
                           destination, destination_id, status, started_at, created_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 'starting', ?12, ?13)
     ON CONFLICT (egress_id) DO NOTHING";

fn running(row: &Row<'_>) -> Result<RunningEgress, StoreError> {
    let is_uploaded: bool = row.get(16)?;
    let upload = is_uploaded.then(|| uploads::pending(row, 17)).transpose()?;
    Ok(RunningEgress { egress: egress(row)?, room_open: row.get(15)?, upload })
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
    if new.is_uploaded {
        uploads::insert(tx, &new.project_id, &new.state.egress_id)?;
    }
    let (id, at) = (&new.state.egress_id, new.state.started_at);
    tx.emit(&Event::egress_started(event_context(&room, at), new.detail.kind(), id))?;
    existing(tx.sql, &room.project_id, id)
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
        self.write_recorded(Queue::of(&new.project_id), record, move |tx| start(tx, &new)).await
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
        self.write_recorded(Queue::of(&project), record, move |tx| advance(tx, &project, &state, at)).await
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

    /// Reads a project's egresses that are not final, or whose file has to be uploaded.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn running_egresses(&self, project: ProjectId) -> Result<Vec<RunningEgress>, StoreError> {
        self.bulk_read(move |sql| {
            let mut found = sql.many(SELECT_RUNNING, args![&project], running)?;
            found.extend(sql.many(SELECT_ENDED_WITH_UPLOAD, args![&project], running)?);
            Ok(found)
        })
        .await
    }

    /// Reads an egress that is not final, or whose file has to be uploaded; `None` when the project has none by that id.
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
