//! Tracks of connected participants, and crossings of their bitrate limits.

use conclave_model::event::{Event, ParticipantRef, PublishLimit, TrackChange, TrackSummary};
use conclave_model::participant::{Participant, TrackKind};
use conclave_model::room::Room;
use conclave_model::{ParticipantSid, ProjectId, RoomId, SessionId, Timestamp, TrackSid};

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::records::rooms::rows::by_id;
use crate::records::sessions::rows::{end_track, event_context, find_session, track, with_role};
use crate::sql::Row;
use crate::sql::values::args;
use crate::tx::Tx;

/// Track that has not ended.
#[derive(Debug, Clone)]
pub struct OpenTrack {
    /// Join that publishes it.
    pub participant: ParticipantSid,
    /// Description of the track.
    pub track: TrackSummary,
}

const INSERT: &str = "INSERT INTO tracks (session_id, track_sid, kind, source, muted, started_at)
     SELECT id, ?3, ?4, ?5, ?6, ?7 FROM sessions WHERE id = ?1 AND project_id = ?2 AND left_at IS NULL
     ON CONFLICT (session_id, track_sid) DO NOTHING";
const REOPEN: &str = "UPDATE tracks SET ended_at = NULL
     WHERE session_id = (SELECT id FROM sessions WHERE room_id = ?1 AND participant_sid = ?2 AND project_id = ?3)
       AND track_sid = ?4 AND ended_at IS NOT NULL
     RETURNING track_sid";
const SET_MUTED: &str = "UPDATE tracks SET muted = ?4
     WHERE session_id = (SELECT id FROM sessions WHERE id = ?1 AND project_id = ?2) AND track_sid = ?3 AND ended_at IS NULL";
const SELECT_OPEN: &str = "SELECT t.track_sid, t.kind, t.source, t.muted, s.participant_sid
     FROM sessions s JOIN tracks t ON t.session_id = s.id
     WHERE s.room_id = (SELECT id FROM rooms WHERE id = ?1 AND project_id = ?2) AND s.left_at IS NULL AND t.ended_at IS NULL";

const SELECT_KIND: &str = "SELECT t.kind FROM sessions s JOIN tracks t ON t.session_id = s.id
     WHERE s.room_id = (SELECT id FROM rooms WHERE id = ?1 AND project_id = ?2) AND s.left_at IS NULL AND t.ended_at IS NULL
       AND t.track_sid = ?3";

/// Inserts a track of an open session. Returns false if the track is already recorded.
fn insert(
    tx: &Tx<'_>,
    project: &ProjectId,
    session: SessionId,
    track: &TrackSummary,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let row = args![
        session,
        project,
        &track.sid,
        track.kind,
        track.source,
        track.muted,
        at
    ];
    Ok(tx.sql.change(INSERT, row)? > 0)
}

/// Reopens the tracks of a reopened session that its participant still publishes, with an event for each.
pub(crate) fn reopen_tracks(
    tx: &mut Tx<'_>,
    room: &Room,
    participant: &Participant,
    at: Timestamp,
) -> Result<(), StoreError> {
    // Other tracks ended with the session, and stay ended.
    let tracks: Vec<_> = participant.tracks.iter().map(TrackSummary::from).collect();
    let rows = tracks
        .iter()
        .map(|track| *args![room.id, &participant.sid, &room.project_id, &track.sid]);
    // One row per track that had ended with the session, and none for others.
    let reopened = tx
        .sql
        .each(REOPEN, rows, |row| row.get::<TrackSid>("track_sid"))?;
    for (track, _) in tracks
        .into_iter()
        .zip(reopened)
        .filter(|(_, reopened)| !reopened.is_empty())
    {
        let (context, who) = (event_context(room, at), ParticipantRef::from(participant));
        tx.emit(&Event::track(context, who, track, TrackChange::Published))?;
    }
    Ok(())
}

fn record_track(
    tx: &mut Tx<'_>,
    project: &ProjectId,
    room: RoomId,
    participant: ParticipantRef,
    track: &TrackSummary,
    change: TrackChange,
    at: Timestamp,
) -> Result<(), StoreError> {
    // A recorder has no session, so its tracks are not recorded.
    // The session may be closed: the end of a track may be reported after the leave, and changes nothing then.
    let Some(session) = find_session(tx.sql, project, room, &participant.sid)? else {
        return Ok(());
    };
    // Both are conditional writes, which return whether anything changed.
    let write = match change {
        TrackChange::Published => insert,
        TrackChange::Unpublished => end_track,
    };
    // No event if nothing changed, so a repeated report emits none.
    if write(tx, project, session, track, at)? {
        let room = by_id(tx.sql, project, room)?;
        let participant = with_role(tx.sql, project, session, participant)?;
        tx.emit(&Event::track(
            event_context(&room, at),
            participant,
            track.clone(),
            change,
        ))?;
    }
    Ok(())
}

/// Track records.
#[derive(Debug, Clone)]
pub struct Tracks(pub(crate) Database);

impl Tracks {
    /// Records that a track was published or unpublished. Repeated reports, and tracks of unknown joins, change nothing.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn record(
        &self,
        project: ProjectId,
        room: RoomId,
        participant: ParticipantRef,
        track: TrackSummary,
        change: TrackChange,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                record_track(tx, &project, room, participant, &track, change, at)
            })
            .await
    }

    /// Reads the open tracks of a room's connected participants.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn list_open(
        &self,
        project: ProjectId,
        room: RoomId,
    ) -> Result<Vec<OpenTrack>, StoreError> {
        self.0
            .bulk_read(move |sql| {
                let read = |row: &Row<'_>| {
                    Ok(OpenTrack {
                        participant: row.get("participant_sid")?,
                        track: track(row)?,
                    })
                };
                sql.many(SELECT_OPEN, args![room, &project], read)
            })
            .await
    }

    /// Reads the kind of an open track of a room's connected participant; `None` if there is no such track.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn kind(
        &self,
        project: ProjectId,
        room: RoomId,
        track: TrackSid,
    ) -> Result<Option<TrackKind>, StoreError> {
        self.0
            .read(move |sql| {
                sql.one(SELECT_KIND, args![room, &project, &track], |row| {
                    row.get("kind")
                })
            })
            .await
    }

    /// Records whether an open track is muted, for the event of its end. Ended tracks do not change.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn record_muted(
        &self,
        project: ProjectId,
        room: RoomId,
        sid: ParticipantSid,
        track: TrackSummary,
    ) -> Result<(), StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| match find_session(
                tx.sql, &project, room, &sid,
            )? {
                Some(session) => tx
                    .sql
                    .put(SET_MUTED, args![session, &project, &track.sid, track.muted]),
                None => Ok(()),
            })
            .await
    }

    /// Records that a participant's bitrate crossed its role's limit, as an event.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn record_publish_limit(
        &self,
        project: ProjectId,
        room: RoomId,
        mut participant: ParticipantRef,
        limit: PublishLimit,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                // Without a session, the role in the report is all that is known.
                // The report may lack the role, which receivers of the event need.
                if let Some(session) = find_session(tx.sql, &project, room, &participant.sid)? {
                    participant = with_role(tx.sql, &project, session, participant)?;
                }
                let room = by_id(tx.sql, &project, room)?;
                tx.emit(&Event::publish_limit(
                    event_context(&room, at),
                    participant,
                    limit,
                ))
            })
            .await
    }
}
