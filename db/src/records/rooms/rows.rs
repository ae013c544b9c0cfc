//! Rows of rooms and of their connected participants, as other records read them.

use conclave_model::participant::ParticipantKind;
use conclave_model::room::{Room, RoomStatus};
use conclave_model::{
    Identity, ParticipantSid, Problem, ProjectId, RoleName, RoomId, RoomName, SessionId, Timestamp,
};

use crate::error::StoreError;
use crate::records::templates::auto_record;
use crate::sql::values::args;
use crate::sql::{Row, Sql, no_row};

/// A room and its connected participants at one moment: the initial state of a room actor, and the result of every change.
#[derive(Debug, Clone)]
pub struct RoomSnapshot {
    /// Room record.
    pub room: Room,
    /// Participants with an open session, including hidden ones, in join order.
    pub participants: Vec<ConnectedParticipant>,
}

/// Participant with an open session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectedParticipant {
    /// Open session.
    pub session: SessionId,
    /// Identity, unique among the room's connected participants.
    pub identity: Identity,
    /// The media plane's join id.
    pub sid: ParticipantSid,
    /// Kind: standard, ingress, egress, and so on.
    pub kind: ParticipantKind,
    /// Current role; `None` if the participant joined without one.
    pub role: Option<RoleName>,
    /// Join time.
    pub joined_at: Timestamp,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, project_id, name, max_participants, empty_timeout_seconds, max_duration_seconds, metadata, status, template_id,
                    auto_record,
                    created_at, started_at, ended_at, empty_deadline
             FROM rooms ",
            $rest
        )
    };
}

/// Without `ORDER BY`, for which SQLite would search the closed sessions, too. The callers sort.
macro_rules! select_participants {
    ($rest:literal) => {
        concat!(
            "SELECT id, participant_identity, participant_sid, kind, role, joined_at, room_id FROM sessions
             WHERE left_at IS NULL AND ",
            $rest
        )
    };
}

/// All rooms, without a condition.
pub(crate) const SELECT_ROOMS: &str = select!("");
/// Open rooms of the project `?1`.
pub(crate) const SELECT_OPEN_ROOMS: &str = select!("WHERE project_id = ?1 AND status = 'open'");
/// Open rooms of all projects, in the order of their index.
pub(crate) const SELECT_OPEN_OF_ALL: &str = select!(
    "WHERE status = 'open' ORDER BY project_id DESC, template_id DESC NULLS LAST, id DESC LIMIT ?1 OFFSET ?2"
);
/// Room of the project `?1` with the name `?2`.
pub(crate) const SELECT_BY_NAME: &str = select!("WHERE project_id = ?1 AND name = ?2");
const SELECT_BY_ID: &str = select!("WHERE id = ?1 AND project_id = ?2");
const SELECT_CONNECTED: &str =
    select_participants!("room_id = (SELECT id FROM rooms WHERE id = ?1 AND project_id = ?2)");
/// An identity has at most one open session per room.
const SELECT_CONNECTED_BY_IDENTITY: &str = select_participants!(
    "room_id = (SELECT id FROM rooms WHERE id = ?1 AND project_id = ?2) AND participant_identity = ?3 LIMIT 1"
);
const SELECT_ALL_CONNECTED: &str = select_participants!("project_id = ?1");

/// Rooms with the state of their calls, without a condition. Few egresses of a project run, and have their own index. Concatenation
/// keeps the planner from searching all egresses of a kind. An ending egress captures nothing more, although its upload may take long.
pub(crate) const SELECT_LIVE_ROOMS: &str =
    "SELECT id, project_id, name, max_participants, empty_timeout_seconds, max_duration_seconds, metadata, status, template_id,
            auto_record, created_at, started_at, ended_at, empty_deadline,
            (SELECT count(*) FROM sessions s WHERE s.room_id = rooms.id AND s.left_at IS NULL) AS participants,
            (SELECT count(*) FROM sessions s WHERE s.room_id = rooms.id AND s.left_at IS NULL
                AND EXISTS (SELECT 1 FROM tracks t WHERE t.session_id = s.id AND t.ended_at IS NULL)) AS publishers,
            EXISTS (SELECT 1 FROM egresses e WHERE e.project_id = rooms.project_id AND e.ended_at IS NULL
                AND e.room_id = rooms.id AND e.kind || '' = 'recording' AND e.status <> 'ending') AS recording,
            EXISTS (SELECT 1 FROM egresses e WHERE e.project_id = rooms.project_id AND e.ended_at IS NULL
                AND e.room_id = rooms.id AND e.kind || '' = 'broadcast' AND e.status <> 'ending') AS broadcasting
     FROM rooms";

/// Reads a room from a row of [`SELECT_ROOMS`].
pub(crate) fn room(row: &Row<'_>) -> Result<Room, StoreError> {
    Ok(Room {
        id: row.get("id")?,
        project_id: row.get("project_id")?,
        name: row.get("name")?,
        max_participants: row.get("max_participants")?,
        empty_timeout_seconds: row.get("empty_timeout_seconds")?,
        max_duration_seconds: row.get("max_duration_seconds")?,
        metadata: row.get("metadata")?,
        status: row.get("status")?,
        template_id: row.get("template_id")?,
        auto_record: auto_record(row)?.map(Box::new),
        created_at: row.get("created_at")?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
        empty_deadline: row.get("empty_deadline")?,
    })
}

fn participant(row: &Row<'_>) -> Result<ConnectedParticipant, StoreError> {
    Ok(ConnectedParticipant {
        session: row.get("id")?,
        identity: row.get("participant_identity")?,
        sid: row.get("participant_sid")?,
        kind: row.get("kind")?,
        role: row.get("role")?,
        joined_at: row.get("joined_at")?,
    })
}

/// Reads a project's room by name, open or ended.
pub(crate) fn by_name(
    sql: Sql<'_>,
    project: &ProjectId,
    name: &RoomName,
) -> Result<Option<Room>, StoreError> {
    sql.one(SELECT_BY_NAME, args![project, name], room)
}

/// Reads a room that is known to exist.
pub(crate) fn by_id(sql: Sql<'_>, project: &ProjectId, id: RoomId) -> Result<Room, StoreError> {
    sql.one(SELECT_BY_ID, args![id, project], room)?
        .ok_or_else(no_row)
}

/// Reads a room that is known to exist, and refuses it if it has ended.
pub(crate) fn open_by_id(
    sql: Sql<'_>,
    project: &ProjectId,
    id: RoomId,
) -> Result<Room, StoreError> {
    open(by_id(sql, project, id)?)
}

/// Refuses a room that has ended.
pub(crate) fn open(room: Room) -> Result<Room, StoreError> {
    if room.status == RoomStatus::Open {
        Ok(room)
    } else {
        StoreError::refuse(Problem::room_ended())
    }
}

/// Reads a room that is known to exist, and its participants with an open session, in join order.
pub(crate) fn with_connected(
    sql: Sql<'_>,
    project: &ProjectId,
    id: RoomId,
) -> Result<RoomSnapshot, StoreError> {
    let key = args![id, project];
    let (room, connected) = sql.one_and_many(
        (SELECT_BY_ID, key),
        room,
        (SELECT_CONNECTED, key),
        participant,
    )?;
    Ok(RoomSnapshot {
        room: room.ok_or_else(no_row)?,
        participants: in_join_order(connected),
    })
}

/// Reads a room's participants with an open session, in join order.
pub(crate) fn connected_participants(
    sql: Sql<'_>,
    project: &ProjectId,
    room: RoomId,
) -> Result<Vec<ConnectedParticipant>, StoreError> {
    sql.many(SELECT_CONNECTED, args![room, project], participant)
        .map(in_join_order)
}

fn in_join_order(mut connected: Vec<ConnectedParticipant>) -> Vec<ConnectedParticipant> {
    // The session id breaks ties within a millisecond, since UUIDv7 grows with time.
    connected.sort_unstable_by_key(|participant| (participant.joined_at, participant.session));
    connected
}

/// Reads the participant with this identity that has an open session in a room.
pub(crate) fn connected_participant(
    sql: Sql<'_>,
    project: &ProjectId,
    room: RoomId,
    identity: &Identity,
) -> Result<Option<ConnectedParticipant>, StoreError> {
    sql.one(
        SELECT_CONNECTED_BY_IDENTITY,
        args![room, project, identity],
        participant,
    )
}

/// Reads a project's participants with an open session in any room, in join order.
pub(crate) fn all_connected_participants(
    sql: Sql<'_>,
    project: &ProjectId,
) -> Result<Vec<(RoomId, ConnectedParticipant)>, StoreError> {
    // The index of open sessions starts with the project, so closed ones are not read.
    let mut connected = sql.many(SELECT_ALL_CONNECTED, args![project], |row| {
        Ok((row.get("room_id")?, participant(row)?))
    })?;
    connected.sort_unstable_by_key(|(_, participant)| (participant.joined_at, participant.session));
    Ok(connected)
}
