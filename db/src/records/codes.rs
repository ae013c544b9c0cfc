//! Room codes. Only a code's SHA-256 and its first four characters are stored. A code is long and random, so its hash reveals nothing about
//! it, and can be looked up through an index.

use std::sync::Arc;

use conclave_model::code::{RoomCode, RoomCodeHash, RoomCodeRecord};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::page::{Page, PageRequest};
use conclave_model::project::ProjectStatus;
use conclave_model::room::{Room, RoomStatus};
use conclave_model::usage::MonthUse;
use conclave_model::{
    CodeId, ErrorCode, Identity, Problem, ProjectId, RoleName, RoomId, RoomName, Timestamp,
};

use crate::database::Database;
use crate::engine::snapshot::Snapshot;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::records::role_changes::last_role_change;
use crate::records::rooms::rows::{by_id, by_name, connected_participant};
use crate::records::rooms::{TokenContext, room_role, token_context};
use crate::records::templates;
use crate::records::usage::month_use;
use crate::sql::query_builder::QueryBuilder;
use crate::sql::values::args;
use crate::sql::{Row, Sql, no_row};
use crate::tx::Tx;

/// Room code to create.
#[derive(Debug, Clone)]
pub struct NewCode {
    /// Project that the room belongs to.
    pub project_id: ProjectId,
    /// Room that the code admits to, which must be open.
    pub room: RoomName,
    /// Role that the code admits with, which the room's template must have.
    pub role: RoleName,
    /// Only identity that the code admits; `None` for any.
    pub identity: Option<Identity>,
    /// Time from which the code cannot be exchanged.
    pub expires_at: Timestamp,
    /// Maximum exchanges; `None` for no limit.
    pub max_uses: Option<u32>,
}

/// A created room code, in full.
#[derive(Debug, Clone)]
pub struct CreatedCode {
    /// Code record.
    pub record: RoomCodeRecord,
    /// The code itself, which is not stored.
    pub code: RoomCode,
}

/// Records that decide an exchange, read in the transaction that counts the use.
#[derive(Debug, Clone)]
pub struct CodeExchange {
    /// Only identity that the code admits; `None` for any.
    pub identity: Option<Identity>,
    /// Whether the project may start new work.
    pub project_status: ProjectStatus,
    /// Plan name.
    pub plan: String,
    /// The project's usage in the current month. Past months may not be settled yet; then the balance is higher than after the project's
    /// next request with its API key, which settles them.
    pub month: MonthUse,
    /// Room and role; no role if the room's template has lost it since the code was created.
    pub context: TokenContext,
    /// Whether the requested identity is connected to the room, or was given a role there. Never for a code that is locked to an identity.
    pub is_identity_taken: bool,
}

/// Code and its room.
struct StoredCode {
    record: RoomCodeRecord,
    room: RoomId,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, project_id, room, role, prefix, identity, expires_at, max_uses, uses, disabled, created_at, updated_at,
                    room_id
             FROM codes",
            $rest
        )
    };
}

const SELECT: &str = select!("");
const SELECT_BY_HASH: &str = select!(" WHERE hash = ?1");
const SELECT_PROJECT: &str = "SELECT status, plan FROM projects WHERE id = ?1";
const INSERT: &str =
    "INSERT INTO codes (id, project_id, room_id, room, role, hash, prefix, identity, expires_at, max_uses,
                        created_at, updated_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11)";
const USE: &str = "UPDATE codes SET uses = uses + 1, updated_at = ?3
     WHERE id = ?1 AND project_id = ?2 AND disabled = 0 AND expires_at > ?3 AND (max_uses IS NULL OR uses < max_uses)";
const SELECT_BY_ID: &str = select!(" WHERE id = ?1 AND project_id = ?2 AND room_id = ?3");
const DISABLE: &str = "UPDATE codes SET disabled = 1, updated_at = ?3 WHERE id = ?1 AND project_id = ?2 AND disabled = 0";

fn record(row: &Row<'_>) -> Result<RoomCodeRecord, StoreError> {
    Ok(RoomCodeRecord {
        id: row.get("id")?,
        project_id: row.get("project_id")?,
        room: row.get("room")?,
        role: row.get("role")?,
        prefix: row.get("prefix")?,
        identity: row.get("identity")?,
        expires_at: row.get("expires_at")?,
        max_uses: row.get("max_uses")?,
        uses: row.get("uses")?,
        disabled: row.get("disabled")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

/// Returns a code of any project, since only its holder knows it.
fn by_hash(sql: Sql<'_>, hash: &RoomCodeHash) -> Result<Option<StoredCode>, StoreError> {
    sql.one(SELECT_BY_HASH, args![hash], |row| {
        Ok(StoredCode {
            record: record(row)?,
            room: row.get("room_id")?,
        })
    })
}

/// Returns a code that can be exchanged now. Unknown, disabled, expired and used-up codes are refused alike.
fn usable(sql: Sql<'_>, hash: &RoomCodeHash, now: Timestamp) -> Result<StoredCode, StoreError> {
    // One response for all of them, so that guessing codes reveals nothing about existing ones.
    let found = by_hash(sql, hash)?.filter(|code| code.record.usable(now));
    Ok(found.ok_or_else(Problem::code_not_found)?)
}

/// Generates a code that no project has.
fn generate(sql: Sql<'_>) -> Result<RoomCode, StoreError> {
    let mut code = RoomCode::generate();
    // A collision is practically impossible, but the check costs one read.
    while by_hash(sql, &code.hash())?.is_some() {
        code = RoomCode::generate();
    }
    Ok(code)
}

/// Returns the room of a new code. An ended room is refused like an unknown one, because it admits no participant.
fn open_room(sql: Sql<'_>, project: &ProjectId, name: &RoomName) -> Result<Room, StoreError> {
    let room = by_name(sql, project, name)?.ok_or_else(Problem::room_not_found)?;
    if room.status == RoomStatus::Ended {
        let message = "the room by that name has ended; it gets no new codes";
        return StoreError::refuse(Problem::new(ErrorCode::RoomNotFound, message));
    }
    Ok(room)
}

fn insert(
    tx: &Tx<'_>,
    room: RoomId,
    code: &RoomCode,
    record: &RoomCodeRecord,
) -> Result<(), StoreError> {
    let hash = code.hash();
    let row = args![
        record.id,
        &record.project_id,
        room,
        &record.room,
        &record.role,
        &hash,
        &record.prefix,
        record.identity.as_ref(),
        record.expires_at,
        record.max_uses,
        record.created_at,
    ];
    tx.sql.put(INSERT, row)
}

/// Counts a use, if one is left. The update's condition is the whole rule, so no two exchanges can take the last use.
fn count_use(tx: &Tx<'_>, project: &ProjectId, id: CodeId) -> Result<(), StoreError> {
    // Refused like an unknown code, as everywhere.
    if tx.sql.change(USE, args![id, project, tx.now])? == 0 {
        return StoreError::refuse(Problem::code_not_found());
    }
    Ok(())
}

fn disable(tx: &Tx<'_>, code: &RoomCodeRecord) -> Result<(), StoreError> {
    tx.sql
        .put(DISABLE, args![code.id, &code.project_id, tx.now])
}

fn exchange(
    tx: &Tx<'_>,
    found: &StoredCode,
    requested: Option<&Identity>,
) -> Result<CodeExchange, StoreError> {
    let (sql, code) = (tx.sql, &found.record);
    let project = &code.project_id;
    let read = |row: &Row<'_>| Ok((row.get("status")?, row.get("plan")?));
    let (project_status, plan) = sql
        .one(SELECT_PROJECT, args![project], read)?
        .ok_or_else(no_row)?;
    let month = month_use(sql, project, tx.now)?;
    let room = by_id(sql, project, found.room)?;
    // By the current template: roles may have changed since the code was created.
    let role = match &room.template_id {
        Some(template) => templates::find_role(sql, project, template, &code.role)?.map(Arc::new),
        None => None,
    };
    // A code that is locked to an identity ignores the requested one.
    let identity = code.identity.as_ref().or(requested);
    let changed = match identity {
        Some(identity) => last_role_change(sql, project, room.id, identity)?,
        None => None,
    };
    // The holder of an open code must not get a token for an identity that someone else uses.
    let is_identity_taken = match requested.filter(|_| code.identity.is_none()) {
        Some(identity) => {
            changed.is_some() || connected_participant(sql, project, room.id, identity)?.is_some()
        }
        None => false,
    };
    // If the code is older than the change, the participant may have joined with this very code. Then the change still applies.
    let role_change = changed
        .filter(|changed| changed.created_at < code.created_at)
        .map(|changed| changed.id);
    let context = TokenContext {
        role_change,
        ..token_context(sql, room, role, identity, tx.now)?
    };
    Ok(CodeExchange {
        identity: code.identity.clone(),
        project_status,
        plan,
        month,
        context,
        is_identity_taken,
    })
}

/// Returns the query that lists a room's codes, newest first.
pub(crate) fn list_query(project: &ProjectId, room: RoomId) -> QueryBuilder<'_> {
    QueryBuilder::new(SELECT, "project_id", project, "created_at DESC, id DESC")
        .and("room_id =", Some(room))
}

/// Room code records.
#[derive(Debug, Clone)]
pub struct Codes(pub(crate) Database);

impl Codes {
    /// Creates a code, and returns it in full. Only its hash is stored.
    ///
    /// # Errors
    /// Refused when the project has no open room by that name, or the room's template no such role.
    pub async fn create(
        &self,
        new: NewCode,
        recorder: Option<ResponseRecorder<CreatedCode>>,
    ) -> Result<CreatedCode, StoreError> {
        self.0
            .write_recorded(Queue::for_project(&new.project_id), recorder, move |tx| {
                let room = open_room(tx.sql, &new.project_id, &new.room)?;
                // Without memory: this is a write, and must see the transaction's own state.
                room_role(&mut Snapshot::new(tx.sql, None), &room, &new.role)?;
                let code = generate(tx.sql)?;
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
                Ok(CreatedCode { record, code })
            })
            .await
    }

    /// Lists a room's codes, newest first, including expired and used-up codes.
    ///
    /// # Errors
    /// Refused when the project has no room by that name.
    pub async fn list(
        &self,
        project: ProjectId,
        room: RoomName,
        page: PageRequest,
    ) -> Result<Page<RoomCodeRecord>, StoreError> {
        self.0
            .list(project, move |sql, project| {
                let room = by_name(sql, project, &room)?.ok_or_else(Problem::room_not_found)?;
                list_query(project, room.id).page(sql, page, record)
            })
            .await
    }

    /// Disables a code. A disabled code does not change.
    ///
    /// # Errors
    /// Refused when the project has no such code.
    pub async fn disable(&self, project: ProjectId, code: RoomCodeHash) -> Result<(), StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                // A code of another project is refused like an unknown one.
                let known =
                    by_hash(tx.sql, &code)?.filter(|code| code.record.project_id == project);
                let known = known.ok_or_else(Problem::code_not_found)?;
                disable(tx, &known.record)
            })
            .await
    }

    /// Disables a code of a room by its id. A disabled code does not change.
    ///
    /// # Errors
    /// Refused when the project has no room by that name, or the room has no such code.
    pub async fn disable_by_id(
        &self,
        project: ProjectId,
        room: RoomName,
        id: CodeId,
    ) -> Result<(), StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                let room = by_name(tx.sql, &project, &room)?.ok_or_else(Problem::room_not_found)?;
                let known = tx
                    .sql
                    .one(SELECT_BY_ID, args![id, &project, room.id], record)?;
                let unknown = || {
                    Problem::new(
                        ErrorCode::CodeNotFound,
                        "no room code by that id in the room",
                    )
                };
                disable(tx, &known.ok_or_else(unknown)?)
            })
            .await
    }

    /// Returns the project of a usable code. Read before an exchange, so that a client that guesses codes does not load the writer.
    ///
    /// # Errors
    /// Refused alike for a code that is unknown, disabled, expired or used up.
    pub async fn project_of(&self, code: RoomCodeHash) -> Result<ProjectId, StoreError> {
        let now = self.0.clock().now();
        self.0
            .read(move |sql| usable(sql, &code, now).map(|code| code.record.project_id))
            .await
    }

    /// Counts one use of a project's code, for `identity` if one is requested, if a use is left and `admit` returns no problem. A refused
    /// exchange counts no use. Since it is one write, at most `max_uses` concurrent exchanges succeed.
    ///
    /// # Errors
    /// Refused alike for a code that is unknown, disabled, expired or used up, and as `admit` refuses.
    pub async fn exchange(
        &self,
        project: &ProjectId,
        code: RoomCodeHash,
        identity: Option<Identity>,
        admit: impl FnOnce(&CodeExchange) -> Result<(), Problem> + Send + 'static,
    ) -> Result<CodeExchange, StoreError> {
        self.0
            // Checked again inside the transaction: the code may have been used up since `project_of`.
            .write(Queue::for_project(project), move |tx| {
                let found = usable(tx.sql, &code, tx.now)?;
                let exchange = exchange(tx, &found, identity.as_ref())?;
                // Before the use is counted, so that a refused exchange costs nothing.
                admit(&exchange)?;
                count_use(tx, &found.record.project_id, found.record.id)?;
                Ok(exchange)
            })
            .await
    }
}
