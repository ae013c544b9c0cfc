//! The state of the database that a point read sees, and what was found in it before.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use conclave_model::key::{ApiKeyHash, ApiKeyPrefix};
use conclave_model::project::ProjectStatus;
use conclave_model::role::Role;
use conclave_model::room::Room;
use conclave_model::{ProjectId, RoleName, RoomName, TemplateId};

use crate::error::StoreError;
use crate::sql::Sql;
use crate::sql::values::args;

/// The most records of a kind that are remembered.
const MOST: usize = 1_000;
/// The longest metadata of a room that is remembered, in bytes.
const LONGEST_METADATA: usize = 1_024;

/// What was found in a snapshot of the database. The first commit after it, of this process or another, clears it, so it is
/// never older than the result of a query.
#[derive(Default)]
pub(crate) struct Memory {
    /// The engine's number of the snapshot; it differs on each connection.
    version: i64,
    keys: HashMap<ApiKeyPrefix, StoredKey>,
    rooms: HashMap<(ProjectId, RoomName), Room>,
    roles: HashMap<(ProjectId, TemplateId, RoleName), Arc<Role>>,
}

/// The state of the database that a point read sees.
pub(crate) struct Snapshot<'c> {
    pub(crate) sql: Sql<'c>,
    /// Absent for an engine that does not say which snapshots are the same.
    memory: Option<&'c mut Memory>,
}

impl Memory {
    /// Forgets what was found in a snapshot with another number.
    pub(crate) fn keep_for(&mut self, version: i64) {
        if self.version != version {
            self.version = version;
            // Beside writes this happens for most reads, so the tables stay allocated.
            self.keys.clear();
            self.rooms.clear();
            self.roles.clear();
        }
    }
}

impl<'c> Snapshot<'c> {
    pub(crate) fn new(sql: Sql<'c>, memory: Option<&'c mut Memory>) -> Self {
        Self { sql, memory }
    }

    /// Returns an API key, from memory if it was found in this snapshot before.
    pub(crate) fn key(&mut self, prefix: &ApiKeyPrefix) -> Result<Option<StoredKey>, StoreError> {
        let sql = self.sql;
        let keys = self.memory.as_mut().map(|memory| &mut memory.keys);
        recall(keys, prefix.clone(), |_| true, || find_key(sql, prefix))
    }

    /// Returns a project's room by its name, from memory if it was found in this snapshot before; else `find` reads it.
    pub(crate) fn room(
        &mut self,
        project: &ProjectId,
        name: &RoomName,
        find: impl FnOnce(Sql<'_>, &ProjectId, &RoomName) -> Result<Option<Room>, StoreError>,
    ) -> Result<Option<Room>, StoreError> {
        let sql = self.sql;
        let rooms = self.memory.as_mut().map(|memory| &mut memory.rooms);
        let is_small = |room: &Room| {
            let metadata = room.metadata.as_ref();
            metadata.is_none_or(|text| text.len() <= LONGEST_METADATA)
        };
        let key = (project.clone(), name.clone());
        recall(rooms, key, is_small, || find(sql, project, name))
    }

    /// Returns a role of a project's template, from memory if it was found in this snapshot before; else `find` reads it.
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

/// Returns what is remembered of a key, or else found; what is found is remembered if `is_kept` says so. That there is nothing is not: a
/// client that asks for much that does not exist would displace what does.
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
        if memory.len() == MOST {
            memory.clear();
        }
        memory.insert(key, found.clone());
    }
    Ok(found)
}

/// An API key and its project, as a request is authenticated with them.
#[derive(Debug, Clone)]
pub struct Credential {
    /// The project that the key belongs to.
    pub project_id: ProjectId,
    /// The first characters of the key, which name it.
    pub prefix: ApiKeyPrefix,
    /// Whether the key was revoked.
    pub revoked: bool,
    /// Whether the project may start new work.
    pub project_status: ProjectStatus,
    /// The name of the project's plan.
    pub plan: String,
}

/// A key as it is stored.
#[derive(Clone)]
pub(crate) struct StoredKey {
    pub(crate) hash: ApiKeyHash,
    pub(crate) credential: Arc<Credential>,
}

const SELECT: &str = "SELECT k.hash, k.revoked_at IS NOT NULL AS is_revoked, p.id, p.status, p.plan
     FROM api_keys k JOIN projects p ON p.id = k.project_id WHERE k.prefix = ?1";

/// Finds a key by its prefix.
fn find_key(sql: Sql<'_>, prefix: &ApiKeyPrefix) -> Result<Option<StoredKey>, StoreError> {
    sql.one(SELECT, args![prefix], |row| {
        let credential = Credential {
            project_id: row.get("id")?,
            prefix: prefix.clone(),
            revoked: row.get("is_revoked")?,
            project_status: row.get("status")?,
            plan: row.get("plan")?,
        };
        Ok(StoredKey {
            hash: row.get("hash")?,
            credential: Arc::new(credential),
        })
    })
}
