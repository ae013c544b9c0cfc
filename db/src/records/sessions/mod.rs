//! Sessions, the records of joins: joins, leaves and lists. Each report is one transaction: the session, the room's timer and the events
//! together.

pub(crate) mod rows;

use conclave_model::event::{Departure, Event, ParticipantRef};
use conclave_model::page::{Page, PageRequest};
use conclave_model::participant::Participant;
use conclave_model::participant::{Session, SessionTrack};
use conclave_model::room::{Room, left_deadline};
use conclave_model::{
    ErrorCode, Identity, ParticipantSid, Problem, ProjectId, RoleName, RoomId, RoomName, SessionId,
    Timestamp,
};

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::records::rooms::rows::{
    ConnectedParticipant, RoomSnapshot, by_id, connected_participants, open, open_by_id,
    with_connected,
};
use crate::records::sessions::rows::{close_sessions, event_context, find_session};
use crate::records::tracks::reopen_tracks;
use crate::sql::Row;
use crate::sql::query_builder::QueryBuilder;
use crate::sql::values::args;
use crate::tx::Tx;

const SET_DEADLINE: &str =
    "UPDATE rooms SET empty_deadline = ?3 WHERE id = ?1 AND project_id = ?2 AND status = 'open'";
const OCCUPY: &str = "UPDATE rooms SET started_at = coalesce(started_at, ?3), empty_deadline = NULL
     WHERE id = ?1 AND project_id = ?2 AND status = 'open'";
const INSERT_SESSION: &str =
    "INSERT INTO sessions (id, project_id, room_id, room, participant_identity, participant_sid, kind, role, joined_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
     ON CONFLICT (room_id, participant_sid) DO NOTHING";

const SELECT_CLOSED: &str = "SELECT id, joined_at, left_at FROM sessions
     WHERE room_id = ?1 AND participant_sid = ?2 AND project_id = ?3 AND left_at <= ?4";
const REOPEN: &str = "UPDATE sessions SET left_at = NULL WHERE id = ?1 AND project_id = ?2";

/// Starts the empty timer if no connected participant keeps the room open.
fn start_timer_if_empty(
    tx: &Tx<'_>,
    room: &mut Room,
    connected: &[ConnectedParticipant],
    at: Timestamp,
) -> Result<(), StoreError> {
    let occupied = connected
        .iter()
        .any(|participant| participant.kind.keeps_room());
    // A running timer is not restarted: an agent that leaves must not prolong an empty room.
    if occupied || room.empty_deadline.is_some() {
        return Ok(());
    }
    // From the time of the leave, and not of this write: a report may be late.
    let deadline = Some(left_deadline(at, room.empty_timeout_seconds));
    tx.sql
        .put(SET_DEADLINE, args![room.id, &room.project_id, deadline])?;
    room.empty_deadline = deadline;
    Ok(())
}

/// Stops the empty timer of an open room; at the first join, also sets `started_at` and emits `room.started`. If others already keep the
/// room open, nothing is written.
fn occupy_room(tx: &mut Tx<'_>, room: &mut Room, at: Timestamp) -> Result<(), StoreError> {
    let is_first = room.started_at.is_none();
    // Most joins: the room has started, and others keep it open.
    if !is_first && room.empty_deadline.is_none() {
        return Ok(());
    }
    tx.sql.put(OCCUPY, args![room.id, &room.project_id, at])?;
    room.empty_deadline = None;
    if !is_first {
        return Ok(());
    }
    room.started_at = Some(at);
    let context = event_context(room, at);
    tx.emit(&Event::RoomStarted { context })
}

/// Opens a session; `None` if the join already has one.
fn insert_session(
    tx: &Tx<'_>,
    room: &Room,
    participant: &Participant,
    at: Timestamp,
) -> Result<Option<ConnectedParticipant>, StoreError> {
    let opened = ConnectedParticipant {
        session: SessionId::new(),
        identity: participant.identity.clone(),
        sid: participant.sid.clone(),
        kind: participant.kind,
        role: participant.role(),
        joined_at: at,
    };
    let row = args![
        opened.session,
        &room.project_id,
        room.id,
        &room.name,
        &opened.identity,
        &opened.sid,
        opened.kind,
        opened.role.as_ref(),
        at,
    ];
    // The unique index on room and sid makes repeated reports harmless, even concurrent ones.
    if tx.sql.change(INSERT_SESSION, row)? == 0 {
        return Ok(None);
    }
    // In the transaction of the session, so that usage cannot drift from the sessions.
    tx.count_session(&room.project_id, at)?;
    Ok(Some(opened))
}

/// Reopens a join's session that was closed at `before` or earlier. Its time until then is no longer counted as usage, since its next end
/// counts it. Returns false if there is no such session.
fn reopen_session(
    tx: &Tx<'_>,
    room: &Room,
    participant: &Participant,
    before: Timestamp,
) -> Result<bool, StoreError> {
    let (project, times) = (&room.project_id, |row: &Row<'_>| {
        Ok((row.get("id")?, row.get("joined_at")?, row.get("left_at")?))
    });
    let closed = tx.sql.one(
        SELECT_CLOSED,
        args![room.id, &participant.sid, project, before],
        times,
    )?;
    let Some((session, joined_at, left_at)): Option<(SessionId, _, _)> = closed else {
        return Ok(false);
    };
    tx.sql.put(REOPEN, args![session, project])?;
    tx.uncount_time(project, joined_at, left_at)?;
    Ok(true)
}

fn record_join(
    tx: &mut Tx<'_>,
    project: &ProjectId,
    id: RoomId,
    participant: &Participant,
    at: Timestamp,
) -> Result<RoomSnapshot, StoreError> {
    let RoomSnapshot { room, participants } = with_connected(tx.sql, project, id)?;
    let mut room = open(room)?;
    // Before the insertion: a room has one open session per identity.
    let mut participants = close_stale(tx, &room, participants, participant, at)?;
    // A repeated report finds its session, and changes nothing.
    if participant.kind.makes_session()
        && let Some(session) = insert_session(tx, &room, participant, at)?
    {
        joined(tx, &mut room, participant, at)?;
        // Sorted again, since reports about joins may arrive late.
        participants.push(session);
        participants
            .sort_unstable_by_key(|participant| (participant.joined_at, participant.session));
    }
    Ok(RoomSnapshot { room, participants })
}

/// Closes the session of another join with the same identity: connected participants cannot share an identity, so the earlier one has left,
/// and its leave was not reported. Returns the remaining ones of the connected participants.
fn close_stale(
    tx: &mut Tx<'_>,
    room: &Room,
    connected: Vec<ConnectedParticipant>,
    participant: &Participant,
    at: Timestamp,
) -> Result<Vec<ConnectedParticipant>, StoreError> {
    let is_stale =
        |p: &ConnectedParticipant| p.identity == participant.identity && p.sid != participant.sid;
    let (stale, connected): (Vec<_>, Vec<_>) = connected.into_iter().partition(is_stale);
    // Closed before the new session is opened, so that events show one participant per identity at any time.
    close_sessions(tx, room, &stale, at, Departure::Lost)?;
    Ok(connected)
}

/// Starts the room at its first session, stops its empty timer, and emits the event of an opened session.
fn joined(
    tx: &mut Tx<'_>,
    room: &mut Room,
    participant: &Participant,
    at: Timestamp,
) -> Result<(), StoreError> {
    // Recorders and agents do not keep a room open.
    if participant.kind.keeps_room() {
        occupy_room(tx, room, at)?;
    }
    tx.emit(&Event::ParticipantJoined {
        context: event_context(room, at),
        participant: ParticipantRef::from(participant),
    })
}

/// Reopens the session of a participant that is still connected, and the tracks that it still publishes.
fn record_return(
    tx: &mut Tx<'_>,
    project: &ProjectId,
    id: RoomId,
    participant: &Participant,
    before: Timestamp,
) -> Result<RoomSnapshot, StoreError> {
    let (mut room, at) = (open_by_id(tx.sql, project, id)?, tx.now);
    // The closed session was reported as left or lost, so joined events follow for it and its tracks.
    if reopen_session(tx, &room, participant, before)? {
        // The same identity may have joined again meanwhile.
        let connected = connected_participants(tx.sql, project, id)?;
        close_stale(tx, &room, connected, participant, at)?;
        joined(tx, &mut room, participant, at)?;
        reopen_tracks(tx, &room, participant, at)?;
    }
    Ok(RoomSnapshot {
        room,
        participants: connected_participants(tx.sql, project, id)?,
    })
}

/// End of sessions that are closed together.
struct Leave {
    /// Time at which the participants left.
    at: Timestamp,
    departure: Departure,
    /// Time at which the empty timer starts if nobody is left; `None` if the next server starts it.
    empty_since: Option<Timestamp>,
}

/// Closes the open sessions of the participants that `has_left` selects.
fn record_leaves(
    tx: &mut Tx<'_>,
    project: &ProjectId,
    id: RoomId,
    has_left: impl Fn(&ConnectedParticipant) -> bool,
    Leave {
        at,
        departure,
        empty_since,
    }: Leave,
) -> Result<RoomSnapshot, StoreError> {
    // Not only open rooms: a leave may be reported after the room has ended, and then finds no open session.
    let RoomSnapshot {
        mut room,
        participants,
    } = with_connected(tx.sql, project, id)?;
    let (left, connected): (Vec<_>, Vec<_>) = participants.into_iter().partition(has_left);
    close_sessions(tx, &room, &left, at, departure)?;
    // Only a leave starts the timer. A report about an unknown join must not.
    if let Some(since) = empty_since.filter(|_| !left.is_empty()) {
        start_timer_if_empty(tx, &mut room, &connected, since)?;
    }
    Ok(RoomSnapshot {
        room,
        participants: connected,
    })
}

/// Session list filters; `None` matches all.
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
    /// Only sessions joined at this time or later.
    pub after: Option<Timestamp>,
    /// Only sessions joined at this time or earlier.
    pub before: Option<Timestamp>,
}

/// Session and its tracks, by start time.
#[derive(Debug, Clone)]
pub struct SessionDetail {
    /// Session record.
    pub session: Session,
    /// Tracks published by its participant.
    pub tracks: Vec<SessionTrack>,
}

const SELECT: &str =
    "SELECT id, project_id, room, participant_identity, participant_sid, kind, role, joined_at, left_at,
            (SELECT count(*) FROM tracks WHERE session_id = sessions.id) AS track_count
     FROM sessions";
const SELECT_TRACKS: &str = "SELECT track_sid, kind, source, started_at, ended_at FROM tracks
     WHERE session_id = ?1 ORDER BY started_at, track_sid";

pub(crate) const COUNT_OPEN_IN_ROOM: &str = "SELECT count(*) FROM sessions
     WHERE left_at IS NULL AND room_id = (SELECT id FROM rooms WHERE id = ?1 AND project_id = ?2)";

/// Returns the query for a page of the open sessions of all projects, in the order of their index.
pub(crate) fn open_of_all_query() -> String {
    format!(
        "{SELECT} WHERE left_at IS NULL ORDER BY project_id DESC, joined_at DESC, id DESC LIMIT ?1 OFFSET ?2"
    )
}

/// Reads a session from the columns of a list.
pub(crate) fn session(row: &Row<'_>) -> Result<Session, StoreError> {
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

/// Returns the query that lists a project's sessions, latest join first.
///
/// Open sessions are few, and have their own indexes. For them, identity and role are compared as expressions, so that the planner does not
/// search all sessions with that identity or role. A search for closed sessions skips the few open ones.
pub(crate) fn list_query<'a>(
    project: &'a ProjectId,
    filter: &'a SessionFilter,
) -> QueryBuilder<'a> {
    let open = filter.active == Some(true);
    // The same texts as the conditions of the partial indexes, which the planner compares.
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

/// Session records.
#[derive(Debug, Clone)]
pub struct Sessions(pub(crate) Database);

impl Sessions {
    /// Records a join: opens a session, and starts the room if it is the first one. A known join changes nothing. A connected participant
    /// with the same identity and another sid is closed as lost.
    ///
    /// # Errors
    /// Refused when the room has ended.
    pub async fn record_join(
        &self,
        project: ProjectId,
        room: RoomId,
        participant: Participant,
        at: Timestamp,
    ) -> Result<RoomSnapshot, StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                record_join(tx, &project, room, &participant, at)
            })
            .await
    }

    /// Reopens the session of a join that the media plane lists although it was closed at `before` or earlier, and stops the room's empty
    /// timer. An open or unknown session changes nothing.
    ///
    /// # Errors
    /// Refused when the room has ended.
    pub async fn record_return(
        &self,
        project: ProjectId,
        room: RoomId,
        participant: Participant,
        before: Timestamp,
    ) -> Result<RoomSnapshot, StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                record_return(tx, &project, room, &participant, before)
            })
            .await
    }

    /// Records a leave: closes a join's session. A closed or unknown one changes nothing.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn record_leave(
        &self,
        project: ProjectId,
        room: RoomId,
        sid: ParticipantSid,
        at: Timestamp,
        departure: Departure,
    ) -> Result<RoomSnapshot, StoreError> {
        self.record_one(
            project,
            room,
            sid,
            Leave {
                at,
                departure,
                empty_since: Some(at),
            },
        )
        .await
    }

    /// Records a leave that is caused by the server's stop. A room emptied by it starts its timer when a server runs again
    /// ([`ServerRecords::begin_run`](crate::ServerRecords::begin_run)), so that the participants can reconnect.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn record_leave_at_stop(
        &self,
        project: ProjectId,
        room: RoomId,
        sid: ParticipantSid,
        at: Timestamp,
        departure: Departure,
    ) -> Result<RoomSnapshot, StoreError> {
        self.record_one(
            project,
            room,
            sid,
            Leave {
                at,
                departure,
                empty_since: None,
            },
        )
        .await
    }

    async fn record_one(
        &self,
        project: ProjectId,
        room: RoomId,
        sid: ParticipantSid,
        leave: Leave,
    ) -> Result<RoomSnapshot, StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                record_leaves(tx, &project, room, |p| p.sid == sid, leave)
            })
            .await
    }

    /// Closes the sessions of participants that the media plane no longer knows, and whose leave was not reported.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn record_lost(
        &self,
        project: ProjectId,
        room: RoomId,
        lost: Vec<ParticipantSid>,
        at: Timestamp,
    ) -> Result<RoomSnapshot, StoreError> {
        let leave = Leave {
            at,
            departure: Departure::Lost,
            empty_since: Some(at),
        };
        self.0
            .write(Queue::for_project(&project), move |tx| {
                record_leaves(tx, &project, room, |p| lost.contains(&p.sid), leave)
            })
            .await
    }

    /// Closes the sessions of participants that were disconnected by a server crash: they end at its last heartbeat, and the empty
    /// timer starts now, so that the participants can reconnect.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn record_interrupted(
        &self,
        project: ProjectId,
        room: RoomId,
        lost: Vec<ParticipantSid>,
        last_heartbeat: Timestamp,
    ) -> Result<RoomSnapshot, StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                let leave = Leave {
                    at: last_heartbeat,
                    departure: Departure::Lost,
                    empty_since: Some(tx.now),
                };
                record_leaves(tx, &project, room, |p| lost.contains(&p.sid), leave)
            })
            .await
    }

    /// Records a join that failed before it completed: an event without a session.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn record_join_aborted(
        &self,
        project: ProjectId,
        room: RoomId,
        participant: ParticipantRef,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                // A participant with a session did join, and its leave is reported by itself.
                if find_session(tx.sql, &project, room, &participant.sid)?.is_some() {
                    return Ok(());
                }
                let room = by_id(tx.sql, &project, room)?;
                tx.emit(&Event::participant_gone(
                    event_context(&room, at),
                    participant,
                    Departure::Lost,
                ))
            })
            .await
    }

    /// Lists a project's sessions, newest first.
    ///
    /// # Errors
    /// Fails when the database cannot be read, or takes too long.
    pub async fn list(
        &self,
        project: ProjectId,
        filter: SessionFilter,
        page: PageRequest,
    ) -> Result<Page<Session>, StoreError> {
        self.0
            .list(project, move |sql, project| {
                list_query(project, &filter).page(sql, page, session)
            })
            .await
    }

    /// Lists the open sessions of all projects, a project's together and latest join first.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn list_open_of_all(&self, page: PageRequest) -> Result<Page<Session>, StoreError> {
        let rows = self
            .0
            // For the operator, so the limits per project do not apply.
            .bulk_read(move |sql| {
                sql.many(
                    &open_of_all_query(),
                    args![page.limit + 1, page.offset.cast_signed()],
                    session,
                )
            })
            .await?;
        Ok(Page::from_fetched(rows, page))
    }

    /// Counts the open sessions in each of the rooms, in their order.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn count_open_in(
        &self,
        rooms: Vec<(ProjectId, RoomId)>,
    ) -> Result<Vec<u32>, StoreError> {
        self.0
            .bulk_read(move |sql| {
                let rows = rooms.iter().map(|(project, room)| *args![*room, project]);
                let counts = sql.each(COUNT_OPEN_IN_ROOM, rows, |row| row.read(0))?;
                Ok(counts
                    .into_iter()
                    .map(|count| count.first().copied().unwrap_or_default())
                    .collect())
            })
            .await
    }

    /// Reads a session with its tracks.
    ///
    /// # Errors
    /// Refused when the project has no such session.
    pub async fn get(
        &self,
        project: ProjectId,
        id: SessionId,
    ) -> Result<SessionDetail, StoreError> {
        self.0
            .read(move |sql| {
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
