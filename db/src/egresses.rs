//! Recordings and broadcasts. A status moves forward only: the `WHERE` of its update names what it may come from, and the
//! event that tells of the move stands in the same transaction.

use std::sync::LazyLock;

use conclave_model::egress::{Egress, EgressDetail, EgressKind, EgressState, EgressStatus, UsedDestination};
use conclave_model::event::{Event, EventContext};
use conclave_model::filepath::FilePath;
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::page::{Page, PageRequest};
use conclave_model::room::{Room, RoomStatus};
use conclave_model::{EgressId, EgressRowId, Problem, ProjectId, RoomId, RoomName, Timestamp};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::columns::Columns;
use crate::error::OrStoreError;
use crate::live::event_context;
use crate::query_builder::QueryBuilder;
use crate::rooms::by_id;
use crate::writer::Tx;
use crate::{Store, StoreError, destinations};

/// A job that the media plane has accepted.
#[derive(Debug, Clone)]
pub struct NewEgress {
    /// Of which room.
    pub room: RoomId,
    /// What it is.
    pub detail: EgressDetail,
    /// The destination it was started with, if one was named.
    pub destination: Option<UsedDestination>,
    /// What the media plane said when it accepted it.
    pub state: EgressState,
}

/// Which jobs are wanted.
#[derive(Debug, Clone, Default)]
pub struct EgressFilter {
    /// Of this room.
    pub room: Option<RoomName>,
    /// In this status.
    pub status: Option<EgressStatus>,
    /// Started then or later.
    pub after: Option<Timestamp>,
    /// Started then or earlier.
    pub before: Option<Timestamp>,
}

/// A job that is not final, and whether its room is still open.
#[derive(Debug, Clone)]
pub struct RunningEgress {
    /// The record.
    pub egress: Egress,
    /// Whether its room is open.
    pub room_open: bool,
}

const COLUMNS: &str = "id, project_id, room, egress_id, kind, recording_type, filepath, urls, destination, \
                       destination_id, status, error, started_at, ended_at, created_at";

fn unreadable(column: usize, name: &str) -> rusqlite::Error {
    rusqlite::Error::InvalidColumnType(column, name.into(), Type::Null)
}

fn detail(row: &Row<'_>) -> rusqlite::Result<EgressDetail> {
    match row.word(4, |word| word.parse().ok())? {
        EgressKind::Recording => {
            let recording_type = row.word(5, |word| word.parse().ok())?;
            Ok(EgressDetail::Recording { recording_type, filepath: row.parsed(6)? })
        }
        EgressKind::Broadcast => {
            let urls = serde_json::from_str(row.get_ref(7)?.as_str()?).map_err(|_| unreadable(7, "urls"))?;
            Ok(EgressDetail::Broadcast { urls })
        }
    }
}

fn job(row: &Row<'_>) -> rusqlite::Result<Egress> {
    let (name, id) = (row.parsed_opt(8)?, row.parsed_opt(9)?);
    Ok(Egress {
        id: EgressRowId(row.get(0)?),
        project_id: row.parsed(1)?,
        room: row.parsed(2)?,
        egress_id: row.parsed(3)?,
        detail: detail(row)?,
        destination: name.zip(id).map(|(name, id)| UsedDestination { id, name }),
        status: row.word(10, |word| word.parse().ok())?,
        error: row.get(11)?,
        started_at: row.time(12)?,
        ended_at: row.time_opt(13)?,
        created_at: row.time(14)?,
    })
}

/// Jobs of a project that are not final, and whether their rooms are open.
static SELECT_RUNNING: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {COLUMNS}, (SELECT status = 'open' FROM rooms r WHERE r.id = room_id) FROM egresses
         WHERE project_id = ?1 AND ended_at IS NULL"
    )
});

fn running(row: &Row<'_>) -> rusqlite::Result<RunningEgress> {
    Ok(RunningEgress { egress: job(row)?, room_open: row.get(15)? })
}

fn find(sql: &Connection, project: &ProjectId, egress: &EgressId) -> Result<Option<Egress>, StoreError> {
    sql.prepare_cached(&format!("SELECT {COLUMNS} FROM egresses WHERE project_id = ?1 AND egress_id = ?2"))
        .and_then(|mut s| s.query_row([project.as_str(), egress.as_str()], job).optional())
        .or_store_error()
}

fn existing(sql: &Connection, project: &ProjectId, egress: &EgressId) -> Result<Egress, StoreError> {
    find(sql, project, egress)?.ok_or_else(|| StoreError::Fault("a job that ran has no record".into()))
}

fn insert(tx: &Tx<'_>, room: &Room, new: &NewEgress) -> Result<(), StoreError> {
    let (recording_type, filepath, urls) = match &new.detail {
        EgressDetail::Recording { recording_type, filepath } => {
            (Some(recording_type.as_str()), Some(FilePath::as_str(filepath)), None)
        }
        EgressDetail::Broadcast { urls } => {
            let urls = serde_json::to_string(urls).map_err(|error| StoreError::Fault(error.to_string()))?;
            (None, None, Some(urls))
        }
    };
    let destination = new.destination.as_ref();
    let inserted = tx
        .sql
        .prepare_cached(
            "INSERT INTO egresses (id, project_id, room_id, room, egress_id, kind, recording_type, filepath, urls,
                                   destination, destination_id, status, started_at, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 'starting', ?12, ?13)
             ON CONFLICT (egress_id) DO NOTHING",
        )
        .and_then(|mut s| {
            s.execute(params![
                EgressRowId::new().0,
                room.project_id.as_str(),
                room.id.0,
                room.name.as_str(),
                new.state.egress_id.as_str(),
                new.detail.kind().as_str(),
                recording_type,
                filepath,
                urls,
                destination.map(|used| used.name.as_str()),
                destination.map(|used| used.id.as_str()),
                new.state.started_at.millis(),
                tx.now.millis(),
            ])
        })
        .or_store_error()?;
    if inserted == 0 { StoreError::refuse(new.detail.kind().already_exists()) } else { Ok(()) }
}

/// The job by that id, of the kind that is asked for.
fn of_kind(
    sql: &Connection,
    project: &ProjectId,
    kind: EgressKind,
    egress: &EgressId,
) -> Result<Option<Egress>, StoreError> {
    Ok(find(sql, project, egress)?.filter(|job| job.kind() == kind))
}

fn start(tx: &mut Tx<'_>, new: &NewEgress) -> Result<Egress, StoreError> {
    let room = by_id(tx.sql, new.room)?;
    if room.status == RoomStatus::Ended {
        return StoreError::refuse(Problem::room_ended());
    }
    if let Some(used) = &new.destination
        && !destinations::exists(tx.sql, &used.id)?
    {
        return StoreError::refuse(destinations::not_found().at("destination"));
    }
    insert(tx, &room, new)?;
    let (egress, at) = (&new.state.egress_id, new.state.started_at);
    tx.emit(&Event::egress_started(event_context(&room, at), new.detail.kind(), egress))?;
    existing(tx.sql, &room.project_id, egress)
}

/// Moves a job forward if it may, with the event of the move. One that may not stays as it is.
fn advance(tx: &mut Tx<'_>, project: &ProjectId, state: &EgressState, at: Timestamp) -> Result<Egress, StoreError> {
    let before: Vec<_> = state.status.predecessors().iter().map(|status| format!("'{}'", status.as_str())).collect();
    // A record says why, and of nothing but a failure.
    let why = || state.error.clone().unwrap_or_else(|| "the media plane gave no reason".into());
    let error = (state.status == EgressStatus::Failed).then(why);
    let ended_at = state.status.is_final().then(|| state.ended_at.unwrap_or(at));
    let moved = tx
        .sql
        .prepare_cached(&format!(
            "UPDATE egresses SET status = ?3, error = ?4, ended_at = max(?5, started_at)
             WHERE project_id = ?1 AND egress_id = ?2 AND status IN ({})",
            before.join(", ")
        ))
        .and_then(|mut s| {
            s.execute(params![
                project.as_str(),
                state.egress_id.as_str(),
                state.status.as_str(),
                error,
                ended_at.map(Timestamp::millis),
            ])
        })
        .or_store_error()?;
    let job = existing(tx.sql, project, &state.egress_id)?;
    if moved > 0 {
        let context = EventContext { project_id: job.project_id.clone(), room: job.room.clone(), occurred_at: at };
        tx.emit(&Event::egress_updated(context, job.kind(), &job.egress_id, job.status))?;
    }
    Ok(job)
}

impl Store {
    /// Writes a job that the media plane has accepted, with its event and the answer to keep.
    ///
    /// # Errors
    /// Refused when the room has ended, or the egress is known already.
    pub async fn start_egress(
        &self,
        new: NewEgress,
        keep: Option<ResponseRecorder<Egress>>,
    ) -> Result<Egress, StoreError> {
        self.write(move |tx| {
            let job = start(tx, &new)?;
            tx.store_response(keep.as_ref(), &job)?;
            Ok(job)
        })
        .await
    }

    /// Writes how a job stands, as the media plane says it did at `at`, and keeps the answer to whoever asked for it.
    /// What would move it backwards, and what is known already, changes nothing.
    ///
    /// # Errors
    /// The store's own.
    pub async fn record_egress(
        &self,
        project: ProjectId,
        state: EgressState,
        at: Timestamp,
        keep: Option<ResponseRecorder<Egress>>,
    ) -> Result<Egress, StoreError> {
        self.write(move |tx| {
            let job = advance(tx, &project, &state, at)?;
            tx.store_response(keep.as_ref(), &job)?;
            Ok(job)
        })
        .await
    }

    /// A job of one kind, by its egress id.
    ///
    /// # Errors
    /// Refused when the project has none of that kind by that id.
    pub async fn egress(&self, project: ProjectId, kind: EgressKind, egress: EgressId) -> Result<Egress, StoreError> {
        self.read(move |sql| {
            of_kind(sql, &project, kind, &egress)?.ok_or_else(|| StoreError::Refused(kind.not_found()))
        })
        .await
    }

    /// A project's jobs of one kind that match, newest first.
    ///
    /// # Errors
    /// The store's own.
    pub async fn egresses(
        &self,
        project: ProjectId,
        kind: EgressKind,
        filter: EgressFilter,
        page: PageRequest,
    ) -> Result<Page<Egress>, StoreError> {
        self.read(move |sql| {
            let mut wanted = QueryBuilder::of_project("project_id", &project);
            wanted.and("kind = ?", Some(kind.as_str()));
            wanted.and("room = ?", filter.room.map(String::from));
            wanted.and("status = ?", filter.status.map(EgressStatus::as_str));
            wanted.and("started_at >= ?", filter.after.map(Timestamp::millis));
            wanted.and("started_at <= ?", filter.before.map(Timestamp::millis));
            let select = format!("SELECT {COLUMNS} FROM egresses");
            wanted.page(sql, &select, "started_at DESC, id DESC", page, job)
        })
        .await
    }

    /// A project's jobs that are not final.
    ///
    /// # Errors
    /// The store's own.
    pub async fn running_egresses(&self, project: ProjectId) -> Result<Vec<RunningEgress>, StoreError> {
        self.read(move |sql| {
            let mut statement = sql.prepare_cached(&SELECT_RUNNING).or_store_error()?;
            statement.query_map([project.as_str()], running).and_then(Iterator::collect).or_store_error()
        })
        .await
    }

    /// One job that is not final; `None` when the project has none by that id.
    ///
    /// # Errors
    /// The store's own.
    pub async fn running_egress(
        &self,
        project: ProjectId,
        egress: EgressId,
    ) -> Result<Option<RunningEgress>, StoreError> {
        self.read(move |sql| {
            sql.prepare_cached(&format!("{} AND egress_id = ?2", *SELECT_RUNNING))
                .and_then(|mut s| s.query_row([project.as_str(), egress.as_str()], running).optional())
                .or_store_error()
        })
        .await
    }

    /// A job whatever its kind, for somebody who knows that there is one.
    ///
    /// # Errors
    /// The store's own.
    pub async fn egress_by_id(&self, project: ProjectId, egress: EgressId) -> Result<Egress, StoreError> {
        self.read(move |sql| existing(sql, &project, &egress)).await
    }
}
