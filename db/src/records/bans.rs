//! Bans of identities from rooms, and revocations of tokens. A ban refuses an identity while it is in force. A revocation refuses the
//! identity's tokens that were minted before it: a token names the last revocation before it was minted, so that no clock decides which
//! is newer.

use std::collections::HashMap;

use conclave_model::ban::{Ban, MAX_PER_ROOM, REVOCATION_LIFE};
use conclave_model::page::{Page, PageRequest};
use conclave_model::room::{Room, RoomStatus};
use conclave_model::{
    BanId, ErrorCode, Identity, Problem, ProjectId, RevocationId, RoomId, RoomName, Timestamp,
};

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::records::rooms::rows::by_name;
use crate::sql::query_builder::QueryBuilder;
use crate::sql::values::args;
use crate::sql::{Row, Sql};
use crate::tx::Tx;

/// Identity to ban.
#[derive(Debug, Clone)]
pub struct NewBan {
    /// Project that the room belongs to.
    pub project_id: ProjectId,
    /// Room, which must be open.
    pub room: RoomName,
    /// Identity, which need not be connected.
    pub identity: Identity,
    /// Time from which the identity may join again; `None` for never.
    pub until: Option<Timestamp>,
    /// Reason for the ban.
    pub reason: Option<String>,
    /// Whether it may end before a ban that is in force. A participant that may ban others may not lift their bans.
    pub may_shorten: bool,
}

/// Ban that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutBan {
    /// Record.
    pub ban: Ban,
    /// Whether the identity was not banned before.
    pub is_new: bool,
}

/// Bans and revocations that concern an identity's joins in a room, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exclusion {
    /// Whether a ban is in force.
    pub is_banned: bool,
    /// Last revocation of the identity's tokens.
    pub revocation: Option<RevocationId>,
}

impl Exclusion {
    /// Returns whether a token is revoked. `known` is the revocation that it names.
    #[must_use]
    pub fn revokes(&self, known: Option<RevocationId>) -> bool {
        self.revocation.is_some() && self.revocation != known
    }

    /// Reads the columns `bans` and `revocation`.
    pub(crate) fn read(row: &Row<'_>) -> Result<Self, StoreError> {
        let bans: i64 = row.get("bans")?;
        Ok(Self {
            is_banned: bans > 0,
            revocation: row.get("revocation")?,
        })
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, room, participant_identity, until, reason, created_at, updated_at FROM bans",
            $rest
        )
    };
}

const SELECT: &str = select!("");
const SELECT_ONE: &str =
    select!(" WHERE room_id = ?1 AND participant_identity = ?2 AND project_id = ?3");
const INSERT: &str =
    "INSERT INTO bans (id, project_id, room_id, room, participant_identity, until, reason, created_at, updated_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)";
const UPDATE: &str =
    "UPDATE bans SET until = ?3, reason = ?4, updated_at = ?5 WHERE id = ?1 AND project_id = ?2";
const DELETE: &str =
    "DELETE FROM bans WHERE room_id = ?1 AND participant_identity = ?2 AND project_id = ?3";
const BANS: Limited = Limited {
    count: "SELECT count(*) FROM bans WHERE room_id = ?1 AND project_id = ?2",
    delete_over: "DELETE FROM bans WHERE room_id = ?1 AND project_id = ?2 AND until <= ?3",
};
const REVOCATIONS: Limited = Limited {
    count: "SELECT count(*) FROM revocations WHERE room_id = ?1 AND project_id = ?2",
    delete_over: "DELETE FROM revocations WHERE room_id = ?1 AND project_id = ?2 AND tokens_minted_until <= ?3",
};
const REVOKE: &str =
    "INSERT INTO revocations (id, project_id, room_id, room, participant_identity, tokens_minted_until)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6)
     ON CONFLICT (room_id, participant_identity)
         DO UPDATE SET id = excluded.id, tokens_minted_until = excluded.tokens_minted_until";
const IS_REVOKED: &str = "SELECT count(*) FROM revocations
     WHERE room_id = ?1 AND participant_identity = ?2 AND project_id = ?3";
const OLDEST_REVOCATION: &str =
    "SELECT min(tokens_minted_until) FROM revocations WHERE room_id = ?1 AND project_id = ?2";
const SELECT_BANNED: &str = "SELECT participant_identity FROM bans
     WHERE room_id = ?1 AND project_id = ?2 AND (until IS NULL OR until > ?3)";
const SELECT_REVOCATIONS: &str =
    "SELECT participant_identity, id FROM revocations WHERE room_id = ?1 AND project_id = ?2";

fn record(row: &Row<'_>) -> Result<Ban, StoreError> {
    Ok(Ban {
        id: row.get("id")?,
        room: row.get("room")?,
        identity: row.get("participant_identity")?,
        until: row.get("until")?,
        reason: row.get("reason")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

/// Returns a room that can still be joined. An ended room is refused with `ended`.
fn open_room(
    sql: Sql<'_>,
    project: &ProjectId,
    name: &RoomName,
    ended: fn() -> Problem,
) -> Result<Room, StoreError> {
    let room = by_name(sql, project, name)?.ok_or_else(Problem::room_not_found)?;
    if room.status == RoomStatus::Open {
        Ok(room)
    } else {
        StoreError::refuse(ended())
    }
}

/// Rows with a maximum of [`MAX_PER_ROOM`] for each room.
struct Limited {
    /// Counts a room's rows.
    count: &'static str,
    /// Deletes a room's rows that are over at `?3`.
    delete_over: &'static str,
}

impl Limited {
    /// Returns whether a room has the maximum. If it does, the rows that are over at `over` are deleted first.
    fn is_full(&self, tx: &Tx<'_>, room: &Room, over: Timestamp) -> Result<bool, StoreError> {
        let is_full = || -> Result<bool, StoreError> {
            let rows: i64 = tx.sql.value(self.count, args![room.id, &room.project_id])?;
            Ok(rows >= MAX_PER_ROOM)
        };
        if !is_full()? {
            return Ok(false);
        }
        tx.sql
            .put(self.delete_over, args![room.id, &room.project_id, over])?;
        is_full()
    }
}

fn put(tx: &Tx<'_>, new: NewBan) -> Result<PutBan, StoreError> {
    let room = open_room(tx.sql, &new.project_id, &new.room, Problem::room_ended)?;
    let key = args![room.id, &new.identity, &room.project_id];
    let current = tx.sql.one(SELECT_ONE, key, record)?;
    if let Some(ban) = current.filter(|ban| ban.is_in_force(tx.now)) {
        if !new.may_shorten && ban.outlasts(new.until) {
            let message = "a room token can prolong a ban, but not shorten it";
            return StoreError::refuse(Problem::new(ErrorCode::PermissionDenied, message));
        }
        let row = args![
            ban.id,
            &room.project_id,
            new.until,
            new.reason.as_deref(),
            tx.now
        ];
        tx.sql.put(UPDATE, row)?;
        let ban = Ban {
            until: new.until,
            reason: new.reason,
            updated_at: tx.now,
            ..ban
        };
        return Ok(PutBan { ban, is_new: false });
    }
    // A ban that is over is replaced, so that the new one has its own id and time.
    tx.sql.put(DELETE, key)?;
    if BANS.is_full(tx, &room, tx.now)? {
        let message = format!("a room has at most {MAX_PER_ROOM} bans; lift one first");
        return StoreError::refuse(Problem::new(ErrorCode::BanLimitReached, message));
    }
    let ban = Ban {
        id: BanId::new(),
        room: room.name,
        identity: new.identity,
        until: new.until,
        reason: new.reason,
        created_at: tx.now,
        updated_at: tx.now,
    };
    let row = args![
        ban.id,
        &room.project_id,
        room.id,
        &ban.room,
        &ban.identity,
        ban.until,
        ban.reason.as_deref(),
        ban.created_at,
    ];
    tx.sql.put(INSERT, row)?;
    Ok(PutBan { ban, is_new: true })
}

fn revoke(tx: &Tx<'_>, room: &Room, identity: &Identity) -> Result<(), StoreError> {
    let key = args![room.id, identity, &room.project_id];
    let current: i64 = tx.sql.value(IS_REVOKED, key)?;
    if current == 0 && REVOCATIONS.is_full(tx, room, tx.now.before(REVOCATION_LIFE))? {
        let of_room = args![room.id, &room.project_id];
        let oldest: Timestamp = tx.sql.value(OLDEST_REVOCATION, of_room)?;
        let hours = REVOCATION_LIFE.as_secs() / 3_600;
        let message = format!(
            "at most {MAX_PER_ROOM} identities' tokens can be revoked in a room within {hours} hours; ban the identity, or end the room"
        );
        let problem = Problem::new(ErrorCode::RateLimited, message)
            .after(oldest.after(REVOCATION_LIFE).since(tx.now));
        return StoreError::refuse(problem);
    }
    let row = args![
        RevocationId::new(),
        &room.project_id,
        room.id,
        &room.name,
        identity,
        tx.now,
    ];
    tx.sql.put(REVOKE, row)
}

/// Returns the query that lists a room's bans, newest first.
pub(crate) fn list_query(project: &ProjectId, room: RoomId) -> QueryBuilder<'_> {
    QueryBuilder::new(SELECT, "project_id", project, "created_at DESC, id DESC")
        .and("room_id =", Some(room))
}

/// Ban and revocation records.
#[derive(Debug, Clone)]
pub struct Bans(pub(crate) Database);

impl Bans {
    /// Bans an identity from a room, or changes the ban that is in force.
    ///
    /// # Errors
    /// Refused when the project has no room by that name, the room has ended or has its maximum of bans, or the ban in force may not be
    /// shortened.
    pub async fn put(&self, new: NewBan) -> Result<PutBan, StoreError> {
        self.0
            .write(Queue::for_project(&new.project_id), move |tx| put(tx, new))
            .await
    }

    /// Lifts a ban.
    ///
    /// # Errors
    /// Refused when the project has no room by that name, or the identity is not banned from it.
    pub async fn lift(
        &self,
        project: ProjectId,
        room: RoomName,
        identity: Identity,
    ) -> Result<(), StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                let room = by_name(tx.sql, &project, &room)?.ok_or_else(Problem::room_not_found)?;
                if tx.sql.change(DELETE, args![room.id, &identity, &project])? == 0 {
                    let message = "the identity is not banned from the room";
                    return StoreError::refuse(Problem::new(ErrorCode::BanNotFound, message));
                }
                Ok(())
            })
            .await
    }

    /// Lists a room's bans, newest first, including bans that are over and not deleted yet.
    ///
    /// # Errors
    /// Refused when the project has no room by that name.
    pub async fn list(
        &self,
        project: ProjectId,
        room: RoomName,
        page: PageRequest,
    ) -> Result<Page<Ban>, StoreError> {
        self.0
            .list(project, move |sql, project| {
                let room = by_name(sql, project, &room)?.ok_or_else(Problem::room_not_found)?;
                list_query(project, room.id).page(sql, page, record)
            })
            .await
    }

    /// Revokes an identity's tokens for a room that were minted until now.
    ///
    /// # Errors
    /// Refused when the project has no room by that name, or the room has ended or has its maximum of revocations.
    pub async fn revoke_tokens(
        &self,
        project: ProjectId,
        room: RoomName,
        identity: Identity,
    ) -> Result<(), StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                // As for every removal from an ended room.
                let ended = Problem::participant_not_found;
                let room = open_room(tx.sql, &project, &room, ended)?;
                revoke(tx, &room, &identity)
            })
            .await
    }

    /// Reads the bans in force and the revocations of a room, by identity.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn exclusions(
        &self,
        project: ProjectId,
        room: RoomId,
    ) -> Result<HashMap<Identity, Exclusion>, StoreError> {
        let now = self.0.clock().now();
        self.0
            .read(move |sql| {
                let mut found: HashMap<Identity, Exclusion> = HashMap::new();
                let banned = sql.many(SELECT_BANNED, args![room, &project, now], |row| {
                    row.get("participant_identity")
                })?;
                for identity in banned {
                    found.entry(identity).or_default().is_banned = true;
                }
                let revoked = sql.many(SELECT_REVOCATIONS, args![room, &project], |row| {
                    Ok((row.get("participant_identity")?, row.get("id")?))
                })?;
                for (identity, revocation) in revoked {
                    found.entry(identity).or_default().revocation = Some(revocation);
                }
                Ok(found)
            })
            .await
    }
}
