//! Room records: creating, finding, listing and ending rooms, and the records needed to mint a token and to act on other participants.

pub(crate) mod rows;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use conclave_model::bounded::MaxDuration;
use conclave_model::event::{Departure, Event};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::page::{Page, PageRequest};
use conclave_model::role::{Role, RolePermissions};
use conclave_model::room::{Room, RoomStatus, duration_limit, unjoined_deadline};
use conclave_model::template::AutoRecord;
use conclave_model::{
    ErrorCode, Identity, NamePrefix, Problem, ProjectId, RevocationId, RoleChangeId, RoleName,
    RoomId, RoomName, TemplateId, Timestamp,
};

use crate::database::Database;
use crate::engine::snapshot::Snapshot;
use crate::engine::writer::{Isolation, Queue};
use crate::error::StoreError;
use crate::records::bans::Exclusion;
use crate::records::ingresses::complete_ingresses_of_room;
use crate::records::role_changes::LastRoleChange;
use crate::records::rooms::rows::{
    ConnectedParticipant, RoomSnapshot, SELECT_BY_NAME, SELECT_LIVE_ROOMS, SELECT_OPEN_OF_ALL,
    SELECT_OPEN_ROOMS, SELECT_ROOMS, all_connected_participants, by_id, by_name,
    connected_participants, room,
};
use crate::records::sessions::rows::{close_sessions, event_context};
use crate::records::templates;
use crate::sql::query_builder::QueryBuilder;
use crate::sql::values::args;
use crate::sql::{Row, Sql, no_row};
use crate::tx::Tx;

/// Room to create.
#[derive(Debug, Clone)]
pub struct NewRoom {
    /// Project that the room belongs to.
    pub project_id: ProjectId,
    /// Name that the project has never used for a room.
    pub name: RoomName,
    /// Maximum participants at once; 0 leaves the limit to the plan.
    pub max_participants: u32,
    /// Seconds that the room stays open without participants.
    pub empty_timeout_seconds: u32,
    /// Maximum duration; `None` leaves it to the template.
    pub max_duration: Option<MaxDuration>,
    /// The client's JSON text, unchanged.
    pub metadata: Option<Box<str>>,
    /// Template; `None` means the project's default, if there is one.
    pub template_id: Option<TemplateId>,
}

const INSERT: &str =
    "INSERT INTO rooms (id, project_id, name, max_participants, empty_timeout_seconds, metadata, status,
                       template_id, auto_record, created_at, empty_deadline, max_duration_seconds)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'open', ?7, ?8, ?9, ?10, ?11)
     ON CONFLICT (project_id, name) DO NOTHING";
/// Inserts a room with the settings of the project's default template, which the statement reads itself, and returns them. The maximum
/// duration `?9` is NULL for the template's, and 0 for none.
const INSERT_WITH_DEFAULT: &str =
    "INSERT INTO rooms (id, project_id, name, max_participants, empty_timeout_seconds, metadata, status,
                       template_id, auto_record, created_at, empty_deadline, max_duration_seconds)
     SELECT ?1, p.id, ?3, ?4, ?5, ?6, 'open', p.default_template_id, t.auto_record, ?7, ?8,
            nullif(coalesce(?9, t.max_duration_seconds), 0)
     FROM projects p LEFT JOIN templates t ON t.id = p.default_template_id WHERE p.id = ?2
     ON CONFLICT (project_id, name) DO NOTHING
     RETURNING template_id, auto_record, max_duration_seconds";
const DEFAULT_TEMPLATE: &str = "SELECT p.default_template_id, t.max_duration_seconds, t.auto_record
     FROM projects p LEFT JOIN templates t ON t.id = p.default_template_id WHERE p.id = ?1";
const NAMED_TEMPLATE: &str =
    "SELECT max_duration_seconds, auto_record FROM templates WHERE id = ?1 AND project_id = ?2";

/// Template's settings that its new rooms copy.
struct CopiedSettings {
    /// Maximum duration in seconds.
    max_duration: Option<u32>,
    /// Recording that starts by itself.
    auto_record: Option<AutoRecord>,
}

fn copied_settings(row: &Row<'_>) -> Result<CopiedSettings, StoreError> {
    Ok(CopiedSettings {
        max_duration: row.get("max_duration_seconds")?,
        auto_record: templates::auto_record(row)?,
    })
}

/// Returns the template of a new room and the settings that it copies: the named one, which must exist, or the project's default.
fn resolve_template(
    sql: Sql<'_>,
    project: &ProjectId,
    named: Option<TemplateId>,
) -> Result<(Option<TemplateId>, CopiedSettings), StoreError> {
    let Some(named) = named else {
        return sql
            .one(DEFAULT_TEMPLATE, args![project], |row| {
                Ok((row.get("default_template_id")?, copied_settings(row)?))
            })?
            .ok_or_else(no_row);
    };
    match sql.one(NAMED_TEMPLATE, args![&named, project], copied_settings)? {
        Some(copied) => Ok((Some(named), copied)),
        None => StoreError::refuse(Problem::template_not_found().at("template_id")),
    }
}

fn insert(tx: &mut Tx<'_>, room: &Room) -> Result<(), StoreError> {
    let auto_record = templates::auto_record_json(room.auto_record.as_deref())?;
    let row = args![
        room.id,
        &room.project_id,
        &room.name,
        room.max_participants,
        room.empty_timeout_seconds,
        room.metadata.as_deref(),
        room.template_id.as_ref(),
        auto_record.as_deref(),
        room.created_at,
        room.empty_deadline,
        room.max_duration_seconds,
    ];
    // The unique index decides, not a query before: concurrent requests may use the same name.
    if tx.sql.change(INSERT, row)? == 0 {
        return StoreError::refuse(room_exists(&room.name));
    }
    // Counted with the batch, and not by a statement of its own.
    tx.rooms.add(&room.project_id, 1);
    Ok(())
}

/// Inserts a room, and copies the settings of the project's default template to it.
fn insert_with_default(
    tx: &mut Tx<'_>,
    room: &mut Room,
    max_duration: Option<MaxDuration>,
) -> Result<(), StoreError> {
    let max_duration = max_duration.map(|given| duration_limit(given).unwrap_or(0));
    let row = args![
        room.id,
        &room.project_id,
        &room.name,
        room.max_participants,
        room.empty_timeout_seconds,
        room.metadata.as_deref(),
        room.created_at,
        room.empty_deadline,
        max_duration,
    ];
    let inserted = |row: &Row<'_>| Ok((row.get("template_id")?, copied_settings(row)?));
    let inserted = tx.sql.one(INSERT_WITH_DEFAULT, row, inserted)?;
    let Some((template_id, copied)) = inserted else {
        // Fails if the project has been deleted meanwhile: then there was no row to insert.
        resolve_template(tx.sql, &room.project_id, None)?;
        return StoreError::refuse(room_exists(&room.name));
    };
    room.template_id = template_id;
    room.max_duration_seconds = copied.max_duration;
    room.auto_record = copied.auto_record.map(Box::new);
    tx.rooms.add(&room.project_id, 1);
    Ok(())
}

fn room_exists(name: &RoomName) -> Problem {
    let message = format!("the project has used the room name {name:?} before");
    Problem::new(ErrorCode::RoomExists, message).at("name")
}

/// Reads a project's open rooms with their participants, in two queries.
pub(crate) fn open_rooms(
    sql: Sql<'_>,
    project: &ProjectId,
) -> Result<Vec<RoomSnapshot>, StoreError> {
    // Not a query per room: a project may have thousands of open rooms.
    let rooms = sql.many(SELECT_OPEN_ROOMS, args![project], room)?;
    let mut connected: HashMap<RoomId, Vec<ConnectedParticipant>> = HashMap::new();
    for (room, participant) in all_connected_participants(sql, project)? {
        connected.entry(room).or_default().push(participant);
    }
    let snapshot = |room: Room| RoomSnapshot {
        participants: connected.remove(&room.id).unwrap_or_default(),
        room,
    };
    Ok(rooms.into_iter().map(snapshot).collect())
}

/// Room list filters; `None` matches all.
#[derive(Debug, Clone, Default)]
pub struct RoomFilter {
    /// Only rooms with this status.
    pub status: Option<RoomStatus>,
    /// Only rooms whose names start with this text.
    pub name_prefix: Option<NamePrefix>,
    /// Only rooms created at this time or later.
    pub created_after: Option<Timestamp>,
    /// Only rooms created at this time or earlier.
    pub created_before: Option<Timestamp>,
}

/// Room in which a participant is connected, with the state of its call.
#[derive(Debug, Clone)]
pub struct LiveRoomRecord {
    /// Room record.
    pub room: Room,
    /// Connected participants, including hidden ones.
    pub participants: u32,
    /// Connected participants that publish a track.
    pub publishers: u32,
    /// Whether a recording runs.
    pub recording: bool,
    /// Whether a broadcast runs.
    pub broadcasting: bool,
}

fn live_room(row: &Row<'_>) -> Result<LiveRoomRecord, StoreError> {
    Ok(LiveRoomRecord {
        room: room(row)?,
        participants: row.get("participants")?,
        publishers: row.get("publishers")?,
        recording: row.get("recording")?,
        broadcasting: row.get("broadcasting")?,
    })
}

/// Returns the query that lists a project's rooms: newest first, or by name if a prefix of the name is given, since one index cannot serve
/// a range of names in the order of times. `last` is after every name with the prefix.
///
/// Open rooms are few, and have their own indexes. A search for ended rooms skips them.
pub(crate) fn list_query<'a>(
    project: &'a ProjectId,
    filter: &'a RoomFilter,
    last: &'a str,
) -> QueryBuilder<'a> {
    let order = match filter.name_prefix {
        Some(_) => "name",
        None => "created_at DESC, id DESC",
    };
    // As texts, since the planner compares them with the conditions of the partial indexes.
    let status = filter.status.map(|status| match status {
        RoomStatus::Open => "status = 'open'",
        RoomStatus::Ended => "status = 'ended'",
    });
    let prefix = filter.name_prefix.as_ref();
    QueryBuilder::new(SELECT_ROOMS, "project_id", project, order)
        .and_condition(status)
        .and("name >=", prefix.map(NamePrefix::as_str))
        .and("name <=", prefix.map(|_| last))
        .and("created_at >=", filter.created_after)
        .and("created_at <=", filter.created_before)
}

/// Returns the query for rooms in which a participant is connected, latest first join first: a connected participant stops the empty timer.
pub(crate) fn live_query(project: &ProjectId) -> QueryBuilder<'_> {
    QueryBuilder::new(
        SELECT_LIVE_ROOMS,
        "project_id",
        project,
        "started_at DESC, id DESC",
    )
    .and_condition(Some("status = 'open' AND empty_deadline IS NULL"))
}

/// Returns the query for open rooms, in index order: the newest per template first, rooms without a template last. The query states
/// `NULLS LAST`, since PostgreSQL sorts NULL first in a descending order.
pub(crate) fn open_query(project: &ProjectId) -> QueryBuilder<'_> {
    QueryBuilder::new(
        SELECT_ROOMS,
        "project_id",
        project,
        "template_id DESC NULLS LAST, id DESC",
    )
    .and_condition(Some("status = 'open'"))
}

const END: &str = "UPDATE rooms
     SET status = 'ended', ended_at = CASE WHEN ?3 < created_at THEN created_at ELSE ?3 END, empty_deadline = NULL
     WHERE id = ?1 AND project_id = ?2 AND status = 'open'";

/// Ends an open room: first its open sessions, then its ingress endpoints, then the room, with `room.finished` as the last event. An ended
/// room does not change.
fn end_room(
    tx: &mut Tx<'_>,
    project: &ProjectId,
    id: RoomId,
    at: Timestamp,
) -> Result<Room, StoreError> {
    let room = by_id(tx.sql, project, id)?;
    // The update decides who ends the room. A second call finds no open row, and emits nothing.
    if tx.sql.change(END, args![id, project, at])? == 0 {
        return Ok(room);
    }
    // Only after the update has changed the row, so that a room is not subtracted twice.
    tx.rooms.add(project, -1);
    let connected = connected_participants(tx.sql, project, id)?;
    // Closed by the room's end, so as `left` and not as lost.
    close_sessions(tx, &room, &connected, at, Departure::Left)?;
    complete_ingresses_of_room(tx, project, id, at)?;
    let context = event_context(&room, at);
    tx.emit(&Event::RoomFinished { context })?;
    by_id(tx.sql, project, id)
}

/// Room and role of a token to mint, with their numbers of participants at one moment.
#[derive(Debug, Clone)]
pub struct TokenContext {
    /// Room record.
    pub room: Room,
    /// Requested role; `None` if none was requested, or the room's template has lost it since a code was created.
    pub role: Option<Arc<Role>>,
    /// Connected participants with the role, except the own identity; 0 for a role without a limit.
    pub holders: u32,
    /// Connected participants, except the own identity.
    pub participant_count: u32,
    /// Last change of the identity's role in the room, which a newer token has to name.
    pub role_change: Option<RoleChangeId>,
    /// Ban of the identity, and the last revocation of its tokens, which a newer token has to name, too.
    pub exclusion: Exclusion,
}

/// Counts connected participants except the identity `?3`, and finds the last change of this identity's role, its bans at the time `?4`, and
/// the last revocation of its tokens. The whole count reads only an index, so the one is subtracted rather than excluded.
const COUNT_PARTICIPANTS: &str = "SELECT count(*) - (
         SELECT count(*) FROM sessions
         WHERE left_at IS NULL AND room_id = (SELECT id FROM rooms WHERE id = ?1 AND project_id = ?2)
             AND participant_identity = ?3
     ) AS participants, (
         SELECT id FROM role_changes WHERE room_id = ?1 AND participant_identity = ?3 AND project_id = ?2
         ORDER BY created_at DESC, id DESC LIMIT 1
     ) AS role_change, (
         SELECT count(*) FROM bans WHERE room_id = ?1 AND participant_identity = ?3 AND project_id = ?2
             AND (until IS NULL OR until > ?4)
     ) AS bans, (
         SELECT id FROM revocations WHERE room_id = ?1 AND participant_identity = ?3 AND project_id = ?2
     ) AS revocation
     FROM sessions WHERE left_at IS NULL AND room_id = (SELECT id FROM rooms WHERE id = ?1 AND project_id = ?2)";
/// The same for participants with the role `?4`. Concatenation keeps the planner from searching all sessions with the role.
const COUNT_HOLDERS: &str = "SELECT count(*) FROM sessions
     WHERE left_at IS NULL AND room_id = (SELECT id FROM rooms WHERE id = ?1 AND project_id = ?2)
         AND participant_identity <> ?3 AND role || '' = ?4";

/// Reads the numbers of participants, the last change of the identity's role, and its exclusion, for minting a token. A participant that is
/// connected with the token's own identity does not count, since the next join replaces it. `identity` is absent if it is random.
pub(crate) fn token_context(
    sql: Sql<'_>,
    room: Room,
    role: Option<Arc<Role>>,
    identity: Option<&Identity>,
    now: Timestamp,
) -> Result<TokenContext, StoreError> {
    // No identity is empty, so this excludes none.
    let own = identity.map_or("", Identity::as_str);
    // Most roles have no limit, and need no count.
    let holders = match role.as_ref().filter(|role| role.max_peer_count.get() > 0) {
        Some(limited) => sql.value(
            COUNT_HOLDERS,
            args![room.id, &room.project_id, own, &limited.name],
        )?,
        None => 0,
    };
    let counted = |row: &Row<'_>| {
        Ok((
            row.get("participants")?,
            row.get("role_change")?,
            Exclusion::read(row)?,
        ))
    };
    // A single query, since minting is frequent, and a round trip to PostgreSQL is most of its time.
    let row = args![room.id, &room.project_id, own, now];
    let counted = sql.one(COUNT_PARTICIPANTS, row, counted)?;
    let (participant_count, role_change, exclusion) = counted.ok_or_else(no_row)?;
    Ok(TokenContext {
        room,
        role,
        holders,
        participant_count,
        role_change,
        exclusion,
    })
}

/// Reads a project's room, which must exist.
fn existing(
    snapshot: &mut Snapshot<'_>,
    project: &ProjectId,
    name: &RoomName,
) -> Result<Room, StoreError> {
    let room = snapshot.room(project, name, by_name)?;
    Ok(room.ok_or_else(Problem::room_not_found)?)
}

/// Reads a role of the room's template, which must exist.
pub(crate) fn room_role(
    snapshot: &mut Snapshot<'_>,
    room: &Room,
    name: &RoleName,
) -> Result<Arc<Role>, StoreError> {
    let Some(template) = &room.template_id else {
        // The room named none, and the project had no default when it was created.
        let message = "the room resolves to no template, so it has no roles";
        return StoreError::refuse(Problem::new(ErrorCode::TemplateNotFound, message));
    };
    let project = &room.project_id;
    let find = |sql: Sql<'_>| templates::find_role(sql, project, template, name);
    match snapshot.role(project, template, name, find)? {
        Some(role) => Ok(role),
        None => {
            // The refusal lists the template's roles, which costs another query only in this case.
            let refusal = templates::no_such_role(snapshot.sql, project, template)?;
            StoreError::refuse(refusal.at("role"))
        }
    }
}

/// Participant that acts with a room token.
#[derive(Debug, Clone)]
pub struct TokenActor {
    /// Identity in the token.
    pub identity: Identity,
    /// Role in the token.
    pub role: Option<RoleName>,
    /// Role change that the token was minted after, if it names one.
    pub role_change: Option<RoleChangeId>,
    /// Last revocation of the identity's tokens that the token was minted after, if it names one.
    pub revocation: Option<RevocationId>,
    /// Whether the token is limited to its own role, whatever role its identity has or was given.
    pub is_limited: bool,
}

/// Last change of the identity `?2`'s role in the room `?1`, its bans at the time `?4`, and the last revocation of its tokens. The first
/// table has one row, so that the result has one, too, if the role was never changed.
const SELECT_CHANGE_AND_EXCLUSION: &str = "SELECT (
         SELECT count(*) FROM bans
         WHERE room_id = ?1 AND participant_identity = ?2 AND project_id = ?3 AND (until IS NULL OR until > ?4)
     ) AS bans, (
         SELECT id FROM revocations WHERE room_id = ?1 AND participant_identity = ?2 AND project_id = ?3
     ) AS revocation, changed.id AS change_id, changed.role AS role, changed.created_at AS created_at
     FROM (SELECT 1 AS one) AS single LEFT JOIN (
         SELECT id, role, created_at FROM role_changes
         WHERE room_id = ?1 AND participant_identity = ?2 AND project_id = ?3 ORDER BY created_at DESC, id DESC LIMIT 1
     ) AS changed ON TRUE";

/// Reads the last change of an identity's role in a room, and the bans and revocations that concern its joins now.
fn change_and_exclusion(
    sql: Sql<'_>,
    project: &ProjectId,
    room: RoomId,
    identity: &Identity,
    now: Timestamp,
) -> Result<(Option<LastRoleChange>, Exclusion), StoreError> {
    let read = |row: &Row<'_>| {
        let exclusion = Exclusion::read(row)?;
        let change = match row.get("change_id")? {
            Some(id) => Some(LastRoleChange {
                id,
                role: row.get("role")?,
                created_at: row.get("created_at")?,
            }),
            None => None,
        };
        Ok((change, exclusion))
    };
    // A single query, since each join reads it, and a round trip to PostgreSQL is most of its time.
    let key = args![room, identity, project, now];
    sql.one(SELECT_CHANGE_AND_EXCLUSION, key, read)?
        .ok_or_else(no_row)
}

/// Reads the permissions of the role that a participant has in the room, or would have if it joined with its token.
fn effective_permissions(
    sql: Sql<'_>,
    project: &ProjectId,
    name: &RoomName,
    actor: TokenActor,
    now: Timestamp,
) -> Result<RolePermissions, StoreError> {
    // An unknown room grants nothing.
    let Some(room) = by_name(sql, project, name)? else {
        return Ok(RolePermissions::default());
    };
    let TokenActor {
        identity,
        role: own,
        role_change,
        revocation,
        is_limited,
    } = actor;
    let (changed, excluded) = change_and_exclusion(sql, project, room.id, &identity, now)?;
    if excluded.is_banned || excluded.revokes(revocation) {
        // Also while it is still connected: the removal may be on its way.
        return Ok(RolePermissions::default());
    }
    let role = match connected_participants(sql, project, room.id)?
        .into_iter()
        .find(|p| p.identity == identity)
    {
        // While connected, the session's role counts: it has all changes.
        Some(connected) => connected.role,
        // A change after the token was minted replaces the token's role at the next join.
        None => changed
            .and_then(|changed| changed.role_for(role_change))
            .or_else(|| own.clone()),
    };
    let (Some(template), Some(role)) = (&room.template_id, role) else {
        return Ok(RolePermissions::default());
    };
    let find = |name: &RoleName| templates::find_role(sql, project, template, name);
    let held = find(&role)?;
    let acting = match held {
        // A limited token gives the smaller of both roles, so that a given role cannot raise it.
        Some(held) if is_limited && own.as_ref() != Some(&role) => {
            let own = own.as_ref().map(find).transpose()?.flatten();
            // Roles are only partly ordered: unless the held role is less, the token's own role counts.
            own.map(|own| if held.is_less_than(&own) { held } else { own })
        }
        held => held,
    };
    Ok(acting.map(|role| role.permissions).unwrap_or_default())
}

/// Records that decide a join, at one moment.
#[derive(Debug, Clone)]
pub struct JoinRecords {
    /// Roles of the room's template; empty for a room without one.
    pub roles: BTreeMap<RoleName, Role>,
    /// Last change of the identity's role in the room, which applies to its next joins.
    pub role_change: Option<LastRoleChange>,
    /// Ban of the identity, and the last revocation of its tokens.
    pub exclusion: Exclusion,
}

/// Room records.
#[derive(Debug, Clone)]
pub struct Rooms(pub(crate) Database);

impl Rooms {
    /// Creates a room, with the deadline at which it ends if no participant joins. `done` receives it on the writer's thread, or a refusal
    /// if the name was used before or the template does not exist.
    pub fn create(
        &self,
        new: NewRoom,
        record: Option<ResponseRecorder<Room>>,
        done: impl FnOnce(Result<Room, StoreError>) + Send + 'static,
    ) {
        let queue = Queue::for_project(&new.project_id);
        // Without a response to store, the job is a single INSERT, so it needs no savepoint.
        let isolation = if record.is_some() {
            Isolation::Savepoint
        } else {
            Isolation::Statement
        };
        let create = move |tx: &mut Tx<'_>| {
            let mut room = Room {
                id: RoomId::new(),
                project_id: new.project_id,
                name: new.name,
                max_participants: new.max_participants,
                empty_timeout_seconds: new.empty_timeout_seconds,
                max_duration_seconds: None,
                metadata: new.metadata,
                status: RoomStatus::Open,
                template_id: None,
                auto_record: None,
                created_at: tx.now,
                started_at: None,
                ended_at: None,
                empty_deadline: Some(unjoined_deadline(tx.now, new.empty_timeout_seconds)),
            };
            // The template's settings are copied, so that a later change of the template does not end a running call.
            match (tx.sql, new.template_id) {
                // Saves a round trip. SQLite would keep a copy of each page that such an INSERT changes, which takes longer than a query.
                (Sql::Postgres(_), None) => {
                    insert_with_default(tx, &mut room, new.max_duration)?;
                }
                (_, named) => {
                    let (template_id, copied) = resolve_template(tx.sql, &room.project_id, named)?;
                    room.template_id = template_id;
                    room.max_duration_seconds =
                        new.max_duration.map_or(copied.max_duration, duration_limit);
                    room.auto_record = copied.auto_record.map(Box::new);
                    insert(tx, &room)?;
                }
            }
            tx.store_response(record.as_ref(), &room)?;
            Ok(room)
        };
        self.0.write_then(queue, isolation, create, done);
    }

    /// Reads a room, open or ended.
    ///
    /// # Errors
    /// Refused when the project has no room by that name.
    pub fn get(
        &self,
        project: ProjectId,
        name: RoomName,
    ) -> impl Future<Output = Result<Room, StoreError>> {
        self.0
            .read_snapshot(move |snapshot| existing(snapshot, &project, &name))
    }

    /// Lists a project's rooms: newest first, or by name if the filter has a prefix.
    ///
    /// # Errors
    /// Fails when the database cannot be read, or takes too long.
    pub async fn list(
        &self,
        project: ProjectId,
        filter: RoomFilter,
        page: PageRequest,
    ) -> Result<Page<Room>, StoreError> {
        // Names are ASCII, so this is after every name with the prefix.
        let last = filter.name_prefix.as_ref();
        let last = last.map_or_else(String::new, |prefix| format!("{prefix}\u{7f}"));
        self.0
            .list(project, move |sql, project| {
                list_query(project, &filter, &last).page(sql, page, room)
            })
            .await
    }

    /// Lists a project's rooms in which a participant is connected, latest first join first. Recorders and agents alone do not count.
    ///
    /// # Errors
    /// Fails when the database cannot be read, or takes too long.
    pub async fn list_live(
        &self,
        project: ProjectId,
        page: PageRequest,
    ) -> Result<Page<LiveRoomRecord>, StoreError> {
        self.0
            .list(project, move |sql, project| {
                live_query(project).page(sql, page, live_room)
            })
            .await
    }

    /// Lists the open rooms of all projects, each project's as [`Self::list_open`] does.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn list_open_of_all(&self, page: PageRequest) -> Result<Page<Room>, StoreError> {
        let rows = self
            .0
            // For the operator, so the limits per project do not apply.
            .bulk_read(move |sql| {
                sql.many(
                    SELECT_OPEN_OF_ALL,
                    args![page.limit + 1, page.offset.cast_signed()],
                    room,
                )
            })
            .await?;
        Ok(Page::from_fetched(rows, page))
    }

    /// Lists a project's open rooms, by template and then newest first, those without a template last.
    ///
    /// # Errors
    /// Fails when the database cannot be read, or takes too long.
    pub async fn list_open(
        &self,
        project: ProjectId,
        page: PageRequest,
    ) -> Result<Page<Room>, StoreError> {
        self.0
            .list(project, move |sql, project| {
                open_query(project).page(sql, page, room)
            })
            .await
    }

    /// Filters `names` to the names of ended rooms.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn ended(
        &self,
        project: ProjectId,
        names: Vec<RoomName>,
    ) -> Result<Vec<RoomName>, StoreError> {
        self.0
            .read(move |sql| {
                let rows = names.iter().map(|name| *args![&project, name]);
                let rooms =
                    sql.each(SELECT_BY_NAME, rows, |row| row.get::<RoomStatus>("status"))?;
                let ended = names
                    .into_iter()
                    .zip(rooms)
                    .filter(|(_, room)| room.contains(&RoomStatus::Ended));
                Ok(ended.map(|(name, _)| name).collect())
            })
            .await
    }

    /// Reads an open room with its connected participants; `None` if the project has no open room with this name.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn find_open(
        &self,
        project: ProjectId,
        name: RoomName,
    ) -> Result<Option<RoomSnapshot>, StoreError> {
        self.0
            .read(move |sql| {
                // An ended room is `None` here. The caller refuses it by its own rules.
                let open =
                    by_name(sql, &project, &name)?.filter(|room| room.status == RoomStatus::Open);
                let Some(room) = open else { return Ok(None) };
                Ok(Some(RoomSnapshot {
                    participants: connected_participants(sql, &project, room.id)?,
                    room,
                }))
            })
            .await
    }

    /// Ends a room, and returns its record. An ended room does not change.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn end(&self, project: ProjectId, room: RoomId) -> Result<Room, StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                let at = tx.now;
                end_room(tx, &project, room, at)
            })
            .await
    }

    /// Reads the records for minting a token for a room, and optionally a role.
    ///
    /// # Errors
    /// Refused when the project has no such room, or the room's template does not have the requested role.
    pub fn token_context(
        &self,
        project: ProjectId,
        name: RoomName,
        role: Option<RoleName>,
        identity: Identity,
    ) -> impl Future<Output = Result<TokenContext, StoreError>> {
        let now = self.0.clock().now();
        self.0.read_snapshot(move |snapshot| {
            let room = existing(snapshot, &project, &name)?;
            let role = role.map(|role| room_role(snapshot, &room, &role));
            let (role, sql) = (role.transpose()?, snapshot.sql);
            token_context(sql, room, role, Some(&identity), now)
        })
    }

    /// Reads the current roles of a room's template; empty for a room without a template.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn roles(
        &self,
        project: ProjectId,
        template: Option<TemplateId>,
    ) -> Result<BTreeMap<RoleName, Role>, StoreError> {
        match template {
            Some(id) => {
                self.0
                    .read(move |sql| templates::roles(sql, &project, &id))
                    .await
            }
            None => Ok(BTreeMap::new()),
        }
    }

    /// Reads the records that decide the join of an identity.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn join_records(
        &self,
        project: ProjectId,
        room: RoomId,
        template: Option<TemplateId>,
        identity: Identity,
    ) -> Result<JoinRecords, StoreError> {
        let now = self.0.clock().now();
        self.0
            .read(move |sql| {
                let roles = template.map(|id| templates::roles(sql, &project, &id));
                let roles = roles.transpose()?.unwrap_or_default();
                let (role_change, exclusion) =
                    change_and_exclusion(sql, &project, room, &identity, now)?;
                Ok(JoinRecords {
                    roles,
                    role_change,
                    exclusion,
                })
            })
            .await
    }

    /// Reads a participant's permissions over others, from its current role in the room, or else from the role that it would join with.
    /// Empty if the room's template has no such role, the identity is banned, or the token is revoked.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn effective_permissions(
        &self,
        project: ProjectId,
        name: RoomName,
        actor: TokenActor,
    ) -> Result<RolePermissions, StoreError> {
        let now = self.0.clock().now();
        self.0
            .read(move |sql| effective_permissions(sql, &project, &name, actor, now))
            .await
    }
}
