//! What happens inside a room, each report one transaction: the session, the room's timer and the events together.
//!
//! Joins and leaves are paired here. Whatever way somebody goes, [`close_session`] writes it: open tracks end first, then
//! the session, each with its event.

use conclave_model::event::{Event, EventContext, ParticipantRef, PublishLimit, TrackSummary};
use conclave_model::participant::Participant;
use conclave_model::room::{Room, RoomStatus, left_deadline};
use conclave_model::{ParticipantSid, Problem, RoomId, SessionId, Timestamp};
use rusqlite::{OptionalExtension, Row, params};

use crate::columns::Columns;
use crate::error::OrStoreError;
use crate::ingresses::complete_of_room;
use crate::rooms::{ConnectedParticipant, RoomSnapshot, by_id, connected_participants};
use crate::writer::Tx;
use crate::{Store, StoreError};

/// Where and when an event of a room happened.
pub(crate) fn event_context(room: &Room, occurred_at: Timestamp) -> EventContext {
    EventContext { project_id: room.project_id.clone(), room: room.name.clone(), occurred_at }
}

fn participant_ref(person: &ConnectedParticipant) -> ParticipantRef {
    ParticipantRef { identity: person.identity.clone(), sid: person.sid.clone(), role: person.role.clone() }
}

fn open_track(row: &Row<'_>) -> rusqlite::Result<TrackSummary> {
    Ok(TrackSummary {
        sid: row.parsed(0)?,
        kind: row.word(1, |word| word.parse().ok())?,
        source: row.word(2, |word| word.parse().ok())?,
        muted: row.get(3)?,
    })
}

fn open_tracks(tx: &Tx<'_>, session: SessionId) -> Result<Vec<TrackSummary>, StoreError> {
    let mut statement = tx
        .sql
        .prepare_cached(
            "SELECT track_sid, kind, source, muted FROM tracks
             WHERE session_id = ?1 AND ended_at IS NULL ORDER BY started_at, track_sid",
        )
        .or_store_error()?;
    statement.query_map([session.0], open_track).and_then(Iterator::collect).or_store_error()
}

fn end_track(tx: &Tx<'_>, session: SessionId, track: &TrackSummary, at: Timestamp) -> Result<bool, StoreError> {
    let ended = tx
        .sql
        .prepare_cached(
            "UPDATE tracks SET ended_at = max(?3, started_at)
             WHERE session_id = ?1 AND track_sid = ?2 AND ended_at IS NULL",
        )
        .and_then(|mut s| s.execute(params![session.0, track.sid.as_str(), at.millis()]))
        .or_store_error()?;
    Ok(ended > 0)
}

/// Ends a session that is open: its tracks first, then itself, with an event for each.
fn close_session(
    tx: &mut Tx<'_>,
    room: &Room,
    person: &ConnectedParticipant,
    at: Timestamp,
    clean: bool,
) -> Result<(), StoreError> {
    let who = participant_ref(person);
    for track in open_tracks(tx, person.session)? {
        end_track(tx, person.session, &track, at)?;
        tx.emit(&Event::track(event_context(room, at), &who, &track, false))?;
    }
    tx.sql
        .prepare_cached("UPDATE sessions SET left_at = max(?2, joined_at) WHERE id = ?1 AND left_at IS NULL")
        .and_then(|mut s| s.execute(params![person.session.0, at.millis()]))
        .or_store_error()?;
    tx.count_time(&room.project_id, person.joined_at, at)?;
    tx.emit(&Event::participant_gone(event_context(room, at), &who, clean))
}

/// Starts the empty timer when nobody is left who keeps the room.
fn start_timer_if_empty(
    tx: &Tx<'_>,
    room: &mut Room,
    left: &[ConnectedParticipant],
    at: Timestamp,
) -> Result<(), StoreError> {
    let kept = left.iter().any(|person| person.kind.keeps_room());
    if kept || room.empty_deadline.is_some() {
        return Ok(());
    }
    let deadline = left_deadline(at, room.empty_timeout_seconds);
    set_deadline(tx, room, Some(deadline))
}

fn set_deadline(tx: &Tx<'_>, room: &mut Room, deadline: Option<Timestamp>) -> Result<(), StoreError> {
    tx.sql
        .prepare_cached("UPDATE rooms SET empty_deadline = ?2 WHERE id = ?1 AND status = 'open'")
        .and_then(|mut s| s.execute(params![room.id.0, deadline.map(Timestamp::millis)]))
        .or_store_error()?;
    room.empty_deadline = deadline;
    Ok(())
}

/// The first participant opens the room: `started_at` and its event, once.
fn start_room(tx: &mut Tx<'_>, room: &mut Room, at: Timestamp) -> Result<(), StoreError> {
    if room.started_at.is_some() {
        return Ok(());
    }
    tx.sql
        .prepare_cached("UPDATE rooms SET started_at = ?2 WHERE id = ?1 AND started_at IS NULL")
        .and_then(|mut s| s.execute(params![room.id.0, at.millis()]))
        .or_store_error()?;
    room.started_at = Some(at);
    tx.emit(&Event::room_started(event_context(room, at)))
}

fn insert_session(tx: &Tx<'_>, room: &Room, participant: &Participant, at: Timestamp) -> Result<bool, StoreError> {
    let inserted = tx
        .sql
        .prepare_cached(
            "INSERT INTO sessions (id, project_id, room_id, room, participant_identity, participant_sid, kind, role,
                                   joined_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (room_id, participant_sid) DO NOTHING",
        )
        .and_then(|mut s| {
            s.execute(params![
                SessionId::new().0,
                room.project_id.as_str(),
                room.id.0,
                room.name.as_str(),
                participant.identity.as_str(),
                participant.sid.as_str(),
                participant.kind.as_str(),
                participant.role().as_ref().map(conclave_model::RoleName::as_str),
                at.millis(),
            ])
        })
        .or_store_error()?;
    if inserted > 0 {
        tx.count_session(&room.project_id, at)?;
    }
    Ok(inserted > 0)
}

fn existing_open_room(tx: &Tx<'_>, id: RoomId) -> Result<Room, StoreError> {
    let room = by_id(tx.sql, id)?;
    if room.status == RoomStatus::Open { Ok(room) } else { StoreError::refuse(Problem::room_ended()) }
}

fn record_join(
    tx: &mut Tx<'_>,
    id: RoomId,
    participant: &Participant,
    at: Timestamp,
) -> Result<RoomSnapshot, StoreError> {
    let mut room = existing_open_room(tx, id)?;
    // Two live participants cannot share an identity: whoever holds it still has left, and the report of it was lost.
    for stale in connected_participants(tx.sql, id)?
        .iter()
        .filter(|p| p.identity == participant.identity && p.sid != participant.sid)
    {
        close_session(tx, &room, stale, at, false)?;
    }
    // A report that comes twice finds its session and changes nothing.
    if participant.kind.makes_session() && insert_session(tx, &room, participant, at)? {
        if participant.kind.keeps_room() {
            start_room(tx, &mut room, at)?;
            set_deadline(tx, &mut room, None)?;
        }
        tx.emit(&Event::participant_joined(event_context(&room, at), &ParticipantRef::from(participant)))?;
    }
    Ok(RoomSnapshot { room, participants: connected_participants(tx.sql, id)? })
}

fn record_leaves(
    tx: &mut Tx<'_>,
    id: RoomId,
    gone: impl Fn(&ConnectedParticipant) -> bool,
    at: Timestamp,
    clean: bool,
) -> Result<RoomSnapshot, StoreError> {
    let mut room = by_id(tx.sql, id)?;
    let before = connected_participants(tx.sql, id)?;
    let (gone, left): (Vec<_>, Vec<_>) = before.into_iter().partition(gone);
    for person in &gone {
        close_session(tx, &room, person, at, clean)?;
    }
    if !gone.is_empty() {
        start_timer_if_empty(tx, &mut room, &left, at)?;
    }
    Ok(RoomSnapshot { room, participants: left })
}

fn session_of(tx: &Tx<'_>, id: RoomId, sid: &ParticipantSid) -> Result<Option<SessionId>, StoreError> {
    tx.sql
        .prepare_cached("SELECT id FROM sessions WHERE room_id = ?1 AND participant_sid = ?2")
        .and_then(|mut s| s.query_row(params![id.0, sid.as_str()], |row| Ok(SessionId(row.get(0)?))).optional())
        .or_store_error()
}

fn insert_track(tx: &Tx<'_>, session: SessionId, track: &TrackSummary, at: Timestamp) -> Result<bool, StoreError> {
    let inserted = tx
        .sql
        .prepare_cached(
            "INSERT INTO tracks (session_id, track_sid, kind, source, muted, started_at)
             SELECT id, ?2, ?3, ?4, ?5, ?6 FROM sessions WHERE id = ?1 AND left_at IS NULL
             ON CONFLICT (session_id, track_sid) DO NOTHING",
        )
        .and_then(|mut s| {
            s.execute(params![
                session.0,
                track.sid.as_str(),
                track.kind.as_str(),
                track.source.as_str(),
                track.muted,
                at.millis()
            ])
        })
        .or_store_error()?;
    Ok(inserted > 0)
}

fn record_track(
    tx: &mut Tx<'_>,
    id: RoomId,
    who: &ParticipantRef,
    track: &TrackSummary,
    (published, at): (bool, Timestamp),
) -> Result<(), StoreError> {
    let Some(session) = session_of(tx, id, &who.sid)? else { return Ok(()) };
    let changed = if published { insert_track(tx, session, track, at)? } else { end_track(tx, session, track, at)? };
    if changed {
        let (room, who) = (by_id(tx.sql, id)?, with_role(tx, session, who)?);
        tx.emit(&Event::track(event_context(&room, at), &who, track, published))?;
    }
    Ok(())
}

/// Somebody with the role of their session, where a report names none: a media plane need not know it.
fn with_role(tx: &Tx<'_>, session: SessionId, who: &ParticipantRef) -> Result<ParticipantRef, StoreError> {
    if who.role.is_some() {
        return Ok(who.clone());
    }
    let role = tx
        .sql
        .prepare_cached("SELECT role FROM sessions WHERE id = ?1")
        .and_then(|mut s| s.query_row([session.0], |row| row.parsed_opt(0)))
        .or_store_error()?;
    Ok(ParticipantRef { role, ..who.clone() })
}

/// Ends a room that is open: everybody's session, its ingress endpoints, then the room, with `room.finished` last. Ended
/// rooms stay as they are.
fn end_room(tx: &mut Tx<'_>, id: RoomId, at: Timestamp) -> Result<Room, StoreError> {
    let mut room = by_id(tx.sql, id)?;
    let ended = tx
        .sql
        .prepare_cached(
            "UPDATE rooms SET status = 'ended', ended_at = max(?2, created_at), empty_deadline = NULL
             WHERE id = ?1 AND status = 'open'",
        )
        .and_then(|mut s| s.execute(params![id.0, at.millis()]))
        .or_store_error()?;
    if ended == 0 {
        return Ok(room);
    }
    for person in connected_participants(tx.sql, id)? {
        close_session(tx, &room, &person, at, true)?;
    }
    complete_of_room(tx, id, at)?;
    tx.emit(&Event::room_finished(event_context(&room, at)))?;
    room = by_id(tx.sql, id)?;
    Ok(room)
}

impl Store {
    /// Writes that somebody joined: a session, and the room's start when it is the first. A join known already changes
    /// nothing.
    ///
    /// # Errors
    /// Refused when the room has ended.
    pub async fn record_join(
        &self,
        room: RoomId,
        participant: Participant,
        at: Timestamp,
    ) -> Result<RoomSnapshot, StoreError> {
        self.write(move |tx| record_join(tx, room, &participant, at)).await
    }

    /// Writes that one join ended. One that is not open changes nothing.
    ///
    /// # Errors
    /// The store's own.
    pub async fn record_leave(
        &self,
        room: RoomId,
        sid: ParticipantSid,
        at: Timestamp,
        clean: bool,
    ) -> Result<RoomSnapshot, StoreError> {
        self.write(move |tx| record_leaves(tx, room, |person| person.sid == sid, at, clean)).await
    }

    /// Closes the sessions of everybody in `lost`, whom the media plane no longer knows and whose leave was not
    /// reported.
    ///
    /// # Errors
    /// The store's own.
    pub async fn record_lost(
        &self,
        room: RoomId,
        lost: Vec<ParticipantSid>,
        at: Timestamp,
    ) -> Result<RoomSnapshot, StoreError> {
        self.write(move |tx| record_leaves(tx, room, |person| lost.contains(&person.sid), at, false)).await
    }

    /// Writes that a join failed before it completed: one event, no session.
    ///
    /// # Errors
    /// The store's own.
    pub async fn record_join_aborted(
        &self,
        room: RoomId,
        who: ParticipantRef,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(move |tx| {
            if session_of(tx, room, &who.sid)?.is_some() {
                return Ok(());
            }
            let room = by_id(tx.sql, room)?;
            tx.emit(&Event::participant_gone(event_context(&room, at), &who, false))
        })
        .await
    }

    /// Writes that a track began or stopped. Tracks of nobody we know, and repeated reports, change nothing.
    ///
    /// # Errors
    /// The store's own.
    pub async fn record_track(
        &self,
        room: RoomId,
        who: ParticipantRef,
        track: TrackSummary,
        published: bool,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(move |tx| record_track(tx, room, &who, &track, (published, at))).await
    }

    /// The tracks of everybody in a room that have not ended.
    ///
    /// # Errors
    /// The store's own.
    pub async fn open_tracks(&self, room: RoomId) -> Result<Vec<(ParticipantSid, TrackSummary)>, StoreError> {
        self.read(move |sql| {
            let mut statement = sql
                .prepare_cached(
                    "SELECT t.track_sid, t.kind, t.source, t.muted, s.participant_sid
                     FROM sessions s JOIN tracks t ON t.session_id = s.id
                     WHERE s.room_id = ?1 AND s.left_at IS NULL AND t.ended_at IS NULL",
                )
                .or_store_error()?;
            let tracks = statement.query_map([room.0], |row| Ok((row.parsed(4)?, open_track(row)?)));
            tracks.and_then(Iterator::collect).or_store_error()
        })
        .await
    }

    /// Writes whether a track is muted, for the event that will say so when it stops. Tracks that have stopped stay as
    /// they ended.
    ///
    /// # Errors
    /// The store's own.
    pub async fn record_track_muted(
        &self,
        room: RoomId,
        sid: ParticipantSid,
        track: TrackSummary,
    ) -> Result<(), StoreError> {
        self.write(move |tx| {
            let Some(session) = session_of(tx, room, &sid)? else { return Ok(()) };
            tx.sql
                .prepare_cached(
                    "UPDATE tracks SET muted = ?3 WHERE session_id = ?1 AND track_sid = ?2 AND ended_at IS NULL",
                )
                .and_then(|mut s| s.execute(params![session.0, track.sid.as_str(), track.muted]))
                .or_store_error()?;
            Ok(())
        })
        .await
    }

    /// Writes that somebody's bitrate crossed its ceiling.
    ///
    /// # Errors
    /// The store's own.
    pub async fn record_publish_limit(
        &self,
        room: RoomId,
        who: ParticipantRef,
        limit: PublishLimit,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(move |tx| {
            let session = session_of(tx, room, &who.sid)?;
            let who = session.map_or(Ok(who.clone()), |session| with_role(tx, session, &who))?;
            let room = by_id(tx.sql, room)?;
            tx.emit(&Event::publish_limit(event_context(&room, at), &who, &limit))
        })
        .await
    }

    /// Ends a room, at most once. Gives it back as it is.
    ///
    /// # Errors
    /// The store's own.
    pub async fn end_room(&self, room: RoomId) -> Result<Room, StoreError> {
        self.write(move |tx| {
            let at = tx.now;
            end_room(tx, room, at)
        })
        .await
    }
}
