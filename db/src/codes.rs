//! Room codes. A code is looked up by its SHA-256, which is all that is kept of it beside the first four characters: it
//! is drawn at random and long, so a hash says nothing about the codes near it, and an index can be searched for it.

use conclave_model::code::{RoomCode, RoomCodeHash, RoomCodeRecord};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::page::{Page, PageRequest};
use conclave_model::project::ProjectStatus;
use conclave_model::room::{Room, RoomStatus};
use conclave_model::usage::MonthUse;
use conclave_model::{CodeId, ErrorCode, Identity, Problem, ProjectId, RoleName, RoomId, RoomName, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::columns::Columns;
use crate::error::OrStoreError;
use crate::query_builder::QueryBuilder;
use crate::rooms::{TokenContext, by_id, by_name, context_of, room_role};
use crate::usage::month_use;
use crate::writer::Tx;
use crate::{Store, StoreError, templates};

/// A code to be made.
#[derive(Debug, Clone)]
pub struct NewCode {
    /// Whose.
    pub project_id: ProjectId,
    /// The room it admits to, which must be open.
    pub room: RoomName,
    /// The role it admits with, which the room's template must have.
    pub role: RoleName,
    /// Locks it to one identity.
    pub identity: Option<Identity>,
    /// From this instant on it admits nobody.
    pub expires_at: Timestamp,
    /// How often it can be exchanged.
    pub max_uses: Option<u32>,
}

/// A code that was made, whole for the one time it is shown.
#[derive(Debug, Clone)]
pub struct CreatedCode {
    /// What is kept of it.
    pub record: RoomCodeRecord,
    /// The code.
    pub code: RoomCode,
}

/// What exchanging a usable code has to know, read in the transaction that counts the use.
#[derive(Debug, Clone)]
pub struct CodeExchange {
    /// The identity that the code is locked to.
    pub identity: Option<Identity>,
    /// Whether the project may start work.
    pub project_status: ProjectStatus,
    /// The project's plan.
    pub plan: String,
    /// The month so far. A wallet that the months before are still to be taken from shows more than it holds until the
    /// project's own next call settles them.
    pub month: MonthUse,
    /// The room and the role. No role is one that the room's template has lost since the code was made.
    pub context: TokenContext,
}

const COLUMNS: &str = "id, project_id, room, role, prefix, identity, expires_at, max_uses, uses, disabled, created_at, \
                       updated_at";

fn record(row: &Row<'_>) -> rusqlite::Result<RoomCodeRecord> {
    Ok(RoomCodeRecord {
        id: CodeId(row.get(0)?),
        project_id: row.parsed(1)?,
        room: row.parsed(2)?,
        role: row.parsed(3)?,
        prefix: row.parsed(4)?,
        identity: row.parsed_opt(5)?,
        expires_at: row.time(6)?,
        max_uses: row.get(7)?,
        uses: row.get(8)?,
        disabled: row.get(9)?,
        created_at: row.time(10)?,
        updated_at: row.time(11)?,
    })
}

fn by_hash(sql: &Connection, hash: RoomCodeHash) -> Result<Option<(RoomCodeRecord, RoomId)>, StoreError> {
    sql.prepare_cached(&format!("SELECT {COLUMNS}, room_id FROM codes WHERE hash = ?1"))
        .and_then(|mut s| s.query_row([hash.0], |row| Ok((record(row)?, RoomId(row.get(12)?)))).optional())
        .or_store_error()
}

/// A code that is not in the file yet, whichever project's.
fn fresh(sql: &Connection) -> Result<RoomCode, StoreError> {
    let mut code = RoomCode::generate();
    while by_hash(sql, code.hash())?.is_some() {
        code = RoomCode::generate();
    }
    Ok(code)
}

/// The room a new code is for. One that has ended admits nobody, so it is as if it were not there.
fn open_room(sql: &Connection, project: &ProjectId, name: &RoomName) -> Result<Room, StoreError> {
    let room = by_name(sql, project, name)?.ok_or_else(|| StoreError::Refused(Problem::room_not_found()))?;
    if room.status == RoomStatus::Ended {
        let message = "the room by that name has ended; it gets no new codes";
        return StoreError::refuse(Problem::new(ErrorCode::RoomNotFound, message));
    }
    Ok(room)
}

fn insert(tx: &Tx<'_>, room: RoomId, code: &RoomCode, made: &RoomCodeRecord) -> Result<(), StoreError> {
    tx.sql
        .prepare_cached(
            "INSERT INTO codes (id, project_id, room_id, room, role, hash, prefix, identity, expires_at, max_uses,
                                created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11)",
        )
        .and_then(|mut s| {
            s.execute(params![
                made.id.0,
                made.project_id.as_str(),
                room.0,
                made.room.as_str(),
                made.role.as_str(),
                code.hash().0,
                made.prefix.as_str(),
                made.identity.as_ref().map(Identity::as_str),
                made.expires_at.millis(),
                made.max_uses,
                made.created_at.millis(),
            ])
        })
        .or_store_error()?;
    Ok(())
}

/// Counts a use, if there is one left. The condition is the whole rule, so that no two can take the last one.
fn take_use(tx: &Tx<'_>, id: CodeId) -> Result<(), StoreError> {
    let taken = tx
        .sql
        .prepare_cached(
            "UPDATE codes SET uses = uses + 1, updated_at = ?2
             WHERE id = ?1 AND disabled = 0 AND expires_at > ?2 AND (max_uses IS NULL OR uses < max_uses)",
        )
        .and_then(|mut s| s.execute(params![id.0, tx.now.millis()]))
        .or_store_error()?;
    if taken == 0 { StoreError::refuse(Problem::code_not_found()) } else { Ok(()) }
}

/// How a code's project stands, and its plan.
fn standing(sql: &Connection, project: &ProjectId) -> Result<(ProjectStatus, String), StoreError> {
    sql.prepare_cached("SELECT status, plan FROM projects WHERE id = ?1")
        .and_then(|mut s| {
            s.query_row([project.as_str()], |row| Ok((row.word(0, |word| word.parse().ok())?, row.get(1)?)))
        })
        .or_store_error()
}

fn exchange_of(tx: &Tx<'_>, code: RoomCodeRecord, room: RoomId) -> Result<CodeExchange, StoreError> {
    let sql = tx.sql;
    let (project_status, plan) = standing(sql, &code.project_id)?;
    let month = month_use(sql, &code.project_id, tx.now)?;
    let room = by_id(sql, room)?;
    let role = match &room.template_id {
        Some(template) => templates::role_of(sql, template, &code.role)?,
        None => None,
    };
    Ok(CodeExchange { identity: code.identity, project_status, plan, month, context: context_of(sql, room, role)? })
}

impl Store {
    /// Makes a code and gives it back whole, for the one time it is shown.
    ///
    /// # Errors
    /// Refused when the project has no open room by that name, or the room's template no such role.
    pub async fn create_code(
        &self,
        new: NewCode,
        keep: Option<ResponseRecorder<CreatedCode>>,
    ) -> Result<CreatedCode, StoreError> {
        self.write(move |tx| {
            let room = open_room(tx.sql, &new.project_id, &new.room)?;
            room_role(tx.sql, &room, &new.role)?;
            let code = fresh(tx.sql)?;
            let record = RoomCodeRecord {
                id: CodeId::new(),
                project_id: new.project_id,
                room: new.room,
                role: new.role,
                prefix: code.prefix(),
                identity: new.identity,
                expires_at: new.expires_at,
                max_uses: new.max_uses,
                uses: 0,
                disabled: false,
                created_at: tx.now,
                updated_at: tx.now,
            };
            insert(tx, room.id, &code, &record)?;
            let created = CreatedCode { record, code };
            tx.store_response(keep.as_ref(), &created)?;
            Ok(created)
        })
        .await
    }

    /// A room's codes, newest first, those that cannot be used any more too.
    ///
    /// # Errors
    /// Refused when the project has no room by that name.
    pub async fn codes(
        &self,
        project: ProjectId,
        room: RoomName,
        page: PageRequest,
    ) -> Result<Page<RoomCodeRecord>, StoreError> {
        self.read(move |sql| {
            let room = by_name(sql, &project, &room)?.ok_or_else(|| StoreError::Refused(Problem::room_not_found()))?;
            let mut wanted = QueryBuilder::of_project("project_id", &project);
            wanted.and("room_id = ?", Some(room.id.0));
            wanted.page(sql, &format!("SELECT {COLUMNS} FROM codes"), "created_at DESC, id DESC", page, record)
        })
        .await
    }

    /// Disables a code. Doing so again changes nothing.
    ///
    /// # Errors
    /// Refused when the project has no such code.
    pub async fn disable_code(&self, project: ProjectId, code: RoomCodeHash) -> Result<(), StoreError> {
        self.write(move |tx| {
            let known = by_hash(tx.sql, code)?.filter(|(code, _)| code.project_id == project);
            let (code, _) = known.ok_or_else(|| StoreError::Refused(Problem::code_not_found()))?;
            tx.sql
                .execute(
                    "UPDATE codes SET disabled = 1, updated_at = ?2 WHERE id = ?1 AND disabled = 0",
                    params![code.id.0, tx.now.millis()],
                )
                .or_store_error()?;
            Ok(())
        })
        .await
    }

    /// Whose a usable code is.
    ///
    /// # Errors
    /// Refused alike for a code that is unknown, disabled, expired or used up.
    pub async fn project_of_code(&self, code: RoomCodeHash) -> Result<ProjectId, StoreError> {
        let now = self.clock().now();
        self.read(move |sql| {
            let usable = by_hash(sql, code)?.filter(|(code, _)| code.usable(now));
            let (code, _) = usable.ok_or_else(|| StoreError::Refused(Problem::code_not_found()))?;
            Ok(code.project_id)
        })
        .await
    }

    /// Takes one use of a code, if it has one and `admit` lets its holder in; whoever is refused uses nothing up. It is
    /// one write, so of any number of exchanges at once no more than `max_uses` succeed.
    ///
    /// # Errors
    /// Refused alike for a code that is unknown, disabled, expired or used up; or as `admit` refuses.
    pub async fn exchange_code(
        &self,
        code: RoomCodeHash,
        admit: impl FnOnce(&CodeExchange) -> Result<(), Problem> + Send + 'static,
    ) -> Result<CodeExchange, StoreError> {
        self.write(move |tx| {
            let usable = by_hash(tx.sql, code)?.filter(|(code, _)| code.usable(tx.now));
            let (code, room) = usable.ok_or_else(|| StoreError::Refused(Problem::code_not_found()))?;
            let id = code.id;
            let exchange = exchange_of(tx, code, room)?;
            admit(&exchange).map_err(StoreError::Refused)?;
            take_use(tx, id)?;
            Ok(exchange)
        })
        .await
    }
}
