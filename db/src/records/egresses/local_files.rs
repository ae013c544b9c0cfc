//! Recording files on this machine, which are removed after a retention time, or with the identity that they record. A file is removed before that is recorded, so a crash in
//! between leaves a record whose file is missing, like a file that was moved by hand.

use conclave_model::filepath::FilePath;
use conclave_model::{EgressId, EgressRowId, Identity, ProjectId, Timestamp};
use uuid::Uuid;

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::sql::Row;
use crate::sql::values::args;

/// Ended recording whose file was not removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalRecording {
    /// Position among the others.
    pub position: RecordingPosition,
    /// Project whose directory has the file.
    pub project_id: ProjectId,
    /// Recording id.
    pub egress_id: EgressId,
    /// Path of the file in the project's directory.
    pub filepath: FilePath,
    /// Whether the file is for a destination, to which it has not been uploaded.
    pub awaits_upload: bool,
}

/// Position in the order in which recordings ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingPosition {
    ended_at: Timestamp,
    id: EgressRowId,
}

impl RecordingPosition {
    /// Position before all recordings.
    pub const START: Self = Self {
        ended_at: Timestamp::from_millis(0),
        id: EgressRowId(Uuid::nil()),
    };

    /// Returns when the recording ended.
    #[must_use]
    pub const fn ended_at(self) -> Timestamp {
        self.ended_at
    }
}

pub(crate) const SELECT_DUE: &str = "SELECT id, project_id, egress_id, filepath, ended_at, destination_id IS NOT NULL AS awaits_upload FROM egresses
     WHERE kind = 'recording' AND destination_id IS NULL AND ended_at IS NOT NULL AND file_removed_at IS NULL
       AND ended_at <= ?1 AND (ended_at, id) > (?2, ?3)
     ORDER BY ended_at, id LIMIT ?4";
const SELECT_OF_IDENTITY: &str = "SELECT id, project_id, egress_id, filepath, ended_at, destination_id IS NOT NULL AS awaits_upload FROM egresses
     WHERE project_id = ?1 AND source_identity = ?2 AND kind = 'recording' AND ended_at IS NOT NULL AND file_removed_at IS NULL
       AND (destination_id IS NULL OR EXISTS (SELECT 1 FROM uploads u WHERE u.egress_id = egresses.egress_id))
       AND (ended_at, id) > (?3, ?4)
     ORDER BY ended_at, id LIMIT ?5";
const REMOVED_AT: &str =
    "SELECT file_removed_at FROM egresses WHERE project_id = ?1 AND egress_id = ?2";
const PROJECT: &str = "SELECT project_id FROM egresses WHERE egress_id = ?1 AND kind = 'recording'";
const SET_REMOVED: &str = "UPDATE egresses SET file_removed_at = ?3
     WHERE project_id = ?1 AND egress_id = ?2 AND file_removed_at IS NULL";

fn local(row: &Row<'_>) -> Result<LocalRecording, StoreError> {
    // The id orders recordings that ended in the same millisecond.
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
        awaits_upload: row.get("awaits_upload")?,
    })
}

/// Records of recording files on this machine.
#[derive(Debug, Clone)]
pub struct LocalFiles(pub(crate) Database);

impl LocalFiles {
    /// Reads up to `limit` recordings of all projects that have no destination, ended at `latest` or earlier, and whose files were not
    /// removed, in the order in which they ended.
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
                // By position and not by offset, since recordings drop out of the list as their files are removed.
                sql.many(
                    SELECT_DUE,
                    args![latest, after.ended_at, after.id, limit],
                    local,
                )
            })
            .await
    }

    /// Like [`Self::recordings`], of type `participant` and `track`, of one identity, however long ago they ended, and with those whose file
    /// waits for its upload to a destination.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn recordings_of(
        &self,
        project: ProjectId,
        identity: Identity,
        after: RecordingPosition,
        limit: u32,
    ) -> Result<Vec<LocalRecording>, StoreError> {
        self.0
            .bulk_read(move |sql| {
                sql.many(
                    SELECT_OF_IDENTITY,
                    args![&project, &identity, after.ended_at, after.id, limit],
                    local,
                )
            })
            .await
    }

    /// Reads the project of a recording; `None` if there is no such recording.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn project_of(&self, id: EgressId) -> Result<Option<ProjectId>, StoreError> {
        self.0
            .read(move |sql| sql.one(PROJECT, args![&id], |row| row.read(0)))
            .await
    }

    /// Records the removal of a recording's file.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn record_removed(&self, project: ProjectId, id: EgressId) -> Result<(), StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                tx.sql.put(SET_REMOVED, args![&project, &id, tx.now])
            })
            .await
    }

    /// Reads when a recording's file was removed; `None` if it was not, or there is no such recording.
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
