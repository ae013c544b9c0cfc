//! Erasure of an identity: its rows stay, so that counts and times stay, and a random identity takes its place in all of them.
//!
//! An erasure starts with a row that has the identity and its replacement, and ends with this row's deletion. In between, the identity's
//! rows are changed in batches, each a transaction of its own, so that other writes of the project wait for one batch only. A changed row
//! no longer has the identity, so an erasure that was interrupted continues where it stopped, with the same replacement.
//!
//! The order matters: a track's recording is attributed to its publisher by the session, which the later steps change.

use conclave_model::egress::Egress;
use conclave_model::{EgressId, Identity, IngressId, ProjectId, RoomName, Timestamp};

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::records::egresses::{self, egress};
use crate::sql::values::{Column, args};
use crate::sql::{Row, no_row};

/// Erasure that has started and is not complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erasure {
    /// Project whose records are changed.
    pub project_id: ProjectId,
    /// Identity to erase.
    pub identity: Identity,
    /// Identity that its rows have afterwards.
    pub replacement: Identity,
}

/// Changed rows by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ErasedRows {
    /// Sessions.
    pub sessions: u64,
    /// Role changes of the participant, and by the participant.
    pub role_changes: u64,
    /// Room codes that were locked to the identity; they are disabled.
    pub codes: u64,
    /// Ingress endpoints.
    pub ingresses: u64,
    /// Recordings of the participant and of its tracks.
    pub recordings: u64,
    /// Bans and revocations of tokens.
    pub bans: u64,
    /// Events, with their webhook deliveries.
    pub events: u64,
}

/// Rows per transaction.
const STEP: u32 = 500;

/// Statement that erases up to `?4` rows of a column, and the count of its rows.
pub(crate) type ErasedColumn = (&'static str, fn(&mut ErasedRows) -> &mut u64);

/// Columns with identities: each table that has one is listed here, except `events`, whose payloads are changed by
/// [`Erasures::erase_events`]. A test finds a column that is missing.
pub(crate) const COLUMNS: [ErasedColumn; 8] = [
    (
        // An open session's participant is connected, and is removed first.
        "UPDATE sessions SET participant_identity = ?3 WHERE project_id = ?1 AND id IN
             (SELECT id FROM sessions WHERE project_id = ?1 AND participant_identity = ?2 AND left_at IS NOT NULL LIMIT ?4)",
        |rows| &mut rows.sessions,
    ),
    (
        "UPDATE role_changes SET participant_identity = ?3 WHERE project_id = ?1 AND id IN
             (SELECT id FROM role_changes WHERE project_id = ?1 AND participant_identity = ?2 LIMIT ?4)",
        |rows| &mut rows.role_changes,
    ),
    (
        "UPDATE role_changes SET changed_by_identity = ?3 WHERE project_id = ?1 AND id IN
             (SELECT id FROM role_changes WHERE project_id = ?1 AND changed_by_identity = ?2 LIMIT ?4)",
        |rows| &mut rows.role_changes,
    ),
    (
        // Disabled: the code would admit the same person under the replacement.
        "UPDATE codes SET identity = ?3, disabled = 1 WHERE project_id = ?1 AND id IN
             (SELECT id FROM codes WHERE project_id = ?1 AND identity = ?2 LIMIT ?4)",
        |rows| &mut rows.codes,
    ),
    (
        "UPDATE ingresses SET participant_identity = ?3, participant_name = NULL WHERE project_id = ?1 AND id IN
             (SELECT id FROM ingresses
              WHERE project_id = ?1 AND participant_identity = ?2 AND status IN ('complete', 'deleted') LIMIT ?4)",
        |rows| &mut rows.ingresses,
    ),
    (
        "UPDATE egresses SET source_identity = ?3 WHERE project_id = ?1 AND id IN
             (SELECT id FROM egresses WHERE project_id = ?1 AND source_identity = ?2 AND ended_at IS NOT NULL LIMIT ?4)",
        |rows| &mut rows.recordings,
    ),
    (
        "UPDATE bans SET participant_identity = ?3, reason = NULL WHERE project_id = ?1 AND id IN
             (SELECT id FROM bans WHERE project_id = ?1 AND participant_identity = ?2 LIMIT ?4)",
        |rows| &mut rows.bans,
    ),
    (
        "UPDATE revocations SET participant_identity = ?3 WHERE project_id = ?1 AND id IN
             (SELECT id FROM revocations WHERE project_id = ?1 AND participant_identity = ?2 LIMIT ?4)",
        |rows| &mut rows.bans,
    ),
];

const INSERT: &str =
    "INSERT INTO erasures (project_id, identity, replacement, created_at) VALUES (?1, ?2, ?3, ?4)
     ON CONFLICT (project_id, identity) DO NOTHING";
const SELECT_ONE: &str = "SELECT project_id, identity, replacement FROM erasures WHERE project_id = ?1 AND identity = ?2";
const SELECT_ALL: &str = "SELECT project_id, identity, replacement FROM erasures WHERE created_at <= ?1 ORDER BY created_at, project_id, identity LIMIT ?2";
/// Not a later erasure of the same identity, which may have started since a concurrent request completed this one.
const DELETE: &str =
    "DELETE FROM erasures WHERE project_id = ?1 AND identity = ?2 AND replacement = ?3";
/// Open sessions are few and have an index of their own, so the identity is compared as an expression, as in lists of sessions.
const CONNECTED: &str = "SELECT DISTINCT room FROM sessions
     WHERE project_id = ?1 AND left_at IS NULL AND participant_identity || '' = ?2 ORDER BY room";
const LIVE_INGRESSES: &str = "SELECT ingress_id FROM ingresses
     WHERE project_id = ?1 AND participant_identity || '' = ?2 AND status NOT IN ('complete', 'deleted') ORDER BY ingress_id";
const RUNNING: &str = "SELECT egress_id FROM egresses
     WHERE project_id = ?1 AND source_identity || '' = ?2 AND ended_at IS NULL ORDER BY egress_id";
/// Attributes recordings of tracks that were started before the track's report.
const ATTRIBUTE: &str = "UPDATE egresses SET source_identity = ?2
     WHERE project_id = ?1 AND source_track IS NOT NULL AND source_identity IS NULL AND EXISTS
         (SELECT 1 FROM sessions s JOIN tracks t ON t.session_id = s.id
          WHERE s.room_id = egresses.room_id AND s.participant_identity = ?2 AND t.track_sid = egresses.source_track)";
const EVENTS: &str =
    "SELECT id, payload FROM events WHERE project_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
const SET_PAYLOAD: &str =
    "UPDATE events SET payload = ?3, identity = CASE WHEN identity = ?4 THEN ?5 ELSE identity END
     WHERE id = ?1 AND project_id = ?2";
/// Recordings with a file in which the participant may be seen or heard: composites, and recordings of its own that stay, since they are
/// for a destination or their file cannot be removed. `source_identity` is absent in recordings of earlier versions.
const PRESENT: &str = "e.project_id = ?1 AND e.kind = 'recording' AND e.file_removed_at IS NULL
       AND (e.recording_type = 'room_composite' OR e.source_identity IS NULL OR e.source_identity = ?2)
       AND e.room_id IN (SELECT room_id FROM sessions WHERE project_id = ?1 AND participant_identity = ?2)
       AND EXISTS (SELECT 1 FROM sessions s WHERE s.room_id = e.room_id AND s.participant_identity = ?2
                       AND (e.ended_at IS NULL OR s.joined_at <= e.ended_at) AND (s.left_at IS NULL OR s.left_at >= e.started_at))
     ORDER BY e.started_at, e.id LIMIT ?3";

/// Queries of an erasure besides [`COLUMNS`], each served by an index.
#[cfg(test)]
pub(crate) const QUERIES: [&str; 5] = [CONNECTED, LIVE_INGRESSES, RUNNING, ATTRIBUTE, EVENTS];

fn erasure(row: &Row<'_>) -> Result<Erasure, StoreError> {
    Ok(Erasure {
        project_id: row.get("project_id")?,
        identity: row.get("identity")?,
        replacement: row.get("replacement")?,
    })
}

/// Reads an event's id and payload.
fn event_payload(row: &Row<'_>) -> Result<(i64, String), StoreError> {
    Ok((row.get("id")?, row.get("payload")?))
}

/// Returns an event's payload with the replacement; `None` if it does not have the identity.
///
/// All fields with an identity end in `identity`. A quote inside a JSON string is escaped, so these characters occur only where a field
/// ends.
fn erased_payload(payload: &str, identity: &Identity, replacement: &Identity) -> Option<String> {
    let field = |identity: &Identity| format!("identity\":\"{identity}\"");
    // As text, since parsed JSON would lose the order of the fields, which receivers may have signed or logged.
    let sought = field(identity);
    payload
        .contains(&sought)
        .then(|| payload.replace(&sought, &field(replacement)))
}

/// Erasure records, and the changes of an erasure.
#[derive(Debug, Clone)]
pub struct Erasures(pub(crate) Database);

impl Erasures {
    /// Starts an erasure, or returns the identity's incomplete erasure if there is one.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn begin(
        &self,
        project: ProjectId,
        identity: Identity,
    ) -> Result<Erasure, StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                let replacement = Identity::erased();
                tx.sql
                    .put(INSERT, args![&project, &identity, &replacement, tx.now])?;
                tx.sql
                    .one(SELECT_ONE, args![&project, &identity], erasure)?
                    .ok_or_else(no_row)
            })
            .await
    }

    /// Reads up to `limit` erasures of all projects that started at `started_by` or earlier and are not complete, oldest first.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn pending(
        &self,
        started_by: Timestamp,
        limit: u32,
    ) -> Result<Vec<Erasure>, StoreError> {
        self.0
            .bulk_read(move |sql| sql.many(SELECT_ALL, args![started_by, limit], erasure))
            .await
    }

    /// Reads the rooms in which an identity has an open session.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn connected_rooms(&self, erasure: &Erasure) -> Result<Vec<RoomName>, StoreError> {
        self.named(erasure, CONNECTED).await
    }

    /// Reads an identity's ingress endpoints that are not final.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn live_ingresses(&self, erasure: &Erasure) -> Result<Vec<IngressId>, StoreError> {
        self.named(erasure, LIVE_INGRESSES).await
    }

    /// Attributes recordings of tracks to the identity that published them.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn attribute_recordings(&self, erasure: &Erasure) -> Result<(), StoreError> {
        let Erasure {
            project_id,
            identity,
            ..
        } = erasure.clone();
        self.0
            .write(Queue::for_project(&project_id.clone()), move |tx| {
                tx.sql.put(ATTRIBUTE, args![&project_id, &identity])
            })
            .await
    }

    /// Reads an identity's running recordings of type `participant` and `track`.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn running_recordings(&self, erasure: &Erasure) -> Result<Vec<EgressId>, StoreError> {
        self.named(erasure, RUNNING).await
    }

    /// Reads the first column of a query for the project `?1` and the identity `?2`.
    async fn named<T: Column + Send + 'static>(
        &self,
        erasure: &Erasure,
        query: &'static str,
    ) -> Result<Vec<T>, StoreError> {
        let Erasure {
            project_id,
            identity,
            ..
        } = erasure.clone();
        self.0
            .bulk_read(move |sql| sql.many(query, args![&project_id, &identity], |row| row.read(0)))
            .await
    }

    /// Replaces the identity in all rows, batch by batch.
    ///
    /// # Errors
    /// Fails when the database cannot be read or written. The batches before stay changed.
    pub async fn erase_rows(&self, erasure: &Erasure) -> Result<ErasedRows, StoreError> {
        let mut rows = ErasedRows::default();
        for (statement, count) in COLUMNS {
            loop {
                let changed = self.erase_batch(erasure.clone(), statement).await?;
                *count(&mut rows) += u64::from(changed);
                if changed < STEP {
                    break;
                }
            }
        }
        rows.events = self.erase_events(erasure).await?;
        Ok(rows)
    }

    async fn erase_batch(
        &self,
        erasure: Erasure,
        statement: &'static str,
    ) -> Result<u32, StoreError> {
        self.0
            .write(Queue::for_project(&erasure.project_id), move |tx| {
                let Erasure {
                    project_id,
                    identity,
                    replacement,
                } = &erasure;
                let changed = tx
                    .sql
                    .change(statement, args![project_id, identity, replacement, STEP])?;
                // At most STEP.
                Ok(u32::try_from(changed).unwrap_or(STEP))
            })
            .await
    }

    /// Replaces the identity in the payloads of events, which deliveries share. All events of the project are read, page by page: an event
    /// may name several identities.
    async fn erase_events(&self, erasure: &Erasure) -> Result<u64, StoreError> {
        let (mut position, mut erased) = (0i64, 0);
        loop {
            let (project, after) = (erasure.project_id.clone(), position);
            let page = self
                .0
                .bulk_read(move |sql| sql.many(EVENTS, args![&project, after, STEP], event_payload))
                .await?;
            let Some((last, _)) = page.last() else {
                return Ok(erased);
            };
            position = *last;
            let Erasure {
                identity,
                replacement,
                ..
            } = erasure;
            if page
                .iter()
                .any(|(_, payload)| erased_payload(payload, identity, replacement).is_some())
            {
                erased += self.erase_payloads(erasure.clone(), after).await?;
            }
        }
    }

    /// Replaces the identity in a page of events. The payloads are read again in the transaction, since another identity's erasure may have
    /// changed them after the first read, and its change must stay.
    async fn erase_payloads(&self, erasure: Erasure, after: i64) -> Result<u64, StoreError> {
        self.0
            .write(Queue::for_project(&erasure.project_id), move |tx| {
                let Erasure {
                    project_id,
                    identity,
                    replacement,
                } = &erasure;
                let mut erased = 0;
                for (id, payload) in
                    tx.sql
                        .many(EVENTS, args![project_id, after, STEP], event_payload)?
                {
                    if let Some(payload) = erased_payload(&payload, identity, replacement) {
                        let arguments = args![id, project_id, &payload, identity, replacement];
                        tx.sql.put(SET_PAYLOAD, arguments)?;
                        erased += 1;
                    }
                }
                Ok(erased)
            })
            .await
    }

    /// Reads up to `limit` recordings whose files remain and in which the erased participant was present, oldest first.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn remaining_recordings(
        &self,
        erasure: &Erasure,
        limit: u32,
    ) -> Result<Vec<Egress>, StoreError> {
        let Erasure {
            project_id,
            // In the sessions by now.
            replacement,
            ..
        } = erasure.clone();
        self.0
            .bulk_read(move |sql| {
                let query = format!("{} WHERE {PRESENT}", egresses::SELECT);
                sql.many(&query, args![&project_id, &replacement, limit], egress)
            })
            .await
    }

    /// Ends an erasure, and deletes the identity with it.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn complete(&self, erasure: Erasure) -> Result<(), StoreError> {
        self.0
            .write(Queue::for_project(&erasure.project_id), move |tx| {
                let Erasure {
                    project_id,
                    identity,
                    replacement,
                } = &erasure;
                tx.sql.put(DELETE, args![project_id, identity, replacement])
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_identity_in_a_payload_is_replaced_and_nothing_else() {
        let identity = |text: &str| text.parse::<Identity>().unwrap();
        let (alice, erased) = (identity("alice"), identity("erased-1"));
        let payload = r#"{"type":"a","participant_identity":"alice","changed_by_identity":"alice","room":"alice"}"#;
        assert_eq!(
            erased_payload(payload, &alice, &erased).unwrap(),
            r#"{"type":"a","participant_identity":"erased-1","changed_by_identity":"erased-1","room":"alice"}"#
        );
        for other in [
            r#"{"participant_identity":"alice2"}"#,
            r#"{"participant_identity":"malice"}"#,
            r#"{"text":"\"participant_identity\":\"alice\""}"#,
        ] {
            assert_eq!(erased_payload(other, &alice, &erased), None, "{other}");
        }
    }
}
