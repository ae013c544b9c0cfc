//! Reading sessions. They are written by `joins` and `open_sessions`.

use conclave_model::page::{Page, PageRequest};
use conclave_model::participant::{Session, SessionTrack};
use conclave_model::{
    ErrorCode, Identity, Problem, ProjectId, RoleName, RoomName, SessionId, Timestamp,
};

use crate::error::StoreError;
use crate::sql::Row;
use crate::sql::query_builder::QueryBuilder;
use crate::sql::values::args;
use crate::store::Store;

/// The filters of a list of sessions; `None` matches all.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// Only sessions in the room with this name.
    pub room: Option<RoomName>,
    /// Only sessions of this identity.
    pub identity: Option<Identity>,
    /// Only sessions with this role.
    pub role: Option<RoleName>,
    /// `true` for open sessions only, `false` for closed ones only.
    pub active: Option<bool>,
    /// Only sessions joined at this instant or later.
    pub after: Option<Timestamp>,
    /// Only sessions joined at this instant or earlier.
    pub before: Option<Timestamp>,
}

/// A session with its tracks, by the time at which they began.
#[derive(Debug, Clone)]
pub struct SessionDetail {
    /// The record of the session.
    pub session: Session,
    /// What its participant published.
    pub tracks: Vec<SessionTrack>,
}

const SELECT: &str =
    "SELECT id, project_id, room, participant_identity, participant_sid, kind, role, joined_at, left_at,
            (SELECT count(*) FROM tracks WHERE session_id = sessions.id) AS track_count
     FROM sessions";
const SELECT_TRACKS: &str = "SELECT track_sid, kind, source, started_at, ended_at FROM tracks
     WHERE session_id = ?1 ORDER BY started_at, track_sid";

fn session(row: &Row<'_>) -> Result<Session, StoreError> {
    Ok(Session {
        id: row.get("id")?,
        project_id: row.get("project_id")?,
        room: row.get("room")?,
        participant_identity: row.get("participant_identity")?,
        participant_sid: row.get("participant_sid")?,
        kind: row.get("kind")?,
        role: row.get("role")?,
        joined_at: row.get("joined_at")?,
        left_at: row.get("left_at")?,
        track_count: row.get("track_count")?,
    })
}

fn track(row: &Row<'_>) -> Result<SessionTrack, StoreError> {
    Ok(SessionTrack {
        track_sid: row.get("track_sid")?,
        kind: row.get("kind")?,
        source: row.get("source")?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
    })
}

/// The query of a list.
///
/// Open sessions are few and have indexes of their own. An identity or a role is compared as an expression among them, so that
/// the planner does not search all sessions of that identity or role instead. A search for closed sessions passes over the few
/// open ones.
pub(crate) fn list_query<'a>(
    project: &'a ProjectId,
    filter: &'a SessionFilter,
) -> QueryBuilder<'a> {
    let open = filter.active == Some(true);
    let is_open = |active| {
        if active {
            "left_at IS NULL"
        } else {
            "left_at IS NOT NULL"
        }
    };
    let order = "joined_at DESC, id DESC";
    QueryBuilder::new(SELECT, "project_id", project, order)
        .and_around(
            "room_id = (SELECT id FROM rooms WHERE project_id = ?1 AND name =",
            ")",
            filter.room.as_ref(),
        )
        .and(
            if open {
                "participant_identity || '' ="
            } else {
                "participant_identity ="
            },
            filter.identity.as_ref(),
        )
        .and(
            if open { "role || '' =" } else { "role =" },
            filter.role.as_ref(),
        )
        .and_condition(filter.active.map(is_open))
        .and("joined_at >=", filter.after)
        .and("joined_at <=", filter.before)
}

impl Store {
    /// Lists a project's sessions, newest first.
    ///
    /// # Errors
    /// Fails when the database cannot be read, or takes too long.
    pub async fn sessions(
        &self,
        project: ProjectId,
        filter: SessionFilter,
        page: PageRequest,
    ) -> Result<Page<Session>, StoreError> {
        self.list(project, move |sql, project| {
            list_query(project, &filter).page(sql, page, session)
        })
        .await
    }

    /// Reads a session with its tracks.
    ///
    /// # Errors
    /// Refused when the project has no such session.
    pub async fn session(
        &self,
        project: ProjectId,
        id: SessionId,
    ) -> Result<SessionDetail, StoreError> {
        self.read(move |sql| {
            let query = format!("{SELECT} WHERE id = ?1 AND project_id = ?2");
            let not_found = || {
                Problem::new(
                    ErrorCode::SessionNotFound,
                    "no session by that id in this project",
                )
            };
            let found = sql
                .one(&query, args![id, &project], session)?
                .ok_or_else(not_found)?;
            Ok(SessionDetail {
                session: found,
                tracks: sql.many(SELECT_TRACKS, args![id], track)?,
            })
        })
        .await
    }
}
