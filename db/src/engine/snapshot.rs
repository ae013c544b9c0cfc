//! The state of the database that a point read sees, and what was found in it before.

use std::collections::HashMap;

use conclave_model::ProjectId;
use conclave_model::key::{ApiKeyHash, ApiKeyPrefix};
use conclave_model::project::ProjectStatus;

use crate::error::StoreError;
use crate::sql::Sql;
use crate::sql::values::args;

/// The most API keys that are remembered.
const KEYS: usize = 1_000;

/// What was found in a snapshot of the database. The first commit after it, of this process or another, clears it, so it is
/// never older than the result of a query.
#[derive(Default)]
pub(crate) struct Memory {
    /// The engine's number of the snapshot; it differs on each connection.
    version: i64,
    keys: HashMap<ApiKeyPrefix, StoredKey>,
}

/// The state of the database that a point read sees.
pub(crate) struct Snapshot<'c> {
    pub(crate) sql: Sql<'c>,
    memory: &'c mut Memory,
}

impl Memory {
    /// Forgets what was found in a snapshot with another number.
    pub(crate) fn keep_for(&mut self, version: i64) {
        if self.version != version {
            *self = Self {
                version,
                ..Self::default()
            };
        }
    }
}

impl<'c> Snapshot<'c> {
    pub(crate) fn new(sql: Sql<'c>, memory: &'c mut Memory) -> Self {
        Self { sql, memory }
    }

    /// Returns an API key, from memory if it was found in this snapshot before.
    pub(crate) fn key(&mut self, prefix: &ApiKeyPrefix) -> Result<Option<StoredKey>, StoreError> {
        let keys = &mut self.memory.keys;
        if let Some(found) = keys.get(prefix) {
            return Ok(Some(found.clone()));
        }
        // An unknown key is not kept: a client that tries many keys would displace the valid ones.
        let Some(found) = find_key(self.sql, prefix)? else {
            return Ok(None);
        };
        if keys.len() == KEYS {
            keys.clear();
        }
        keys.insert(prefix.clone(), found.clone());
        Ok(Some(found))
    }
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
    pub(crate) credential: Credential,
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
            credential,
        })
    })
}
