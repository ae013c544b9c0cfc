//! The state of the database that a point read sees, and what was found in it before.

use std::collections::HashMap;

use conclave_model::key::ApiKeyPrefix;

use crate::engine::credential::{self, StoredKey};
use crate::error::StoreError;
use crate::sql::Sql;

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
        let Some(found) = credential::find(self.sql, prefix)? else {
            return Ok(None);
        };
        if keys.len() == KEYS {
            keys.clear();
        }
        keys.insert(prefix.clone(), found.clone());
        Ok(Some(found))
    }
}
