//! Rows of egresses, and the moves of their status. A change of status and its event are one transaction.

use std::sync::LazyLock;

use conclave_model::egress::{
    Egress, EgressDetail, EgressKind, EgressState, EgressStatus, UsedDestination,
};
use conclave_model::event::{Event, EventContext};
use conclave_model::{EgressId, ProjectId, Timestamp};

use crate::error::StoreError;
use crate::sql::values::args;
use crate::sql::{Row, Sql};
use crate::tx::Tx;

/// The error of an egress that failed without a reason from the media plane.
const NO_REASON: &str = "the media plane gave no reason";

macro_rules! select {
    ($rest:expr) => {
        concat!(
            "SELECT e.id, e.project_id, e.room, e.egress_id, e.kind, e.recording_type, e.filepath, e.urls, e.destination,
                    e.destination_id, e.status, e.error, e.started_at, e.ended_at, e.created_at",
            $rest
        )
    };
}

/// What follows are the columns of a [`RunningEgress`](crate::RunningEgress).
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
pub(crate) const SELECT_RUNNING: &str = select_running!("e.ended_at IS NULL");
pub(crate) const SELECT_ENDED_WITH_UPLOAD: &str = select_running!(
    "e.ended_at IS NOT NULL AND e.egress_id IN (SELECT egress_id FROM uploads WHERE project_id = ?1)"
);
pub(crate) const SELECT_ONE_RUNNING: &str =
    select_running!("e.egress_id = ?2 AND (e.ended_at IS NULL OR u.egress_id IS NOT NULL)");

/// For each status that has legal predecessors, the update that moves an egress to it from one of them.
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
    })
}

/// Reads an egress; `None` if the project has none by that id.
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

/// Moves an egress forward, and emits the event of the move. An egress that may not move to that status does not change.
pub(crate) fn advance(
    tx: &mut Tx<'_>,
    project: &ProjectId,
    state: &EgressState,
    at: Timestamp,
) -> Result<Egress, StoreError> {
    let Some((_, update)) = UPDATES.iter().find(|(status, _)| *status == state.status) else {
        return existing(tx.sql, project, &state.egress_id);
    };
    // Only a failed egress has an error, and it always has one.
    let failed = state.status == EgressStatus::Failed;
    let error = failed.then(|| state.error.as_deref().unwrap_or(NO_REASON));
    let ended_at = state
        .status
        .is_final()
        .then(|| state.ended_at.unwrap_or(at));
    let moved = tx.sql.change(
        update,
        args![project, &state.egress_id, state.status, error, ended_at],
    )? > 0;
    let egress = existing(tx.sql, project, &state.egress_id)?;
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
