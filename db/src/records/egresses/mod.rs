//! Egress records: recordings and broadcasts. A status only moves forward: its `UPDATE` names the previous statuses. A status change and
//! its event are one transaction.

pub(crate) mod local_files;
pub(crate) mod uploads;

use std::sync::{Arc, LazyLock};

use conclave_model::destination::Destination;
use conclave_model::egress::{
    Egress, EgressDetail, EgressKind, EgressPlan, EgressSource, EgressState, EgressStatus,
    StartedEgress, UsedDestination,
};
use conclave_model::event::{Event, EventContext};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::page::{Page, PageRequest};
use conclave_model::{
    EgressId, ErrorCode, Identity, NodeId, Problem, ProjectId, RoomId, RoomName, Timestamp,
    TrackSid,
};

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::records::destinations;
use crate::records::rooms::rows::open_by_id;
use crate::records::sessions::rows::event_context;
use crate::sql::query_builder::QueryBuilder;
use crate::sql::values::args;
use crate::sql::{Row, Sql};
use crate::tx::Tx;
use uploads::PendingUpload;

/// Egress list filters; `None` matches all.
#[derive(Debug, Clone, Default)]
pub struct EgressFilter {
    /// Only egresses of the room with this name.
    pub room: Option<RoomName>,
    /// Only egresses with this status.
    pub status: Option<EgressStatus>,
    /// Only egresses started at this time or later.
    pub after: Option<Timestamp>,
    /// Only egresses started at this time or earlier.
    pub before: Option<Timestamp>,
}

/// Egress that is not final, or whose file has to be uploaded.
#[derive(Debug, Clone)]
pub struct RunningEgress {
    /// Egress record.
    pub egress: Egress,
    /// Whether its room is open.
    pub room_open: bool,
    /// Upload of its file; `None` if there is nothing to upload.
    pub upload: Option<PendingUpload>,
}

const INSERT: &str =
    "INSERT INTO egresses (id, project_id, room_id, room, egress_id, kind, recording_type, filepath, urls,
                           destination, destination_id, status, started_at, created_at, source_identity, source_track)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
     ON CONFLICT (egress_id) DO NOTHING";
const PUBLISHER: &str =
    "SELECT s.participant_identity FROM sessions s JOIN tracks t ON t.session_id = s.id
     WHERE s.room_id = ?1 AND s.project_id = ?2 AND s.left_at IS NULL AND t.track_sid = ?3";

fn running(row: &Row<'_>) -> Result<RunningEgress, StoreError> {
    let is_uploaded: bool = row.get("is_uploaded")?;
    let upload = is_uploaded.then(|| uploads::pending(row)).transpose()?;
    Ok(RunningEgress {
        egress: egress(row)?,
        room_open: row.get("room_open")?,
        upload,
    })
}

/// Returns the participant and the track that an egress contains, unless it contains the whole room. The publisher of a track is unknown
/// until its report is recorded.
fn source(
    tx: &Tx<'_>,
    project: &ProjectId,
    room: RoomId,
    source: &EgressSource,
) -> Result<(Option<Identity>, Option<TrackSid>), StoreError> {
    Ok(match source {
        EgressSource::RoomComposite { .. } => (None, None),
        EgressSource::Participant(identity) => (Some(identity.clone()), None),
        EgressSource::Track(track) => {
            let publisher = tx
                .sql
                .one(PUBLISHER, args![room, project, track], |row| row.read(0))?;
            (publisher, Some(track.clone()))
        }
    })
}

fn insert(
    tx: &Tx<'_>,
    room: RoomId,
    egress: &Egress,
    contains: &EgressSource,
) -> Result<(), StoreError> {
    let (identity, track) = source(tx, &egress.project_id, room, contains)?;
    let (recording_type, filepath, urls) = match &egress.detail {
        EgressDetail::Recording {
            recording_type,
            filepath,
        } => (Some(*recording_type), Some(filepath), None),
        EgressDetail::Broadcast { urls } => (None, None, Some(serde_json::to_string(urls)?)),
    };
    let destination = egress.destination.as_ref();
    let row = args![
        egress.id,
        &egress.project_id,
        room,
        &egress.room,
        &egress.egress_id,
        egress.kind(),
        recording_type,
        filepath,
        urls.as_deref(),
        destination.map(|used| &used.name),
        destination.map(|used| &used.id),
        egress.status,
        egress.started_at,
        egress.created_at,
        identity.as_ref(),
        track.as_ref(),
    ];
    // The media plane's id is unique, so a repeated start records nothing.
    if tx.sql.change(INSERT, row)? == 0 {
        StoreError::refuse(egress.kind().already_exists())
    } else {
        Ok(())
    }
}

const CLAIM: &str = "UPDATE rooms SET auto_record = NULL WHERE id = ?1 AND project_id = ?2 AND auto_record IS NOT NULL";
/// An ending recording does not count: it contains nothing new, and its upload may take long.
const IS_RECORDED: &str = "SELECT EXISTS (SELECT 1 FROM egresses
     WHERE project_id = ?1 AND ended_at IS NULL AND room = ?2 AND recording_type = 'participant' AND source_identity = ?3
         AND status <> 'ending')";

/// Refuses a second automatic recording: a room has one composite at most, and a participant one running recording. In the transaction
/// of the record, so that neither a restart nor two requests at once start it twice.
fn claim(tx: &Tx<'_>, room: RoomId, egress: &Egress) -> Result<(), StoreError> {
    let is_first = match &egress.identity {
        None => tx.sql.change(CLAIM, args![room, &egress.project_id])? > 0,
        Some(identity) => {
            let row = args![&egress.project_id, &egress.room, identity];
            !tx.sql.value::<bool>(IS_RECORDED, row)?
        }
    };
    if is_first {
        return Ok(());
    }
    // Not the refusal of a repeated egress, which would go on: this one has to be stopped.
    let message = "the automatic recording was started before";
    StoreError::refuse(Problem::new(ErrorCode::RecordingExists, message))
}

/// Records an automatic recording that could not be started: as a failed one, since no caller gets the error.
fn fail_start(
    tx: &mut Tx<'_>,
    plan: &EgressPlan,
    id: EgressId,
    error: &str,
) -> Result<Egress, StoreError> {
    let at = tx.now;
    let state = EgressState {
        egress_id: id,
        status: EgressStatus::Failed,
        error: Some(error.to_owned()),
        started_at: at,
        ended_at: Some(at),
    };
    let egress = Egress::new(plan, &state.clone().into(), at);
    let room = open_by_id(tx.sql, &egress.project_id, plan.room_id)?;
    claim(tx, room.id, &egress)?;
    insert(tx, room.id, &egress, &plan.source)?;
    // The same change, and the same event, as of a recording that fails later.
    advance(tx, &egress.project_id, &state, at)
}

const SET_PAUSED: &str = "UPDATE egresses SET paused = ?3
     WHERE project_id = ?1 AND egress_id = ?2 AND status IN ('starting', 'active')";

fn set_paused(
    tx: &Tx<'_>,
    project: &ProjectId,
    id: &EgressId,
    paused: bool,
) -> Result<Egress, StoreError> {
    // An ending recording writes nothing that a pause could leave out.
    if tx.sql.change(SET_PAUSED, args![project, id, paused])? == 0 {
        return StoreError::refuse(EgressKind::recording_ended());
    }
    existing(tx.sql, project, id)
}

fn start(
    tx: &mut Tx<'_>,
    plan: &EgressPlan,
    started: &StartedEgress,
    node: &NodeId,
) -> Result<RunningEgress, StoreError> {
    let egress = Egress::new(plan, started, tx.now);
    let room = open_by_id(tx.sql, &egress.project_id, plan.room_id)?;
    // The destination was looked up before the media plane was called, and may have been deleted since.
    if let Some(used) = &egress.destination
        && !destinations::exists(tx.sql, &egress.project_id, &used.id)?
    {
        return StoreError::refuse(Destination::not_found().at("destination"));
    }
    if plan.is_automatic {
        claim(tx, room.id, &egress)?;
    }
    // The row before its upload, which refers to it.
    insert(tx, room.id, &egress, &plan.source)?;
    // Some media planes upload by themselves.
    if started.is_uploaded_by_server {
        uploads::insert(tx, &egress.project_id, &egress.egress_id, node)?;
    }
    let context = event_context(&room, egress.started_at);
    tx.emit(&Event::egress_started(
        context,
        egress.kind(),
        egress.egress_id.clone(),
    ))?;
    let upload = started.is_uploaded_by_server.then(|| PendingUpload {
        node: Some(node.clone()),
        ..PendingUpload::default()
    });
    Ok(RunningEgress {
        egress,
        room_open: true,
        upload,
    })
}

/// Reads a project's egresses that are not final, or whose file has to be uploaded.
pub(crate) fn running_egresses(
    sql: Sql<'_>,
    project: &ProjectId,
) -> Result<Vec<RunningEgress>, StoreError> {
    // Two queries with an index each, instead of an OR over both tables.
    let mut found = sql.many(SELECT_RUNNING, args![project], running)?;
    found.extend(sql.many(SELECT_ENDED_WITH_UPLOAD, args![project], running)?);
    Ok(found)
}

/// Returns the query that lists a project's recordings or broadcasts, latest start first.
pub(crate) fn list_query<'a>(
    project: &'a ProjectId,
    kind: EgressKind,
    filter: &'a EgressFilter,
) -> QueryBuilder<'a> {
    QueryBuilder::new(
        SELECT,
        "e.project_id",
        project,
        "e.started_at DESC, e.id DESC",
    )
    .and("e.kind =", Some(kind))
    .and("e.room =", filter.room.as_ref())
    .and("e.status =", filter.status)
    .and("e.started_at >=", filter.after)
    .and("e.started_at <=", filter.before)
}

/// Egress records.
#[derive(Debug, Clone)]
pub struct Egresses(pub(crate) Database);

impl Egresses {
    /// Records an egress that the media plane has accepted, with its event. A file to upload is on the disk of `node`.
    ///
    /// # Errors
    /// Refused when the room has ended, the destination was deleted, or the egress is recorded already.
    pub async fn start(
        &self,
        plan: Arc<EgressPlan>,
        started: StartedEgress,
        node: NodeId,
        record: Option<ResponseRecorder<Egress>>,
    ) -> Result<RunningEgress, StoreError> {
        self.0
            .write(Queue::for_project(&plan.room.split().0), move |tx| {
                // The response is stored with the egress. After a crash, a repeated request finds both or neither.
                let running = start(tx, &plan, &started, &node)?;
                tx.store_response(record.as_ref(), &running.egress)?;
                Ok(running)
            })
            .await
    }

    /// Records an automatic recording that could not be started, as failed, with its event. `id` is new, since the media plane has not
    /// given it one.
    ///
    /// # Errors
    /// Refused when the room has ended, or has the recording already.
    pub async fn record_failed_start(
        &self,
        plan: Arc<EgressPlan>,
        id: EgressId,
        error: String,
    ) -> Result<Egress, StoreError> {
        self.0
            .write(Queue::for_project(&plan.room.split().0), move |tx| {
                fail_start(tx, &plan, id, &error)
            })
            .await
    }

    /// Records that a running recording is paused, or is no longer.
    ///
    /// # Errors
    /// Refused when the recording is ending or has ended.
    pub async fn set_paused(
        &self,
        project: ProjectId,
        id: EgressId,
        paused: bool,
        record: Option<ResponseRecorder<Egress>>,
    ) -> Result<Egress, StoreError> {
        self.0
            .write_recorded(Queue::for_project(&project), record, move |tx| {
                set_paused(tx, &project, &id, paused)
            })
            .await
    }

    /// Records an egress state that the media plane reported for the time `at`. A known state, and a state that would move the egress
    /// backwards, changes nothing.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn record(
        &self,
        project: ProjectId,
        state: EgressState,
        at: Timestamp,
        record: Option<ResponseRecorder<Egress>>,
    ) -> Result<Egress, StoreError> {
        self.0
            .write_recorded(Queue::for_project(&project), record, move |tx| {
                advance(tx, &project, &state, at)
            })
            .await
    }

    /// Reads an egress of one kind.
    /// Reads an egress of one kind.
    /// # Errors
    /// Refused when the project has no egress of that kind by that id.
    pub async fn get(
        &self,
        project: ProjectId,
        kind: EgressKind,
        id: EgressId,
    ) -> Result<Egress, StoreError> {
        self.0
            .read(move |sql| {
                // A recording is not found as a broadcast, nor a broadcast as a recording, since they are two resources of the API.
                // The id is unique among both kinds.
                let found = find(sql, &project, &id)?.filter(|egress| egress.kind() == kind);
                Ok(found.ok_or_else(|| kind.not_found())?)
            })
            .await
    }

    /// Lists a project's egresses of one kind, newest first.
    ///
    /// # Errors
    /// Fails when the database cannot be read, or takes too long.
    pub async fn list(
        &self,
        project: ProjectId,
        kind: EgressKind,
        filter: EgressFilter,
        page: PageRequest,
    ) -> Result<Page<Egress>, StoreError> {
        self.0
            .list(project, move |sql, project| {
                list_query(project, kind, &filter).page(sql, page, egress)
            })
            .await
    }

    /// Lists the egresses of all projects that are not final, a project's together and latest start first.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn list_running_of_all(&self, page: PageRequest) -> Result<Page<Egress>, StoreError> {
        let rows = self
            .0
            // For the operator, so the limits per project do not apply.
            .bulk_read(move |sql| {
                sql.many(
                    SELECT_RUNNING_OF_ALL,
                    args![page.limit + 1, page.offset.cast_signed()],
                    egress,
                )
            })
            .await?;
        Ok(Page::from_fetched(rows, page))
    }

    /// Reads an egress that is not final, or whose file has to be uploaded; `None` if the project has no such egress.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn running(
        &self,
        project: ProjectId,
        id: EgressId,
    ) -> Result<Option<RunningEgress>, StoreError> {
        self.0
            .read(move |sql| sql.one(SELECT_ONE_RUNNING, args![&project, &id], running))
            .await
    }

    /// Reads a room's egresses that are not final, of both kinds, oldest first.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn running_in(
        &self,
        project: ProjectId,
        room: RoomName,
    ) -> Result<Vec<Egress>, StoreError> {
        self.0
            .read(move |sql| sql.many(SELECT_RUNNING_IN_ROOM, args![&project, &room], egress))
            .await
    }

    /// Reads a final egress; `None` if the project has no such egress.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn ended(
        &self,
        project: ProjectId,
        id: EgressId,
    ) -> Result<Option<Egress>, StoreError> {
        self.0
            .read(
                move |sql| Ok(find(sql, &project, &id)?.filter(|egress| egress.status.is_final())),
            )
            .await
    }

    /// Reads an egress of either kind that is known to exist.
    ///
    /// # Errors
    /// Fails when there is no such record, or the database cannot be read.
    pub async fn by_id(&self, project: ProjectId, id: EgressId) -> Result<Egress, StoreError> {
        self.0.read(move |sql| existing(sql, &project, &id)).await
    }
}

/// Error for an egress that failed without a reason from the media plane.
const NO_REASON: &str = "the media plane gave no reason";

macro_rules! select {
    ($rest:expr) => {
        concat!(
            "SELECT e.id, e.project_id, e.room, e.egress_id, e.kind, e.recording_type, e.filepath, e.urls, e.destination,
                    e.destination_id, e.status, e.error, e.started_at, e.ended_at, e.created_at, e.paused,
                    CASE WHEN e.recording_type = 'participant' THEN e.source_identity END AS identity",
            $rest
        )
    };
}

/// Adds the columns of a [`RunningEgress`](crate::RunningEgress).
macro_rules! select_running {
    ($condition:literal) => {
        select!(concat!(
            ", r.status = 'open' AS room_open, u.egress_id IS NOT NULL AS is_uploaded, u.result AS upload_result,
             u.error AS upload_error, u.multipart_id, u.node, u.missing_since
             FROM egresses e JOIN rooms r ON r.id = e.room_id
             LEFT JOIN uploads u ON u.egress_id = e.egress_id AND u.project_id = e.project_id
             WHERE e.project_id = ?1 AND ",
            $condition
        ))
    };
}

pub(crate) const SELECT: &str = select!(" FROM egresses e");
const SELECT_ONE: &str = select!(" FROM egresses e WHERE e.project_id = ?1 AND e.egress_id = ?2");
/// Egresses of all projects that are not final.
pub(crate) const SELECT_RUNNING_OF_ALL: &str = select!(
    " FROM egresses e WHERE e.ended_at IS NULL
     ORDER BY e.project_id DESC, e.started_at DESC, e.id DESC LIMIT ?1 OFFSET ?2"
);
pub(crate) const SELECT_RUNNING: &str = select_running!("e.ended_at IS NULL");
const SELECT_RUNNING_IN_ROOM: &str = select!(
    " FROM egresses e
     WHERE e.project_id = ?1 AND e.ended_at IS NULL AND e.room = ?2
     ORDER BY e.started_at, e.id"
);
pub(crate) const SELECT_ENDED_WITH_UPLOAD: &str = select_running!(
    "e.ended_at IS NOT NULL AND e.egress_id IN (SELECT egress_id FROM uploads WHERE project_id = ?1)"
);
pub(crate) const SELECT_ONE_RUNNING: &str =
    select_running!("e.egress_id = ?2 AND (e.ended_at IS NULL OR u.egress_id IS NOT NULL)");

/// Statement per status that has legal predecessors, which moves an egress there from one of them.
static UPDATES: LazyLock<Vec<(EgressStatus, String)>> = LazyLock::new(|| {
    let reached = EgressStatus::ALL
        .iter()
        .filter(|status| !status.predecessors().is_empty());
    reached
        .map(|status| (*status, update_to(*status)))
        .collect()
});

fn update_to(status: EgressStatus) -> String {
    let from: Vec<_> = status
        .predecessors()
        .iter()
        .map(|status| format!("'{}'", status.as_str()))
        .collect();
    // Never before the start: the media plane's clock may be behind this server's.
    format!(
        "UPDATE egresses
         SET status = ?3, error = ?4, ended_at = CASE WHEN ?5 < started_at THEN started_at ELSE ?5 END
         WHERE project_id = ?1 AND egress_id = ?2 AND status IN ({})",
        from.join(", ")
    )
}

fn detail(row: &Row<'_>) -> Result<EgressDetail, StoreError> {
    match row.get("kind")? {
        EgressKind::Recording => Ok(EgressDetail::Recording {
            recording_type: row.get("recording_type")?,
            filepath: row.get("filepath")?,
        }),
        EgressKind::Broadcast => Ok(EgressDetail::Broadcast {
            urls: row.json("urls")?,
        }),
    }
}

/// Reads the columns of all selects.
pub(crate) fn egress(row: &Row<'_>) -> Result<Egress, StoreError> {
    // Both or neither. The name remains readable after the destination is deleted.
    let (name, id): (Option<_>, Option<_>) = (row.get("destination")?, row.get("destination_id")?);
    Ok(Egress {
        id: row.get("id")?,
        project_id: row.get("project_id")?,
        room: row.get("room")?,
        egress_id: row.get("egress_id")?,
        detail: detail(row)?,
        destination: name.zip(id).map(|(name, id)| UsedDestination { id, name }),
        status: row.get("status")?,
        error: row.get("error")?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
        created_at: row.get("created_at")?,
        identity: row.get("identity")?,
        paused: row.get("paused")?,
    })
}

/// Reads an egress; `None` if the project has none with this id.
pub(crate) fn find(
    sql: Sql<'_>,
    project: &ProjectId,
    id: &EgressId,
) -> Result<Option<Egress>, StoreError> {
    sql.one(SELECT_ONE, args![project, id], egress)
}

/// Reads an egress that is known to exist.
pub(crate) fn existing(
    sql: Sql<'_>,
    project: &ProjectId,
    id: &EgressId,
) -> Result<Egress, StoreError> {
    find(sql, project, id)?
        .ok_or_else(|| StoreError::Fault("an egress that was started has no record".into()))
}

/// Moves an egress forward, and emits the event. An egress that must not move to this status does not change.
pub(crate) fn advance(
    tx: &mut Tx<'_>,
    project: &ProjectId,
    state: &EgressState,
    at: Timestamp,
) -> Result<Egress, StoreError> {
    // A status without predecessors is the first one, which is recorded at the start.
    let Some((_, update)) = UPDATES.iter().find(|(status, _)| *status == state.status) else {
        return existing(tx.sql, project, &state.egress_id);
    };
    // Only a failed egress has an error, and it always has one.
    let failed = state.status == EgressStatus::Failed;
    let error = failed.then(|| state.error.as_deref().unwrap_or(NO_REASON));
    // The media plane's own time of the end is better than the time of its report.
    let ended_at = state
        .status
        .is_final()
        .then(|| state.ended_at.unwrap_or(at));
    let moved = tx.sql.change(
        update,
        args![project, &state.egress_id, state.status, error, ended_at],
    )? > 0;
    // Read after the update, for the room's name and the kind, which reports do not have.
    let egress = existing(tx.sql, project, &state.egress_id)?;
    // A repeated report moves nothing, so there is one event per status.
    if moved {
        let context = EventContext {
            project_id: egress.project_id.clone(),
            room: egress.room.clone(),
            occurred_at: at,
        };
        tx.emit(&Event::egress_updated(
            context,
            egress.kind(),
            egress.egress_id.clone(),
            egress.status,
        ))?;
    }
    Ok(egress)
}
