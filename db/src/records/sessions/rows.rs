//! Open sessions and their end: first the open tracks, then the session, each with its event.

use conclave_model::event::{
    Departure, Event, EventContext, ParticipantRef, TrackChange, TrackSummary,
};
use conclave_model::room::Room;
use conclave_model::{ParticipantSid, ProjectId, RoomId, SessionId, Timestamp};

use crate::error::StoreError;
use crate::records::rooms::rows::ConnectedParticipant;
use crate::sql::values::args;
use crate::sql::{Row, Sql};
use crate::tx::Tx;

const FIND: &str =
    "SELECT id FROM sessions WHERE room_id = ?1 AND participant_sid = ?2 AND project_id = ?3";
const ROLE: &str = "SELECT role FROM sessions WHERE id = ?1 AND project_id = ?2";
const CLOSE: &str =
    "UPDATE sessions SET left_at = CASE WHEN ?3 < joined_at THEN joined_at ELSE ?3 END
     WHERE id = ?1 AND project_id = ?2 AND left_at IS NULL";
const OPEN_TRACKS: &str = "SELECT track_sid, kind, source, muted FROM tracks
     WHERE session_id = ?1 AND ended_at IS NULL ORDER BY started_at, track_sid";
const END_TRACK: &str = "UPDATE tracks SET ended_at = CASE WHEN ?4 < started_at THEN started_at ELSE ?4 END
     WHERE session_id = (SELECT id FROM sessions WHERE id = ?1 AND project_id = ?2) AND track_sid = ?3 AND ended_at IS NULL";

/// Returns the context of an event in a room.
pub(crate) fn event_context(room: &Room, occurred_at: Timestamp) -> EventContext {
    EventContext {
        project_id: room.project_id.clone(),
        room: room.name.clone(),
        occurred_at,
    }
}

fn participant_ref(participant: &ConnectedParticipant) -> ParticipantRef {
    ParticipantRef {
        identity: participant.identity.clone(),
        sid: participant.sid.clone(),
        role: participant.role.clone(),
    }
}

/// Reads a track from the columns `track_sid, kind, source, muted`.
pub(crate) fn track(row: &Row<'_>) -> Result<TrackSummary, StoreError> {
    Ok(TrackSummary {
        sid: row.get("track_sid")?,
        kind: row.get("kind")?,
        source: row.get("source")?,
        muted: row.get("muted")?,
    })
}

/// Returns a join's session, open or closed.
pub(crate) fn find_session(
    sql: Sql<'_>,
    project: &ProjectId,
    room: RoomId,
    sid: &ParticipantSid,
) -> Result<Option<SessionId>, StoreError> {
    sql.one(FIND, args![room, sid, project], |row| row.get("id"))
}

/// Adds the session's role to a participant whose report names none, since a media plane need not know roles.
pub(crate) fn with_role(
    sql: Sql<'_>,
    project: &ProjectId,
    session: SessionId,
    participant: ParticipantRef,
) -> Result<ParticipantRef, StoreError> {
    match participant.role {
        Some(_) => Ok(participant),
        None => Ok(ParticipantRef {
            role: sql.value(ROLE, args![session, project])?,
            ..participant
        }),
    }
}

/// Ends a track. Returns false if it has already ended, or was never published.
pub(crate) fn end_track(
    tx: &Tx<'_>,
    project: &ProjectId,
    session: SessionId,
    track: &TrackSummary,
    at: Timestamp,
) -> Result<bool, StoreError> {
    Ok(tx
        .sql
        .change(END_TRACK, args![session, project, &track.sid, at])?
        > 0)
}

/// Closes open sessions: first each session's tracks, then the session, with an event for each. A session ends at `at`, or at its join if
/// that is later.
pub(crate) fn close_sessions(
    tx: &mut Tx<'_>,
    room: &Room,
    participants: &[ConnectedParticipant],
    at: Timestamp,
    departure: Departure,
) -> Result<(), StoreError> {
    let project = &room.project_id;
    let sessions = participants
        .iter()
        .map(|participant| *args![participant.session]);
    // All sessions' tracks in one round trip.
    let tracks = tx.sql.each(OPEN_TRACKS, sessions, track)?;
    for (participant, tracks) in participants.iter().zip(tracks) {
        let (session, who) = (participant.session, participant_ref(participant));
        // `at` may be before the join, such as the last heartbeat before a crash. A session must not have negative time.
        let at = at.max(participant.joined_at);
        for track in tracks {
            tx.sql
                .put(END_TRACK, args![session, project, &track.sid, at])?;
            tx.emit(&Event::track(
                event_context(room, at),
                who.clone(),
                track,
                TrackChange::Unpublished,
            ))?;
        }
        tx.sql.put(CLOSE, args![session, project, at])?;
        // In the same transaction as the end, so that the time is counted once.
        tx.count_time(project, participant.joined_at, at)?;
        tx.emit(&Event::participant_gone(
            event_context(room, at),
            who,
            departure,
        ))?;
    }
    Ok(())
}
