//! API keys: creation, revocation and authentication.

use std::sync::Arc;

use conclave_model::key::{ApiKey, ApiKeyLookup, ApiKeyPrefix, ApiKeyRecord};
use conclave_model::project::Project;
use conclave_model::usage::Day;
use conclave_model::{ErrorCode, Problem, ProjectId, Timestamp};

use crate::database::Database;
use crate::engine::snapshot::Credential;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::records::projects::{self, no_such_project};
use crate::sql::values::args;
use crate::sql::{Row, Sql};
use crate::tx::Tx;

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
            "SELECT project_id, prefix, label, created_at, revoked_at, expires_at, last_used_on FROM api_keys WHERE ",
            $rest
        )
    };
}

const SELECT_BY_PREFIX: &str = select!("prefix = ?1");
const SELECT_OF_PROJECT: &str = select!("project_id = ?1 ORDER BY created_at, prefix");
const SELECT_REUSABLE: &str = "SELECT prefix FROM api_keys
     WHERE project_id = ?1 AND label = ?2 AND (revoked_at IS NOT NULL OR expires_at <= ?3) ORDER BY created_at, prefix LIMIT 1";
const INSERT: &str = "INSERT INTO api_keys (prefix, project_id, hash, label, created_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
/// The condition again, since another process may have renewed the key after it was selected.
const RENEW: &str = "UPDATE api_keys SET hash = ?3, revoked_at = NULL, expires_at = ?4
     WHERE prefix = ?1 AND project_id = ?2 AND (revoked_at IS NOT NULL OR expires_at <= ?5)";
const SET_USED: &str = "UPDATE api_keys SET last_used_on = ?3
     WHERE prefix = ?1 AND project_id = ?2 AND (last_used_on IS NULL OR last_used_on < ?3)";
const REVOKE: &str = "UPDATE api_keys SET revoked_at = ?3 WHERE prefix = ?1 AND project_id = ?2 AND revoked_at IS NULL";

fn record(row: &Row<'_>) -> Result<ApiKeyRecord, StoreError> {
    Ok(ApiKeyRecord {
        project_id: row.get("project_id")?,
        prefix: row.get("prefix")?,
        label: row.get("label")?,
        created_at: row.get("created_at")?,
        revoked_at: row.get("revoked_at")?,
        expires_at: row.get("expires_at")?,
        last_used_on: row
            .get::<Option<i64>>("last_used_on")?
            .map(Day::from_number),
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

/// Creates a key whose prefix no other key has.
fn insert(
    tx: &Tx<'_>,
    project: &Project,
    label: &str,
    expires_at: Option<Timestamp>,
) -> Result<CreatedApiKey, StoreError> {
    // A prefix identifies one key, so a key with a used prefix is generated again.
    let mut key = ApiKey::generate(project.env);
    while find(tx.sql, &key.prefix())?.is_some() {
        key = ApiKey::generate(project.env);
    }
    let (prefix, hash) = (key.prefix(), key.hash());
    let row = args![&prefix, &project.id, &hash, label, tx.now, expires_at];
    tx.sql.put(INSERT, row)?;
    Ok(CreatedApiKey {
        record: existing(tx.sql, &prefix)?,
        key,
    })
}

/// API key records.
#[derive(Debug, Clone)]
pub struct ApiKeys(pub(crate) Database);

impl ApiKeys {
    /// Returns the project of a key, even a revoked one; `None` for an unknown key.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub fn authenticate(
        &self,
        key: ApiKeyLookup,
    ) -> impl Future<Output = Result<Option<Arc<Credential>>, StoreError>> {
        self.0.read_snapshot(move |snapshot| {
            let found = snapshot.key(&key.prefix)?;
            // The prefix finds the row. The hashes decide, compared in constant time, so that response times reveal nothing about a key.
            Ok(found
                .filter(|found| found.hash == key.hash)
                .map(|found| found.credential))
        })
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
        self.create_until(project, label, None).await
    }

    /// Like [`Self::create`]; the key is refused from `expires_at` on.
    ///
    /// # Errors
    /// Refused when there is no such project.
    pub async fn create_until(
        &self,
        project: ProjectId,
        label: String,
        expires_at: Option<Timestamp>,
    ) -> Result<CreatedApiKey, StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                let Some(owner) = projects::find(tx.sql, &project)? else {
                    return Err(no_such_project(&project));
                };
                insert(tx, &owner, &label, expires_at)
            })
            .await
    }

    /// Renews a project's oldest revoked or expired key with this label, with a new secret and expiry, or creates a key if there is none.
    /// A program that needs a key for a moment thus leaves one record, however often it runs, and concurrent runs have a key each.
    ///
    /// # Errors
    /// Refused when there is no such project.
    pub async fn create_or_renew(
        &self,
        project: ProjectId,
        label: String,
        expires_at: Timestamp,
    ) -> Result<CreatedApiKey, StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                let Some(owner) = projects::find(tx.sql, &project)? else {
                    return Err(no_such_project(&project));
                };
                let reusable =
                    tx.sql
                        .one(SELECT_REUSABLE, args![&project, &label, tx.now], |row| {
                            row.read::<ApiKeyPrefix>(0)
                        })?;
                let Some(prefix) = reusable else {
                    return insert(tx, &owner, &label, Some(expires_at));
                };
                // The earlier secret stays refused, since its hash is replaced.
                let key = ApiKey::renew(&prefix);
                let hash = key.hash();
                let row = args![&prefix, &project, &hash, expires_at, tx.now];
                if tx.sql.change(RENEW, row)? == 0 {
                    return insert(tx, &owner, &label, Some(expires_at));
                }
                Ok(CreatedApiKey {
                    record: existing(tx.sql, &prefix)?,
                    key,
                })
            })
            .await
    }

    /// Records the day of a request with a key, unless a later one is recorded.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn record_use(
        &self,
        project: ProjectId,
        prefix: ApiKeyPrefix,
        day: Day,
    ) -> Result<(), StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                tx.sql.put(SET_USED, args![&prefix, &project, day.number()])
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
