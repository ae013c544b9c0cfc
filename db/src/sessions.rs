//! Sessions, as they are read. They are written in `live`.

use conclave_model::page::{Page, PageRequest};
use conclave_model::participant::ParticipantKind;
use conclave_model::session::{Session, SessionTrack};
use conclave_model::{ErrorCode, Identity, Problem, ProjectId, RoleName, RoomName, SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row};

use crate::columns::Columns;
use crate::error::OrStoreError;
use crate::query_builder::QueryBuilder;
use crate::{Store, StoreError};

/// Which sessions are wanted; `None` is every.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// In this room.
    pub room: Option<RoomName>,
    /// Of this identity.
    pub identity: Option<Identity>,
    /// Holding this role.
    pub role: Option<RoleName>,
    /// Still connected, or not.
    pub active: Option<bool>,
    /// Joined at or after.
    pub after: Option<Timestamp>,
    /// Joined at or before.
    pub before: Option<Timestamp>,
}

const COLUMNS: &str = "id, project_id, room, participant_identity, participant_sid, kind, role, joined_at, left_at, \
                       (SELECT count(*) FROM tracks WHERE session_id = sessions.id)";

fn session(row: &Row<'_>) -> rusqlite::Result<Session> {
    Ok(Session {
        id: SessionId(row.get(0)?),
        project_id: row.parsed(1)?,
        room: row.parsed(2)?,
        participant_identity: row.parsed(3)?,
        participant_sid: row.parsed(4)?,
        kind: row.word(5, |word| Some(ParticipantKind::from(word)))?,
        role: row.parsed_opt(6)?,
        joined_at: row.time(7)?,
        left_at: row.time_opt(8)?,
        track_count: row.get(9)?,
    })
}

fn track(row: &Row<'_>) -> rusqlite::Result<SessionTrack> {
    Ok(SessionTrack {
        track_sid: row.parsed(0)?,
        kind: row.word(1, |word| word.parse().ok())?,
        source: row.word(2, |word| word.parse().ok())?,
        started_at: row.time(3)?,
        ended_at: row.time_opt(4)?,
    })
}

fn tracks(sql: &Connection, id: SessionId) -> Result<Vec<SessionTrack>, StoreError> {
    let mut statement = sql
        .prepare_cached(
            "SELECT track_sid, kind, source, started_at, ended_at FROM tracks
             WHERE session_id = ?1 ORDER BY started_at, track_sid",
        )
        .or_store_error()?;
    statement.query_map([id.0], track).and_then(Iterator::collect).or_store_error()
}

impl Store {
    /// A project's sessions, newest first.
    ///
    /// # Errors
    /// The store's own.
    pub async fn sessions(
        &self,
        project: ProjectId,
        filter: SessionFilter,
        page: PageRequest,
    ) -> Result<Page<Session>, StoreError> {
        self.read(move |sql| {
            let mut wanted = QueryBuilder::of_project("project_id", &project);
            wanted.and("room = ?", filter.room.map(String::from));
            wanted.and("participant_identity = ?", filter.identity.map(String::from));
            wanted.and("role = ?", filter.role.map(String::from));
            wanted.and("(left_at IS NULL) = ?", filter.active);
            wanted.and("joined_at >= ?", filter.after.map(Timestamp::millis));
            wanted.and("joined_at <= ?", filter.before.map(Timestamp::millis));
            wanted.page(sql, &format!("SELECT {COLUMNS} FROM sessions"), "joined_at DESC, id DESC", page, session)
        })
        .await
    }

    /// One session with its tracks.
    ///
    /// # Errors
    /// Refused when the project has no such session.
    pub async fn session(&self, project: ProjectId, id: SessionId) -> Result<(Session, Vec<SessionTrack>), StoreError> {
        self.read(move |sql| {
            let found = sql
                .prepare_cached(&format!("SELECT {COLUMNS} FROM sessions WHERE id = ?1 AND project_id = ?2"))
                .and_then(|mut s| s.query_row((id.0, project.as_str()), session).optional())
                .or_store_error()?;
            let Some(found) = found else {
                let message = "no session by that id in this project";
                return StoreError::refuse(Problem::new(ErrorCode::SessionNotFound, message));
            };
            Ok((found, tracks(sql, id)?))
        })
        .await
    }
}
