//! Files of recordings on this machine that are removed after a time. A file is removed first and that is recorded afterwards, so a
//! crash in between leaves a record whose file is missing, as any other that somebody has moved.

use conclave_model::filepath::FilePath;
use conclave_model::{EgressId, EgressRowId, ProjectId, Timestamp};
use uuid::Uuid;

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::sql::Row;
use crate::sql::values::args;

/// A recording that has ended, and whose file was not removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalRecording {
    /// Its place among the others.
    pub position: RecordingPosition,
    /// The project whose directory has the file.
    pub project_id: ProjectId,
    /// The id of the recording.
    pub egress_id: EgressId,
    /// The file, in the directory of the project.
    pub filepath: FilePath,
}

/// A place in the order in which recordings have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingPosition {
    ended_at: Timestamp,
    id: EgressRowId,
}

impl RecordingPosition {
    /// The place before all recordings.
    pub const START: Self = Self {
        ended_at: Timestamp::from_millis(0),
        id: EgressRowId(Uuid::nil()),
    };
}

pub(crate) const SELECT_DUE: &str = "SELECT id, project_id, egress_id, filepath, ended_at FROM egresses
     WHERE kind = 'recording' AND destination_id IS NULL AND ended_at IS NOT NULL AND file_removed_at IS NULL
       AND ended_at <= ?1 AND (ended_at, id) > (?2, ?3)
     ORDER BY ended_at, id LIMIT ?4";
const REMOVED_AT: &str =
    "SELECT file_removed_at FROM egresses WHERE project_id = ?1 AND egress_id = ?2";
const PROJECT: &str = "SELECT project_id FROM egresses WHERE egress_id = ?1 AND kind = 'recording'";
const SET_REMOVED: &str = "UPDATE egresses SET file_removed_at = ?3
     WHERE project_id = ?1 AND egress_id = ?2 AND file_removed_at IS NULL";

fn local(row: &Row<'_>) -> Result<LocalRecording, StoreError> {
    let (id, project_id, egress_id) = (
        row.get("id")?,
        row.get("project_id")?,
        row.get("egress_id")?,
    );
    let (filepath, ended_at) = (row.get("filepath")?, row.get("ended_at")?);
    Ok(LocalRecording {
        position: RecordingPosition { ended_at, id },
        project_id,
        egress_id,
        filepath,
    })
}

/// The records of files of recordings on this machine.
#[derive(Debug, Clone)]
pub struct LocalFiles(pub(crate) Database);

impl LocalFiles {
    /// Reads up to `limit` recordings without a destination, of all projects, that have ended at `latest` or earlier and whose files were
    /// not removed, in the order in which they have ended.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn recordings(
        &self,
        after: RecordingPosition,
        latest: Timestamp,
        limit: u32,
    ) -> Result<Vec<LocalRecording>, StoreError> {
        self.0
            .bulk_read(move |sql| {
                sql.many(
                    SELECT_DUE,
                    args![latest, after.ended_at, after.id, limit],
                    local,
                )
            })
            .await
    }

    /// Reads which project a recording is of; `None` if there is no such recording.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn project_of(&self, id: EgressId) -> Result<Option<ProjectId>, StoreError> {
        self.0
            .read(move |sql| sql.one(PROJECT, args![&id], |row| row.read(0)))
            .await
    }

    /// Records that the file of a recording was removed.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn record_removed(&self, project: ProjectId, id: EgressId) -> Result<(), StoreError> {
        self.0
            .write(Queue::of(&project), move |tx| {
                tx.sql.put(SET_REMOVED, args![&project, &id, tx.now])
            })
            .await
    }

    /// Reads when the file of a recording was removed; `None` if it was not, or there is no such recording.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn removed_at(
        &self,
        project: ProjectId,
        id: EgressId,
    ) -> Result<Option<Timestamp>, StoreError> {
        self.0
            .read(move |sql| {
                Ok(sql
                    .one(REMOVED_AT, args![&project, &id], |row| row.read(0))?
                    .flatten())
            })
            .await
    }
}
