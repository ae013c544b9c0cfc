//! Outstanding uploads of recordings to their destinations. A row exists from the start of the recording until its file is uploaded, or
//! never can be, so a failed upload is tried again after the server's next start.

use std::sync::Arc;

use conclave_model::destination::{DestinationConfig, DestinationKind, RecordingConfig};
use conclave_model::egress::{Egress, EgressState, EgressStatus};
use conclave_model::filepath::FilePath;
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::{DestinationId, EgressId, NodeId, ProjectId, Timestamp};

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::records::destinations;
use crate::records::egresses::{advance, existing};
use crate::sql::Row;
use crate::sql::values::args;
use crate::tx::Tx;

/// Outstanding upload of a recording's file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PendingUpload {
    /// Recording outcome; `None` while it runs.
    pub end: Option<RecordingEnd>,
    /// Last multipart upload. The storage keeps its parts until it is completed or aborted.
    pub multipart_id: Option<String>,
    /// Server whose disk has the file; `None` for a recording by an earlier version.
    pub node: Option<NodeId>,
    /// Time at which another server first missed the file; reset when the file's own server sees it.
    pub missing_since: Option<Timestamp>,
}

/// Work that remains for an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadRest {
    /// Nothing: the file is uploaded, or never will be.
    Nothing,
    /// Further attempts. The upload stays outstanding, even after the server's next start.
    Attempts,
}

/// Outcome of a recording before its file is uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingEnd {
    /// Final status, once the file is uploaded.
    pub status: EgressStatus,
    /// Reason of a failure.
    pub error: Option<String>,
}

const INSERT: &str = "INSERT INTO uploads (egress_id, project_id, node) VALUES (?2, ?1, ?3)";
const SET_END: &str =
    "UPDATE uploads SET result = ?3, error = ?4 WHERE project_id = ?1 AND egress_id = ?2";
const SET_MULTIPART: &str =
    "UPDATE uploads SET multipart_id = ?3 WHERE project_id = ?1 AND egress_id = ?2";
const SET_MISSING: &str =
    "UPDATE uploads SET missing_since = ?3 WHERE project_id = ?1 AND egress_id = ?2";
const DELETE: &str = "DELETE FROM uploads WHERE project_id = ?1 AND egress_id = ?2";
const SET_ERROR: &str =
    "UPDATE egresses SET error = ?3 WHERE project_id = ?1 AND egress_id = ?2 AND status = 'failed'";
pub(crate) const SELECT_FILEPATHS: &str = "SELECT filepath FROM egresses
     WHERE project_id = ?1 AND destination_id = ?2 AND filepath >= ?3 AND filepath < ?4";

/// Records that a recording's file will have to be uploaded.
pub(crate) fn insert(
    tx: &Tx<'_>,
    project: &ProjectId,
    id: &EgressId,
    node: &NodeId,
) -> Result<(), StoreError> {
    tx.sql.put(INSERT, args![project, id, node])
}

/// Reads the upload of a running egress.
pub(crate) fn pending(row: &Row<'_>) -> Result<PendingUpload, StoreError> {
    let (status, error): (Option<_>, _) = (row.get("upload_result")?, row.get("upload_error")?);
    // NULL while the recording runs.
    let end = status.map(|status| RecordingEnd { status, error });
    Ok(PendingUpload {
        end,
        multipart_id: row.get("multipart_id")?,
        node: row.get("node")?,
        missing_since: row.get("missing_since")?,
    })
}

/// Moves an egress to its final status. A failed one stays failed, and gets the new error.
fn settle(
    tx: &mut Tx<'_>,
    project: &ProjectId,
    state: &EgressState,
    at: Timestamp,
) -> Result<Egress, StoreError> {
    let egress = advance(tx, project, state, at)?;
    if egress.status != EgressStatus::Failed || egress.error == state.error {
        return Ok(egress);
    }
    // `failed` cannot be left, but an operator needs the latest error of the upload.
    tx.sql.put(
        SET_ERROR,
        args![project, &state.egress_id, state.error.as_deref()],
    )?;
    existing(tx.sql, project, &state.egress_id)
}

/// Records of recording uploads.
#[derive(Debug, Clone)]
pub struct Uploads(pub(crate) Database);

impl Uploads {
    /// Records the outcome of a recording before its upload. Until that is done, the recording is ending.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn record_recording_end(
        &self,
        project: ProjectId,
        state: EgressState,
        at: Timestamp,
        record: Option<ResponseRecorder<Egress>>,
    ) -> Result<Egress, StoreError> {
        self.0
            .write_recorded(Queue::for_project(&project), record, move |tx| {
                // The outcome is kept beside the egress, whose status becomes final only with the upload.
                tx.sql.put(
                    SET_END,
                    args![
                        &project,
                        &state.egress_id,
                        state.status,
                        state.error.as_deref()
                    ],
                )?;
                let ending = EgressState {
                    status: EgressStatus::Ending,
                    error: None,
                    ended_at: None,
                    // The outcome itself is in the row of the upload until then.
                    ..state.clone()
                };
                advance(tx, &project, &ending, at)
            })
            .await
    }

    /// Records a new multipart upload, before its first part is sent.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn record_multipart(
        &self,
        project: ProjectId,
        id: EgressId,
        multipart: String,
    ) -> Result<(), StoreError> {
        // Recorded before the parts are sent, so that a crash leaves no parts that are never aborted.
        self.0
            .write(Queue::for_project(&project), move |tx| {
                tx.sql.put(SET_MULTIPART, args![&project, &id, &*multipart])
            })
            .await
    }

    /// Records since when a recording's file is missing on the server that uploads it; `None` if it exists.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn record_missing_file(
        &self,
        project: ProjectId,
        id: EgressId,
        since: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                tx.sql.put(SET_MISSING, args![&project, &id, since])
            })
            .await
    }

    /// Records the final state of a recording whose upload has succeeded or failed. If it failed before, it keeps its status, and gets the
    /// new error.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn settle(
        &self,
        project: ProjectId,
        state: EgressState,
        at: Timestamp,
        rest: UploadRest,
    ) -> Result<Egress, StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                let egress = settle(tx, &project, &state, at)?;
                // Deleted in the transaction of the final status: a crash leaves both or neither.
                if rest == UploadRest::Nothing {
                    tx.sql.put(DELETE, args![&project, &state.egress_id])?;
                }
                Ok(egress)
            })
            .await
    }

    /// Reads the current, decrypted configuration of a recording destination; `None` if it was deleted.
    ///
    /// # Errors
    /// Refused as unusable when its credentials cannot be decrypted.
    pub async fn storage(
        &self,
        project: ProjectId,
        id: DestinationId,
    ) -> Result<Option<RecordingConfig>, StoreError> {
        let vault = Arc::clone(self.0.vault());
        self.0
            .read(move |sql| {
                let found = destinations::open_by_id(
                    sql,
                    &project,
                    &id,
                    DestinationKind::Recording,
                    &vault,
                )?;
                // Filtered by kind above, so the other case does not occur.
                Ok(found.and_then(|config| match config {
                    DestinationConfig::Recording(storage) => Some(storage),
                    DestinationConfig::Rtmp(_) => None,
                }))
            })
            .await
    }

    /// Returns the paths of a destination's recordings that start with `stem`.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn filepaths_at(
        &self,
        project: ProjectId,
        destination: DestinationId,
        stem: String,
    ) -> Result<Vec<FilePath>, StoreError> {
        // After all paths that start with the stem. Unlike LIKE, a range uses the index and needs no escaping.
        let end = format!("{stem}{}", char::MAX);
        self.0
            .read(move |sql| {
                sql.many(
                    SELECT_FILEPATHS,
                    args![&project, &destination, &*stem, &*end],
                    |row| row.get("filepath"),
                )
            })
            .await
    }
}
