//! Database state seen by a point read, and rows remembered from earlier reads of the same state.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use conclave_model::key::{ApiKeyHash, ApiKeyPrefix};
use conclave_model::project::ProjectStatus;
use conclave_model::role::Role;
use conclave_model::room::Room;
use conclave_model::usage::Day;
use conclave_model::{ProjectId, RoleName, RoomName, TemplateId, Timestamp};

use crate::error::StoreError;
use crate::sql::Sql;
use crate::sql::values::args;

/// Maximum remembered records per kind.
const MOST: usize = 1_000;
/// Maximum size of remembered room metadata, in bytes.
const LONGEST_METADATA: usize = 1_024;

/// Rows found in a snapshot. The first commit after it, by this process or another one, clears them, so a remembered row is never older
/// than a query's result.
#[derive(Default)]
pub(crate) struct SnapshotMemory {
    /// The engine's number of the snapshot, which differs between connections.
    version: i64,
    keys: HashMap<ApiKeyPrefix, StoredKey>,
    rooms: HashMap<(ProjectId, RoomName), Room>,
    roles: HashMap<(ProjectId, TemplateId, RoleName), Arc<Role>>,
}

/// Database state seen by a point read.
pub(crate) struct Snapshot<'c> {
    pub(crate) sql: Sql<'c>,
    /// Absent for an engine that does not number its snapshots.
    memory: Option<&'c mut SnapshotMemory>,
}

impl SnapshotMemory {
    /// Forgets the rows of a snapshot with another number.
    pub(crate) fn keep_for(&mut self, version: i64) {
        if self.version != version {
            self.version = version;
            // While there are writes, this happens at most reads. `clear` keeps the allocation.
            self.keys.clear();
            self.rooms.clear();
            self.roles.clear();
        }
    }
}

impl<'c> Snapshot<'c> {
    pub(crate) fn new(sql: Sql<'c>, memory: Option<&'c mut SnapshotMemory>) -> Self {
        Self { sql, memory }
    }

    /// Returns an API key, from memory if this snapshot has been read for it before.
    pub(crate) fn key(&mut self, prefix: &ApiKeyPrefix) -> Result<Option<StoredKey>, StoreError> {
        let sql = self.sql;
        let keys = self.memory.as_mut().map(|memory| &mut memory.keys);
        recall(keys, prefix.clone(), |_| true, || find_key(sql, prefix))
    }

    /// Returns a project's room by name, from memory if possible, else through `find`.
    pub(crate) fn room(
        &mut self,
        project: &ProjectId,
        name: &RoomName,
        find: impl FnOnce(Sql<'_>, &ProjectId, &RoomName) -> Result<Option<Room>, StoreError>,
    ) -> Result<Option<Room>, StoreError> {
        let sql = self.sql;
        let rooms = self.memory.as_mut().map(|memory| &mut memory.rooms);
        // Each thread has a memory of its own, so rooms with long metadata would be kept many times.
        let is_small = |room: &Room| {
            let metadata = room.metadata.as_ref();
            metadata.is_none_or(|text| text.len() <= LONGEST_METADATA)
        };
        let key = (project.clone(), name.clone());
        recall(rooms, key, is_small, || find(sql, project, name))
    }

    /// Returns a template's role, from memory if possible, else through `find`.
    pub(crate) fn role(
        &mut self,
        project: &ProjectId,
        template: &TemplateId,
        name: &RoleName,
        find: impl FnOnce(Sql<'_>) -> Result<Option<Role>, StoreError>,
    ) -> Result<Option<Arc<Role>>, StoreError> {
        let sql = self.sql;
        let roles = self.memory.as_mut().map(|memory| &mut memory.roles);
        let key = (project.clone(), template.clone(), name.clone());
        recall(roles, key, |_| true, || Ok(find(sql)?.map(Arc::new)))
    }
}

/// Returns the remembered value of a key, or reads it, and remembers it if `is_kept` allows. An absent value is not remembered: a client
/// that requests many unknown names would displace the known ones.
fn recall<K: Eq + Hash, T: Clone>(
    memory: Option<&mut HashMap<K, T>>,
    key: K,
    is_kept: impl FnOnce(&T) -> bool,
    find: impl FnOnce() -> Result<Option<T>, StoreError>,
) -> Result<Option<T>, StoreError> {
    let Some(memory) = memory else {
        return find();
    };
    if let Some(known) = memory.get(&key) {
        return Ok(Some(known.clone()));
    }
    let found = find()?;
    if let Some(found) = found.as_ref().filter(|found| is_kept(found)) {
        // Cleared rather than evicted one by one: the next commit clears it anyway, mostly sooner.
        if memory.len() == MOST {
            memory.clear();
        }
        memory.insert(key, found.clone());
    }
    Ok(found)
}

/// API key and its project, as far as authentication requires.
#[derive(Debug, Clone)]
pub struct Credential {
    /// Project that the key belongs to.
    pub project_id: ProjectId,
    /// First characters of the key, which identify it.
    pub prefix: ApiKeyPrefix,
    /// Whether the key is revoked.
    pub revoked: bool,
    /// Time from which on the key is refused; absent for a key without expiry.
    pub expires_at: Option<Timestamp>,
    /// Day of the last request with the key, as far as it is recorded.
    pub last_used_on: Option<Day>,
    /// Whether the project may start new work.
    pub project_status: ProjectStatus,
    /// Plan name.
    pub plan: Arc<str>,
}

impl Credential {
    /// Returns whether the key has expired at an instant.
    #[must_use]
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }

    /// Returns whether the key is accepted at an instant: neither revoked nor expired.
    #[must_use]
    pub fn is_valid(&self, now: Timestamp) -> bool {
        !self.revoked && !self.has_expired(now)
    }
}

/// Stored API key.
#[derive(Clone)]
pub(crate) struct StoredKey {
    pub(crate) hash: ApiKeyHash,
    pub(crate) credential: Arc<Credential>,
}

const SELECT: &str = "SELECT k.hash, k.revoked_at IS NOT NULL AS is_revoked, k.expires_at, k.last_used_on, p.id, p.status, p.plan
     FROM api_keys k JOIN projects p ON p.id = k.project_id WHERE k.prefix = ?1";

/// Reads a key by its prefix.
fn find_key(sql: Sql<'_>, prefix: &ApiKeyPrefix) -> Result<Option<StoredKey>, StoreError> {
    sql.one(SELECT, args![prefix], |row| {
        let credential = Credential {
            project_id: row.get("id")?,
            prefix: prefix.clone(),
            revoked: row.get("is_revoked")?,
            expires_at: row.get("expires_at")?,
            last_used_on: row
                .get::<Option<i64>>("last_used_on")?
                .map(Day::from_number),
            project_status: row.get("status")?,
            plan: row.get::<String>("plan")?.into(),
        };
        Ok(StoredKey {
            hash: row.get("hash")?,
            credential: Arc::new(credential),
        })
    })
}
