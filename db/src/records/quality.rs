//! Quality of sessions: samples while a participant is connected, and a summary per session.
//!
//! Both are measured by the embedded media plane, and written in batches of all projects. A server does not acknowledge these
//! writes: samples of the last seconds are lost in a crash, and a summary is then up to a minute old.

use conclave_model::page::{Page, PageRequest};
use conclave_model::participant::Session;
use conclave_model::quality::{QualitySample, QualitySummary};
use conclave_model::usage::Day;
use conclave_model::{
    ErrorCode, NamespacedRoom, ParticipantSid, Problem, ProjectId, SessionId, Timestamp,
};

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::records::sessions::session;
use crate::sql::query_builder::QueryBuilder;
use crate::sql::values::args;
use crate::sql::{Row, Sql};
use crate::tx::Tx;

const FIND: &str =
    "SELECT id FROM sessions WHERE room_id = (SELECT id FROM rooms WHERE project_id = ?1 AND name = ?2)
         AND participant_sid = ?3 AND project_id = ?1";
// A clock that is set back may repeat an instant. The first sample stays.
const INSERT_SAMPLE: &str = "INSERT INTO quality_samples (session_id, at, measures) VALUES (?1, ?2, ?3) ON CONFLICT (session_id, at) DO NOTHING";
const PUT_SUMMARY: &str =
    "INSERT INTO session_quality (session_id, project_id, day, score, summary) VALUES (?1, ?2, ?3, ?4, ?5)
     ON CONFLICT (session_id) DO UPDATE SET day = excluded.day, score = excluded.score, summary = excluded.summary";
const SELECT_SUMMARY: &str =
    "SELECT summary FROM session_quality WHERE session_id = ?1 AND project_id = ?2";
const HAS_SESSION: &str =
    "SELECT EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND project_id = ?2)";
const SELECT_SAMPLES: &str = "SELECT at, measures FROM quality_samples WHERE session_id = ?1
     ORDER BY at DESC LIMIT ?2 OFFSET ?3";
const SELECT_WORST: &str =
    "SELECT s.id, s.project_id, s.room, s.participant_identity, s.participant_sid, s.kind, s.role, s.joined_at, s.left_at,
            (SELECT count(*) FROM tracks WHERE session_id = s.id) AS track_count, q.summary
     FROM session_quality q JOIN sessions s ON s.id = q.session_id";

/// Measurements of one session to write.
#[derive(Debug, Clone)]
pub struct NewQuality {
    /// Room of the session.
    pub room: NamespacedRoom,
    /// The participant's sid, which identifies the session in its room.
    pub participant: ParticipantSid,
    /// Time of the sample.
    pub at: Timestamp,
    /// The sample; `None` if nothing was measured since the last one.
    pub sample: Option<QualitySample>,
    /// Sum of the session's samples; `None` to leave the stored summary unchanged.
    pub summary: Option<QualitySummary>,
}

/// Sample of a session with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredSample {
    /// End of the sample's interval.
    pub at: Timestamp,
    /// Measurements.
    pub sample: QualitySample,
}

/// Session with the sum of its samples.
#[derive(Debug, Clone)]
pub struct MeasuredSession {
    /// Session record.
    pub session: Session,
    /// Sum of its samples.
    pub summary: QualitySummary,
}

/// Writes measurements. An unknown session's measurements are dropped: the join was refused, or the room belongs to another server.
fn record(tx: &Tx<'_>, measured: &[NewQuality]) -> Result<(), StoreError> {
    let rooms: Vec<_> = measured.iter().map(|new| new.room.split()).collect();
    let keys = measured
        .iter()
        .zip(&rooms)
        .map(|(new, (project, room))| *args![project, room, &new.participant]);
    let id = |row: &Row<'_>| row.get::<SessionId>("id");
    // All in one round trip.
    let found = tx.sql.each(FIND, keys, id)?;
    for ((new, (project, _)), found) in measured.iter().zip(&rooms).zip(found) {
        let Some(session) = found.first().copied() else {
            continue;
        };
        if let Some(sample) = &new.sample {
            let measures = sample.encode();
            tx.sql
                .put(INSERT_SAMPLE, args![session, new.at, &measures])?;
        }
        if let Some(summary) = &new.summary {
            let (day, text) = (Day::from(new.at).number(), serde_json::to_string(summary)?);
            let score = summary.score.mean();
            tx.sql
                .put(PUT_SUMMARY, args![session, project, day, score, &text])?;
        }
    }
    Ok(())
}

/// Checks that the project has the session.
fn check_session(sql: Sql<'_>, project: &ProjectId, session: SessionId) -> Result<(), StoreError> {
    if sql.value::<bool>(HAS_SESSION, args![session, project])? {
        return Ok(());
    }
    let text = "no session by that id in this project";
    Err(Problem::new(ErrorCode::SessionNotFound, text).into())
}

fn stored_sample(row: &Row<'_>) -> Result<StoredSample, StoreError> {
    Ok(StoredSample {
        at: row.get("at")?,
        sample: row.get("measures")?,
    })
}

/// Returns the query that lists the sessions whose last sample was on this day, worst first.
pub(crate) fn worst_query(project: &ProjectId, day: Day) -> QueryBuilder<'_> {
    QueryBuilder::new(
        SELECT_WORST,
        "q.project_id",
        project,
        "q.score, q.session_id",
    )
    .and("q.day =", Some(day.number()))
    // A session that ended within a second has no score.
    .and_condition(Some("q.score IS NOT NULL"))
}

/// Quality records.
#[derive(Debug, Clone)]
pub struct Quality(pub(crate) Database);

impl Quality {
    /// Writes measurements of any projects' sessions, all or none.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn record(&self, measured: Vec<NewQuality>) -> Result<(), StoreError> {
        // In the queue of jobs without a project, so that no project's write waits behind it.
        self.0
            .write(Queue::SERVER, move |tx| record(tx, &measured))
            .await
    }

    /// Reads the sum of a session's samples; `None` if it was not measured.
    ///
    /// # Errors
    /// Refused when the project has no such session.
    pub async fn summary(
        &self,
        project: ProjectId,
        session: SessionId,
    ) -> Result<Option<QualitySummary>, StoreError> {
        self.0
            .read(move |sql| {
                check_session(sql, &project, session)?;
                sql.one(SELECT_SUMMARY, args![session, &project], |row| {
                    row.json("summary")
                })
            })
            .await
    }

    /// Lists a session's samples, newest first.
    ///
    /// # Errors
    /// Refused when the project has no such session.
    pub async fn samples(
        &self,
        project: ProjectId,
        session: SessionId,
        page: PageRequest,
    ) -> Result<Page<StoredSample>, StoreError> {
        self.0
            .list(project, move |sql, project| {
                check_session(sql, project, session)?;
                // One more, to know whether another page follows.
                let window = args![session, page.limit + 1, page.offset.cast_signed()];
                let samples = sql.many(SELECT_SAMPLES, window, stored_sample)?;
                Ok(Page::from_fetched(samples, page))
            })
            .await
    }

    /// Lists the sessions whose last sample was on this day in UTC, lowest mean score first.
    ///
    /// # Errors
    /// Fails when the database cannot be read, or takes too long.
    pub async fn worst(
        &self,
        project: ProjectId,
        day: Day,
        page: PageRequest,
    ) -> Result<Page<MeasuredSession>, StoreError> {
        self.0
            .list(project, move |sql, project| {
                worst_query(project, day).page(sql, page, |row| {
                    Ok(MeasuredSession {
                        session: session(row)?,
                        summary: row.json("summary")?,
                    })
                })
            })
            .await
    }
}
