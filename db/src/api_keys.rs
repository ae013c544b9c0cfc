//! API keys: creating, revoking and authenticating them.

use conclave_model::key::{ApiKey, ApiKeyHash, ApiKeyPrefix, ApiKeyRecord};
use conclave_model::project::ProjectStatus;
use conclave_model::{ErrorCode, Problem, ProjectId};

use crate::error::StoreError;
use crate::projects::no_such_project;
use crate::sql::{Row, Sql};
use crate::store::Store;
use crate::values::args;

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

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT project_id, prefix, label, created_at, revoked_at FROM api_keys WHERE ", $rest)
    };
}

const SELECT_BY_PREFIX: &str = select!("prefix = ?1");
const SELECT_OF_PROJECT: &str = select!("project_id = ?1 ORDER BY created_at, prefix");
const SELECT_CREDENTIAL: &str = "SELECT k.hash, k.revoked_at IS NOT NULL, p.id, p.status, p.plan
     FROM api_keys k JOIN projects p ON p.id = k.project_id WHERE k.prefix = ?1";
const INSERT: &str = "INSERT INTO api_keys (prefix, project_id, hash, label, created_at) VALUES (?1, ?2, ?3, ?4, ?5)";
const REVOKE: &str = "UPDATE api_keys SET revoked_at = ?3 WHERE prefix = ?1 AND project_id = ?2 AND revoked_at IS NULL";

fn record(row: &Row<'_>) -> Result<ApiKeyRecord, StoreError> {
    Ok(ApiKeyRecord {
        project_id: row.get(0)?,
        prefix: row.get(1)?,
        label: row.get(2)?,
        created_at: row.get(3)?,
        revoked_at: row.get(4)?,
    })
}

fn find(sql: Sql<'_>, prefix: &ApiKeyPrefix) -> Result<Option<ApiKeyRecord>, StoreError> {
    sql.one(SELECT_BY_PREFIX, args![prefix], record)
}

fn existing(sql: Sql<'_>, prefix: &ApiKeyPrefix) -> Result<ApiKeyRecord, StoreError> {
    let not_found = || Problem::new(ErrorCode::NotFound, format!("no key with the prefix {prefix}"));
    Ok(find(sql, prefix)?.ok_or_else(not_found)?)
}

fn authenticate(sql: Sql<'_>, key: &ApiKey) -> Result<Option<Credential>, StoreError> {
    let prefix = key.prefix();
    let read = |row: &Row<'_>| {
        let credential = Credential {
            project_id: row.get(2)?,
            prefix: prefix.clone(),
            revoked: row.get(1)?,
            project_status: row.get(3)?,
            plan: row.get(4)?,
        };
        Ok((row.get::<ApiKeyHash>(0)?, credential))
    };
    let found = sql.one(SELECT_CREDENTIAL, args![&prefix], read)?;
    // The prefix finds the row. The comparison of the hashes, which takes constant time, decides.
    Ok(found.filter(|(hash, _)| *hash == key.hash()).map(|(_, credential)| credential))
}

impl Store {
    /// Finds the project of a key, revoked or not; `None` for an unknown key.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn authenticate(&self, key: ApiKey) -> Result<Option<Credential>, StoreError> {
        self.read(move |sql| authenticate(sql, &key)).await
    }

    /// Creates a key and returns it in full. Only its hash is stored.
    ///
    /// # Errors
    /// Refused when there is no such project.
    pub async fn create_api_key(
        &self,
        project: ProjectId,
        label: String,
    ) -> Result<(ApiKeyRecord, ApiKey), StoreError> {
        let Some(owner) = self.project(project.clone()).await? else {
            return Err(no_such_project(&project));
        };
        self.write(move |tx| {
            // A prefix names one key, so a key with a known prefix is generated again.
            let mut key = ApiKey::generate(owner.env);
            while find(tx.sql, &key.prefix())?.is_some() {
                key = ApiKey::generate(owner.env);
            }
            tx.sql.put(INSERT, args![&key.prefix(), &project, &key.hash(), &label, tx.now])?;
            Ok((existing(tx.sql, &key.prefix())?, key))
        })
        .await
    }

    /// Lists a project's keys, oldest first, revoked ones too.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn api_keys(&self, project: ProjectId) -> Result<Vec<ApiKeyRecord>, StoreError> {
        self.bulk_read(move |sql| sql.many(SELECT_OF_PROJECT, args![&project], record)).await
    }

    /// Revokes a key; requests with it fail from then on. A revoked key does not change.
    ///
    /// # Errors
    /// Refused when there is no such key.
    pub async fn revoke_api_key(&self, prefix: ApiKeyPrefix) -> Result<ApiKeyRecord, StoreError> {
        self.write(move |tx| {
            let key = existing(tx.sql, &prefix)?;
            tx.sql.put(REVOKE, args![&prefix, &key.project_id, tx.now])?;
            existing(tx.sql, &prefix)
        })
        .await
    }
}
