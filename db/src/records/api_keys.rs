//! API keys: creation, revocation and authentication.

use std::sync::Arc;

use conclave_model::key::{ApiKey, ApiKeyLookup, ApiKeyPrefix, ApiKeyRecord};
use conclave_model::{ErrorCode, Problem, ProjectId};

use crate::database::Database;
use crate::engine::snapshot::Credential;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::records::projects::{self, no_such_project};
use crate::sql::values::args;
use crate::sql::{Row, Sql};

/// A created API key, in full.
#[derive(Debug, Clone)]
pub struct CreatedApiKey {
    /// Key record.
    pub record: ApiKeyRecord,
    /// The key itself, which is not stored.
    pub key: ApiKey,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT project_id, prefix, label, created_at, revoked_at FROM api_keys WHERE ",
            $rest
        )
    };
}

const SELECT_BY_PREFIX: &str = select!("prefix = ?1");
const SELECT_OF_PROJECT: &str = select!("project_id = ?1 ORDER BY created_at, prefix");
const INSERT: &str = "INSERT INTO api_keys (prefix, project_id, hash, label, created_at) VALUES (?1, ?2, ?3, ?4, ?5)";
const REVOKE: &str = "UPDATE api_keys SET revoked_at = ?3 WHERE prefix = ?1 AND project_id = ?2 AND revoked_at IS NULL";

fn record(row: &Row<'_>) -> Result<ApiKeyRecord, StoreError> {
    Ok(ApiKeyRecord {
        project_id: row.get("project_id")?,
        prefix: row.get("prefix")?,
        label: row.get("label")?,
        created_at: row.get("created_at")?,
        revoked_at: row.get("revoked_at")?,
    })
}

fn find(sql: Sql<'_>, prefix: &ApiKeyPrefix) -> Result<Option<ApiKeyRecord>, StoreError> {
    sql.one(SELECT_BY_PREFIX, args![prefix], record)
}

fn existing(sql: Sql<'_>, prefix: &ApiKeyPrefix) -> Result<ApiKeyRecord, StoreError> {
    let not_found = || {
        Problem::new(
            ErrorCode::NotFound,
            format!("no key with the prefix {prefix}"),
        )
    };
    Ok(find(sql, prefix)?.ok_or_else(not_found)?)
}

/// API key records.
#[derive(Debug, Clone)]
pub struct ApiKeys(pub(crate) Database);

impl ApiKeys {
    /// Returns the project of a key, even a revoked one; `None` for an unknown key.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn authenticate(
        &self,
        key: ApiKeyLookup,
    ) -> Result<Option<Arc<Credential>>, StoreError> {
        self.0
            .read_snapshot(move |snapshot| {
                let found = snapshot.key(&key.prefix)?;
                // The prefix finds the row. The hashes decide, compared in constant time, so that response times reveal nothing about a
                // key.
                Ok(found
                    .filter(|found| found.hash == key.hash)
                    .map(|found| found.credential))
            })
            .await
    }

    /// Creates a key, and returns it in full. Only its hash is stored.
    ///
    /// # Errors
    /// Refused when there is no such project.
    pub async fn create(
        &self,
        project: ProjectId,
        label: String,
    ) -> Result<CreatedApiKey, StoreError> {
        // Read before the write, since the prefix of the key contains the project's environment.
        let id = project.clone();
        let Some(owner) = self.0.read(move |sql| projects::find(sql, &id)).await? else {
            return Err(no_such_project(&project));
        };
        self.0
            .write(Queue::for_project(&project), move |tx| {
                // A prefix identifies one key, so a key with a used prefix is generated again.
                let mut key = ApiKey::generate(owner.env);
                while find(tx.sql, &key.prefix())?.is_some() {
                    key = ApiKey::generate(owner.env);
                }
                tx.sql.put(
                    INSERT,
                    args![&key.prefix(), &project, &key.hash(), &label, tx.now],
                )?;
                Ok(CreatedApiKey {
                    record: existing(tx.sql, &key.prefix())?,
                    key,
                })
            })
            .await
    }

    /// Lists a project's keys, oldest first, including revoked ones.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn list(&self, project: ProjectId) -> Result<Vec<ApiKeyRecord>, StoreError> {
        // A command's list, without pages, so it runs as a bulk read.
        self.0
            .bulk_read(move |sql| sql.many(SELECT_OF_PROJECT, args![&project], record))
            .await
    }

    /// Revokes a key: requests with it fail from then on. A revoked key does not change.
    ///
    /// # Errors
    /// Refused when there is no such key.
    pub async fn revoke(&self, prefix: ApiKeyPrefix) -> Result<ApiKeyRecord, StoreError> {
        self.0
            // Only the record has the key's project.
            .write(Queue::SERVER, move |tx| {
                let key = existing(tx.sql, &prefix)?;
                tx.sql
                    .put(REVOKE, args![&prefix, &key.project_id, tx.now])?;
                existing(tx.sql, &prefix)
            })
            .await
    }
}
